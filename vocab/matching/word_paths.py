"""Where single words of a list stand in its trie, to allow or to ask for them one by one."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

import numpy as np

from vocab.arrays.byte_trie import Int32Array
from vocab.automaton.compiled_list import CompiledList, TrieArrays
from vocab.automaton.frame import NUM_MODES
from vocab.automaton.overlay import Overlay

_FAR: Final = 1 << 20


@dataclass(slots=True)
class ModePaths:
    """The nodes on the ways to some words, in one mode.

    Attributes:
        children: By node, the tokens that lead on to one of these words, each with the node after it.
        ends: Where one of these words ends, and its rank.
        to_end: By node, how few tokens complete one of them.
    """

    children: dict[int, list[tuple[int, int]]] = field(default_factory=dict)
    ends: dict[int, int] = field(default_factory=dict)
    to_end: dict[int, int] = field(default_factory=dict)


class WordPaths:
    """Find words in a trie with its changes by their ranks."""

    def __init__(self, words: CompiledList, overlay: Overlay | None) -> None:
        self._words, self._overlay = words, overlay
        self._roots = frozenset((words if overlay is None else overlay).roots.values())
        num_added = 0 if overlay is None else overlay.num_nodes
        self._parents = np.full(words.num_nodes + num_added, -1, dtype=np.int32)
        self._tokens = np.full(words.num_nodes + num_added, -1, dtype=np.int32)
        # Those added last: a node of the trie below a changed one is reached from that.
        self._link(words, 0)
        if overlay is not None:
            self._link(overlay, words.num_nodes)

    def of(self, ranks: Collection[int]) -> tuple[ModePaths, ...]:
        """Return the paths to all forms of the words of these ranks, by mode."""
        return tuple(self._of_mode(ranks, mode) for mode in range(NUM_MODES))

    def _link(self, trie: TrieArrays, first_node: int) -> None:
        """Record the parent of each child in a trie, and the token between them."""
        owners = np.repeat(np.arange(trie.num_nodes, dtype=np.int32), np.diff(trie.edge_start))
        self._parents[trie.children] = owners + np.int32(first_node)
        self._tokens[trie.children] = trie.tokens

    def _of_mode(self, ranks: Collection[int], mode: int) -> ModePaths:
        """Return the paths to all forms of the words of these ranks, in one mode."""
        found = ModePaths()
        for node, rank in self._ends(ranks, mode):
            path = [node]
            while (parent := int(self._parents[path[-1]])) >= 0:
                path.append(parent)
            if path[-1] not in self._roots:
                # The changes have put another node in its place.
                continue
            found.ends[node] = rank
            for num_tokens, one in enumerate(path):
                found.to_end[one] = min(found.to_end.get(one, _FAR), num_tokens)
            for child, parent in pairwise(path):
                edge = int(self._tokens[child]), child
                edges = found.children.setdefault(parent, [])
                if edge not in edges:
                    edges.append(edge)
        return found

    def _ends(self, ranks: Collection[int], mode: int) -> Iterable[tuple[int, int]]:
        """Yield the nodes where words of these ranks end, in one mode, each with its rank."""
        wanted = np.asarray(sorted(ranks), dtype=np.int32)
        parts: list[tuple[Int32Array, int]] = [(self._words.ranks[mode & 1], 0)]
        if self._overlay is not None:
            parts.append((self._overlay.ranks[mode], self._words.num_nodes))
        for of_nodes, first_node in parts:
            places = [np.flatnonzero(of_nodes == rank) for rank in wanted]
            for node in np.concatenate(places) if places else ():
                yield int(node) + first_node, int(of_nodes[node])
