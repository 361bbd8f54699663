"""A trie of byte strings in flat arrays. It knows nothing of words or tokens."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from vocab._jit import kernel

Int32Array = npt.NDArray[np.int32]
Uint8Array = npt.NDArray[np.uint8]


@dataclass(frozen=True)
class ByteTrie:
    """A trie of byte strings; node 0 is the root, and the children of a node are ordered by byte.

    Attributes:
        parents: int32 (nodes,), -1 for the root; a parent precedes its children.
        labels: uint8 (nodes,), the byte that leads to the node.
        child_start: int32 (nodes + 1,), where a node's children begin in ``children``.
        children: int32 (nodes - 1,).
        string_nodes: int32 (strings,), the node at which each string ends.
    """

    parents: Int32Array
    labels: Uint8Array
    child_start: Int32Array
    children: Int32Array
    string_nodes: Int32Array

    @classmethod
    def of_sorted(cls, strings: list[bytes]) -> "ByteTrie":
        """The trie of byte strings that are sorted and none of them empty; equal ones end at one node."""
        data = np.frombuffer(b"".join(strings), dtype=np.uint8)
        ends = np.cumsum(np.fromiter((len(s) for s in strings), dtype=np.int64, count=len(strings)))
        longest = max((len(s) for s in strings), default=0)
        parents, labels, string_nodes = _insert_sorted(data, ends, longest)
        order = np.argsort(parents[1:], kind="stable").astype(np.int32) + np.int32(1)
        child_start = np.zeros(len(parents) + 1, dtype=np.int32)
        np.cumsum(np.bincount(parents[1:], minlength=len(parents)), out=child_start[1:])
        return cls(parents, labels, child_start, order, string_nodes)


@kernel
def _insert_sorted(
    data: Uint8Array, ends: npt.NDArray[np.int64], longest: int
) -> tuple[Int32Array, Uint8Array, Int32Array]:
    parents = np.empty(len(data) + 1, np.int32)
    labels = np.zeros(len(data) + 1, np.uint8)
    string_nodes = np.empty(len(ends), np.int32)
    path = np.zeros(longest + 1, np.int32)
    parents[0] = -1
    num_nodes = 1
    previous_start, previous_length = 0, 0
    start = 0
    for i in range(len(ends)):
        length = ends[i] - start
        shared = 0
        while shared < length and shared < previous_length and data[start + shared] == data[previous_start + shared]:
            shared += 1
        for depth in range(shared, length):
            parents[num_nodes] = path[depth]
            labels[num_nodes] = data[start + depth]
            path[depth + 1] = num_nodes
            num_nodes += 1
        string_nodes[i] = path[length]
        previous_start, previous_length = start, length
        start = ends[i]
    return parents[:num_nodes].copy(), labels[:num_nodes].copy(), string_nodes
