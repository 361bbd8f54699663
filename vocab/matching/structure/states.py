"""The states of a JSON answer whose strings are texts of a list: which tokens may come next, and where they lead.

A state is a set of *threads*, nearly always one, in one tuple of integers, so that it is followed, cached and sent like
that of a text. A thread stands outside the strings, at positions of the schema's graph, or within a string, at a state
of its text.
"""

from collections.abc import Iterator

import numpy as np
from typing_extensions import override

from vocab.arrays.kernels import Int32Array
from vocab.matching.mask_kernels import NO_BUDGET, set_token_bits
from vocab.matching.structure.needs import ENDLESS
from vocab.matching.structure.positions import (
    OUTSIDE,
    Positions,
    Thread,
    merge,
    pack_threads,
    read_frame,
    unpack,
    unpack_threads,
)
from vocab.matching.structure.rows import StringEnd, StructuredList
from vocab.matching.text_states import NO_TOKENS, State, TextStates


class StructuredStates(TextStates):
    """The states of one JSON answer; not thread-safe.

    A budget has room for the stop token too, so that an answer ends with it: clients take one that ends with its
    budget for one that was cut.
    """

    def __init__(self, of: StructuredList) -> None:
        self._of = of
        self.words = of.words
        self._strings = of.string_states()
        self._scratch = np.zeros(of.num_words, dtype=np.int32)

    @property
    @override
    def start(self) -> State:
        return pack_threads([Thread(OUTSIDE, self._of.start)])

    @override
    def begin(self, place: int | None) -> State:
        if place is not None:
            raise ValueError("no JSON answer begins after a text")
        return self.start

    @override
    def fill(self, out: Int32Array, state: State, budget: int, stops: Int32Array = NO_TOKENS) -> None:
        if budget == 0:
            out[:] = 0
            set_token_bits(out, stops, self.can_stop(state))
            return
        budget = _without_stop(budget)
        for index, thread in enumerate(unpack_threads(state)):
            mask = out if not index else np.empty_like(out)
            if thread.kind == OUTSIDE:
                self._fill_outside(mask, thread.positions, budget, stops)
            else:
                self._fill_string(mask, thread, budget)
            if index:
                out |= mask

    @override
    def target(self, state: State, token: int, budget: int) -> State:
        if budget == 0:
            return ()
        budget = _without_stop(budget)
        found: list[Thread] = []
        for thread in unpack_threads(state):
            found += self._after_token(thread, token, budget)
        return pack_threads(merge(found)) if found else ()

    @override
    def can_stop(self, state: State) -> bool:
        return any(
            thread.kind == OUTSIDE and self._of.outside(thread.positions).can_end for thread in unpack_threads(state)
        )

    @override
    def is_in_word(self, state: State) -> bool:
        return any(
            thread.kind != OUTSIDE and self._strings[thread.kind - 1].is_in_word(thread.readings)
            for thread in unpack_threads(state)
        )

    @override
    def ends_word(self, state: State) -> bool:
        return any(
            thread.kind != OUTSIDE and self._strings[thread.kind - 1].ends_word(thread.readings)
            for thread in unpack_threads(state)
        )

    @override
    def continues_word(self, state: State, token: int, target: State) -> bool:
        after = {thread[:2]: thread.readings for thread in unpack_threads(target)}
        return any(
            thread.kind != OUTSIDE
            and thread[:2] in after
            and self._strings[thread.kind - 1].continues_word(thread.readings, token, after[thread[:2]])
            for thread in unpack_threads(state)
        )

    @override
    def tokens_to_end(self, state: State) -> int | None:
        fewest = min(self._of.need_of(thread, self._strings) for thread in unpack_threads(state))
        return None if fewest >= ENDLESS else fewest + 1

    @override
    def check(self, state: State) -> None:
        if not state:
            return
        graph = self._of.graph
        try:
            threads = list(unpack_threads(state))
            positions = [position for thread in threads for position in unpack(thread.positions)]
            frames = [frame for position in positions for frame in position.stack]
            nodes = [position.node for position in positions] + [frame for frame in frames if frame >= 0]
            repeats = [read_frame(frame)[0] for frame in frames if frame < 0]
            is_known = (
                all(thread.kind <= len(self._strings) and thread.positions for thread in threads)
                and all(0 <= node < len(graph.nodes) for node in nodes)
                and all(repeat < len(graph.repeats) for repeat in repeats)
            )
        except (IndexError, ValueError):
            is_known = False
        if not is_known:
            raise ValueError("this is no state of an answer of this schema")
        for thread in threads:
            if thread.kind != OUTSIDE:
                self._strings[thread.kind - 1].check(thread.readings)

    def _fill_outside(self, out: Int32Array, positions: Positions, budget: int, stops: Int32Array) -> None:
        outside = self._of.outside(positions)
        out[:] = 0
        for kind, after in outside.openings:
            left = self._left(budget, self._of.string_end(after))
            if left is not None:
                self._strings[kind].fill(self._scratch, self._strings[kind].start, left)
                out[: self._of.num_words] |= self._scratch
        set_token_bits(out, outside.row.within(budget), True)
        if outside.can_end:
            set_token_bits(out, stops, True)

    def _fill_string(self, out: Int32Array, thread: Thread, budget: int) -> None:
        states, end = self._strings[thread.kind - 1], self._of.string_end(thread.positions)
        # Within an escape its second mark is text, and none that closes.
        closing = end.closing.within(budget) if states.can_stop(thread.readings) else NO_TOKENS
        left = self._left(budget, end)
        if left is not None:
            states.fill(out, thread.readings, left, closing)
        else:
            out[:] = 0
            set_token_bits(out, closing, True)
        if end.marked and (marks := self._closing_marks(thread)):
            set_token_bits(out, end.after_marks(marks).within(budget), True)

    def _closing_marks(self, thread: Thread) -> tuple[int, ...]:
        """Return the tokens of marks after which the string of a thread may be closed."""
        kind, states = thread.kind - 1, self._strings[thread.kind - 1]
        readings = states.readings(thread.readings)
        found = self._of.closing_marks(kind, readings[0])
        for one in readings[1:]:
            found = tuple(dict.fromkeys((*found, *self._of.closing_marks(kind, one))))
        if not self._of.kinds[kind].min_sentences:
            return found
        targets = ((marks, states.target(thread.readings, marks, NO_BUDGET)) for marks in found)
        return tuple(marks for marks, target in targets if target and states.may_stop(target))

    def _left(self, budget: int, end: StringEnd) -> int | None:
        """Return the budget of a string's text, its closing mark and what follows it aside; None where it has none."""
        if budget == NO_BUDGET:
            return NO_BUDGET
        left = budget - 1 - end.need
        return left if left >= 0 else None

    def _after_token(self, thread: Thread, token: int, budget: int) -> Iterator[Thread]:
        """Yield the threads that a token leads to."""
        if thread.kind == OUTSIDE:
            outside = self._of.outside(thread.positions)
            if outside.row.allows(token, budget):
                yield from outside.row.targets[token]
            for kind, positions in outside.openings:
                yield from self._within(Thread(1 + kind, positions, self._strings[kind].start), token, budget)
            return
        end = self._of.string_end(thread.positions)
        if end.closing.allows(token, budget) and self._may_close(thread, end, budget):
            yield from end.closing.targets[token]
        for marks, row in end.marked.items():
            if row.allows(token, budget) and marks in self._closing_marks(thread):
                yield from row.targets[token]
        yield from self._within(thread, token, budget)

    def _may_close(self, thread: Thread, end: StringEnd, budget: int) -> bool:
        """Return whether a string may be closed, as in its mask."""
        states = self._strings[thread.kind - 1]
        if states.may_stop(thread.readings):
            return True
        if not states.can_stop(thread.readings):
            return False
        self._scratch[:] = 0
        if (left := self._left(budget, end)) is not None:
            states.fill(self._scratch, thread.readings, left)
        return not self._scratch.any()

    def _within(self, thread: Thread, token: int, budget: int) -> Iterator[Thread]:
        """Yield the thread of a string that goes on with a token."""
        left = self._left(budget, self._of.string_end(thread.positions))
        states = self._strings[thread.kind - 1]
        if left is not None and (target := states.target(thread.readings, token, left)):
            yield Thread(thread.kind, thread.positions, target)


def _without_stop(budget: int) -> int:
    """Return a budget less the stop token."""
    return NO_BUDGET if budget == NO_BUDGET else budget - 1
