"""The tables of fields against the engine's own request type."""

from typing import Any

import pytest
from vllm.entrypoints.openai.chat_completion.protocol import ChatCompletionRequest

from deployments.protocol.chat_fields import COMBINABLE, REFUSED, consumed, left_out, passed_on
from deployments.protocol.requests import ChatRequestReader
from deployments.protocol.vocabulary_fields import FIELDS
from tests.deployments.front import LIMITS, MODEL, chat_body
from tests.deployments.protocol.test_requests import GOOD

TABLES = {
    "passed on": set(passed_on(LIMITS)),
    "left out": set(left_out()),
    "consumed": set(consumed(LIMITS)),
    "refused": set(REFUSED),
}


def test_every_field_of_the_engine_is_in_a_table() -> None:
    assert set(ChatCompletionRequest.model_fields) <= set().union(*TABLES.values())


def test_no_field_is_in_two_tables() -> None:
    assert sum(map(len, TABLES.values())) == len(set().union(*TABLES.values()))


def test_nothing_is_passed_on_that_the_engine_would_ignore() -> None:
    assert TABLES["passed on"] <= set(ChatCompletionRequest.model_fields)


def test_the_fields_that_do_not_go_with_a_vocabulary_exist() -> None:
    assert COMBINABLE.keys() <= set().union(*TABLES.values()) - set(FIELDS)


@pytest.mark.parametrize(("name", "value"), GOOD)
def test_the_engine_takes_what_is_passed_on(name: str, value: Any) -> None:
    needed: dict[str, Any] = {"logprob_token_ids": {"logprobs": True}}.get(name, {})
    request = ChatRequestReader(MODEL, LIMITS).read(chat_body(**{name: value}, **needed))
    given = ChatCompletionRequest.model_validate(request.body)
    assert given.model_fields_set == request.body.keys()
