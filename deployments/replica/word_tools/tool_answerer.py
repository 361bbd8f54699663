"""The answers of the word tools."""

import asyncio
import math
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import aclosing
from dataclasses import replace
from typing import Any, TypeAlias

from deployments.contract import AUTO_ADAPTER, Answer, ResolvedVocabulary, Tool, VocabularySpec, WordToolRequest
from deployments.errors import EngineError
from deployments.replica.answers.gate import to_engine_error
from deployments.replica.answers.rows import RowAnswerer
from deployments.replica.engine import engine
from deployments.replica.engine.loaded_adapters import LoadedAdapters
from deployments.replica.engine.node_lists import NodeLists
from deployments.replica.word_tools.chats import Chat, Chats, names_to_add
from deployments.replica.word_tools.exercises import ExerciseWriter
from deployments.replica.word_tools.next_words import NextWordFinder
from deployments.replica.word_tools.rewrite import Rewriter
from deployments.replica.word_tools.swap import Swap, Swapper, check_segment
from deployments.replica.word_tools.task import ToolTask
from deployments.settings.service import Settings
from vocab.automaton.tokenizer import TokenizerFacts
from vocab.matching.engine_cache import EngineCache

Write: TypeAlias = Callable[[ToolTask], AsyncGenerator[dict[str, Any], None]]
"""A word tool: it yields the parts of a stream, if it has any, and then the answer, which has a ``usage``."""


class WordTools:
    """Answers requests for next words, swaps, rewriting and exercises with the engine of ``rows``.

    ``facts`` are those of its tokenizer; ``resolve`` finds a list for a key.
    """

    def __init__(
        self,
        settings: Settings,
        lists: NodeLists,
        states: EngineCache,
        facts: TokenizerFacts,
        rows: RowAnswerer,
        chat: Chat,
        resolve: Callable[[VocabularySpec, str], Awaitable[ResolvedVocabulary]],
        adapters: LoadedAdapters,
    ) -> None:
        self._settings = settings
        self._adapters = adapters
        self._lists = lists
        self._resolve = resolve
        self._finder = NextWordFinder(states, facts, rows)
        self._swapper = Swapper(self._finder, rows)
        chats = Chats(settings, chat)
        self._tools: Mapping[Tool, Write] = {
            "next": self._next,
            "swap": self._swap,
            "rewrite": Rewriter(self._finder, self._swapper, rows, chats).rewrite,
            "exercises": ExerciseWriter(self._swapper, chats, resolve).write,
        }

    async def answer(self, request: WordToolRequest, width: int) -> AsyncGenerator[Answer, None]:
        """Answer a request for a word tool: yield one dict, or events of a stream, or an error.

        ``width`` sequences at most are at once in the engine; an error is as ``ChatAnswerer.answer`` has it.
        """
        body, caller = request.body, request.caller
        name = body.get("model", self._settings.model_id)
        try:
            asked = body.get("adapter", AUTO_ADAPTER)
            adapter = await self._adapters.choose(name, asked, request.vocabulary)
            request = replace(request, caller=caller._replace(adapter=adapter))
            self._check()
            async with aclosing(self._tools[request.tool](await self._task(request, width))) as parts:
                async for part in parts:
                    if "usage" in part:
                        result = {"object": f"vocabulary.{request.tool}", "model": name, **part}
                        yield engine.write_event(result) if body.get("stream") else result
                    elif body.get("stream"):
                        yield engine.write_event(part)
            if body.get("stream"):
                yield engine.END_OF_STREAM
        except Exception as error:
            yield to_engine_error(error, caller.request_id)

    def _check(self) -> None:
        if self._settings.mask_engine == "xgrammar":
            raise EngineError(
                400, "The word tools are not available here, for this service's mask engine is xgrammar.", param="vocab"
            )

    async def _task(self, request: WordToolRequest, width: int) -> ToolTask:
        """Find a request's list, with the names of its text where it keeps them."""
        listed, names = await self._lists.get(request.vocabulary), list[str]()
        if request.body.get("keep_names"):
            names = await asyncio.to_thread(names_to_add, request.body["text"], request.spec, listed)
        if names:
            spec = request.spec.model_copy(update={"extra_words": (*request.spec.extra_words, *names)})
            request = replace(request, spec=spec, vocabulary=await self._resolve(spec, request.caller.owner))
            listed = await self._lists.get(request.vocabulary)
        return ToolTask(request, listed, width, names)

    async def _next(self, task: ToolTask) -> AsyncGenerator[dict[str, Any], None]:
        """Find the likeliest next words after a text."""
        found = await self._finder.find(task.body["text"], task, top=task.body["top"])
        # Each row is a token drawn.
        task.num_read, task.num_drawn = task.num_read - found.num_rows, found.num_rows
        yield {
            "data": [
                {"word": word.text, "logprob": word.log_p, "probability": math.exp(word.log_p), "rank": rank}
                for rank, word in enumerate(found.words, start=1)
            ],
            "remainder": max(1 - math.fsum(math.exp(word.log_p) for word in found.words), 0.0),
            **task.report(),
        }

    async def _swap(self, task: ToolTask) -> AsyncGenerator[dict[str, Any], None]:
        """Rank other words for one of a text."""
        text, start, end = task.body["text"], task.body["start"], task.body["end"]
        await asyncio.to_thread(check_segment, text, start, end, task.listed)
        swap = Swap.of(text, start, end)
        own, ranked = await self._swapper.rank(swap, task)
        before, after = swap.sentence
        yield {
            "word": swap.word,
            "logprob": own,
            "data": [
                {"word": word, "text": before + word + after, "logprob": score, "rank": rank}
                for rank, (word, score) in enumerate(ranked[: task.body["top"]], start=1)
            ],
            **task.report(),
        }
