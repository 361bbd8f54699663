"""A list and a request's extra words as one state space: two automata that meet between words.

Each is compiled alone, with the same gap states (``vocab.text.gaps``). A text is in a set of states of the two; where
one of them is in a gap state the other enters it too, so listed and extra words may follow each other.

Every state of a set has read the whole text, so no text is allowed that listed and extra words do not spell. The
converse holds except for tokens with parts of two words, one of each side, which neither automaton accepts. The
tokenizers of SmolLM2 and Gemma 3 have no token with letters on both sides of a gap or an apostrophe; seven of
SmolLM2's begin with an apostrophe ("'s"), which matters only between an elision of one side and a word of the other,
and shorter tokens spell that as well. Neither side can finish a text in the words of the other: elisions that no word
of their own side may follow are not allowed, and near the end of a budget each side plans with its own words only.
"""

from collections.abc import Iterable
from functools import lru_cache
from typing import Final
from weakref import proxy

import numpy as np

from vocab.arrays.byte_trie import Int32Array
from vocab.arrays.kernels import kernel
from vocab.matching.masks import NO_BUDGET, NO_TOKENS, set_token_bits
from vocab.matching.states import ListStates

_CACHED_SETS: Final = 4096
"""Some hundred bytes each."""

_BYTES_OF_SET: Final = 512

_CACHED_PATCHES: Final = 256
"""Patches of extra words take some kilobytes each; that of a list's gap state takes twice a row."""

_Members = tuple[int, ...]
"""States, ascending: those of the list, then those of the extra words, offset by the number of the former."""

_Patch = tuple[Int32Array, Int32Array]
"""Indices of words of a mask and the bits to add there; int32."""


class UnionStates:
    """The states of a list and of extra words together. Thread-safe, with a bounded cache.

    A set of states is one integer with its members as digits: nothing is kept of past states, and integers mean the
    same in every process.

    Args:
        listed: The list's states.
        extra: Those of the extra words, compiled with the same options (but the case) and tokenizer.

    Raises:
        ValueError: The two were compiled with other options or for other tokenizers.
    """

    def __init__(self, listed: ListStates, extra: ListStates) -> None:
        self._listed, self._extra = listed, extra
        self._gaps = (listed.automaton.gap_states.tolist(), extra.automaton.gap_states.tolist())
        if len(self._gaps[0]) != len(self._gaps[1]):
            raise ValueError("the extra words were compiled with other options than the list")
        if listed.automaton.tokenizer_digest != extra.automaton.tokenizer_digest:
            raise ValueError("the extra words were compiled for another tokenizer than the list")
        self._num_listed = len(listed.automaton.edges.links)
        # Digits begin at 1, so that sets of different sizes differ.
        self._base = self._num_listed + len(extra.automaton.edges.links) + 1
        self._longest_distance = max(listed.automaton.longest_distance, extra.automaton.longest_distance)
        self._place_index = tuple({state: place for place, state in enumerate(gaps)} for gaps in self._gaps)
        # The caches belong to the object and go with it at once, and with it the mapped files: there is no cycle.
        own = proxy(self)
        self._members_of = lru_cache(_CACHED_SETS)(lambda state: own._decode(state))
        self._set_of = lru_cache(_CACHED_SETS)(lambda members: own._close(members))
        self._patch_of = lru_cache(_CACHED_PATCHES)(lambda members, budget: own._make_patch(members, budget))
        self._largest_patch = 0
        self.start: int = self._set_of((listed.start, self._num_listed + extra.start))

    @property
    def num_bytes(self) -> int:
        """Upper bound of the bytes of its cache."""
        num_sets = self._members_of.cache_info().currsize + self._set_of.cache_info().currsize
        return _BYTES_OF_SET * num_sets + self._patch_of.cache_info().currsize * self._largest_patch

    def fill(self, out: Int32Array, state: int, budget: int, stops: Int32Array = NO_TOKENS) -> None:
        if budget >= self._longest_distance:
            budget = NO_BUDGET
        # The list's place between words comes first where there is one: its row is copied, not patched in.
        first, *rest = self._members_of(state)
        self._fill_member(out, first, budget)
        if rest:
            words, bits = self._patch_of(tuple(rest), budget)
            _add_words(out, words, bits)
        set_token_bits(out, stops, self.can_stop(state))

    def target(self, state: int, token: int, budget: int) -> int:
        reached = []
        for member in self._members_of(state):
            if member < self._num_listed:
                target = self._listed.target(member, token, budget)
            else:
                target = self._extra.target(member - self._num_listed, token, budget)
                if target >= 0:
                    target += self._num_listed
            if target >= 0:
                reached.append(target)
        return self._set_of(tuple(reached)) if reached else -1

    def can_stop(self, state: int) -> bool:
        return any(
            self._listed.can_stop(member)
            if member < self._num_listed
            else self._extra.can_stop(member - self._num_listed)
            for member in self._members_of(state)
        )

    def fewest_tokens(self) -> int | None:
        fewest = [tokens for side in (self._listed, self._extra) if (tokens := side.fewest_tokens()) is not None]
        return min(fewest, default=None)

    def _close(self, members: _Members) -> int:
        """Add the other side's gap states to these states, and return the set as an integer."""
        here: tuple[set[int], set[int]] = (set(), set())
        for member in members:
            side = member >= self._num_listed
            here[side].update(self._places(side, member - self._num_listed * side))
        closed = set(members)
        closed.update(self._gaps[0][place] for place in here[1] - here[0])
        closed.update(self._gaps[1][place] + self._num_listed for place in here[0] - here[1])
        value = 0
        for member in sorted(closed, reverse=True):
            value = value * self._base + member + 1
        return value

    def _decode(self, state: int) -> _Members:
        members = []
        while state:
            state, digit = divmod(state, self._base)
            members.append(digit - 1)
        return tuple(members)

    def _places(self, side: int, state: int) -> Iterable[int]:
        """Return the indices of the gap states that a text in this state of one side is also in."""
        states = self._extra if side else self._listed
        automaton, index = states.automaton, self._place_index[side]
        if state in index:
            return (index[state],)
        row = int(np.searchsorted(automaton.crowded_states, state))
        if row < len(automaton.crowded_states) and automaton.crowded_states[row] == state:
            own = slice(automaton.place_start[row], automaton.place_start[row + 1])
            here: list[int] = automaton.places[own][automaton.place_ranks[own] <= states.n_words].tolist()
            return here
        link = int(automaton.edges.links[state])
        return (index[link],) if link in index and automaton.edges.link_ranks[state] <= states.n_words else ()

    def _fill_member(self, out: Int32Array, member: int, budget: int) -> None:
        if member < self._num_listed:
            self._listed.fill(out, member, budget)
        else:
            self._extra.fill(out, member - self._num_listed, budget)

    def _make_patch(self, members: _Members, budget: int) -> _Patch:
        """Return the nonzero words of the mask of some members together."""
        size = (self._listed.automaton.num_tokens + 31) // 32
        row, together = np.empty(size, dtype=np.int32), np.zeros(size, dtype=np.int32)
        for member in members:
            self._fill_member(row, member, budget)
            together |= row
        words = np.flatnonzero(together).astype(np.int32)
        self._largest_patch = max(self._largest_patch, 2 * words.nbytes)
        return words, together[words]


@kernel
def _add_words(out: Int32Array, words: Int32Array, bits: Int32Array) -> None:
    for i in range(len(words)):
        out[words[i]] |= bits[i]
