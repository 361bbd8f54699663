"""How the arrays of a trie are made from words, and the passes over them that sum weights."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Any, Final, Self

import numpy as np
import numpy.typing as npt

from vocab.arrays.interner import Interner
from vocab.arrays.kernels import Int32Array, group_starts, kernel
from wordbound.lm.tokens import Token

Floats = npt.NDArray[np.float64]
Int64Array = npt.NDArray[np.int64]

_NUM_BYTES: Final = 256


@dataclass(frozen=True)
class TrieArrays:
    """A trie whose first nodes are leaves, one for each word, and whose others are the prefixes of words.

    Every child precedes its parent: of the prefixes the longest come first, those of one parent are together, and the
    empty one, the root, is the last node.

    Attributes:
        num_leaves: How many words there are.
        parents: int32 (nodes,), of each node the parent; -1 of the root.
        letters: What the edges between prefixes are labelled with: the 256 bytes, then other letters.
        labels: int32 (prefixes,), of each prefix, from node ``num_leaves`` on, the place of its last letter in
            ``letters``; of the root, 0.
        num_prefixes: How many prefixes have at most 0, 1, … letters.
    """

    num_leaves: int
    parents: Int32Array
    letters: Sequence[Any]
    labels: Int32Array
    num_prefixes: Sequence[int]

    @classmethod
    def of(cls, words: Sequence[Any]) -> Self:
        """Build the trie of words: of bytes by byte, and of others by the letters that they are iterated for."""
        numbers, lengths, letters = _letters(words)
        parents, labels, last_nodes, num_prefixes = _prefixes_of(numbers, lengths, len(letters))
        # Numbered from the empty prefix on, they are turned round.
        root = len(words) + len(parents) - 1
        upwards = (root - np.concatenate([last_nodes, parents[::-1]])).astype(np.int32)
        upwards[root] = -1
        return cls(len(words), upwards, letters, labels[::-1].astype(np.int32), num_prefixes)

    def __len__(self) -> int:
        return len(self.parents)

    @property
    def root(self) -> int:
        return len(self.parents) - 1

    def last_letter(self, node: int) -> Any:
        """Return the letter that leads from its parent to the node of a prefix."""
        return self.letters[self.labels[node - self.num_leaves]]

    def children(self, node: int) -> Int32Array:
        """Return the children of a node in ascending order."""
        starts, order = self._by_parent
        return order[starts[node] : starts[node + 1]]

    @cached_property
    def _by_parent(self) -> tuple[Int32Array, Int32Array]:
        """The nodes but for the root ordered by parent, and where those of each parent begin."""
        starts = group_starts(self.parents[:-1], len(self.parents))
        return starts, np.argsort(self.parents[:-1], kind="stable").astype(np.int32)


def word_key(word: Any) -> Hashable:
    """Return the key of a word: a token's bytes and id, or another word itself."""
    return (word.byte_string, word.token_id) if isinstance(word, Token) else word


def refuse_duplicates(words: Sequence[Any]) -> None:
    """Raise ``ValueError`` where two words have the same key."""
    seen = set()
    for word in words:
        key = word_key(word)
        if key in seen:
            raise ValueError(f"Duplicate word in vocabulary: {key!r}. Words must differ, and so must ids of tokens.")
        seen.add(key)


def _letters(words: Sequence[Any]) -> tuple[Int64Array, Int64Array, list[Any]]:
    """Return the letters of all words by number, int64, the length of each word, int64, and the letters by number.

    A byte is its own number; words of other letters than bytes are iterated for them.
    """
    numbers: Interner[Any] = Interner(range(_NUM_BYTES))
    of_bytes = np.array([isinstance(word, bytes) for word in words], np.bool_)
    plain = [word for word in words if isinstance(word, bytes)]
    others = [[numbers[letter] for letter in word] for word in words if not isinstance(word, bytes)]
    lengths = np.empty(len(words), np.int64)
    lengths[of_bytes] = [len(word) for word in plain]
    lengths[~of_bytes] = [len(word) for word in others]
    is_byte = np.repeat(of_bytes, lengths)
    labels = np.empty(len(is_byte), np.int64)
    labels[is_byte] = np.frombuffer(b"".join(plain), np.uint8)
    labels[~is_byte] = list(chain.from_iterable(others))
    return labels, lengths, numbers.in_order


def _prefixes_of(
    letters: Int64Array, lengths: Int64Array, num_letters: int
) -> tuple[Int64Array, Int64Array, Int64Array, list[int]]:
    """Number the prefixes of words by length, then by parent and last letter; the empty one is 0.

    Args:
        letters: Those of one word after the other, by number.
        lengths: Of each word.
        num_letters: How many letters have numbers.

    Returns:
        Of each prefix its parent, -1 of the empty one, and its last letter; of each word the prefix that it is; and how
        many prefixes have at most 0, 1, … letters.
    """
    starts = np.cumsum(lengths) - lengths
    nodes = np.zeros(len(lengths), np.int64)
    parents, labels, num_prefixes = [np.array([-1])], [np.array([0])], [1]
    longer = np.flatnonzero(lengths > 0)
    while len(longer):
        # By its letters so far each word stands at a prefix; equal pairs of that and the next letter are one.
        steps = nodes[longer] * num_letters + letters[starts[longer] + len(num_prefixes) - 1]
        found, places = np.unique(steps, return_inverse=True)
        nodes[longer] = num_prefixes[-1] + places
        parents.append(found // num_letters)
        labels.append(found % num_letters)
        num_prefixes.append(num_prefixes[-1] + len(found))
        longer = longer[lengths[longer] >= len(num_prefixes)]
    return np.concatenate(parents), np.concatenate(labels), nodes, num_prefixes


@kernel
def sum_upwards(weights: npt.NDArray[Any], parents: Int32Array, node_weights: Floats) -> None:
    """Write the sum of the leaves' weights below each node; the first nodes are leaves, with the weights given."""
    node_weights[: len(weights)] = weights
    node_weights[len(weights) :] = 0.0
    for node in range(len(parents) - 1):
        node_weights[parents[node]] += node_weights[node]


@kernel
def max_upwards(weights: npt.NDArray[Any], parents: Int32Array, node_weights: Floats) -> None:
    """Write the largest weight of the leaves below each node, NaN if one is; see ``sum_upwards``."""
    node_weights[: len(weights)] = weights
    node_weights[len(weights) :] = -np.inf
    for node in range(len(parents) - 1):
        weight = node_weights[node]
        # NaN differs from itself, and is larger than nothing.
        if weight > node_weights[parents[node]] or weight != weight:
            node_weights[parents[node]] = weight
