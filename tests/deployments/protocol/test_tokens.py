"""The bodies of the routes about tokens, against those of vLLM's server where it has them."""

import json
import sys
from functools import partial
from typing import Any

import pytest
from vllm.entrypoints.serve.tokenize.protocol import TokenizeChatRequest, TokenizeCompletionRequest

from deployments.contract import prompts_of
from deployments.errors import BadRequestError, CallerError, ModelNotFoundError
from deployments.protocol.reader import AdapterNames
from deployments.protocol.tokens import (
    TokenizeRequest,
    read_detokenize,
    read_logprobs,
    read_token_logprobs,
    read_tokenize,
)
from deployments.settings.limits import MAX_ROWS, Limits
from tests.deployments.protocol.readers import NO_OBJECTS, refusal, refused_otherwise

LIMITS = Limits(max_new_tokens=4)
MODEL = "m"
MESSAGES = [{"role": "user", "content": "Hello"}]


def reading(read: Any) -> Any:
    """A reader that is given the fields of a body by their names."""
    return lambda **fields: read(fields, limits=LIMITS, model_id=MODEL, adapters=AdapterNames(("an-adapter",)))


tokenize, detokenize = reading(read_tokenize), reading(read_detokenize)
logprobs, token_logprobs = reading(read_logprobs), reading(read_token_logprobs)


def test_vllms_fields_are_known_but_for_what_no_client_may_choose() -> None:
    fields = TokenizeChatRequest.model_fields.keys() | TokenizeCompletionRequest.model_fields.keys()
    refused = {"chat_template", "chat_template_kwargs", "media_io_kwargs", "mm_processor_kwargs"}
    assert fields - TokenizeRequest.model_fields.keys() == refused
    assert TokenizeRequest.model_fields.keys() <= fields


def test_a_text_and_messages_reach_vllm_as_they_came() -> None:
    text = tokenize(prompt="", model=MODEL, add_special_tokens=False, return_token_strs=True)
    assert TokenizeCompletionRequest.model_validate(text).model_fields_set == text.keys()
    chat = tokenize(messages=MESSAGES, add_generation_prompt=False, continue_final_message=True, model=None)
    assert TokenizeChatRequest.model_validate(chat).messages == MESSAGES
    assert detokenize(tokens=[]) == {"tokens": []}


def test_what_is_wrong_with_a_text_or_tokens_is_named() -> None:
    texts: list[tuple[str, dict[str, Any]]] = [
        ("prompt", {}),
        ("prompt", {"prompt": "a", "messages": MESSAGES}),
        ("prompt", {"prompt": ["a"]}),
        ("tools", {"prompt": "a", "tools": []}),
        ("add_generation_prompt", {"prompt": "a", "add_generation_prompt": True}),
        ("add_generation_prompt", {"messages": MESSAGES, "continue_final_message": True}),
        ("messages", {"messages": []}),
        ("chat_template", {"messages": MESSAGES, "chat_template": "{{ x }}"}),
        ("colour", {"prompt": "a", "colour": "red"}),
    ]
    assert not refused_otherwise(((fields, param, "") for param, fields in texts), tokenize)
    tokens: list[tuple[str, dict[str, Any]]] = [
        ("tokens", {}),
        ("tokens", {"tokens": "a"}),
        ("tokens[1]", {"tokens": [1, -1]}),
        ("tokens[0]", {"tokens": [2**31]}),
        ("tokens[0]", {"tokens": [True]}),
        ("prompt", {"tokens": [1], "prompt": "a"}),
    ]
    assert not refused_otherwise(((fields, param, "") for param, fields in tokens), detokenize)


def test_rows_are_asked_for_after_a_text_or_tokens_or_several_of_either() -> None:
    for prompt in ("one", [1, 2], ["one"], ["one", "two"], [[1, 2]], [[1], [2, 3], [0]]):
        body = logprobs(prompt=prompt, model=MODEL, top_logprobs=None)
        assert body == {"prompt": prompt, "dtype": "float32"}
        is_several = isinstance(prompt, list) and not isinstance(prompt[0], int)
        assert prompts_of(body) == (prompt if is_several else [prompt])
    asked = {"prompt": "a", "dtype": "float16", "top_logprobs": 3, "add_special_tokens": False}
    assert logprobs(**asked) == asked
    scored = {"prompt": [1], "token_ids": [2, 3], "add_special_tokens": False}
    assert token_logprobs(**scored, model=None) == scored


def test_what_is_no_request_for_rows_is_refused_by_its_name() -> None:
    prompts: list[Any] = [
        *(None, "", [], 3, [[]], ["a", ""], [1, "a"], [[1], "a"], [True], [[1, False]], [-1], [2**31], [1.5]),
        *(["a"] * (MAX_ROWS + 1), [[1]] * (MAX_ROWS + 1)),
    ]
    faults = [({"prompt": prompt}, "prompt", "'prompt'") for prompt in prompts]
    others: list[tuple[str, Any]] = [
        ("dtype", "bfloat16"),
        *(("top_logprobs", number) for number in (0, True, "5")),
        ("vocab", {"lang": "en"}),
        ("temperature", 1),
        ("token_ids", [1]),
    ]
    faults += [({"prompt": "a", name: value}, name, f"'{name}'") for name, value in others]
    assert not refused_otherwise(faults, logprobs)


def test_what_is_no_request_for_given_tokens_is_refused_by_its_name() -> None:
    faults: list[tuple[str, dict[str, Any]]] = [
        ("token_ids", {"token_ids": None}),
        ("token_ids", {"token_ids": []}),
        ("token_ids", {"token_ids": [1] * 5}),
        ("token_ids[1]", {"token_ids": [1, True]}),
        *(("prompt", {"prompt": prompt}) for prompt in ([], "", ["a"], [[1]])),
        ("top_logprobs", {"top_logprobs": 1}),
        ("vocab", {"vocab": None}),
    ]
    good = {"prompt": "a", "token_ids": [1]}
    assert not refused_otherwise((({**good, **fields}, param, "") for param, fields in faults), token_logprobs)


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


def test_a_body_is_an_object_and_its_model_one_that_there_is() -> None:
    bodies: list[tuple[Any, dict[str, Any], bool]] = [
        (read_tokenize, {"prompt": "a"}, False),
        (read_detokenize, {"tokens": [1]}, False),
        (read_logprobs, {"prompt": "a"}, True),
        (read_token_logprobs, {"prompt": "a", "token_ids": [1]}, True),
    ]
    for read, fields, carries_adapter in bodies:
        for body in NO_OBJECTS:
            with pytest.raises(CallerError):
                read(body, limits=LIMITS, model_id=MODEL)
        error = refusal(partial(reading(read), **fields), model="other")
        assert isinstance(error, ModelNotFoundError)
        assert error.param == "model"
        assert "model" not in reading(read)(**fields, model=MODEL)
        # Adapters share the model's tokenizer.
        assert ("model" in reading(read)(**fields, model="an-adapter")) == carries_adapter
