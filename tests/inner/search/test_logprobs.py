"""The log-probabilities of whole answers: as vLLM's own server would write them."""

import math
from types import SimpleNamespace
from typing import Any

from vllm.entrypoints.openai.chat_completion.protocol import ChatCompletionRequest
from vllm.entrypoints.openai.chat_completion.serving import OpenAIServingChat
from vllm.entrypoints.openai.completion.protocol import CompletionRequest
from vllm.entrypoints.openai.completion.serving import OpenAIServingCompletion
from vllm.logprobs import Logprob

from deployments.search.logprobs import LogprobWriter

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


def written(request: Any) -> dict[str, Any]:
    writer = LogprobWriter.of(request, decode)
    assert writer is not None
    return writer.join([entry.value for entry in writer.entries(TOKENS, ENTRIES)])


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
        assert written(chat) == theirs.model_dump(mode="json")
    for fields in ({"logprobs": 0}, {"logprobs": 1}, {"logprobs": 5, "return_tokens_as_token_ids": True}):
        completion = CompletionRequest(prompt="a", **fields)
        as_ids = completion.return_tokens_as_token_ids
        server._get_decoded_token = OpenAIServingCompletion._get_decoded_token
        theirs = OpenAIServingCompletion._create_completion_logprobs(
            server, TOKENS, ENTRIES, fields["logprobs"], tokenizer, return_as_token_id=as_ids
        )
        assert written(completion) == theirs.model_dump(mode="json")


def test_nothing_is_written_for_who_asks_for_none() -> None:
    assert LogprobWriter.of(ChatCompletionRequest(messages=[], logprobs=False, top_logprobs=0), decode) is None
    assert LogprobWriter.of(CompletionRequest(prompt="a"), decode) is None
