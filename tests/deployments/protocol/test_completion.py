"""What a completion may say, and its fields against the engine's own request type."""

from typing import Any

import pytest
from vllm.entrypoints.openai.completion.protocol import CompletionRequest as CompletionRequestOfVllm

from deployments.contract import Decoding, num_prompts
from deployments.errors import ApiError, ModelNotFoundError
from deployments.protocol.decoding import DEFAULT_SAMPLING
from deployments.protocol.generation import (
    BookkeepingFields,
    CompletionFields,
    CompletionRequest,
)
from deployments.protocol.reader import ChatRequest, CompletionRequestReader
from tests.deployments.front import LIMITS, MODEL, completion_body

KNOWN = CompletionRequest.model_fields.keys()
ENGINES = CompletionRequestOfVllm.model_fields.keys()
VOCAB = {"lang": "en", "n_words": 1000}


def read(prompt: Any = "Once upon a time, ", **fields: Any) -> ChatRequest:
    return CompletionRequestReader(MODEL, LIMITS, hint=False).read(completion_body(prompt, **fields))


def fault(prompt: Any = "Once upon a time, ", **fields: Any) -> ApiError:
    with pytest.raises(ApiError) as caught:
        read(prompt, **fields)
    return caught.value


def test_every_field_of_the_engine_is_known_or_refused() -> None:
    assert KNOWN | CompletionRequest.unsupported >= ENGINES


def test_no_field_is_both_known_and_refused() -> None:
    assert KNOWN.isdisjoint(CompletionRequest.unsupported)
    assert CompletionFields.model_fields.keys().isdisjoint(BookkeepingFields.model_fields)


def test_nothing_is_passed_on_that_the_engine_would_ignore() -> None:
    assert CompletionFields.model_fields.keys() <= ENGINES


@pytest.mark.parametrize(
    ("prompt", "number"), [("Hello", 1), ([5, 6], 1), (["Hello"], 1), (["a", "b"], 2), ([[5, 6]], 1), ([[5], [6]], 2)]
)
def test_a_prompt_is_text_or_tokens_and_there_may_be_several(prompt: Any, number: int) -> None:
    request = read(prompt, n=2)
    assert request.body == {"model": MODEL, "prompt": prompt, "n": 2, "max_tokens": 16}
    assert num_prompts(request.body) == number
    assert Decoding().num_sequences(request.body) == 2 * number
    assert CompletionRequestOfVllm.model_validate(request.body).prompt == prompt


@pytest.mark.parametrize("prompt", ["", [], [""], [[]], [5, "a"], ["a", 5], [[5], "a"], 5, {}, [-1], [2**31], [True]])
def test_other_prompts_are_refused(prompt: Any) -> None:
    error = fault(prompt)
    assert (error.status, error.param) == (400, "prompt")


@pytest.mark.parametrize(
    ("name", "value"),
    [("echo", True), ("logprobs", 0), ("logprobs", 20), ("add_special_tokens", False), ("return_token_ids", True),
     ("stop", ["a"]), ("top_k", 5), ("response_format", {"type": "json_object"}), ("stream", True)],
)  # fmt: skip
def test_the_engine_takes_what_is_passed_on(name: str, value: Any) -> None:
    request = read(**{name: value})
    assert request.body[name] == value
    assert CompletionRequestOfVllm.model_validate(request.body).model_fields_set == request.body.keys()


@pytest.mark.parametrize("name", [*sorted(CompletionRequest.unsupported), "guided_json"])
def test_what_is_not_supported_is_refused_by_its_name_and_may_be_null(name: str) -> None:
    assert fault(**{name: 1}).param == name
    assert read(**{name: None}).body == read().body


@pytest.mark.parametrize("name", ["messages", "tools", "top_logprobs", "max_completion_tokens", "store", "colour"])
def test_fields_of_chats_and_unknown_ones_are_refused(name: str) -> None:
    error = fault(**{name: 1})
    assert (error.param, error.message.split(":")[0]) == (name, "Unknown parameter")


@pytest.mark.parametrize(
    ("param", "fields"),
    [
        ("logprobs", {"logprobs": 21}),
        ("logprobs", {"logprobs": True}),
        ("logprobs", {"logprobs": 0, "best_of": 2}),
        ("logprobs", {"logprobs": 0, "num_beams": 2}),
        ("logprobs", {"logprobs": 0, "vocab": {**VOCAB, "search": {"width": 2}}}),
        ("echo", {"echo": True, "logprobs": 1}),
        ("echo", {"echo": True, "best_of": 2}),
        ("echo", {"echo": True, "vocab": VOCAB}),
        ("vocab.hint", {"vocab": {**VOCAB, "hint": True}}),
        ("prompt", {"prompt": ["a"] * (LIMITS.max_n + 1)}),
        ("prompt", {"prompt": ["a"] * 3, "n": LIMITS.max_n // 2}),
        ("prompt", {"prompt": ["a", "b"], "best_of": 2}),
        ("prompt", {"prompt": ["a ", "b "], "vocab": {**VOCAB, "score": True}}),
        ("n", {"n": 3, "best_of": 2}),
        ("max_tokens", {"max_tokens": 0}),
        ("min_tokens", {"min_tokens": 17}),
        ("stream_options", {"stream_options": {}}),
    ],
)
def test_what_does_not_go_together_is_refused(param: str, fields: dict[str, Any]) -> None:
    assert fault(**fields).param == param


def test_the_best_of_several_is_asked_for_as_openai_does() -> None:
    assert read(best_of=4, n=2).decoding == Decoding(best_of=4)
    assert read(best_of=1, n=1).decoding == Decoding()


@pytest.mark.parametrize(("allowed", "usual"), [((), 16), ((8, 32, 64), 32), ((4, 8), 8)])
def test_the_default_number_of_tokens_is_openais_or_one_that_is_allowed(allowed: tuple[int, ...], usual: int) -> None:
    limits = LIMITS.model_copy(update={"allowed_new_tokens": allowed})
    assert CompletionRequestReader(MODEL, limits).read(completion_body()).body["max_tokens"] == usual
    if allowed:
        with pytest.raises(ApiError, match="'max_tokens' must be one of"):
            CompletionRequestReader(MODEL, limits).read(completion_body(max_tokens=5))


def test_a_vocabulary_goes_with_it_as_with_a_chat_without_a_line_for_the_model() -> None:
    request = read(vocab=VOCAB, logprobs=2)
    assert request.vocabulary is not None
    assert request.vocabulary.n_words == 1000
    assert request.decoding == Decoding(hint=False)
    assert request.body.items() >= DEFAULT_SAMPLING.items()


def test_another_model_is_not_found() -> None:
    assert isinstance(fault(model="gpt-4o"), ModelNotFoundError)
