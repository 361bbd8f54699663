"""Gives each set of readings its state: the same set the same state, a new set a new one.

Nearly all sets are one node with nothing owed, and these are looked up by the node; the others are hashed.
"""

from typing import Final, TypeVar

import numpy as np
import numpy.typing as npt

from vocab.arrays.byte_trie import Int32Array
from vocab.arrays.kernels import kernel

_FEWEST_SLOTS: Final = 256
Integer = TypeVar("Integer", np.int32, np.uint8)


class InternedSets:
    """The sets of readings known so far, one state each.

    Args:
        num_nodes: How many nodes the text automaton has.
        hubs: int32, the nodes whose states come first, with nothing owed.

    Attributes:
        num_states: How many sets are known.
        start: int32 (> num_states,), where a state's readings begin in the next two.
        nodes: int32, ascending within a state.
        owed: int32.
    """

    def __init__(self, num_nodes: int, hubs: Int32Array) -> None:
        self.num_states = len(hubs)
        self.start = np.arange(len(hubs) + 1, dtype=np.int32)
        self.nodes = hubs.copy()
        self.owed = np.zeros(len(hubs), dtype=np.int32)
        self._state_of_node = np.full(num_nodes, -1, dtype=np.int32)
        self._state_of_node[hubs] = np.arange(len(hubs), dtype=np.int32)
        self._table = np.full(_FEWEST_SLOTS, -1, dtype=np.int32)
        self._num_hashed = 0

    def intern(self, set_start: Int32Array, set_nodes: Int32Array, set_owed: Int32Array, num_sets: int) -> Int32Array:
        """The state of each of the first so many sets; states are given in the order of the sets."""
        self._make_room(num_sets, int(set_start[num_sets]), _count_crowded(set_start, set_owed, num_sets))
        states = np.empty(num_sets, dtype=np.int32)
        self.num_states = _intern(
            set_start,
            set_nodes,
            set_owed,
            self.start,
            self.nodes,
            self.owed,
            self.num_states,
            self._state_of_node,
            self._table,
            states,
        )
        return states

    def _make_room(self, num_sets: int, num_readings: int, num_crowded: int) -> None:
        most, most_readings = self.num_states + num_sets, int(self.start[self.num_states]) + num_readings
        if most + 1 > len(self.start):
            self.start = resized(self.start, 2 * most + 1)
        if most_readings > len(self.nodes):
            self.nodes, self.owed = resized(self.nodes, 2 * most_readings), resized(self.owed, 2 * most_readings)
        self._num_hashed += num_crowded
        if 2 * self._num_hashed > len(self._table):
            num_slots = 1 << (4 * self._num_hashed).bit_length()
            self._table = _index(self.start, self.nodes, self.owed, self.num_states, num_slots)


def resized(array: npt.NDArray[Integer], size: int) -> npt.NDArray[Integer]:
    """A copy with room for more."""
    larger = np.empty(size, dtype=array.dtype)
    larger[: len(array)] = array
    return larger


@kernel
def _count_crowded(set_start: Int32Array, set_owed: Int32Array, num_sets: int) -> int:
    count = 0
    for i in range(num_sets):
        count += not _is_plain(set_start[i], set_start[i + 1], set_owed)
    return count


@kernel
def _is_plain(first: int, last: int, owed: Int32Array) -> bool:
    return last - first == 1 and owed[first] == 0


@kernel
def _hash(nodes: Int32Array, owed: Int32Array, first: int, last: int) -> int:
    """A hash of a sorted set (FNV-1a with a final mix), not negative."""
    value = np.uint64(14695981039346656037)
    for i in range(first, last):
        value = (value ^ np.uint64(nodes[i])) * np.uint64(1099511628211)
        value = (value ^ np.uint64(owed[i])) * np.uint64(1099511628211)
    value ^= value >> np.uint64(31)
    hashed: int = np.int64(value >> np.uint64(1))  # type: ignore[assignment]
    return hashed


@kernel
def _intern(
    set_start: Int32Array,
    set_nodes: Int32Array,
    set_owed: Int32Array,
    start: Int32Array,
    nodes: Int32Array,
    owed: Int32Array,
    num_states: int,
    state_of_node: Int32Array,
    table: Int32Array,
    states: Int32Array,
) -> int:
    """Writes the state of each set to ``states``; the number of states afterwards."""
    for i in range(len(states)):
        first, last = set_start[i], set_start[i + 1]
        is_plain = _is_plain(first, last, set_owed)
        slot = 0
        if is_plain:
            state = state_of_node[set_nodes[first]]
        else:
            slot = _slot_of(set_nodes, set_owed, first, last, start, nodes, owed, table)
            state = table[slot]
        if state < 0:
            state = num_states
            num_states += 1
            begin = start[state]
            for k in range(last - first):
                nodes[begin + k] = set_nodes[first + k]
                owed[begin + k] = set_owed[first + k]
            start[state + 1] = begin + last - first
            if is_plain:
                state_of_node[set_nodes[first]] = state
            else:
                table[slot] = state
        states[i] = state
    return num_states


@kernel
def _slot_of(
    set_nodes: Int32Array,
    set_owed: Int32Array,
    first: int,
    last: int,
    start: Int32Array,
    nodes: Int32Array,
    owed: Int32Array,
    table: Int32Array,
) -> int:
    """The slot with the state of a set, or the empty one where it belongs."""
    mask = len(table) - 1
    slot = _hash(set_nodes, set_owed, first, last) & mask
    while table[slot] >= 0:
        begin = start[table[slot]]
        if start[table[slot] + 1] - begin == last - first:
            k = 0
            while k < last - first and (
                nodes[begin + k] == set_nodes[first + k] and owed[begin + k] == set_owed[first + k]
            ):
                k += 1
            if k == last - first:
                break
        slot = (slot + 1) & mask
    return slot


@kernel
def _index(start: Int32Array, nodes: Int32Array, owed: Int32Array, num_states: int, num_slots: int) -> Int32Array:
    """The table of the sets known, with so many slots, a power of two."""
    table = np.full(num_slots, -1, np.int32)
    for state in range(num_states):
        first, last = start[state], start[state + 1]
        if not _is_plain(first, last, owed):
            slot = _hash(nodes, owed, first, last) & (num_slots - 1)
            while table[slot] >= 0:
                slot = (slot + 1) & (num_slots - 1)
            table[slot] = state
    return table
