"""The arrays of a trie as lists and dictionaries, made where they are looked at, and its picture."""

import operator
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, SupportsIndex, TypeVar, overload

import numpy as np
import numpy.typing as npt

from vocab.arrays.byte_trie import Int32Array
from wordbound.lm.tries.arrays import TrieArrays

_T = TypeVar("_T")

_MOST_OF_A_COLOUR: Final = 255


class _ByNode(Sequence[_T]):
    """What a trie knows of each node, as a list."""

    def __init__(self, trie: TrieArrays) -> None:
        self._trie = trie

    @abstractmethod
    def _of(self, node: int) -> _T: ...

    def __len__(self) -> int:
        return len(self._trie)

    @overload
    def __getitem__(self, index: SupportsIndex) -> _T: ...

    @overload
    def __getitem__(self, index: slice) -> list[_T]: ...

    def __getitem__(self, index: SupportsIndex | slice) -> _T | list[_T]:
        nodes = range(len(self))[index]
        return [self._of(node) for node in nodes] if isinstance(nodes, range) else self._of(nodes)


class Jumps(_ByNode[Int32Array]):
    """By node, its children in ascending order, int32."""

    def _of(self, node: int) -> Int32Array:
        return self._trie.children(node)


class Children(_ByNode[dict[Any, int]]):
    """By node, its children: by letter, and leaves, after them, by ``(None, place in decode)``."""

    def _of(self, node: int) -> dict[Any, int]:
        trie = self._trie
        # Children are numbered from the last letter to the first.
        children = trie.children(node)[::-1].tolist()
        return {(None, child) if child < trie.num_leaves else trie.last_letter(child): child for child in children}


class Prefixes(Mapping[int, list[Any]]):
    """By node, the letters that lead to it."""

    def __init__(self, trie: TrieArrays) -> None:
        self._trie = trie

    def __len__(self) -> int:
        return len(self._trie)

    def __iter__(self) -> Iterator[int]:
        return iter(range(len(self)))

    def __getitem__(self, node: int) -> list[Any]:
        at = operator.index(node)
        if not 0 <= at < len(self):
            raise KeyError(node)
        if at < self._trie.num_leaves:
            at = int(self._trie.parents[at])
        letters = []
        while at != self._trie.root:
            letters.append(self._trie.last_letter(at))
            at = int(self._trie.parents[at])
        return letters[::-1]


def drawn(trie: TrieArrays, weights: npt.NDArray[np.float64] | None) -> Any:
    """Return a trie as a ``graphviz.Digraph``; see ``TokenCharacterTrie.visualize``."""
    if weights is not None and weights.shape != (len(trie),):
        raise ValueError(f"there are weights of shape {weights.shape} for {len(trie)} nodes: give each one")
    try:
        import graphviz
    except ImportError as error:
        raise ImportError("drawing a trie needs the package graphviz: pip install 'wordbound[graphviz]'") from error

    picture = graphviz.Digraph(comment="Trie of tokens", graph_attr={"rankdir": "LR"}, node_attr={"style": "filled"})
    for node, prefix in Prefixes(trie).items():
        lines = [str(node), str(bytes(prefix) if all(isinstance(letter, int) for letter in prefix) else prefix)]
        colour = f"#{_MOST_OF_A_COLOUR:02x}{_MOST_OF_A_COLOUR:02x}{_MOST_OF_A_COLOUR:02x}"
        if weights is not None:
            lines.append(f"{weights[node]:.4f}")
            colour = _green(weights[node], weights.max())
        shape = "doublecircle" if node < trie.num_leaves else "circle"
        # The backslashes of bytes are no line breaks here.
        picture.node(str(node), graphviz.escape("\n".join(lines)), shape=shape, fillcolor=colour)
    for node, children in enumerate(Children(trie)):
        for letter, child in children.items():
            is_end = isinstance(letter, tuple) and letter[0] is None
            picture.edge(str(node), str(child), label=f"end of word {letter[1]}" if is_end else str(letter))
    return picture


def _green(weight: float, largest: float) -> str:
    """White for nothing, green for the largest weight."""
    share = min(max(weight / largest, 0), 1) if largest > 0 else 0
    rest = round(_MOST_OF_A_COLOUR * (1 - share))
    return f"#{rest:02x}{_MOST_OF_A_COLOUR:02x}{rest:02x}"
