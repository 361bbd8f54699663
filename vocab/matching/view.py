"""A view of a list: the words that may come next at one state of a controlled text, as a mask and as steps.

It has the states of whole lists, and the paths to single words.
"""

from dataclasses import dataclass, replace

import numpy as np

from vocab.arrays.kernels import Int32Array
from vocab.matching.mask_kernels import NO_BUDGET, set_token_bits
from vocab.matching.paths import Paths
from vocab.matching.states import MAX_READINGS, NODE, ListStates
from vocab.matching.text_states import NO_TOKENS, State


@dataclass(frozen=True, slots=True)
class View:
    """The words that may come next.

    Attributes:
        listed: The states of the list itself.
        open_word: Those by which the open word goes on.
        next_word: Those by which the next one begins.
        singles: Words that may come too, each by itself.
        is_forced: Only these may come.
    """

    listed: ListStates
    open_word: ListStates
    next_word: ListStates
    singles: tuple[Paths, ...] = ()
    is_forced: bool = False

    def fill(self, out: Int32Array, readings: State, budget: int) -> None:
        """Write the mask after these readings, as ``ListStates.fill``."""
        if self.is_forced:
            out[:] = 0
        else:
            self.next_word.fill(out, readings, budget, NO_TOKENS, self.open_word)
        for reading in readings if self.singles else ():
            gap = self.gap_after(reading)
            steps = self._single_steps(reading, gap, budget)
            set_token_bits(out, np.asarray([token for token, _ in steps], dtype=np.int32), True)
            if (besides := self._besides(reading, gap)) is not None:
                one, (states, at) = np.empty_like(out), besides
                states.fill(one, (at,), budget)
                out |= one

    def target(self, readings: State, token: int, budget: int) -> State:
        """Return the readings that a token leads to; empty where it is not allowed."""
        found: set[int] = set()
        if not self.is_forced:
            # A new word only where no listed one can be read.
            if self.open_word is not self.listed:
                found.update(replace(self, open_word=self.listed).target(readings, token, budget))
            found.update(found or self.next_word.target(readings, token, budget, self.open_word))
        for reading in readings if self.singles else ():
            gap = self.gap_after(reading)
            steps = self._single_steps(reading, gap, budget)
            found.update(target for by, target in steps if by == token)
            if (besides := self._besides(reading, gap)) is not None:
                states, at = besides
                found.update(states.target((at,), token, budget))
        return tuple(sorted(found)[:MAX_READINGS])

    def gap_after(self, reading: int) -> int | None:
        """Return the reading between words: itself, or the one after its word where that may end; else None."""
        if (gap := self.open_word.gap_after(reading)) is not None:
            return gap
        context, node = reading >> 32, reading & NODE
        if not any(node in paths[context].ends for paths in self.singles):
            return None
        return -1 - int(self.listed.frame.after[context, self.listed.kind(node)])

    def _single_steps(self, reading: int, gap: int | None, budget: int) -> list[tuple[int, int]]:
        """Return the tokens that go on with a single word or begin one, each with the reading after it."""
        nodes = [(reading & NODE, reading >> 32)] if reading >= 0 else []
        if gap is not None:
            nodes += self.next_word.ways(gap)
        most = None if budget == NO_BUDGET else budget - self.listed.longest_end
        return [
            (token, context << 32 | child)
            for node, context in nodes
            for paths in self.singles
            for token, child in paths[context].children.get(node, ())
            if most is None or paths[context].to_end[child] <= most
        ]

    def _besides(self, reading: int, gap: int | None) -> tuple[ListStates, int] | None:
        """Return whose tokens come besides single words, and after which reading: after one that ends as such alone."""
        if reading < 0 or gap is None or self.is_forced or self.open_word.gap_after(reading) is not None:
            return None
        return self.next_word, gap
