"""What is recorded of lines."""

import json
from typing import Any

from deployments.batch import lines as results
from deployments.batch.lines import Line, LineFault
from deployments.batch.state.records import LineResult
from deployments.errors import NotFoundError
from tests.deployments.batch.remembered import a_batch

BATCH = a_batch()
LINE = Line(7, "a", {})


def recorded(result: LineResult) -> dict[str, Any]:
    record: dict[str, Any] = json.loads(result.record)
    assert result.is_error == (record["error"] is not None)
    assert record["id"] == results.line_id(BATCH.id, result.line)
    return record


def test_the_id_of_a_result_is_its_lines_own_and_always_the_same() -> None:
    ids = {results.line_id(name, line) for name in ("batch_1", "batch_11") for line in (1, 11, 111)}
    assert len(ids) == 6
    assert results.line_id("batch_1", 1) in ids
    assert all(name.startswith("batch_req_") and len(name) == 42 for name in ids)


def test_an_answer_and_a_refusal_have_the_members_of_openais_output() -> None:
    body = {"object": "chat.completion"}
    name = results.line_id(BATCH.id, 7)
    assert recorded(results.answer_result(BATCH, LINE, 200, json.dumps(body))) == {
        "id": name,
        "custom_id": "a",
        "response": {"status_code": 200, "request_id": name, "body": body},
        "error": None,
    }
    envelope = NotFoundError("No such list.", "vocab.lang", "invalid_vocabulary").to_dict()
    refused = recorded(results.answer_result(BATCH, LINE, 404, json.dumps(envelope)))
    assert refused["response"] == {"status_code": 404, "request_id": name, "body": envelope}
    assert refused["error"] == {
        "code": "invalid_vocabulary",
        "message": "Line 7: No such list.",
        "line": 7,
        "param": "vocab.lang",
    }
    assert results.job_result(refused) == envelope


def test_whatever_a_replica_gave_is_openais_envelope() -> None:
    failed = recorded(results.answer_result(BATCH, LINE, 400, "null"))
    assert failed["response"]["body"]["error"]["code"] == failed["error"]["code"] == "engine_error"


def test_a_line_without_an_answer_has_an_error_alone() -> None:
    faulty = recorded(results.fault_result(BATCH, LineFault(7, None, "blank_line", "Line 7: it is blank.")))
    assert (faulty["response"], faulty["custom_id"]) == (None, None)
    assert faulty["error"] == {"code": "blank_line", "message": "Line 7: it is blank.", "line": 7, "param": None}
    expired = recorded(results.unanswered_result(BATCH, 3, "a", "expired"))
    cancelled = recorded(results.unanswered_result(BATCH, 3, "a", "cancelled"))
    assert (expired["error"]["code"], cancelled["error"]["code"]) == ("batch_expired", "batch_cancelled")
    given_up = recorded(results.failure_result(BATCH, LINE, 3))
    assert results.line_id(BATCH.id, 7) in given_up["error"]["message"]
    kinds = [results.job_result(record)["error"]["type"] for record in (faulty, expired, cancelled, given_up)]
    assert kinds == ["invalid_request_error", "server_error", "server_error", "server_error"]
    assert results.job_result(faulty)["error"]["message"] == "It is blank."


def test_a_result_is_the_completion() -> None:
    answer = recorded(results.answer_result(BATCH, LINE, 200, '{"choices": []}'))
    assert results.job_result(answer) == {"choices": []}


def test_json_has_no_line_break() -> None:
    hostile = {"a\u2028": "é\n\r\x0b\x85\u2028\u2029 \\u2028"}
    text = results.to_json(hostile)
    assert json.loads(text) == hostile
    assert text.splitlines() == [text]
    assert "é" in text
