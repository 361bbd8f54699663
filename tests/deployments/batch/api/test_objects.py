import json
from typing import Any

import pytest
from openai.types import Batch, FileDeleted, FileObject

from deployments.batch.api import objects
from deployments.batch.state.records import OPEN, TERMINAL, BatchRecord, FileRecord
from deployments.errors import NotFoundError

FILE = FileRecord(
    id="file-1", owner="me", purpose="batch", filename="a.jsonl", num_bytes=9, created_at=1, expires_at=100
)
ERROR = {"code": "empty_file", "message": "The file has no lines.", "param": None, "line": None}


def batch(**changes: Any) -> BatchRecord:
    return BatchRecord(
        **{
            "id": "batch_1",
            "owner": "me",
            "kind": "batch",
            "endpoint": "/v1/chat/completions",
            "input_file_id": "file-1",
            "completion_window": "24h",
            "created_at": 1,
            "deadline": 86401,
            **changes,
        }
    )


def test_a_file_is_openais() -> None:
    shown = objects.file_object(FILE)
    assert FileObject.model_validate(shown, strict=True).to_dict() == shown
    assert (shown["bytes"], shown["purpose"], shown["expires_at"]) == (9, "batch", 100)
    assert "owner" not in shown
    assert FileDeleted.model_validate(objects.deleted_file("file-1"), strict=True).deleted


@pytest.mark.parametrize("status", [*OPEN, *TERMINAL])
def test_a_batch_is_openais_in_each_status(status: str) -> None:
    shown = objects.batch_object(
        batch(status=status, total=3, completed=1, failed=2, metadata={"a": "b"}, errors=(ERROR,))
    )
    read = Batch.model_validate(shown, strict=True)
    assert read.to_dict() == shown
    assert read.request_counts is not None
    assert read.request_counts.to_dict() == {"total": 3, "completed": 1, "failed": 2}
    assert read.errors is not None
    assert read.errors.data is not None
    assert read.errors.data[0].code == "empty_file"
    assert read.expires_at == 86401


def test_a_batch_without_faults_has_no_errors() -> None:
    assert objects.batch_object(batch())["errors"] is None


@pytest.mark.parametrize(
    ("status", "shown"),
    [
        ("validating", "pending"),
        ("in_progress", "processing"),
        ("finalizing", "processing"),
        ("completed", "completed"),
        ("failed", "failed"),
        ("expired", "failed"),
        ("cancelled", "failed"),
    ],
)
def test_a_job_has_one_of_four_statuses_and_an_error_where_it_failed(status: str, shown: str) -> None:
    job = objects.job_object(batch(id="job_1", kind="job", status=status))
    assert job["status"] == shown
    assert (job["error"] is not None) == (shown == "failed")


def test_a_job_says_when_it_came_began_and_ended_and_why_it_failed() -> None:
    job = objects.job_object(batch(status="failed", in_progress_at=5, failed_at=9, total=2, failed=2, errors=(ERROR,)))
    assert job == {
        "id": "batch_1",
        "object": "batch.job",
        "status": "failed",
        "submitted_at": 1,
        "started_at": 5,
        "finished_at": 9,
        "error": {"message": "The file has no lines.", "code": "empty_file"},
        "progress": {"total": 2, "completed": 0, "failed": 2},
    }


def test_a_list_says_its_first_and_last() -> None:
    listed = objects.list_object([{"id": "a"}, {"id": "b"}], has_more=True)
    assert (listed["first_id"], listed["last_id"], listed["has_more"]) == ("a", "b", True)
    assert objects.list_object([], has_more=False)["last_id"] is None


def test_the_id_of_a_result_is_its_lines_own_and_always_the_same() -> None:
    ids = {objects.line_id(name, line) for name in ("batch_1", "batch_11") for line in (1, 11, 111)}
    assert len(ids) == 6
    assert objects.line_id("batch_1", 1) in ids
    assert all(name.startswith("batch_req_") and len(name) == 42 for name in ids)


def test_an_answer_and_a_refusal_have_the_members_of_openais_output() -> None:
    body = {"object": "chat.completion"}
    assert objects.answer_line("batch_req_1", "a", status_code=200, request_id="req-1", body=body) == {
        "id": "batch_req_1",
        "custom_id": "a",
        "response": {"status_code": 200, "request_id": "req-1", "body": body},
        "error": None,
    }
    envelope = NotFoundError("No such list.", "vocab.lang", "invalid_vocabulary").to_dict()
    refused = objects.refused_line("batch_req_1", "a", line=7, status_code=404, request_id="req-1", body=envelope)
    assert refused["response"] == {"status_code": 404, "request_id": "req-1", "body": envelope}
    assert refused["error"] == {
        "code": "invalid_vocabulary",
        "message": "Line 7: No such list.",
        "line": 7,
        "param": "vocab.lang",
    }
    assert objects.job_result(refused) == envelope


def test_a_line_without_an_answer_has_an_error_alone() -> None:
    faulty = objects.fault_line("batch_req_1", None, line=7, code="blank_line", message="Line 7: it is blank.")
    assert faulty["response"] is None
    assert faulty["error"] == {"code": "blank_line", "message": "Line 7: it is blank.", "line": 7, "param": None}
    expired = objects.expired_line("batch_req_1", "a", 3)
    cancelled = objects.cancelled_line("batch_req_1", "a", 3)
    assert (expired["error"]["code"], cancelled["error"]["code"]) == ("batch_expired", "batch_cancelled")
    kinds = [objects.job_result(record)["error"]["type"] for record in (faulty, expired, cancelled)]
    assert kinds == ["invalid_request_error", "server_error", "server_error"]
    assert objects.job_result(faulty)["error"]["message"] == "It is blank."


def test_a_result_is_the_completion() -> None:
    answer = objects.answer_line("batch_req_1", "a", status_code=200, request_id="r", body={"choices": []})
    assert objects.job_result(answer) == {"choices": []}


def test_json_has_no_line_break() -> None:
    hostile = {"a\u2028": "é\n\r\x0b\x85\u2028\u2029 \\u2028"}
    text = objects.to_json(hostile)
    assert json.loads(text) == hostile
    assert text.splitlines() == [text]
    assert "é" in text
