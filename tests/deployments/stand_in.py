"""A stand-in for the rest of the graph: it answers at once, and fails, stalls and lies on demand.

What it does is asked for in the text of a request's last message; every call is recorded.
"""

import asyncio
import base64
import json
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
from ray.exceptions import RayTaskError
from ray.serve.exceptions import BackPressureError

from deployments.contract import (
    Answer,
    Caller,
    ChatBody,
    Decoding,
    ReplicaRequest,
    ResolvedVocabulary,
    RowsItem,
    RowsRequest,
    TextRequest,
    TokensRequest,
    VocabularySpec,
    WordToolRequest,
    prompts_of,
    usage,
)
from deployments.errors import EngineError
from deployments.ingress.replicas import Backend
from deployments.protocol.word_tools import AskCheck
from deployments.settings.limits import Limits
from deployments.vocabulary.queries import ListQueries, Question
from vocab.errors import CompileError, CompileTimeoutError, OptionsError, TokenBudgetError, UnknownLanguageError
from vocab.text.changes import PromptWord

WORDS = ("one ", "two ", "three")
USAGE = {"prompt_tokens": 5, "completion_tokens": 3, "total_tokens": 8}
FEWEST_TOKENS = 3
NUM_WORDS = 5000
CONTEXT_LENGTH = 4096

NUM_TOKENS = 10
LEAST = -40.0
"""The last number of each row."""

Script: TypeAlias = Callable[[dict[str, Any], str], AsyncGenerator[RowsItem]]

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
class StandIn(Backend):
    """A ``Backend`` without handles: every method that the front calls is here."""

    calls: list[Call] = field(default_factory=list)
    owners: list[str] = field(default_factory=list)
    ready: bool = True
    lists: ListQueries = field(default_factory=lambda: ListQueries(None, Limits()))

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
            # The whole prompt, for a word.
            prompt_words=None if spec.prompt is None else (PromptWord(spec.prompt, 1755),),
        )

    async def ask(self, question: Question, owner: str) -> bytes:
        """What the built-in lists say."""
        if isinstance(question, AskCheck) and question.text.startswith("please "):
            async for _ in _failing(question.text):
                break
        return await self.lists.answer(question, owner)

    async def answer(self, request: ReplicaRequest) -> AsyncGenerator[Any]:
        """As the request's text wishes; a token for each character."""
        match request:
            case TextRequest(body, vocabulary, decoding, caller):
                items = self._record(Call(body, vocabulary, decoding, caller))
            case RowsRequest(body, caller):
                script = _scores if "token_ids" in body else _rows
                items = self._record(Call(body, None, Decoding(), caller), script)
            case WordToolRequest(tool, body, vocabulary, spec, caller):
                items = self._record(Call({**body, "tool": tool, "spec": spec}, vocabulary, Decoding(), caller), _tools)
            case TokensRequest(body, caller):
                items = self._record(Call(body, None, Decoding(), caller), None if body else _table)
        async with aclosing(items):
            async for item in items:
                yield item

    async def _record(self, call: Call, script: Script | None = None) -> AsyncGenerator[Any]:
        self.calls.append(call)
        try:
            async for failure in _failing(_text_of(call.body), None if script is None else "prompt"):
                yield failure
                return
            async for item in (script or _script)(call.body, call.caller.request_id):
                yield item
        finally:
            call.is_closed = True

    async def call_all(self, method: str, *arguments: Any) -> list[Any]:
        """Two replicas, of which nothing is wanted but that they answer."""
        return [None, None]

    def check_room(self, owner: str) -> None:
        """There is always room."""

    async def metrics(self) -> bytes:
        return b"ray_wordbound_requests_total 1.0\n"

    def is_ready(self) -> bool:
        return self.ready

    async def context_length(self) -> int | None:
        return CONTEXT_LENGTH if self.ready else None


def row(number: int) -> list[float]:
    """The row of a prompt of that number."""
    return [-float(number), *[-2.0] * (NUM_TOKENS - 2), LEAST]


async def _rows(body: dict[str, Any], request_id: str) -> AsyncGenerator[RowsItem]:
    """Two rows at once."""
    prompts = prompts_of(body)
    num_top = body.get("top_logprobs")
    yield {
        "shape": [len(prompts), num_top or NUM_TOKENS],
        "prompt_tokens": sum(map(len, prompts)),
    }
    for start in range(0, len(prompts), 2):
        if start:
            async for item in _failing(prompts[start]):
                yield item
                return
        rows = np.array([row(start + number) for number in range(len(prompts[start : start + 2]))], body["dtype"])
        if num_top is None:
            yield rows
        else:
            order = np.argsort(-rows, kind="stable")[:, :num_top].astype(np.int32)
            yield order, np.take_along_axis(rows, order, 1).astype(np.float32)


async def _scores(body: dict[str, Any], request_id: str) -> AsyncGenerator[RowsItem]:
    tokens = body["token_ids"]
    yield {
        "object": "token_logprobs",
        "model": body.get("model", "stand-in"),
        "logprobs": [-float(token) for token in tokens],
        "usage": usage(len(body["prompt"]) + len(tokens), 0),
    }


async def _table(body: dict[str, Any], request_id: str) -> AsyncGenerator[RowsItem]:
    tokens = [base64.b64encode(bytes([65 + number])).decode() for number in range(NUM_TOKENS)]
    yield {"vocab_size": NUM_TOKENS, "tokens": tokens, "special_ids": [9], "eos_token_ids": [9]}


async def _tools(body: dict[str, Any], request_id: str) -> AsyncGenerator[RowsItem]:
    result = {name: value for name, value in body.items() if name not in ("spec", "stream")}
    if body.get("stream"):
        yield 'data: {"text":"One."}\n\n'
        async for item in _failing(body["text"].partition("!")[2]):
            yield item
            return
        yield f"data: {json.dumps(result)}\n\n"
        yield "data: [DONE]\n\n"
    else:
        yield result


def _text_of(body: dict[str, Any]) -> Any:
    """The text of a request, or the first of its prompts; "" where it has none."""
    if "messages" in body:
        return body["messages"][-1]["content"]
    return prompts_of(body)[0] if "prompt" in body else body.get("text", "")


async def _failing(wish: Any, param: str | None = "prompt") -> AsyncGenerator[Answer]:
    """What goes wrong where a prompt asks for it, in the first or in a later one."""
    if wish == "please refuse":
        yield EngineError(400, "Too long.", code="context_length_exceeded", param=param)
    if wish == "please fail":
        raise across_a_handle(RuntimeError("the secret reason"))
    if wish == "please be busy":
        raise across_a_handle(BackPressureError(num_queued_requests=9, max_queued_requests=9))
    if wish == "please stall":
        await asyncio.sleep(3600)


async def _script(body: ChatBody, request_id: str) -> AsyncGenerator[Answer]:
    is_chat, wish = "messages" in body, _text_of(body)
    if wish == "please say nothing":
        return
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
        result = {"message": {"role": "assistant", "content": text}} if is_chat else {"text": text}
        yield {**_answer(request_id, result, "chat.completion" if is_chat else "text_completion"), "usage": USAGE}
        return
    for word in WORDS:
        result = {"delta": {"content": word}} if is_chat else {"text": word}
        yield _event(_answer(request_id, result, "chat.completion.chunk" if is_chat else "text_completion"))
        if wish == "please stall later":
            await asyncio.sleep(3600)
        if wish == "please fail later":
            raise across_a_handle(RuntimeError("the secret reason"))
        if wish == "please refuse later":
            yield EngineError(400, "Too long.")
        if wish == "please break off":
            return
    if (body.get("stream_options") or {}).get("include_usage"):
        yield _event({**_answer(request_id, {}, "chat.completion.chunk"), "choices": [], "usage": USAGE})
    yield "data: [DONE]\n\n"


def _answer(request_id: str, result: dict[str, Any], kind: str) -> dict[str, Any]:
    return {
        "id": f"cmpl-{request_id}",
        "object": kind,
        "created": 0,
        "model": "stand-in",
        "choices": [{"index": 0, **result, "finish_reason": None, "logprobs": None}],
    }


def _event(chunk: dict[str, Any]) -> str:
    return f"data: {json.dumps(chunk)}\n\n"
