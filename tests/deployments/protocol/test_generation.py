"""The fields of chats and completions against the engine's own request types, and what a completion may say."""

from typing import Any

import pytest
from vllm.entrypoints.openai.chat_completion.protocol import ChatCompletionRequest as ChatCompletionRequestOfVllm
from vllm.entrypoints.openai.completion.protocol import CompletionRequest as CompletionRequestOfVllm

from deployments.contract import Decoding, num_prompts
from deployments.errors import ApiError, ModelNotFoundError
from deployments.protocol.decoding import DEFAULT_SAMPLING
from deployments.protocol.generation import (
    BookkeepingFields,
    ChatBookkeepingFields,
    ChatCompletionRequest,
    CompletionFields,
    CompletionRequest,
    EngineFields,
)
from deployments.protocol.reader import CompletionRequestReader
from tests.deployments.front import LIMITS, MODEL, completion_body
from tests.deployments.protocol.readers import GOOD, read_chat, read_completion, refusal, refused_otherwise

VOCAB = {"lang": "en", "n_words": 1000}


@pytest.mark.parametrize(
    ("request_type", "passed_on", "bookkeeping", "engines"),
    [
        (ChatCompletionRequest, EngineFields, ChatBookkeepingFields, ChatCompletionRequestOfVllm),
        (CompletionRequest, CompletionFields, BookkeepingFields, CompletionRequestOfVllm),
    ],
)
def test_every_field_of_the_engine_is_passed_on_ignored_or_refused(
    request_type: Any, passed_on: Any, bookkeeping: Any, engines: Any
) -> None:
    known = request_type.model_fields.keys()
    assert engines.model_fields.keys() <= known | request_type.unsupported
    assert known.isdisjoint(request_type.unsupported)
    assert passed_on.model_fields.keys().isdisjoint(bookkeeping.model_fields)
    assert passed_on.model_fields.keys() <= engines.model_fields.keys()


def test_the_engine_takes_what_is_passed_on() -> None:
    for name, value in GOOD:
        needed: dict[str, Any] = {"logprob_token_ids": {"logprobs": True}}.get(name, {})
        body = read_chat(**{name: value}, **needed).body
        assert body[name] == value
        assert ChatCompletionRequestOfVllm.model_validate(body).model_fields_set == body.keys()
    fields: list[tuple[str, Any]] = [
        ("echo", True),
        ("logprobs", 0),
        ("logprobs", 20),
        ("add_special_tokens", False),
        ("return_token_ids", True),
        ("stop", ["a"]),
        ("top_k", 5),
        ("response_format", {"type": "json_object"}),
        ("stream", True),
    ]
    for name, value in fields:
        body = read_completion(**{name: value}).body
        assert body[name] == value
        assert CompletionRequestOfVllm.model_validate(body).model_fields_set == body.keys()


def test_a_prompt_is_text_or_tokens_and_there_may_be_several() -> None:
    prompts: list[tuple[Any, int]] = [
        *(("Hello", 1), ([5, 6], 1), (["Hello"], 1)),
        *((["a", "b"], 2), ([[5, 6]], 1), ([[5], [6]], 2)),
    ]
    for prompt, number in prompts:
        request = read_completion(prompt, n=2)
        assert request.body == {"model": MODEL, "prompt": prompt, "n": 2, "max_tokens": 16}
        assert num_prompts(request.body) == number
        assert Decoding().num_sequences(request.body) == 2 * number
        assert CompletionRequestOfVllm.model_validate(request.body).prompt == prompt
    others: list[Any] = ["", [], [""], [[]], [5, "a"], ["a", 5], [[5], "a"], 5, {}, [-1], [2**31], [True]]
    assert not refused_otherwise((({"prompt": prompt}, "prompt", "") for prompt in others), read_completion)


def test_what_is_not_supported_is_refused_by_its_name_and_may_be_null() -> None:
    for name in (*CompletionRequest.unsupported, "guided_json"):
        assert refusal(read_completion, **{name: 1}).param == name
        assert read_completion(**{name: None}).body == read_completion().body


def test_fields_of_chats_and_unknown_ones_are_refused() -> None:
    names = ("messages", "tools", "top_logprobs", "max_completion_tokens", "store", "colour")
    assert not refused_otherwise((({name: 1}, name, "Unknown parameter: ") for name in names), read_completion)


def test_what_a_completion_cannot_have_is_refused() -> None:
    faults: list[tuple[str, dict[str, Any]]] = [
        ("logprobs", {"logprobs": 21}),
        ("logprobs", {"logprobs": True}),
        ("logprobs", {"logprobs": 0, "best_of": 2}),
        ("logprobs", {"logprobs": 0, "num_beams": 2}),
        ("logprobs", {"logprobs": 0, "vocab": {**VOCAB, "search": {"width": 2}}}),
        ("vocab.hint", {"vocab": {**VOCAB, "hint": True}}),
        ("prompt", {"prompt": ["a"] * (LIMITS.max_n + 1)}),
        ("prompt", {"prompt": ["a"] * 3, "n": LIMITS.max_n // 2}),
        ("prompt", {"prompt": ["a", "b"], "best_of": 2}),
        ("prompt", {"prompt": ["a ", "b "], "vocab": {**VOCAB, "score": True}}),
        ("n", {"n": 3, "best_of": 2}),
        ("max_tokens", {"max_tokens": 0}),
        ("min_tokens", {"min_tokens": 17}),
        ("stream_options", {"stream_options": {}}),
    ]
    assert not refused_otherwise(((fields, param, "") for param, fields in faults), read_completion)
    assert isinstance(refusal(read_completion, model="gpt-4o"), ModelNotFoundError)


def test_the_best_of_several_is_asked_for_as_openai_does() -> None:
    assert read_completion(best_of=4, n=2).decoding == Decoding(best_of=4)
    assert read_completion(best_of=1, n=1).decoding == Decoding()


@pytest.mark.parametrize(("allowed", "usual"), [((), 16), ((8, 32, 64), 32), ((4, 8), 8)])
def test_the_default_number_of_tokens_is_openais_or_one_that_is_allowed(allowed: tuple[int, ...], usual: int) -> None:
    limits = LIMITS.model_copy(update={"allowed_new_tokens": allowed})
    assert CompletionRequestReader(MODEL, limits).read(completion_body()).body["max_tokens"] == usual
    if allowed:
        with pytest.raises(ApiError, match="'max_tokens' must be one of"):
            CompletionRequestReader(MODEL, limits).read(completion_body(max_tokens=5))


def test_a_vocabulary_goes_with_it_as_with_a_chat_without_a_line_for_the_model() -> None:
    request = read_completion(vocab=VOCAB, logprobs=2)
    assert request.vocabulary is not None
    assert request.vocabulary.n_words == 1000
    assert request.decoding == Decoding(hint=False)
    assert request.body.items() >= DEFAULT_SAMPLING.items()
