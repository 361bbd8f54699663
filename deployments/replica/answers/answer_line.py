"""Answer one line of a batch in a replica: check it again, hold it back until the share of batches has room, answer it
whole.

Never raises and never tries again: the batch decides what becomes of a line.
"""

import asyncio
import json
import logging
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from typing import Final, Protocol, TypedDict

from deployments.contract import Answer, Caller, ChatBody, Decoding, ResolvedVocabulary, VocabularySpec
from deployments.errors import ApiError, InternalError, OverloadedError, from_error_item, to_api_error
from deployments.protocol.generation.reader import ChatRequest, ChatRequestReader, check_budget
from deployments.share import Share
from deployments.single_flight import SingleFlight

logger = logging.getLogger("ray.serve")

NOT_STARTED: Final = 0
"""In place of a status: the line did not reach the engine."""

ENGINE_DIED: Final = -1
"""In place of a status: the engine's process ended while it was at work on the line."""

_REPLACED_WAIT_S: Final = 2.0
"""Serve needs some seconds to replace what is dead, an engine or the vocabulary deployment, and all lines of a batch
would fail meanwhile."""

_RESOLVED_FOR_S: Final = 5.0
"""A list that is replaced, or left out of the store, is seen this late."""

_MAX_RESOLVED: Final = 64


class LineRequest(TypedDict):
    """A line as it travels: ``body`` as JSON text, the name of its batch's key, and an id for logs."""

    body: str
    owner: str
    request_id: str


class LineAnswer(TypedDict):
    """An HTTP status or what stands in its place, and the body as JSON text (an answer, or OpenAI's error)."""

    status: int
    body: str


class Engine(Protocol):
    """The part of a replica that answers lines."""

    async def resolve(self, spec: VocabularySpec) -> ResolvedVocabulary: ...

    async def refusal(self, body: ChatBody) -> Answer | None: ...

    def answer(
        self, body: ChatBody, vocabulary: ResolvedVocabulary | None, decoding: Decoding, caller: Caller
    ) -> AsyncGenerator[Answer]: ...

    def is_dead(self) -> bool: ...


class LineAnswerer:
    """Answer lines, as many at once as the share allows."""

    def __init__(
        self,
        engine: Engine,
        reader: ChatRequestReader,
        share: Share,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._engine = engine
        self._reader = reader
        self._share = share
        self._resolved = SingleFlight(_MAX_RESOLVED)
        self._clock = clock
        self._sleep = sleep

    @property
    def num_taken(self) -> int:
        """Sequences that lines hold."""
        return self._share.num_taken

    async def answer(self, request: LineRequest) -> LineAnswer:
        list_param = "vocab.lang"
        try:
            chat = self._reader.read(json.loads(request["body"]))
            list_param = chat.list_param
            # Both before its turn, so that a free sequence is used at once.
            try:
                vocabulary = await self._vocabulary(chat)
            except OverloadedError:
                # The vocabulary deployment is being replaced; a line is not refused for it.
                await self._sleep(_REPLACED_WAIT_S)
                return {"status": NOT_STARTED, "body": "null"}
            if isinstance(refusal := await self._engine.refusal(chat.body), dict):
                return _refusal(from_error_item(refusal, request["request_id"]))
            async with self._share.take(chat.decoding.num_sequences(chat.body), request["owner"]):
                if self._engine.is_dead():
                    await self._sleep(_REPLACED_WAIT_S)
                    return {"status": NOT_STARTED, "body": "null"}
                answer = await self._answer(chat, vocabulary, Caller(request["owner"], request["request_id"]))
                if answer["status"] >= 500 and self._engine.is_dead():
                    return {"status": ENGINE_DIED, "body": "null"}
                return answer
        except Exception as exception:
            error = to_api_error(exception, request["request_id"], list_param)
            if isinstance(error, InternalError):
                logger.exception("line %s failed", request["request_id"])
            return _refusal(error)

    async def _vocabulary(self, chat: ChatRequest) -> ResolvedVocabulary | None:
        if chat.vocabulary is None:
            return None
        vocabulary = await self._resolve(chat.vocabulary)
        check_budget(chat, vocabulary)
        return vocabulary

    async def _resolve(self, spec: VocabularySpec) -> ResolvedVocabulary:
        """Resolve a vocabulary once for the many lines in a row that share it."""

        async def ask() -> tuple[ResolvedVocabulary, float]:
            return await self._engine.resolve(spec), self._clock()

        async def is_fresh(known: tuple[ResolvedVocabulary, float]) -> bool:
            return 0 <= self._clock() - known[1] < _RESOLVED_FOR_S

        resolved, _ = await self._resolved.get(spec, ask, is_fresh)
        return resolved

    async def _answer(self, chat: ChatRequest, vocabulary: ResolvedVocabulary | None, caller: Caller) -> LineAnswer:
        async with aclosing(self._engine.answer(chat.body, vocabulary, chat.decoding, caller)) as items:
            async for item in items:
                if isinstance(item, dict) and "error" not in item:
                    return {"status": 200, "body": json.dumps(item, ensure_ascii=False, separators=(",", ":"))}
                if isinstance(item, dict):
                    return _refusal(from_error_item(item, caller.request_id))
                break
        return _refusal(InternalError(caller.request_id))


def _refusal(error: ApiError) -> LineAnswer:
    return {"status": error.status, "body": error.to_json().decode()}
