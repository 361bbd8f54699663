"""The bodies of ``/tokenize`` and ``/detokenize`` against those of vLLM's server."""

from typing import Any

import pytest
from vllm.entrypoints.serve.tokenize.protocol import TokenizeChatRequest, TokenizeCompletionRequest

from deployments.errors import ApiError
from deployments.protocol.tokens import TokenizeRequest, read_detokenize, read_tokenize
from tests.deployments.front import LIMITS, MODEL

MESSAGES = [{"role": "user", "content": "Hello"}]
REFUSED = {"chat_template", "chat_template_kwargs", "media_io_kwargs", "mm_processor_kwargs"}


def tokenize(**fields: Any) -> dict[str, Any]:
    return read_tokenize(fields, limits=LIMITS, model_id=MODEL)


def detokenize(**fields: Any) -> dict[str, Any]:
    return read_detokenize(fields, limits=LIMITS, model_id=MODEL)


def test_vllms_fields_are_known_but_for_what_no_client_may_choose() -> None:
    fields = TokenizeChatRequest.model_fields.keys() | TokenizeCompletionRequest.model_fields.keys()
    assert fields - TokenizeRequest.model_fields.keys() == REFUSED
    assert TokenizeRequest.model_fields.keys() <= fields


def test_a_text_and_messages_reach_vllm_as_they_came() -> None:
    text = tokenize(prompt="", model=MODEL, add_special_tokens=False, return_token_strs=True)
    assert TokenizeCompletionRequest.model_validate(text).model_fields_set == text.keys()
    chat = tokenize(messages=MESSAGES, add_generation_prompt=False, continue_final_message=True, model=None)
    assert TokenizeChatRequest.model_validate(chat).messages == MESSAGES
    assert detokenize(tokens=[]) == {"tokens": []}


@pytest.mark.parametrize(
    ("param", "fields"),
    [
        ("prompt", {}),
        ("prompt", {"prompt": "a", "messages": MESSAGES}),
        ("prompt", {"prompt": ["a"]}),
        ("tools", {"prompt": "a", "tools": []}),
        ("add_generation_prompt", {"prompt": "a", "add_generation_prompt": True}),
        ("add_generation_prompt", {"messages": MESSAGES, "continue_final_message": True}),
        ("messages", {"messages": []}),
        ("model", {"prompt": "a", "model": "other"}),
        ("chat_template", {"messages": MESSAGES, "chat_template": "{{ x }}"}),
        ("colour", {"prompt": "a", "colour": "red"}),
    ],
)
def test_what_is_wrong_with_a_text_is_named(param: str, fields: dict[str, Any]) -> None:
    with pytest.raises(ApiError) as caught:
        tokenize(**fields)
    assert caught.value.param == param


@pytest.mark.parametrize(
    ("param", "fields"),
    [
        ("tokens", {}),
        ("tokens", {"tokens": "a"}),
        ("tokens[1]", {"tokens": [1, -1]}),
        ("tokens[0]", {"tokens": [2**31]}),
        ("tokens[0]", {"tokens": [True]}),
        ("model", {"tokens": [1], "model": "other"}),
        ("prompt", {"tokens": [1], "prompt": "a"}),
    ],
)
def test_what_is_wrong_with_tokens_is_named(param: str, fields: dict[str, Any]) -> None:
    with pytest.raises(ApiError) as caught:
        detokenize(**fields)
    assert caught.value.param == param
