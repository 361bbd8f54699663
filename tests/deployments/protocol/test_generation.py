"""Bodies against the engine's own request types; what a completion, and a request for tokens or rows, may say."""

from typing import Any

import pytest
from vllm.entrypoints.openai.chat_completion.protocol import ChatCompletionRequest as ChatCompletionRequestOfVllm
from vllm.entrypoints.openai.completion.protocol import CompletionRequest as CompletionRequestOfVllm
from vllm.entrypoints.serve.tokenize.protocol import TokenizeChatRequest, TokenizeCompletionRequest

from deployments.contract import Decoding, VocabularySpec, num_prompts, prompts_of
from deployments.errors import ApiError
from deployments.protocol.decoding import DEFAULT_SAMPLING
from deployments.protocol.generation import (
    BookkeepingFields,
    ChatBookkeepingFields,
    ChatCompletionRequest,
    CompletionFields,
    CompletionRequest,
    EngineFields,
)
from deployments.protocol.reader import CompletionRequestReader, ServedModel
from deployments.protocol.tokens import (
    TokenizeRequest,
    read_detokenize,
    read_logprobs,
    read_token_logprobs,
    read_tokenize,
)
from tests.deployments.front import LIMITS, MODEL, SERVED, completion_body
from tests.deployments.protocol.readers import BEGUN, GOOD, limited, read_chat, read_completion, refusal

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


@pytest.mark.fault(16)
def test_what_is_not_supported_is_refused_by_its_name_and_may_be_null() -> None:
    for name in (*CompletionRequest.unsupported, "guided_json"):
        assert refusal(read_completion, **{name: 1}).param == name
        assert read_completion(**{name: None}).body == read_completion().body


@pytest.mark.parametrize(("allowed", "usual"), [((), 16), ((8, 32, 64), 32), ((4, 8), 8)])
def test_the_default_number_of_tokens_is_openais_or_one_that_is_allowed(allowed: tuple[int, ...], usual: int) -> None:
    reader = CompletionRequestReader(limited(allowed_new_tokens=allowed))
    assert reader.read(completion_body()).body["max_tokens"] == usual
    if allowed:
        with pytest.raises(ApiError, match="'max_tokens' must be one of"):
            reader.read(completion_body(max_tokens=5))


def test_a_vocabulary_goes_with_it_as_with_a_chat_without_a_line_for_the_model() -> None:
    request = read_completion(vocab=VOCAB, logprobs=2, best_of=1)
    assert request.vocabulary == VocabularySpec(lang="en", n_words=1000)
    assert request.decoding == Decoding(hint=False)
    assert read_completion(best_of=4, n=2).decoding == Decoding(best_of=4)
    assert request.body.items() >= DEFAULT_SAMPLING.items()


def test_vllms_fields_of_tokenization_are_known_but_for_what_no_client_may_choose() -> None:
    fields = TokenizeChatRequest.model_fields.keys() | TokenizeCompletionRequest.model_fields.keys()
    refused = {"chat_template", "chat_template_kwargs", "media_io_kwargs", "mm_processor_kwargs"}
    assert fields - TokenizeRequest.model_fields.keys() == refused
    assert TokenizeRequest.model_fields.keys() <= fields


def test_a_text_and_messages_reach_vllm_as_they_came() -> None:
    text = read_tokenize(
        {"prompt": "", "model": MODEL, "add_special_tokens": False, "return_token_strs": True}, served=SERVED
    )
    assert TokenizeCompletionRequest.model_validate(text).model_fields_set == text.keys()
    opened = {"messages": BEGUN, "add_generation_prompt": False, "continue_final_message": True, "model": None}
    assert TokenizeChatRequest.model_validate(read_tokenize(opened, served=SERVED)).messages == BEGUN
    assert read_detokenize({"tokens": []}, served=SERVED) == {"tokens": []}


def test_rows_are_asked_for_after_a_text_or_tokens_or_several_of_either() -> None:
    for prompt in ("one", [1, 2], ["one"], ["one", "two"], [[1, 2]], [[1], [2, 3], [0]]):
        body = read_logprobs({"prompt": prompt, "model": MODEL, "top_logprobs": None}, served=SERVED)
        assert body == {"prompt": prompt, "dtype": "float32"}
        is_several = isinstance(prompt, list) and not isinstance(prompt[0], int)
        assert prompts_of(body) == (prompt if is_several else [prompt])
    asked = {"prompt": "a", "dtype": "float16", "top_logprobs": 3, "add_special_tokens": False}
    assert read_logprobs(asked, served=SERVED) == asked
    scored = {"prompt": [1], "token_ids": [2, 3], "add_special_tokens": False}
    assert read_token_logprobs({**scored, "model": None}, served=SERVED) == scored


def test_an_adapter_reaches_a_replica_but_for_the_tokens_of_a_text_which_all_share() -> None:
    served = ServedModel(MODEL, LIMITS, ("an-adapter",))
    bodies: list[tuple[Any, dict[str, Any], bool]] = [
        (read_tokenize, {"prompt": "a"}, False),
        (read_detokenize, {"tokens": [1]}, False),
        (read_logprobs, {"prompt": "a"}, True),
        (read_token_logprobs, {"prompt": "a", "token_ids": [1]}, True),
    ]
    for read, fields, carries_adapter in bodies:
        assert "model" not in read({**fields, "model": MODEL}, served=served)
        assert ("model" in read({**fields, "model": "an-adapter"}, served=served)) == carries_adapter
