"""Finds excluded words in a text, byte by byte, without knowing how the text is read.

Where no entry of the list has an excluded form between two joints (``vocab.exclusion.joints``) inside of itself
(``disturbs``), such a form can only be the excluded word, in every reading of the text. So one small automaton of the
forms, which starts over at each joint, finds all of them. It knows neither the list's other words nor tokens.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import numpy as np

from vocab.arrays.byte_trie import Int32Array, Uint8Array
from vocab.arrays.kernels import kernel, position_of
from vocab.exclusion.joints import Joints

OUTSIDE: Final = 0
"""The state in which no excluded word has begun: inside another word, or where none may begin."""

AT_START: Final = 1
"""The state in which a word may begin."""

FOUND: Final = 1 << 30
"""Set in a step's result when an excluded word has been found on the way."""

_LINE_BREAK: Final = 10


class Watch(NamedTuple):
    """The automaton as arrays, which compiled code can take.

    Attributes:
        step_start: int32 (states + 1,), where a state's own steps begin in the next two.
        step_bytes: uint8, ascending within a state.
        step_results: int32, the next state, with ``FOUND`` where an excluded word has ended for certain.
        other_steps: int32 (256,), the next state by all other bytes.
        has_word: uint8 (states,), 1 where the text ends in an excluded word, if the text or a joint ends it.
        has_word_before: uint8 (states,), 1 where an excluded word is followed by the first bytes of a joint.
        without_word: int32 (states,), the state that is the same but for what it knows of words.
    """

    step_start: Int32Array
    step_bytes: Uint8Array
    step_results: Int32Array
    other_steps: Int32Array
    has_word: Uint8Array
    has_word_before: Uint8Array
    without_word: Int32Array


class _State(NamedTuple):
    """Where a text stands: the form begun, as a node of their trie; the first bytes of a joint that may end here or
    begin the next word; the first bytes of joints since a form ended."""

    node: int
    before: bytes = b""
    behind: tuple[bytes, ...] = ()


_NO_NODE: Final = -1
_ROOT: Final = 0
_LAST: Final = 1


@dataclass
class _Builder:
    """Finds the states and their steps, beginning with ``OUTSIDE`` and ``AT_START``."""

    joints: Joints
    children: list[dict[int, int]] = field(default_factory=lambda: [{}, {}])
    ends: set[int] = field(default_factory=lambda: {_LAST})
    states: dict[_State, int] = field(default_factory=lambda: {_State(_NO_NODE): OUTSIDE, _State(_ROOT): AT_START})

    def __post_init__(self) -> None:
        self._before_begun = _beginnings(self.joints.before)
        self._behind_begun = _beginnings(self.joints.behind)
        self._before_next = _next_bytes(self.joints.before)
        self._behind_next = _next_bytes(self.joints.behind)

    def add(self, form: bytes) -> None:
        node = _ROOT
        for byte in form:
            if byte not in self.children[node]:
                self.children[node][byte] = len(self.children)
                self.children.append({})
            node = self.children[node][byte]
        self.ends.add(node)

    def _node_at(self, node: int, byte: int) -> int:
        """The node behind another one. The last letters of all forms share one: what may follow is the same."""
        onward = self.children[node].get(byte, _NO_NODE) if node != _NO_NODE else _NO_NODE
        return onward if onward == _NO_NODE or self.children[onward] else _LAST

    def build(self) -> Watch:
        outside = _State(_NO_NODE)
        other_steps = np.fromiter((self._step(outside, byte)[0] for byte in range(256)), dtype=np.int32)
        counts, step_bytes, results = [], [], []
        todo = 0
        while todo < len(self.states):
            for state in [*self.states][todo:]:
                todo += 1
                own = sorted(self._own_bytes(state))
                counts.append(len(own))
                step_bytes += own
                for byte in own:
                    target, found = self._step(state, byte)
                    results.append(target | FOUND * found)
        return Watch(
            np.concatenate([[0], np.cumsum(counts)]).astype(np.int32),
            np.asarray(step_bytes, dtype=np.uint8),
            np.asarray(results, dtype=np.int32),
            other_steps,
            np.fromiter((state.node in self.ends for state in self.states), dtype=np.uint8),
            np.fromiter((len(state.behind) > 0 for state in self.states), dtype=np.uint8),
            np.fromiter((self.states[_State(_NO_NODE, state.before)] for state in [*self.states]), dtype=np.int32),
        )

    def _own_bytes(self, state: _State) -> Iterator[int]:
        """The bytes by which a state goes elsewhere than one outside all words does."""
        own = set(self.children[state.node] if state.node != _NO_NODE else ())
        own |= self._before_next.get(state.before, set())
        for begun in self._behind_of(state):
            own |= self._behind_next[begun]
        return iter(own)

    def _behind_of(self, state: _State) -> tuple[bytes, ...]:
        return (*state.behind, b"") if state.node in self.ends else state.behind

    def _step(self, state: _State, byte: int) -> tuple[int, bool]:
        last = bytes([byte])
        behind = [begun + last for begun in self._behind_of(state)]
        found = any(joint in self.joints.behind for joint in behind)
        node = self._node_at(state.node, byte)
        # A longer beginning first; where it fails the byte may begin a character anew.
        for before in (state.before + last, last):
            if before in self.joints.before:
                return AT_START, found
            if before in self._before_begun:
                break
        else:
            before = b""
        reached = _State(node, before, tuple(begun for begun in behind if begun in self._behind_begun))
        for needed in (_State(_NO_NODE, before), reached):
            self.states.setdefault(needed, len(self.states))
        return self.states[reached], found


def _beginnings(joints: Iterable[bytes]) -> set[bytes]:
    return {joint[:length] for joint in joints for length in range(1, len(joint))}


def _next_bytes(joints: Iterable[bytes]) -> dict[bytes, set[int]]:
    following: dict[bytes, set[int]] = {}
    for joint in joints:
        for length in range(len(joint)):
            following.setdefault(joint[:length], set()).add(joint[length])
    return following


def build_watch(forms: Iterable[str], joints: Joints) -> Watch:
    """The automaton that finds these forms."""
    builder = _Builder(joints)
    for form in forms:
        builder.add(form.encode())
    return builder.build()


@kernel
def step(
    step_start: Int32Array,
    step_bytes: Uint8Array,
    step_results: Int32Array,
    other_steps: Int32Array,
    state: int,
    byte: int,
) -> int:
    """The next state, with ``FOUND`` where an excluded word has ended for certain.

    It takes the arrays one by one: handing a ``Watch`` on costs more than the step.
    """
    place = position_of(step_bytes, step_start[state], step_start[state + 1], byte)
    result: int = step_results[place] if place >= 0 else other_steps[byte]
    return result


@kernel
def find_entries(watch: Watch, spelled: Uint8Array, found: Int32Array) -> int:
    """Looks through entries, joined by line breaks, for excluded words.

    Args:
        watch: The automaton.
        spelled: uint8, the entries.
        found: int32, receives where the entries begin that are written like an excluded word, or hold one between
            joints.

    Returns:
        How many those are; more than ``found`` holds are not counted.
    """
    step_start, step_bytes, step_results, other_steps, has_word, _, _ = watch
    num_found, begin, state, has_found = 0, 0, AT_START, False
    for place in range(len(spelled) + 1):
        if place < len(spelled) and spelled[place] != _LINE_BREAK:
            result = step(step_start, step_bytes, step_results, other_steps, state, spelled[place])
            state = result & ~FOUND
            has_found |= result != state
            continue
        if has_found or has_word[state]:
            if num_found == len(found):
                break
            found[num_found] = begin
            num_found += 1
        begin, state, has_found = place + 1, AT_START, False
    return num_found


def disturbs(watch: Watch, spelled: Uint8Array, entries: frozenset[str]) -> bool:
    """Whether an entry besides ``entries`` is written like an excluded word, or holds one between joints.

    Args:
        watch: The automaton.
        spelled: uint8, all entries of the list, joined by line breaks.
        entries: The excluded ones.
    """
    found = np.empty(len(entries) + 1, dtype=np.int32)
    num_found = find_entries(watch, spelled, found)
    text = spelled.tobytes()
    return any(_entry_at(text, begin) not in entries for begin in found[:num_found].tolist())


def _entry_at(text: bytes, begin: int) -> str:
    end = text.find(b"\n", begin)
    return text[begin : len(text) if end < 0 else end].decode()
