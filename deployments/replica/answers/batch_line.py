"""Answer one line of a batch in a replica: check it again, hold it back until the share of batches has room, answer it
whole.

Never raises and never tries again: the batch decides what becomes of a line.
"""

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from typing import Final, Protocol

from deployments.contract import (
    Answer,
    Caller,
    ChatBody,
    LineAnswer,
    LineRequest,
    ResolvedVocabulary,
    TextRequest,
    VocabularySpec,
)
from deployments.errors import (
    ApiError,
    EngineDiedError,
    InternalError,
    NotStartedError,
    OverloadedError,
    error_of,
    to_api_error,
)
from deployments.fair_semaphore import FairSemaphore
from deployments.protocol.reader import ChatRequest, ChatRequestReader, check_max_tokens
from deployments.single_flight import SingleFlight

logger = logging.getLogger("ray.serve")

_REPLACED_WAIT_S: Final = 2.0
"""Serve needs some seconds to replace what is dead, an engine or the vocabulary deployment, and all lines of a batch
would fail meanwhile."""

_RESOLVED_FOR_S: Final = 5.0
"""A list that is replaced, or left out of the store, is seen this late."""

_MAX_RESOLVED: Final = 64


class Engine(Protocol):
    """What answering the lines of batches needs of a replica."""

    async def resolve(self, spec: VocabularySpec) -> ResolvedVocabulary: ...

    async def check(self, body: ChatBody, *, in_list: bool) -> None: ...

    def answer(self, request: TextRequest) -> AsyncGenerator[Answer]: ...

    def is_dead(self) -> bool: ...


class BatchLineAnswerer:
    """Answer lines of batches in a replica, as many at once as the share of batches allows."""

    def __init__(
        self,
        engine: Engine,
        reader: ChatRequestReader,
        semaphore: FairSemaphore,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._engine = engine
        self._reader = reader
        self._semaphore = semaphore
        self._resolved = SingleFlight(_MAX_RESOLVED)
        self._clock = clock
        self._sleep = sleep

    @property
    def num_taken(self) -> int:
        """Return how many of the engine's sequences lines of batches hold now."""
        return self._semaphore.num_taken

    async def answer(self, request: LineRequest) -> LineAnswer:
        """Check one line of a batch again and answer it whole; an error is returned."""
        list_param = "vocab.lang"
        try:
            chat = self._reader.read(request.body)
            list_param = chat.list_param
            # Both before its turn, so that a free sequence is used at once.
            try:
                vocabulary = await self._vocabulary(chat)
            except OverloadedError:
                # The vocabulary deployment is being replaced; a line is not refused for it.
                await self._sleep(_REPLACED_WAIT_S)
                return NotStartedError("The word lists cannot be reached now.")
            await self._engine.check(chat.body, in_list=chat.vocabulary is not None)
            async with self._semaphore.take(chat.decoding.num_sequences(chat.body), request.owner):
                if self._engine.is_dead():
                    await self._sleep(_REPLACED_WAIT_S)
                    return NotStartedError("The engine is being replaced.")
                answer = await self._answer(chat, vocabulary, Caller(request.owner, request.request_id))
                if isinstance(answer, ApiError) and answer.status >= 500 and self._engine.is_dead():
                    return EngineDiedError()
                return answer
        except Exception as exception:
            error = to_api_error(exception, request.request_id, list_param)
            if isinstance(error, InternalError):
                logger.exception("line %s failed", request.request_id)
            return error

    async def _vocabulary(self, chat: ChatRequest) -> ResolvedVocabulary | None:
        """Resolve a line's vocabulary and check that ``max_tokens`` suffices; None without one."""
        if chat.vocabulary is None:
            return None
        vocabulary = await self._resolve(chat.vocabulary)
        check_max_tokens(chat, vocabulary)
        return vocabulary

    async def _resolve(self, spec: VocabularySpec) -> ResolvedVocabulary:
        """Resolve a vocabulary once for the many lines in a row that share it; cached for seconds."""

        async def ask() -> tuple[ResolvedVocabulary, float]:
            return await self._engine.resolve(spec), self._clock()

        async def is_fresh(known: tuple[ResolvedVocabulary, float]) -> bool:
            return 0 <= self._clock() - known[1] < _RESOLVED_FOR_S

        resolved, _ = await self._resolved.get(spec, ask, is_fresh)
        return resolved

    async def _answer(self, chat: ChatRequest, vocabulary: ResolvedVocabulary | None, caller: Caller) -> LineAnswer:
        """Return the engine's whole answer to a line, or its error."""
        request = TextRequest(chat.body, vocabulary, chat.decoding, caller)
        async with aclosing(self._engine.answer(request)) as items:
            async for item in items:
                return item if isinstance(item, dict) else error_of(item, caller.request_id)
        return InternalError(caller.request_id)
