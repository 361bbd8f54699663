"""The likeliest next words of a list after a text: a search (``vocab.decoding.next_words``) over the engine's rows."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from deployments.contract import Caller
from deployments.errors import EngineError, printable
from deployments.replica.answers.rows import RowAnswerer, Tokens
from deployments.replica.engine import engine
from deployments.replica.engine.node_lists import NodeList
from deployments.replica.plain_text import reader_after_text
from deployments.replica.word_tools.task import ToolTask
from deployments.settings.limits import MAX_NEXT_ROWS
from vocab.automaton.tokenizer import TokenizerFacts
from vocab.decoding.next_words import NextSegmentSearch, NextWord, NextWordSearch, WordTokens
from vocab.marks import BLANK, LINE_BREAK
from vocab.matching.engine_cache import EngineCache
from vocab.matching.segmented.states import SegmentedStates

_BEFORE_A_TEXT: Final = LINE_BREAK
"""What an empty text stands for: models have no row for nothing, and after a line break a text begins."""


class Found(NamedTuple):
    """Next words, the likeliest first, and how many rows were read."""

    words: Sequence[NextWord]
    num_rows: int


class NextWordFinder:
    """Finds the likeliest next words by the engine of ``rows``, whose tokenizer has these ``facts``."""

    def __init__(self, states: EngineCache, facts: TokenizerFacts, rows: RowAnswerer) -> None:
        self._states = states
        self._facts = facts
        self._rows = rows
        self._word_tokens: WordTokens | None = None

    async def find(self, text: str, task: ToolTask, *, top: int, is_whole: bool = False) -> Found:
        """Return the ``top`` likeliest words after a text; ``is_whole`` is whether its last word is known to be whole.

        The text and each row are counted as read: beginnings that rows share count once.

        Raises:
            EngineError: The text is too long, or breaks off inside a word; or the engine has no rows, or failed.
        """
        before = text.rstrip(BLANK)
        if not before:
            before, is_whole = _BEFORE_A_TEXT, True
        elif len(before) < len(text):
            is_whole = True
        reader = await asyncio.to_thread(reader_after_text, task.listed.reader, before, "text", is_whole=is_whole)
        [tokens] = await self.tokens([before], task.caller)
        search = await asyncio.to_thread(self._search, task.listed, reader.place, top)
        num_rows = 0
        while prefixes := search.prefixes(task.width):
            prompts = [[*tokens, *prefix] for prefix in prefixes]
            rows = await self._rows.rows(prompts, num_rows, task.caller, task.width)
            num_rows += len(rows)
            await asyncio.to_thread(_add, search, prefixes, rows)
        task.num_read += len(tokens) + num_rows
        return Found(search.words, num_rows)

    async def tokens(self, texts: Sequence[str], caller: Caller) -> list[Tokens]:
        """Tokenize texts as prompts of completions, and check their length.

        Raises:
            EngineError: One is too long.
        """
        try:
            read = await self._rows.read(texts, {}, caller)
        except EngineError as error:
            raise _of_text(error) from None
        longest = max(map(len, read)) + 1
        self._rows.check_length(longest, "text")
        if longest > self._rows.max_scored_tokens:
            raise engine.too_long(f"{self._rows.max_scored_tokens} tokens", "text")
        return read

    def _search(self, listed: NodeList, place: int | None, top: int) -> NextWordSearch | NextSegmentSearch:
        """Prepare a search for the ``top`` next words of a list, from the gap state ``place``."""
        states, most = self._states.states(replace(listed.reference(None), place=place)), MAX_NEXT_ROWS
        if isinstance(states, SegmentedStates):
            return NextSegmentSearch(states, place, top=top, max_rows=most)
        if self._word_tokens is None:
            # 0.2 s for 262,144 tokens, so not before it is asked for.
            self._word_tokens = WordTokens(self._facts.token_bytes)
        return NextWordSearch(states, listed.n_words, self._word_tokens, place, top=top, max_rows=most)


def _add(
    search: NextWordSearch | NextSegmentSearch, prefixes: Sequence[tuple[int, ...]], rows: Sequence[NDArray[np.float32]]
) -> None:
    for prefix, row in zip(prefixes, rows, strict=True):
        search.add(prefix, row)


def _of_text(error: EngineError) -> EngineError:
    """Return the refusal of a prompt as that of the field ``text``."""
    if error.param != "prompt":
        return error
    message = printable(error.message.replace("the prompt", "the text").replace("The prompt", "The text"))
    return EngineError(error.status, message.replace("'prompt'", "'text'"), param="text", code=error.code)
