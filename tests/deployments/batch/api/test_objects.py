from typing import Any

import pytest
from openai.types import Batch, FileDeleted, FileObject

from deployments.batch.api import objects
from deployments.batch.state.records import OPEN, TERMINAL, BatchRecord, FileRecord

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
        "job_id": "batch_1",
        "message": "The file has no lines.",
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
