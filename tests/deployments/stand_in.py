"""A stand-in for the rest of the graph: it answers at once, and fails, stalls and lies on demand.

What it does is asked for in the text of a request's last message; every call is recorded.
"""

import asyncio
import json
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any

from ray.exceptions import RayTaskError
from ray.serve.exceptions import BackPressureError

from deployments.contract import Answer, Caller, ChatBody, Decoding, ResolvedVocabulary, VocabularySpec
from vocab.errors import CompileError, CompileTimeoutError, OptionsError, TokenBudgetError, UnknownLanguageError

WORDS = ("one ", "two ", "three")
USAGE = {"prompt_tokens": 5, "completion_tokens": 3, "total_tokens": 8}
FEWEST_TOKENS = 3
NUM_WORDS = 5000
CONTEXT_LENGTH = 4096

FAILURES_OF_LANGUAGES: dict[str, Callable[[], Exception]] = {
    "xx": lambda: UnknownLanguageError("There is no list 'xx'. Known: en, es."),
    "xx-remote": lambda: across_a_handle(UnknownLanguageError("There is no list 'xx-remote'. Known: en, es.")),
    "tight": lambda: across_a_handle(TokenBudgetError("No text of 'tight' fits.")),
    "broken": lambda: across_a_handle(CompileError("the secret reason")),
    "slow": lambda: across_a_handle(CompileTimeoutError("the secret reason")),
    "twisted": lambda: OptionsError("Two options contradict one another."),
    "busy": lambda: BackPressureError(num_queued_requests=9, max_queued_requests=9),
}


def across_a_handle(error: Exception) -> Exception:
    """The exception as Serve gives it to the caller of a handle."""
    wrapped = RayTaskError("resolve()", f"Traceback: {error}", error, proctitle="replica", pid=1, ip="127.0.0.1")
    instance: Exception = wrapped.as_instanceof_cause()
    return instance


@dataclass
class Call:
    body: ChatBody
    vocabulary: ResolvedVocabulary | None
    decoding: Decoding
    caller: Caller
    is_closed: bool = False


@dataclass
class StandIn:
    """A ``Backend``."""

    calls: list[Call] = field(default_factory=list)
    owners: list[str] = field(default_factory=list)
    ready: bool = True

    async def resolve(self, spec: VocabularySpec, owner: str = "") -> ResolvedVocabulary:
        self.owners.append(owner)
        if spec.lang in FAILURES_OF_LANGUAGES:
            raise FAILURES_OF_LANGUAGES[spec.lang]()
        return ResolvedVocabulary(
            digest="d" * 64,
            changes_digest="c" * 64 if spec.changes else None,
            options=spec.options,
            lang=spec.lang,
            n_words=spec.n_words or NUM_WORDS,
            unit=spec.unit,
            fewest_tokens=FEWEST_TOKENS,
        )

    async def answer(
        self, body: ChatBody, vocabulary: ResolvedVocabulary | None, decoding: Decoding, caller: Caller
    ) -> AsyncGenerator[Answer]:
        async with aclosing(self._record(Call(body, vocabulary, decoding, caller))) as items:
            async for item in items:
                yield item

    async def tokenized(self, body: dict[str, Any], caller: Caller) -> AsyncGenerator[Answer]:
        """A token for each character."""
        async with aclosing(self._record(Call(body, None, Decoding(), caller))) as items:
            async for item in items:
                yield item

    async def _record(self, call: Call) -> AsyncGenerator[Answer]:
        self.calls.append(call)
        try:
            async for item in _script(call.body, call.caller.request_id):
                yield item
        finally:
            call.is_closed = True

    def check_room(self, owner: str) -> None:
        """There is always room."""

    async def is_ready(self) -> bool:
        return self.ready

    async def context_length(self) -> int | None:
        return CONTEXT_LENGTH if self.ready else None


async def _script(body: ChatBody, request_id: str) -> AsyncGenerator[Answer]:
    is_chat = "messages" in body
    wish = body["messages"][-1]["content"] if is_chat else body.get("prompt", "")
    if wish == "please refuse":
        yield {"error": {"message": "Too long.", "code": "context_length_exceeded", "status": 400, "inner": "x"}}
        return
    if wish == "please fail":
        raise across_a_handle(RuntimeError("the secret reason"))
    if wish == "please be busy":
        raise across_a_handle(BackPressureError(num_queued_requests=9, max_queued_requests=9))
    if wish == "please say nothing":
        return
    if wish == "please stall":
        await asyncio.sleep(3600)
    if "tokens" in body:
        yield {"prompt": "".join(map(chr, body["tokens"]))}
        return
    if "max_tokens" not in body:
        tokens = list(map(ord, wish))
        strings = list(wish) if body.get("return_token_strs") else None
        yield {"count": len(tokens), "max_model_len": CONTEXT_LENGTH, "tokens": tokens, "token_strs": strings}
        return
    if not body.get("stream"):
        text = "".join(WORDS)
        told = {"message": {"role": "assistant", "content": text}} if is_chat else {"text": text}
        yield {**_answer(request_id, told, "chat.completion" if is_chat else "text_completion"), "usage": USAGE}
        return
    for word in WORDS:
        told = {"delta": {"content": word}} if is_chat else {"text": word}
        yield _event(_answer(request_id, told, "chat.completion.chunk" if is_chat else "text_completion"))
        if wish == "please stall later":
            await asyncio.sleep(3600)
        if wish == "please fail later":
            raise across_a_handle(RuntimeError("the secret reason"))
        if wish == "please refuse later":
            yield {"error": {"message": "Too long.", "status": 400}}
        if wish == "please break off":
            return
    if (body.get("stream_options") or {}).get("include_usage"):
        yield _event({**_answer(request_id, {}, "chat.completion.chunk"), "choices": [], "usage": USAGE})
    yield "data: [DONE]\n\n"


def _answer(request_id: str, told: dict[str, Any], kind: str) -> dict[str, Any]:
    return {
        "id": f"cmpl-{request_id}",
        "object": kind,
        "created": 0,
        "model": "stand-in",
        "choices": [{"index": 0, **told, "finish_reason": None, "logprobs": None}],
    }


def _event(chunk: dict[str, Any]) -> str:
    return f"data: {json.dumps(chunk)}\n\n"
