"""Small sets of readings (node, owed rank) in fixed-width arrays: the arithmetic of the product walk.

A reading says where a text may stand in the text automaton, and the rank of the rarest word that this way of reading
it has used and that no token has asked for yet.
"""

from typing import Final

import numpy as np
import numpy.typing as npt

from vocab._jit import kernel
from vocab.byte_trie import Int32Array
from vocab.text_automaton import NEVER

MAX_READINGS: Final = 24
"""Readings a set may have; texts of ten nested phrases stay below it."""

FULL: Final = -1
"""The size returned for a set that would pass ``MAX_READINGS``."""

_NEVER: Final = int(NEVER)


@kernel
def add_reading(nodes: Int32Array, owed: Int32Array, count: int, node: int, rank: int) -> int:
    """Adds a reading to the set in the first ``count`` places, keeping a node's least owed rank; its new size."""
    if count < 0:
        return FULL
    for i in range(count):
        if nodes[i] == node:
            owed[i] = min(owed[i], rank)
            return count
    if count == len(nodes):
        return FULL
    nodes[count] = node
    owed[count] = rank
    return count + 1


@kernel
def settle(nodes: Int32Array, owed: Int32Array, count: int, smallest_ranks: Int32Array) -> int:
    """The rank that a token with these readings asks for. Writes off what the token pays, and sorts by node."""
    rank = _NEVER
    for i in range(count):
        rank = min(rank, max(owed[i], smallest_ranks[nodes[i]]))
    for i in range(count):
        if owed[i] <= rank:
            owed[i] = 0
    for i in range(1, count):
        node, rest = nodes[i], owed[i]
        j = i - 1
        while j >= 0 and nodes[j] > node:
            nodes[j + 1], owed[j + 1] = nodes[j], owed[j]
            j -= 1
        nodes[j + 1], owed[j + 1] = node, rest
    return rank


@kernel
def hash_readings(nodes: Int32Array, owed: Int32Array) -> int:
    """A hash of a sorted set (FNV-1a with a final mix), not negative."""
    value = np.uint64(14695981039346656037)
    for i in range(len(nodes)):
        value = (value ^ np.uint64(nodes[i])) * np.uint64(1099511628211)
        value = (value ^ np.uint64(owed[i])) * np.uint64(1099511628211)
    value ^= value >> np.uint64(31)
    hashed: int = np.int64(value >> np.uint64(1))  # type: ignore[assignment]
    return hashed


@kernel
def intern_sets(
    set_start: npt.NDArray[np.int64],
    set_nodes: Int32Array,
    set_owed: Int32Array,
    num_sets: int,
    reading_start: npt.NDArray[np.int64],
    reading_nodes: Int32Array,
    reading_owed: Int32Array,
    num_states: int,
    table: Int32Array,
    set_states: Int32Array,
) -> int:
    """Gives each set its state, making new states for new sets; the number of states afterwards.

    Args:
        set_start: int64 (>= num_sets + 1,), where each set begins in ``set_nodes`` and ``set_owed``.
        set_nodes: int32, nodes, ascending within a set.
        set_owed: int32, owed ranks.
        num_sets: How many sets there are.
        reading_start: int64, as ``set_start``, of the states known; has room for ``num_sets`` more.
        reading_nodes: int32, nodes of the states known; has room for those of all sets.
        reading_owed: int32, owed ranks of the states known; likewise.
        num_states: How many states are known.
        table: int32, a power of two of slots, more than twice the states there can be; -1 or a state.
        set_states: int32 (>= num_sets,), receives the state of each set.
    """
    mask = len(table) - 1
    for i in range(num_sets):
        first, last = set_start[i], set_start[i + 1]
        size = last - first
        slot = hash_readings(set_nodes[first:last], set_owed[first:last]) & mask
        while True:
            state = table[slot]
            if state < 0:
                state = num_states
                table[slot] = state
                begin = reading_start[state]
                reading_nodes[begin : begin + size] = set_nodes[first:last]
                reading_owed[begin : begin + size] = set_owed[first:last]
                reading_start[state + 1] = begin + size
                num_states += 1
                break
            begin = reading_start[state]
            if reading_start[state + 1] - begin == size:
                same = True
                for k in range(size):
                    if (
                        reading_nodes[begin + k] != set_nodes[first + k]
                        or reading_owed[begin + k] != set_owed[first + k]
                    ):
                        same = False
                        break
                if same:
                    break
            slot = (slot + 1) & mask
        set_states[i] = state
    return num_states


@kernel
def index_states(
    reading_start: npt.NDArray[np.int64],
    reading_nodes: Int32Array,
    reading_owed: Int32Array,
    num_states: int,
    num_slots: int,
) -> Int32Array:
    """The table of ``intern_sets`` for the states known, with ``num_slots`` (a power of two) slots."""
    table = np.full(num_slots, -1, np.int32)
    for state in range(num_states):
        first, last = reading_start[state], reading_start[state + 1]
        slot = hash_readings(reading_nodes[first:last], reading_owed[first:last]) & (num_slots - 1)
        while table[slot] >= 0:
            slot = (slot + 1) & (num_slots - 1)
        table[slot] = state
    return table
