"""The ways in a trie to single words of a list, found by their ranks: to allow them, or to ask for them, one by one."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from threading import Lock
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt
from cachetools import LRUCache

from vocab.arrays.kernels import Int32Array
from vocab.automaton.compiled_list import NEVER, CompiledList
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

    def copy(self) -> "ContextPaths":
        return ContextPaths(self.children.copy(), self.ends.copy(), self.to_end.copy())

    def add(self, path: Sequence[tuple[int, int]], rank: int) -> None:
        """Add a word by the nodes of its way, each with the token to it, from its end to its root."""
        self.ends[path[0][0]] = rank
        for num_tokens, (node, _) in enumerate(path):
            self.to_end[node] = min(self.to_end.get(node, _FAR), num_tokens)
        for (child, token), (parent, _) in pairwise(path):
            edges = self.children.get(parent, ())
            if (token, child) not in edges:
                self.children[parent] = (*edges, (token, child))


Paths: TypeAlias = tuple[ContextPaths, ...]
"""Of single words, by context."""


class WordPaths:
    """Find words in a trie with its changes by their ranks, in the contexts where a text may go on after them.

    Thread-safe.

    Args:
        words: The trie.
        overlay: The nodes added to it.
        modes: int32 (contexts,), the mode of each.
        dead_ends: bool (contexts, kinds), after which kinds of words no text ends.
    """

    def __init__(
        self, words: CompiledList, overlay: Overlay | None, modes: Int32Array, dead_ends: npt.NDArray[np.bool_]
    ) -> None:
        tries = (words,) if overlay is None else (words, overlay)
        kinds = [frozenset(np.flatnonzero(~one).tolist()) for one in dead_ends]
        self._contexts = list(zip(modes.tolist(), kinds, strict=True))
        self._roots = frozenset(tries[-1].roots.values())
        self._kinds = np.concatenate([trie.kinds for trie in tries])
        self._parents, self._tokens = (np.full(len(self._kinds), -1, dtype=np.int32) for _ in range(2))
        # Those added last: a node of the trie below a changed one is reached from that.
        for trie, first_node in zip(tries, (0, words.num_nodes), strict=False):
            owners = np.repeat(np.arange(trie.num_nodes, dtype=np.int32), np.diff(trie.edge_start))
            self._parents[trie.children] = owners + np.int32(first_node)
            self._tokens[trie.children] = trie.tokens
        # By mode, the nodes where words end, and their ranks, which ascend.
        self._ends: dict[int, tuple[Int32Array, Int32Array]] = {}
        for mode in set(modes.tolist()):
            # Of a list's own words, only the first bit of the mode counts.
            ranks = np.concatenate([trie.ranks[mode % len(trie.ranks)] for trie in tries])
            nodes = np.flatnonzero(ranks != NEVER).astype(np.int32)
            nodes = nodes[np.argsort(ranks[nodes], kind="stable")]
            self._ends[mode] = nodes, ranks[nodes]
        self._known: LRUCache[frozenset[int], dict[tuple[int, frozenset[int]], ContextPaths]] = LRUCache(MAX_PATHS)
        self._lock = Lock()

    def of(self, ranks: frozenset[int]) -> Paths:
        """Return the paths to all forms of the words of these ranks, by context; cached."""
        with self._lock:
            made = self._known.get(ranks)
            if made is None:
                # As a rule all but one of them were asked for before.
                before = next((ranks - {rank} for rank in ranks if ranks - {rank} in self._known), None)
                known = {} if before is None else self._known[before]
                made = {one: known[one].copy() if known else ContextPaths() for one in self._contexts}
                for (mode, kinds), paths in made.items():
                    for rank in ranks - (before or frozenset()):
                        self._add(paths, mode, kinds, rank)
                self._known[ranks] = made
        return tuple(made[context] for context in self._contexts)

    def _add(self, paths: ContextPaths, mode: int, kinds: Collection[int], rank: int) -> None:
        """Add the forms of a word in a mode to the paths, if they are of these kinds."""
        nodes, ranks = self._ends[mode]
        for node in nodes[np.searchsorted(ranks, rank) : np.searchsorted(ranks, rank, "right")].tolist():
            way = [(node, int(self._tokens[node]))]
            while (parent := int(self._parents[way[-1][0]])) >= 0:
                way.append((parent, int(self._tokens[parent])))
            # Else the changes have put another node in its place.
            if self._kinds[node] in kinds and way[-1][0] in self._roots:
                paths.add(way, rank)
