"""The fields of a chat request against the engine's own request type."""

from typing import Any

import pytest
from vllm.entrypoints.openai.chat_completion.protocol import ChatCompletionRequest as ChatCompletionRequestOfVllm

from deployments.protocol.generation import ChatBookkeepingFields, ChatCompletionRequest, EngineFields
from deployments.protocol.reader import ChatRequestReader
from tests.deployments.front import LIMITS, MODEL, chat_body
from tests.deployments.protocol.test_reader import GOOD

KNOWN = ChatCompletionRequest.model_fields.keys()
ENGINES = ChatCompletionRequestOfVllm.model_fields.keys()


def test_every_field_of_the_engine_is_known_or_refused() -> None:
    assert KNOWN | ChatCompletionRequest.unsupported >= ENGINES


def test_no_field_is_both_known_and_refused() -> None:
    assert KNOWN.isdisjoint(ChatCompletionRequest.unsupported)
    assert EngineFields.model_fields.keys().isdisjoint(ChatBookkeepingFields.model_fields)


def test_nothing_is_passed_on_that_the_engine_would_ignore() -> None:
    assert EngineFields.model_fields.keys() <= ENGINES


@pytest.mark.parametrize(("name", "value"), GOOD)
def test_the_engine_takes_what_is_passed_on(name: str, value: Any) -> None:
    needed: dict[str, Any] = {"logprob_token_ids": {"logprobs": True}}.get(name, {})
    request = ChatRequestReader(MODEL, LIMITS).read(chat_body(**{name: value}, **needed))
    given = ChatCompletionRequestOfVllm.model_validate(request.body)
    assert given.model_fields_set == request.body.keys()
