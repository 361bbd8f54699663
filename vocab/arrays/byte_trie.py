"""A trie of byte strings in flat arrays, and the array types of the library."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import numpy as np
import numpy.typing as npt

from vocab.arrays.kernels import kernel

Int32Array = npt.NDArray[np.int32]
Uint8Array = npt.NDArray[np.uint8]
Integer = TypeVar("Integer", np.int32, np.uint8)

_MOST_NODES: Final = 2**31 - 2
_FEWEST_NODES: Final = 1024


def group_starts(owners: npt.NDArray[np.integer[Any]], num_groups: int) -> Int32Array:
    """Return the offset of each group (CSR), int32 (groups + 1,), for members sorted by owner."""
    starts = np.zeros(num_groups + 1, dtype=np.int32)
    np.cumsum(np.bincount(owners, minlength=num_groups), out=starts[1:])
    return starts


@dataclass(frozen=True)
class ByteStrings:
    """Byte strings in one array, with or without bytes between them.

    Attributes:
        data: uint8, the bytes.
        starts: int32 (strings,), where each string begins.
        ends: int32 (strings,), where it ends.
    """

    data: Uint8Array
    starts: Int32Array
    ends: Int32Array

    @classmethod
    def of(cls, strings: Iterable[bytes]) -> "ByteStrings":
        """Join byte strings into one array, without bytes between them."""
        lengths = np.fromiter(map(len, strings := list(strings)), dtype=np.int32, count=len(strings))
        ends = np.cumsum(lengths, dtype=np.int32)
        return cls(np.frombuffer(b"".join(strings), dtype=np.uint8), ends - lengths, ends)


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
    def of(cls, strings: ByteStrings, max_nodes: int = _MOST_NODES) -> "ByteTrie":
        """Build the trie of nonempty byte strings; equal ones end at one node.

        Raises:
            OverflowError: It has more than ``max_nodes`` nodes; raised before memory for them is needed.
        """
        parents, labels, string_nodes = _insert(strings.data, strings.starts, strings.ends, max_nodes)
        if len(parents) > max_nodes:
            raise OverflowError(f"a trie of more than {max_nodes} nodes")
        child_start, order = order_edges(parents[1:], labels[1:], len(parents))
        # Nodes visited together lie together: walks take three quarters of the time.
        numbers = _depth_first(child_start, order + np.int32(1))
        ordered_parents, ordered_labels = np.empty_like(parents), np.empty_like(labels)
        ordered_parents[numbers[1:]], ordered_labels[numbers] = numbers[parents[1:]], labels
        ordered_parents[0] = -1
        child_start, order = order_edges(ordered_parents[1:], ordered_labels[1:], len(parents))
        return cls(ordered_parents, ordered_labels, child_start, order + np.int32(1), numbers[string_nodes])


@kernel
def _insert(
    data: Uint8Array, starts: Int32Array, ends: Int32Array, max_nodes: int
) -> tuple[Int32Array, Uint8Array, Int32Array]:
    """Build a byte trie: parents, labels, each string's node; stop after the string that exceeds ``max_nodes``."""
    labels = np.empty(_FEWEST_NODES, np.uint8)
    # Beside the parent of each node its first child and its next sibling, or 0.
    parents = np.zeros(_FEWEST_NODES, np.int32)
    first_children, siblings = np.zeros(_FEWEST_NODES, np.int32), np.zeros(_FEWEST_NODES, np.int32)
    string_nodes = np.empty(len(ends), np.int32)
    parents[0], labels[0] = -1, 0
    num_nodes = 1
    for i in range(len(ends)):
        if num_nodes > max_nodes:
            break
        if num_nodes + ends[i] - starts[i] > len(labels):
            size = 2 * len(labels) + ends[i] - starts[i]
            labels = _grown(labels, size)
            parents = _grown(parents, size)
            first_children = _grown(first_children, size)
            siblings = _grown(siblings, size)
        node = 0
        for at in range(starts[i], ends[i]):
            child, last = first_children[node], 0
            while child > 0 and labels[child] != data[at]:
                last, child = child, siblings[child]
            if child == 0:
                child = num_nodes
                num_nodes += 1
                parents[child], labels[child] = node, data[at]
                if last == 0:
                    first_children[node] = child
                else:
                    siblings[last] = child
            node = child
        string_nodes[i] = node
    return parents[:num_nodes].copy(), labels[:num_nodes].copy(), string_nodes


@kernel
def _grown(array: npt.NDArray[Integer], size: int) -> npt.NDArray[Integer]:
    """Return a copy of an array, enlarged to ``size`` with zeros."""
    larger = np.zeros(size, array.dtype)
    larger[: len(array)] = array
    return larger


@kernel
def _depth_first(child_start: Int32Array, children: Int32Array) -> Int32Array:
    """Return the preorder number of each node of a trie."""
    numbers = np.empty(len(child_start) - 1, np.int32)
    stack = np.empty(len(numbers), np.int32)
    stack[0], top = 0, 1
    for number in range(len(numbers)):
        top -= 1
        node = stack[top]
        numbers[node] = number
        for child in range(child_start[node + 1] - 1, child_start[node] - 1, -1):
            stack[top] = children[child]
            top += 1
    return numbers


@kernel
def order_edges(sources: Int32Array, labels: Uint8Array, num_nodes: int) -> tuple[Int32Array, Int32Array]:
    """Sort a trie's edges by node and byte: where each node's begin, int32 (nodes + 1,), and their order."""
    by_label = np.empty(len(sources), np.int32)
    next_of_label = np.zeros(257, np.int32)
    for label in labels:
        next_of_label[label + 1] += 1
    for byte in range(256):
        next_of_label[byte + 1] += next_of_label[byte]
    for edge in range(len(sources)):
        by_label[next_of_label[labels[edge]]] = edge
        next_of_label[labels[edge]] += 1
    starts = np.zeros(num_nodes + 1, np.int32)
    for source in sources:
        starts[source + 1] += 1
    for node in range(num_nodes):
        starts[node + 1] += starts[node]
    order, following = np.empty(len(sources), np.int32), starts.copy()
    for i in range(len(by_label)):
        source = sources[by_label[i]]
        order[following[source]] = by_label[i]
        following[source] += 1
    return starts, order
