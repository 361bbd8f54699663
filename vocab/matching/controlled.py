"""The states of a text that an author controls: which words may come next, by what was written so far.

A state is one of the list's states after a few counts (``Progress``), in one tuple, so that it is followed, cached and
sent like any other. What an author asks never leaves a text without an end: where it would empty a mask, it is
loosened. What texts with and without spaces share is here; how the next word is held to limits is
``vocab.matching.word_controls`` and ``vocab.matching.segmented.controlled``.
"""

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
from typing_extensions import override

from vocab.arrays.kernels import Int32Array
from vocab.matching.controls import REST_WORDS, Controls, Progress
from vocab.matching.pace import Pace
from vocab.matching.text_states import State, TextStates


class ControlledStates(TextStates):
    """The states of a list under the controls of one request; not thread-safe.

    Args:
        states: Those of the list.
        controls: What the author asks.
        costs: Of each required word, how many tokens it takes at most.
    """

    def __init__(self, states: Any, controls: Controls, costs: Sequence[int]) -> None:
        self._states, self._controls = states, controls
        self.words = states.words
        self._all_used = tuple(one.count for one in controls.must_use)
        num_wanted, spacing = len(controls.must_use), controls.new_words.spacing if controls.new_words else 0
        self._first = Progress(spacing, 0, 0, (0,) * num_wanted, (REST_WORDS,) * num_wanted)
        self._header = 4 + 2 * num_wanted
        self._pace = Pace(controls, costs, states.longest_end)
        self._scratch = np.zeros((states.words.num_tokens + 31) // 32, dtype=np.int32)

    @property
    @override
    def start(self) -> State:
        return self._first.pack(self._states.start)

    @override
    def begin(self, place: int | None) -> State:
        # A sentence begun in what a client wrote counts.
        readings = self._states.begin(place)
        return self._first._replace(num_sentences=int(not self._states.starts_sentence(readings))).pack(readings)

    @override
    def begin_after(self, num_tokens: int) -> None:
        self._pace.begin_after(num_tokens)

    def progress(self, state: State) -> Progress:
        """Return what the controls count of a text in this state, its last word as if it ended here."""
        return self._after_word(*self._unpack(state))

    @override
    def num_missing(self, state: State) -> int:
        return sum(self._missing(self.progress(state)))

    @override
    def readings(self, state: State) -> State:
        return self._unpack(state)[1]

    @override
    def can_stop(self, state: State) -> bool:
        return self._is_complete(*self._unpack(state))

    @override
    def may_stop(self, state: State) -> bool:
        progress, readings = self._unpack(state)
        return self._may_stop(self._after_word(progress, readings)) and self._is_complete(progress, readings)

    @override
    def is_in_word(self, state: State) -> bool:
        return bool(self._states.is_in_word(self.readings(state)))

    @override
    def continues_word(self, state: State, token: int, target: State) -> bool:
        return bool(self._states.continues_word(self.readings(state), token, self.readings(target)))

    @override
    def ends_word(self, state: State) -> bool:
        return bool(self._states.ends_word(self.readings(state)))

    @override
    def keep_whole_words(self, out: Int32Array, state: State, stops: Int32Array) -> None:
        self._states.keep_whole_words(out, self.readings(state), stops)

    @override
    def tokens_to_end(self, state: State) -> int | None:
        found: int | None = self._states.tokens_to_end(self.readings(state))
        return found

    @override
    def check(self, state: State) -> None:
        if not state:
            return
        length = state[0]
        if not self._header <= length < len(state) or min(state[:length]) < 0:
            raise ValueError("this is no state of a text with these controls")
        self._states.check(state[length:])

    def _unpack(self, state: State) -> tuple[Progress, State]:
        return Progress.unpack(state, len(self._all_used))

    def _missing(self, progress: Progress) -> list[int]:
        """Return, by required word, how often it must still come."""
        return [max(count - used, 0) for count, used in zip(self._all_used, progress.used, strict=True)]

    def _may_stop(self, progress: Progress) -> bool:
        """Return whether the controls let a text end: sentences enough, and no required word missing."""
        return progress.num_sentences >= self._controls.min_sentences and not any(self._missing(progress))

    @abstractmethod
    def _is_complete(self, progress: Progress, readings: State) -> bool:
        """Return whether a text is complete, whatever is still asked of it; its last word may be a new one."""

    @abstractmethod
    def _after_word(self, progress: Progress, readings: State) -> Progress:
        """Return the progress if what is open ends here; as it is where that is not whole."""
