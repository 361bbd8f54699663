"""What travels with a row, and what its owner gets."""

import json

from deployments.errors import BadRequestError
from deployments.offline.columns import ANSWER, refused, request_of, with_result
from tests.deployments.offline.conftest import MakeConfig
from tests.deployments.offline.test_parts import COMPLETION, ERROR


def test_a_row_with_a_request_has_it_and_its_id(make_config: MakeConfig) -> None:
    request = json.loads(request_of({"q": "Hello"}, make_config(columns={"prompt": "q"}), "id-1"))
    assert request["id"] == "id-1"
    assert json.loads(request["body"])["messages"] == [{"role": "user", "content": "Hello"}]


def test_a_row_without_one_is_answered_already(make_config: MakeConfig) -> None:
    request = json.loads(request_of({"q": "Hello"}, make_config(), "id-1"))
    assert request["answer"]["status"] == 400
    assert "neither" in json.loads(request["answer"]["body"])["error"]["message"]
    assert request.keys() == refused(BadRequestError("No.")).keys()


def test_the_answer_becomes_columns() -> None:
    row = with_result({"q": "Hello", ANSWER: json.dumps({"status": 200, "body": json.dumps(COMPLETION)})})
    assert row == {
        "q": "Hello", "answer": "Hola.", "completion": json.dumps(COMPLETION), "error": None, "status": 200,
    }  # fmt: skip


def test_an_error_becomes_columns() -> None:
    body = json.dumps({"error": ERROR})
    row = with_result({"q": "Hello", ANSWER: json.dumps({"status": 400, "body": body})})
    assert row == {"q": "Hello", "answer": None, "completion": None, "error": body, "status": 400}
