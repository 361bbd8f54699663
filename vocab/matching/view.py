"""A view of a list: the words that may come next at one state of a controlled text, as a mask and as steps.

It has the states of whole lists, and the paths to single words.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from vocab.arrays.byte_trie import Int32Array
from vocab.matching.mask_kernels import NO_BUDGET, set_token_bits
from vocab.matching.paths import Paths
from vocab.matching.states import MAX_READINGS, NO_TOKENS, NODE, ListStates, State


@dataclass(frozen=True, slots=True)
class View:
    """The words that may come next.

    Attributes:
        listed: The states of the list itself.
        inside: Those by which the open word goes on.
        begin: Those by which the next one begins.
        single_words: Words that may come too, each by itself.
        is_forced: Only single words may come.
    """

    listed: ListStates
    inside: ListStates
    begin: ListStates
    single_words: Paths | None = None
    is_forced: bool = False

    def fill(self, out: Int32Array, readings: State, budget: int) -> None:
        """Write the mask after these readings: of single words alone where it is forced, else of lists too."""
        if self.is_forced:
            out[:] = 0
            for reading in readings:
                self._force(out, reading, budget)
            return
        self.begin.fill(out, readings, budget, NO_TOKENS, self.inside)
        if self.single_words is not None:
            for reading in readings:
                self._allow_single_words(out, reading, budget)

    def target(self, readings: State, token: int, budget: int) -> State:
        """Return the readings that a token leads to; empty where it is not allowed."""
        found: set[int] = set()
        if not self.is_forced:
            # A new word only where no listed one can be read.
            if self.inside is not self.listed:
                found.update(replace(self, inside=self.listed).target(readings, token, budget))
            found.update(found or self.begin.target(readings, token, budget, self.inside))
        for reading in readings if self.single_words is not None else ():
            gap = self.gap_after(reading)
            nodes: list[tuple[int, int]] = []
            if reading >= 0:
                nodes += self._single_words_in(reading >> 32, reading & NODE, budget)
                if gap is not None and not self.is_forced and self.inside.frame_state(reading) < 0:
                    found.update(self.begin.target((gap,), token, budget))
            if gap is not None:
                nodes += self._single_words_begun(gap, budget)
            if self.is_forced and not nodes and reading >= 0 and gap is None:
                found.update(self.inside.target((reading,), token, budget))
            found.update(one for by, one in nodes if by == token)
        return tuple(sorted(found)[:MAX_READINGS])

    def gap_after(self, reading: int) -> int | None:
        """Return the reading between words: itself, or the one after its word where that may end; else None."""
        if reading < 0:
            return reading
        context, node = reading >> 32, reading & NODE
        is_end = self.inside.frame_state(reading) >= 0
        if not is_end and self.single_words is not None:
            is_end = node in self.single_words[context].ends
        return -1 - int(self.listed.frame.after[context, self.listed.kind(node)]) if is_end else None

    def _force(self, out: Int32Array, reading: int, budget: int) -> None:
        """Allow only the words asked for in a mask, after or within a word; any other word ends as it may."""
        context, node = reading >> 32, reading & NODE
        gap = self.gap_after(reading)
        tokens = list(self._single_words_in(context, node, budget)) if reading >= 0 else []
        if gap is not None:
            tokens += self._single_words_begun(gap, budget)
        if tokens:
            set_token_bits(out, np.asarray([token for token, _ in tokens], dtype=np.int32), True)
        elif reading >= 0 and gap is None:
            one = np.zeros_like(out)
            self.inside.fill(one, (reading,), budget)
            out |= one

    def _allow_single_words(self, out: Int32Array, reading: int, budget: int) -> None:
        """Allow the single words in a mask, and what may follow them, from one reading."""
        gap = self.gap_after(reading)
        tokens: list[tuple[int, int]] = []
        if reading >= 0:
            tokens += self._single_words_in(reading >> 32, reading & NODE, budget)
            if gap is not None and self.inside.frame_state(reading) < 0:
                one = np.zeros_like(out)
                self.begin.fill(one, (gap,), budget)
                out |= one
        if gap is not None:
            tokens += self._single_words_begun(gap, budget)
        if tokens:
            set_token_bits(out, np.asarray([token for token, _ in tokens], dtype=np.int32), True)

    def _single_words_in(self, context: int, node: int, budget: int) -> Iterator[tuple[int, int]]:
        """Yield the tokens that go on with a single word, each with the reading after it."""
        if self.single_words is None:
            return
        paths = self.single_words[context]
        for token, child in paths.children.get(node, ()):
            if self._is_within(paths.to_end[child], budget):
                yield token, context << 32 | child

    def _single_words_begun(self, gap: int, budget: int) -> Iterator[tuple[int, int]]:
        """Yield the tokens that begin a single word, each with the reading after it."""
        if self.single_words is None:
            return
        for node, context in self.begin.ways(gap):
            yield from self._single_words_in(context, node, budget)

    def _is_within(self, num_tokens: int, budget: int) -> bool:
        """Return whether so many tokens and the longest end of a text fit into a budget."""
        return budget == NO_BUDGET or num_tokens + self.listed.longest_end <= budget
