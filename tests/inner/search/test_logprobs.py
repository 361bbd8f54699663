"""The log-probabilities of whole answers: as vLLM's own server would write them."""

import math
from types import SimpleNamespace
from typing import Any

from vllm.entrypoints.openai.chat_completion.protocol import ChatCompletionRequest
from vllm.entrypoints.openai.chat_completion.serving import OpenAIServingChat
from vllm.entrypoints.openai.completion.protocol import CompletionRequest
from vllm.entrypoints.openai.completion.serving import OpenAIServingCompletion
from vllm.logprobs import Logprob
from vllm.outputs import CompletionOutput
from vllm.sampling_params import SamplingParams

from deployments.search.logprobs import LOGPROBS_ARGUMENT, LogprobRecorder

TEXTS = {1: "The", 2: " cat", 3: " café", 4: "\N{REPLACEMENT CHARACTER}", 5: ""}
TOKENS = [1, 3, 4, 5]
ENTRIES: list[dict[int, Logprob]] = [
    {1: Logprob(-0.5, 1, "The"), 2: Logprob(-1.5, 2, " cat")},
    {3: Logprob(-9.0, 7, None), 2: Logprob(-0.1, 1, " cat"), 1: Logprob(-math.inf, 2, "The")},
    {4: Logprob(-math.inf, 2, "\N{REPLACEMENT CHARACTER}"), 3: Logprob(-0.1, 1, None)},
    {5: Logprob(0.0, 1, "")},
]


def decode(tokens: Any) -> str:
    return "".join(TEXTS[token] for token in ([tokens] if isinstance(tokens, int) else tokens))


def recorded(request: Any, one: CompletionOutput) -> list[Any]:
    recorder = LogprobRecorder.of(request)
    assert recorder is not None
    params = SamplingParams()
    recorder.ask(params)
    assert params.extra_args is not None
    _, prompt = params.extra_args[LOGPROBS_ARGUMENT]
    recorder.take(prompt, one)
    assert one.logprobs is None
    answer: dict[str, Any] = {"choices": [{"logprobs": None}]}
    recorder.attach(answer, decode)
    return [choice["logprobs"] for choice in answer["choices"]]


def output(index: int = 0, number: int = len(TOKENS)) -> CompletionOutput:
    return CompletionOutput(index, "", TOKENS[:number], None, [*ENTRIES[:number]])


def test_they_are_those_of_vllm() -> None:
    server: Any = SimpleNamespace(
        return_tokens_as_token_ids=False, _get_decoded_token=OpenAIServingChat._get_decoded_token
    )
    server._get_top_logprobs = lambda *args, **kwargs: OpenAIServingChat._get_top_logprobs(server, *args, **kwargs)
    tokenizer: Any = SimpleNamespace(decode=decode)
    fields: dict[str, Any]
    for fields in (
        {"top_logprobs": 2},
        {"top_logprobs": 0},
        {"top_logprobs": 1, "return_tokens_as_token_ids": True},
        {"logprob_token_ids": [2, 3]},
    ):
        chat = ChatCompletionRequest(messages=[], logprobs=True, **fields)
        named = chat.logprob_token_ids, chat.return_tokens_as_token_ids
        theirs: Any = OpenAIServingChat._create_chat_logprobs(
            server, TOKENS, ENTRIES, tokenizer, chat.top_logprobs, *named
        )
        assert recorded(chat, output()) == [theirs.model_dump(mode="json")]
    for fields in ({"logprobs": 0}, {"logprobs": 1}, {"logprobs": 5, "return_tokens_as_token_ids": True}):
        completion = CompletionRequest(prompt="a", **fields)
        as_ids = completion.return_tokens_as_token_ids
        server._get_decoded_token = OpenAIServingCompletion._get_decoded_token
        theirs = OpenAIServingCompletion._create_completion_logprobs(
            server, TOKENS, ENTRIES, fields["logprobs"], tokenizer, return_as_token_id=as_ids
        )
        assert recorded(completion, output()) == [theirs.model_dump(mode="json")]


def test_each_choice_has_its_own_in_the_order_of_prompts_and_texts() -> None:
    recorder = LogprobRecorder.of(CompletionRequest(prompt=["a", "b"], logprobs=0))
    assert recorder is not None
    for _ in range(2):
        recorder.ask(SamplingParams())
    # The second prompt is answered first, and its second text before the first.
    for prompt, index, number in ((1, 1, 4), (1, 0, 3), (0, 0, 1), (0, 1, 2)):
        recorder.take(prompt, output(index, number))
    answer: dict[str, Any] = {"choices": [{} for _ in range(4)]}
    recorder.attach(answer, decode)
    assert [len(choice["logprobs"]["tokens"]) for choice in answer["choices"]] == [1, 2, 3, 4]


def test_nothing_is_recorded_for_who_asks_for_none() -> None:
    assert LogprobRecorder.of(ChatCompletionRequest(messages=[], logprobs=False, top_logprobs=0)) is None
    assert LogprobRecorder.of(CompletionRequest(prompt="a")) is None
