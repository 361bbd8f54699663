"""Small sets of readings (node, owed rank) in fixed-width arrays: the arithmetic of the product walk.

A reading says where a text may stand in the text automaton, and the rank of the rarest word that this way of reading
it has used and that no token has asked for yet.
"""

from typing import Final

from vocab.arrays.byte_trie import Int32Array
from vocab.arrays.kernels import kernel
from vocab.text.text_automaton import NEVER

MAX_READINGS: Final = 24
"""Readings a set may have; texts of ten nested phrases stay below it."""

FULL: Final = -1
"""The size returned for a set that would pass ``MAX_READINGS``."""

_NEVER: Final = int(NEVER)


@kernel
def add_reading(nodes: Int32Array, owed: Int32Array, count: int, node: int, rank: int) -> int:
    """Adds a reading to the set in the first ``count`` places, keeping a node's least owed rank; its new size.

    A set has room for ``MAX_READINGS``.
    """
    if count < 0:
        return FULL
    for i in range(count):
        if nodes[i] == node:
            owed[i] = min(owed[i], rank)
            return count
    if count == MAX_READINGS:
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
