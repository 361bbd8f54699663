"""Answer one line of a batch in a replica: check it again, hold it back until the share of batches has room, answer it
whole.

Never raises and never tries again: the batch decides what becomes of a line.
"""

import asyncio
import logging
from contextlib import aclosing
from typing import Final

from ray.serve.llm.deployment import LLMServer

from deployments.contract import (
    Caller,
    LineAnswer,
    LineRequest,
    ResolvedVocabulary,
    TextRequest,
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
from deployments.replica.answers.chat_answerer import ChatAnswerer
from deployments.replica.engine import configuration, engine
from deployments.replica.engine.structures import Structures
from deployments.settings.keys import NO_OWNER
from deployments.settings.service import Settings
from deployments.vocabulary.client import VocabularyClient

logger = logging.getLogger("ray.serve")

_REPLACED_WAIT_S: Final = 2.0
"""Serve needs some seconds to replace what is dead, an engine or the vocabulary deployment, and all lines of a batch
would fail meanwhile."""


class BatchLineAnswerer:
    """Answer lines of batches as chats of ``server``, in at most ``num_sequences`` of its engine's sequences."""

    def __init__(
        self,
        server: LLMServer,
        settings: Settings,
        chats: ChatAnswerer,
        structures: Structures,
        vocabularies: VocabularyClient,
        num_sequences: int,
    ) -> None:
        self._server = server
        self._reader = ChatRequestReader.of(settings)
        self._chats = chats
        self._structures = structures
        self._vocabularies = vocabularies
        self._semaphore = FairSemaphore(num_sequences)
        self._priority = configuration.priority_after_chats(settings)

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
            vocabulary = None
            try:
                if chat.vocabulary is not None:
                    vocabulary = await self._vocabularies.resolve(chat.vocabulary)
                    check_max_tokens(chat, vocabulary)
            except OverloadedError:
                # The vocabulary deployment is being replaced; a line is not refused for it.
                return await _not_started()
            # Lines are bounded where they are read, so that all are of one owner here.
            await self._structures.check(chat.body, NO_OWNER, in_list=vocabulary is not None)
            async with self._semaphore.take(chat.decoding.num_sequences(chat.body), request.owner):
                if engine.is_dead(self._server):
                    return await _not_started()
                answer = await self._answer(chat, vocabulary, Caller(request.owner, request.request_id))
                if isinstance(answer, ApiError) and answer.status >= 500 and engine.is_dead(self._server):
                    return EngineDiedError()
                return answer
        except Exception as exception:
            error = to_api_error(exception, request.request_id, list_param)
            if isinstance(error, InternalError):
                logger.exception("line %s failed", request.request_id)
            return error

    async def _answer(self, chat: ChatRequest, vocabulary: ResolvedVocabulary | None, caller: Caller) -> LineAnswer:
        request = TextRequest({**chat.body, "priority": self._priority}, vocabulary, chat.decoding, caller)
        async with aclosing(self._chats.answer(request)) as items:
            item = await anext(items, None)
            return item if isinstance(item, dict) else error_of(item, caller.request_id)


async def _not_started() -> LineAnswer:
    await asyncio.sleep(_REPLACED_WAIT_S)
    return NotStartedError("The engine or the word lists are being replaced.")
