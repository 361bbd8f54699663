"""The answers of the word tools."""

import asyncio
import math
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from dataclasses import replace
from typing import Any, Final, TypeAlias

from deployments.contract import AUTO_ADAPTER, Answer, Tool, WordToolRequest, usage
from deployments.errors import EngineError
from deployments.replica.answers.gate import to_engine_error
from deployments.replica.answers.rows import RowAnswerer
from deployments.replica.engine import engine
from deployments.replica.engine.loaded_adapters import LoadedAdapters, name_of
from deployments.replica.engine.node_lists import NodeLists
from deployments.replica.word_tools.chats import Chat, Chats, Names, Resolve
from deployments.replica.word_tools.exercises import ExerciseWriter
from deployments.replica.word_tools.next_words import NextWordFinder
from deployments.replica.word_tools.rewrite import Rewriter
from deployments.replica.word_tools.swap import Swap, Swapper, check_segment
from deployments.settings.service import Settings
from vocab.automaton.tokenizer import TokenizerFacts
from vocab.matching.engine_cache import EngineCache

_END_OF_STREAM: Final = "data: [DONE]\n\n"

Write: TypeAlias = Callable[[WordToolRequest, int], AsyncGenerator[dict[str, Any], None]]
"""A word tool: it yields the parts of a stream, if it has any, and then the answer, which has a ``usage``."""


class WordTools:
    """Answers requests for next words, swaps, rewriting and exercises with the engine of ``rows``.

    ``facts`` are those of its tokenizer.
    """

    def __init__(
        self,
        settings: Settings,
        lists: NodeLists,
        states: EngineCache,
        facts: TokenizerFacts,
        rows: RowAnswerer,
        chat: Chat,
        resolve: Resolve,
        adapters: LoadedAdapters,
    ) -> None:
        self._settings = settings
        self._adapters = adapters
        self._lists = lists
        self._finder = NextWordFinder(settings, lists, states, facts, rows)
        self._swapper = Swapper(lists, self._finder, rows)
        chats, names = Chats(chat), Names(lists, settings.limits, resolve)
        self._tools: Mapping[Tool, Write] = {
            "next": self._next,
            "swap": self._swap,
            "rewrite": Rewriter(settings, lists, self._finder, self._swapper, rows, chats, names).rewrite,
            "exercises": ExerciseWriter(settings, lists, self._swapper, chats, names, resolve).write,
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
            async with aclosing(self._tools[request.tool](request, width)) as parts:
                async for part in parts:
                    if "usage" in part:
                        result = {"object": f"vocabulary.{request.tool}", "model": name, **part}
                        yield engine.write_event(result) if body.get("stream") else result
                    elif body.get("stream"):
                        yield engine.write_event(part)
            if body.get("stream"):
                yield _END_OF_STREAM
        except Exception as error:
            yield to_engine_error(error, caller.request_id)

    def _check(self) -> None:
        if self._settings.mask_engine == "xgrammar":
            raise EngineError(
                400, "The word tools are not available here, for this service's mask engine is xgrammar.", param="vocab"
            )

    async def _next(self, request: WordToolRequest, width: int) -> AsyncGenerator[dict[str, Any], None]:
        """Find the likeliest next words after a text."""
        body, vocabulary, caller = request.body, request.vocabulary, request.caller
        found = await self._finder.find(body["text"], vocabulary, caller, top=body["top"], width=width)
        yield {
            "data": [
                {"word": word.text, "logprob": word.log_p, "probability": math.exp(word.log_p), "rank": rank}
                for rank, word in enumerate(found.words, start=1)
            ],
            "remainder": max(1 - math.fsum(math.exp(word.log_p) for word in found.words), 0.0),
            "vocab": {**(await self._lists.get(vocabulary)).block, "adapter": name_of(caller.adapter)},
            "usage": usage(len(found.tokens), found.num_rows),
        }

    async def _swap(self, request: WordToolRequest, width: int) -> AsyncGenerator[dict[str, Any], None]:
        """Rank other words for one of a text."""
        body, vocabulary, caller = request.body, request.vocabulary, request.caller
        listed = await self._lists.get(vocabulary)
        await asyncio.to_thread(check_segment, body["text"], body["start"], body["end"], listed)
        swap = Swap.of(body["text"], body["start"], body["end"])
        ranked = await self._swapper.rank(swap, vocabulary, caller, width)
        before, after = swap.sentence
        yield {
            "word": swap.word,
            "logprob": ranked.own,
            "data": [
                {"word": word, "text": before + word + after, "logprob": score, "rank": rank}
                for rank, (word, score) in enumerate(ranked.words[: body["top"]], start=1)
            ],
            "vocab": {**listed.block, "adapter": name_of(caller.adapter)},
            "usage": usage(ranked.num_tokens, 0),
        }
