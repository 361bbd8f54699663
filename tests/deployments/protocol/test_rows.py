"""The bodies of requests for next-token rows."""

import json
import sys
from typing import Any

import pytest

from deployments.contract import prompts_of
from deployments.errors import BadRequestError, CallerError, ModelNotFoundError
from deployments.protocol.tokens import read_logprobs, read_token_logprobs
from deployments.settings.limits import MAX_ROWS, Limits

LIMITS = Limits(max_new_tokens=4)
MODEL = "m"


def logprobs(**fields: Any) -> dict[str, Any]:
    return read_logprobs(fields, limits=LIMITS, model_id=MODEL)


def token_logprobs(**fields: Any) -> dict[str, Any]:
    return read_token_logprobs(fields, limits=LIMITS, model_id=MODEL)


@pytest.mark.parametrize(
    ("prompt", "prompts"),
    [
        ("one", ["one"]),
        ([1, 2], [[1, 2]]),
        (["one"], ["one"]),
        (["one", "two"], ["one", "two"]),
        ([[1, 2]], [[1, 2]]),
        ([[1], [2, 3], [0]], [[1], [2, 3], [0]]),
    ],
)
def test_a_prompt_is_a_text_or_tokens_or_several_of_either(prompt: Any, prompts: Any) -> None:
    body = logprobs(prompt=prompt, model=MODEL, top_logprobs=None)
    assert body == {"prompt": prompt, "dtype": "float32"}
    assert prompts_of(body) == prompts


def test_what_is_asked_for_is_passed_on() -> None:
    asked = {"prompt": "a", "dtype": "float16", "top_logprobs": 3, "add_special_tokens": False}
    assert logprobs(**asked) == asked
    scored = {"prompt": [1], "token_ids": [2, 3], "add_special_tokens": False}
    assert token_logprobs(**scored, model=None) == scored


@pytest.mark.parametrize(
    ("param", "fields"),
    [
        ("prompt", {}),
        ("prompt", {"prompt": ""}),
        ("prompt", {"prompt": []}),
        ("prompt", {"prompt": 3}),
        ("prompt", {"prompt": [[]]}),
        ("prompt", {"prompt": ["a", ""]}),
        ("prompt", {"prompt": [1, "a"]}),
        ("prompt", {"prompt": [[1], "a"]}),
        ("prompt", {"prompt": [True]}),
        ("prompt", {"prompt": [[1, False]]}),
        ("prompt", {"prompt": [-1]}),
        ("prompt", {"prompt": [2**31]}),
        ("prompt", {"prompt": [1.5]}),
        ("prompt", {"prompt": ["a"] * (MAX_ROWS + 1)}),
        ("prompt", {"prompt": [[1]] * (MAX_ROWS + 1)}),
        ("dtype", {"prompt": "a", "dtype": "bfloat16"}),
        ("top_logprobs", {"prompt": "a", "top_logprobs": 0}),
        ("top_logprobs", {"prompt": "a", "top_logprobs": True}),
        ("top_logprobs", {"prompt": "a", "top_logprobs": "5"}),
        ("vocab", {"prompt": "a", "vocab": {"lang": "en"}}),
        ("temperature", {"prompt": "a", "temperature": 1}),
        ("token_ids", {"prompt": "a", "token_ids": [1]}),
    ],
)
def test_what_is_no_request_for_rows_is_refused_by_its_name(param: str, fields: dict[str, Any]) -> None:
    with pytest.raises(BadRequestError) as error:
        logprobs(**fields)
    assert error.value.param == param
    assert f"'{param}'" in error.value.message


@pytest.mark.parametrize(
    ("param", "fields"),
    [
        ("token_ids", {"prompt": "a"}),
        ("token_ids", {"prompt": "a", "token_ids": []}),
        ("token_ids", {"prompt": "a", "token_ids": [1] * 5}),
        ("token_ids[1]", {"prompt": "a", "token_ids": [1, True]}),
        ("prompt", {"prompt": [], "token_ids": [1]}),
        ("prompt", {"prompt": "", "token_ids": [1]}),
        ("prompt", {"prompt": ["a"], "token_ids": [1]}),
        ("prompt", {"prompt": [[1]], "token_ids": [1]}),
        ("top_logprobs", {"prompt": "a", "token_ids": [1], "top_logprobs": 1}),
        ("vocab", {"prompt": "a", "token_ids": [1], "vocab": None}),
    ],
)
def test_what_is_no_request_for_given_tokens_is_refused_by_its_name(param: str, fields: dict[str, Any]) -> None:
    with pytest.raises(BadRequestError) as error:
        token_logprobs(**fields)
    assert error.value.param == param


def test_a_million_prompts_are_refused_before_any_is_looked_at() -> None:
    looked_at = 0

    class Prompts(list[Any]):
        def __iter__(self) -> Any:
            nonlocal looked_at
            looked_at += 1
            return super().__iter__()

    with pytest.raises(BadRequestError, match="at most 1024 prompts") as error:
        logprobs(prompt=Prompts([[1]] * 10**6))
    assert (error.value.param, looked_at) == ("prompt", 0)
    assert sys.getsizeof(json.dumps(error.value.to_dict())) < 4096


def test_another_model_does_not_exist() -> None:
    with pytest.raises(ModelNotFoundError):
        logprobs(prompt="a", model="other")
    with pytest.raises(ModelNotFoundError):
        token_logprobs(prompt="a", token_ids=[1], model="other")


@pytest.mark.parametrize("body", [[], None, 3, "a"])
def test_a_body_is_an_object(body: Any) -> None:
    with pytest.raises(CallerError):
        read_logprobs(body, limits=LIMITS, model_id=MODEL)
