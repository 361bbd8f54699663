"""A row, and the chat request that it asks for."""

import json
from typing import Any

import numpy as np
import pytest

from deployments.errors import BadRequestError
from deployments.offline.row_requests import ANSWER, refused_request, request_of, to_request, with_result
from tests.deployments.offline.conftest import MakeConfig
from tests.deployments.offline.test_parts import COMPLETION, ERROR

ASKED = [{"role": "user", "content": "Hello"}]


def test_a_line_of_a_batch(make_config: MakeConfig) -> None:
    row = {"custom_id": "a", "method": "POST", "url": "/v1/chat/completions", "body": {"messages": ASKED}}
    request = to_request(row, make_config(), is_table=False)
    assert request.custom_id == "a"
    assert request.body == {"model": "toy", "messages": ASKED}


def test_a_body_may_be_json_text(make_config: MakeConfig) -> None:
    row = {"body": json.dumps({"model": "other", "messages": ASKED, "max_tokens": 5}), "title": "no part of it"}
    assert to_request(row, make_config(), is_table=True).body == {
        "model": "other", "messages": ASKED, "max_tokens": 5,
    }  # fmt: skip


def test_a_bare_request(make_config: MakeConfig) -> None:
    request = to_request({"custom_id": 7, "messages": ASKED, "vocab_lang": "es"}, make_config(), is_table=False)
    assert request.custom_id == "7"
    assert request.body == {"model": "toy", "messages": ASKED, "vocab_lang": "es"}


def test_members_of_a_struct_that_are_null_are_not_there(make_config: MakeConfig) -> None:
    row = {"body": {"messages": [{"role": "user", "content": "Hello", "name": None}], "vocab": None, "stop": ["x"]}}
    assert to_request(row, make_config(), is_table=True).body == {"model": "toy", "messages": ASKED, "stop": ["x"]}


def test_a_null_of_json_stays(make_config: MakeConfig) -> None:
    row = {"messages": ASKED, "tools": [{"function": {"parameters": {"const": None}}}]}
    assert to_request(row, make_config(), is_table=False).body["tools"] == row["tools"]


def test_columns_are_mapped(make_config: MakeConfig) -> None:
    config = make_config(
        columns={
            "prompt": "q", "system": "role", "custom_id": "id", "vocab.lang": "l", "vocab.words": "w",
            "max_tokens": "n",
        }
    )  # fmt: skip
    row = {"q": "Hello", "role": "Be kind.", "id": "x", "l": "es", "w": np.array(["a", "b"]), "n": np.int64(9)}
    request = to_request(row, config, is_table=True)
    assert request.custom_id == "x"
    assert request.body == {
        "model": "toy",
        "messages": [{"role": "system", "content": "Be kind."}, *ASKED],
        "vocab": {"lang": "es", "words": ["a", "b"]},
        "max_tokens": 9,
    }


def test_a_column_without_a_value_says_nothing(make_config: MakeConfig) -> None:
    config = make_config(columns={"prompt": "q", "system": "s", "vocab_lang": "l"}, request={"vocab_lang": "en"})
    row = {"q": "Hello", "s": None, "l": None}
    assert to_request(row, config, is_table=True).body == {"model": "toy", "messages": ASKED, "vocab_lang": "en"}


def test_a_number_that_is_missing_says_nothing(make_config: MakeConfig) -> None:
    config = make_config(columns={"prompt": "q", "max_tokens": "n"})
    row = {"q": "Hello", "n": float("nan")}
    assert to_request(row, config, is_table=True).body == {"model": "toy", "messages": ASKED}


def test_a_column_of_messages_is_mapped(make_config: MakeConfig) -> None:
    config = make_config(columns={"messages": "talk"})
    row = {"talk": [{"role": "user", "content": "Hello", "name": None}], "note": "x"}
    assert to_request(row, config, is_table=True).body == {"model": "toy", "messages": ASKED}


@pytest.mark.parametrize(
    ("defaults", "given", "expected"),
    [
        ({"max_tokens": 5}, {"max_tokens": 6}, {"max_tokens": 6}),
        ({"max_tokens": 5}, {"max_completion_tokens": 6}, {"max_completion_tokens": 6}),
        ({"vocab": {"lang": "es", "n_words": 5}}, {"vocab": {"lang": "it"}}, {"vocab": {"lang": "it", "n_words": 5}}),
        ({"vocab": {"lang": "es"}}, {"vocab_lang": "it"}, {"vocab_lang": "it"}),
        ({"vocab_lang": "es", "vocab_n_words": 9}, {"vocab": {"lang": "it"}}, {"vocab": {"lang": "it"}}),
        ({"vocab_lang": "es", "vocab_n_words": 9}, {"vocab_lang": "it"}, {"vocab_lang": "it", "vocab_n_words": 9}),
    ],
)
def test_what_a_row_says_counts_more_than_the_configuration(
    make_config: MakeConfig, defaults: dict[str, Any], given: dict[str, Any], expected: dict[str, Any]
) -> None:
    request = to_request({"messages": ASKED, **given}, make_config(request=defaults), is_table=False)
    assert request.body == {"model": "toy", "messages": ASKED, **expected}


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"prompt": "Hello"}, "neither 'body' nor 'messages'"),
        ({"body": "{"}, "'body' is not valid JSON"),
        ({"body": "[]"}, "'body' must be a JSON object"),
        ({"body": {"messages": ASKED}, "method": "GET"}, "'method' must be 'POST'"),
        ({"body": {"messages": ASKED}, "url": "/v1/embeddings"}, "'url' must be"),
        ({"messages": ASKED, "stream": True}, "'stream' must be false"),
        ({"messages": ASKED, "custom_id": ""}, "'custom_id' must be"),
        ({"messages": ASKED, "custom_id": "x" * 513}, "'custom_id' must be"),
        ({"messages": ASKED, "custom_id": [1]}, "'custom_id' must be"),
        ({"messages": [{"role": "user", "content": "x" * 2**20}]}, "longer than 1048576 bytes"),
        ({"messages": ASKED, "user": b"bytes"}, "cannot be written as JSON"),
        ({"messages": ASKED, "temperature": float("inf")}, "cannot be written as JSON"),
    ],
)
def test_a_row_that_is_no_request_is_refused(make_config: MakeConfig, row: dict[str, Any], message: str) -> None:
    with pytest.raises(BadRequestError, match=message):
        to_request(row, make_config(), is_table=True)


def test_a_row_without_a_prompt_is_refused(make_config: MakeConfig) -> None:
    with pytest.raises(BadRequestError, match="'q' has no prompt"):
        to_request({"q": None}, make_config(columns={"prompt": "q"}), is_table=True)


def test_a_row_with_a_request_has_it_and_its_id(make_config: MakeConfig) -> None:
    request = json.loads(request_of({"q": "Hello"}, make_config(columns={"prompt": "q"}), "id-1"))
    assert request["id"] == "id-1"
    assert request["body"]["messages"] == [{"role": "user", "content": "Hello"}]


def test_a_row_without_one_is_answered_already(make_config: MakeConfig) -> None:
    request = json.loads(request_of({"q": "Hello"}, make_config(), "id-1"))
    assert request["answer"]["status"] == 400
    assert "neither" in request["answer"]["body"]["error"]["message"]
    assert request.keys() == refused_request(BadRequestError("No.")).keys()


@pytest.mark.parametrize(
    ("status", "body", "expected"),
    [
        (200, COMPLETION, {"answer": "Hola.", "completion": COMPLETION, "error": None}),
        (400, {"error": ERROR}, {"answer": None, "completion": None, "error": {"error": ERROR}}),
    ],
)
def test_an_answer_becomes_columns(status: int, body: dict[str, Any], expected: dict[str, Any]) -> None:
    row = with_result({"q": "Hello", ANSWER: json.dumps({"status": status, "body": body})})
    for name in ("completion", "error"):
        row[name] = row[name] and json.loads(row[name])
    assert row == {"q": "Hello", "status": status, **expected}
