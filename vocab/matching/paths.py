"""The ways in a trie to single words of a list, found by their ranks: to allow them, or to ask for them, one by one."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from threading import RLock
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt
from cachetools import LRUCache

from vocab.arrays.byte_trie import Int32Array, Uint8Array
from vocab.automaton.compiled_list import NEVER, CompiledList, TrieArrays
from vocab.automaton.overlay import Overlay

MAX_PATHS: Final = 1024
"""Sets of words that are cached, a few kilobytes each."""

_FAR: Final = 1 << 20


@dataclass(slots=True)
class ContextPaths:
    """The nodes on the ways to some words, in contexts of one mode where words of the same kinds may end.

    Attributes:
        children: By node, the tokens that lead on to one of these words, each with the node after it.
        ends: Where one of these words ends, and its rank.
        to_end: By node, how few tokens complete one of them.
    """

    children: dict[int, tuple[tuple[int, int], ...]] = field(default_factory=dict)
    ends: dict[int, int] = field(default_factory=dict)
    to_end: dict[int, int] = field(default_factory=dict)

    def add(self, path: Sequence[tuple[int, int]], rank: int) -> None:
        """Add a word by the nodes of its way, each with the token to it, from its end to its root."""
        self.ends[path[0][0]] = rank
        for num_tokens, (node, _) in enumerate(path):
            self.to_end[node] = min(self.to_end.get(node, _FAR), num_tokens)
        for (child, token), (parent, _) in pairwise(path):
            self._add_edges(parent, ((token, child),))

    def joined(self, other: "ContextPaths") -> "ContextPaths":
        """Return the paths to the words of both."""
        found = ContextPaths(dict(self.children), self.ends | other.ends, dict(self.to_end))
        for node, edges in other.children.items():
            found._add_edges(node, edges)
        for node, num_tokens in other.to_end.items():
            found.to_end[node] = min(found.to_end.get(node, _FAR), num_tokens)
        return found

    def _add_edges(self, node: int, edges: tuple[tuple[int, int], ...]) -> None:
        known = self.children.get(node, ())
        self.children[node] = known + tuple(edge for edge in edges if edge not in known)


Paths: TypeAlias = tuple[ContextPaths, ...]
"""Of single words, by context."""


class WordPaths:
    """Find words in a trie with its changes by their ranks, in the contexts where a text may go on after them.

    Args:
        words: The trie.
        overlay: The nodes added to it.
        modes: int32 (contexts,), the mode of each.
        dead_ends: bool (contexts, kinds), after which kinds of words no text ends.
    """

    def __init__(
        self, words: CompiledList, overlay: Overlay | None, modes: Iterable[int], dead_ends: npt.NDArray[np.bool_]
    ) -> None:
        self._lock = RLock()
        self._known: LRUCache[frozenset[int], Paths] = LRUCache(MAX_PATHS)
        kinds = [frozenset(np.flatnonzero(~one).tolist()) for one in dead_ends]
        self._contexts = [(int(mode), one) for mode, one in zip(modes, kinds, strict=True)]
        self._roots = frozenset((words if overlay is None else overlay).roots.values())
        num_added = 0 if overlay is None else overlay.num_nodes
        self._parents = np.full(words.num_nodes + num_added, -1, dtype=np.int32)
        self._tokens = np.full(words.num_nodes + num_added, -1, dtype=np.int32)
        # Those added last: a node of the trie below a changed one is reached from that.
        self._link(words, 0)
        modes_used = {mode for mode, _ in self._contexts}
        base = {mode: _Ends(words.ranks[mode], words.kinds, 0) for mode in {mode & 1 for mode in modes_used}}
        self._ends = [{mode: base[mode & 1] for mode in modes_used}]
        if overlay is not None:
            self._link(overlay, words.num_nodes)
            self._ends.append({mode: _Ends(overlay.ranks[mode], overlay.kinds, words.num_nodes) for mode in modes_used})

    def of(self, ranks: frozenset[int]) -> Paths:
        """Return the paths to all forms of the words of these ranks, by context; cached."""
        with self._lock:
            found = self._known.get(ranks)
            if found is None:
                found = self._known[ranks] = self._make(ranks)
            return found

    def _make(self, ranks: frozenset[int]) -> Paths:
        if len(ranks) < 2:
            made = {context: self._in(*context, ranks) for context in set(self._contexts)}
        else:
            # As a rule all but one of them were asked for before.
            rank = next((one for one in ranks if ranks - {one} in self._known), min(ranks))
            both = zip(self._contexts, self.of(ranks - {rank}), self.of(frozenset((rank,))), strict=True)
            parts = {context: (paths, more) for context, paths, more in both}
            made = {context: paths.joined(more) for context, (paths, more) in parts.items()}
        return tuple(made[context] for context in self._contexts)

    def _link(self, trie: TrieArrays, first_node: int) -> None:
        """Record the parent of each child in a trie, and the token between them."""
        owners = np.repeat(np.arange(trie.num_nodes, dtype=np.int32), np.diff(trie.edge_start))
        self._parents[trie.children] = owners + np.int32(first_node)
        self._tokens[trie.children] = trie.tokens

    def _in(self, mode: int, kinds: Collection[int], ranks: Iterable[int]) -> ContextPaths:
        """Return the paths to words of these ranks and kinds in a mode."""
        found = ContextPaths()
        for ends in self._ends:
            for rank in ranks:
                for node, kind in ends[mode].of(rank):
                    path = self._way_to(node)
                    # Else the changes have put another node in its place.
                    if kind in kinds and path[-1][0] in self._roots:
                        found.add(path, rank)
        return found

    def _way_to(self, node: int) -> list[tuple[int, int]]:
        """Return the nodes from one up to a root, each with the token that leads to it."""
        path = [(node, int(self._tokens[node]))]
        while (parent := int(self._parents[path[-1][0]])) >= 0:
            path.append((parent, int(self._tokens[parent])))
        return path


class _Ends:
    """The nodes where words end, by rank; ``ranks`` and ``kinds`` are of nodes numbered from ``first_node`` on."""

    def __init__(self, ranks: Int32Array, kinds: Uint8Array, first_node: int) -> None:
        ends = np.flatnonzero(ranks != NEVER)
        self._nodes = ends[np.argsort(ranks[ends], kind="stable")]
        self._ranks = ranks[self._nodes]
        self._kinds, self._first_node = kinds, first_node

    def of(self, rank: int) -> Iterator[tuple[int, int]]:
        """Yield the nodes where the word of a rank ends, each with its kind."""
        first, last = np.searchsorted(self._ranks, rank, "left"), np.searchsorted(self._ranks, rank, "right")
        for node in self._nodes[first:last].tolist():
            yield node + self._first_node, int(self._kinds[node])
