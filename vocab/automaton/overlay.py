"""A request's own changes to a list: words added and words left out, as nodes beside those of the trie.

The path of each changed form is copied into new nodes, and all else is shared: the trie itself stays as it is, mapped
from its file.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from vocab.arrays.byte_trie import Int32Array, Uint8Array
from vocab.automaton.frame import NUM_MODES, SENTENCE
from vocab.automaton.speller import Speller
from vocab.automaton.words import FORMAT_VERSION, NEVER, Root, SpelledForm, Words, forms_of, spell_forms
from vocab.lists.wordlists import WordList
from vocab.text.changes import ListChanges

_NEVER: Final = int(NEVER)
_ALWAYS: Final = 0
"""The rank of an added word, allowed whatever N."""


@dataclass(frozen=True)
class Overlay:
    """New nodes, numbered behind those of the trie; edges may lead to nodes of both.

    Attributes:
        digest: Names it: trie and changes.
        base_digest: The trie.
        changes: The words added that the tokenizer can spell, and the entries left out.
        dropped_words: The words added that it cannot spell.
        roots: The node of each root: those of the trie in its order, then new ones.
        edge_start: int32 (new nodes + 1,).
        tokens, children, kinds: As in ``Words``.
        ranks, ranks_below: int32 (4, new nodes), by mode: where a sentence starts, added words have capitals whatever
            the list's words have.
    """

    digest: str
    base_digest: str
    changes: ListChanges
    dropped_words: tuple[str, ...]
    roots: Mapping[Root, int]
    edge_start: Int32Array
    tokens: Int32Array
    children: Int32Array
    ranks: Int32Array
    ranks_below: Int32Array
    kinds: Uint8Array

    @property
    def num_nodes(self) -> int:
        return len(self.kinds)


def overlay_digest(base_digest: str, changes: ListChanges) -> str:
    """Return the SHA-256, in hex, of all that an overlay depends on."""
    facts = [FORMAT_VERSION, base_digest, changes.extra_words, changes.exclude_words]
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()


def build_overlay(words: Words, changes: ListChanges, speller: Speller) -> Overlay:
    """Apply changes to a trie; ``exclude_words`` are entries of its list, as they stand there."""
    paths = _Paths(words)
    for row in _spelled(words.listed.lang, changes.exclude_words, speller)[0]:
        paths.put(row, [_NEVER] * NUM_MODES)
    added, lost = _spelled(words.listed.lang, changes.extra_words, speller)
    for row in added:
        is_listed = row.listed_rank != _NEVER
        paths.put(row, [_ALWAYS if is_listed or mode & SENTENCE else None for mode in range(NUM_MODES)])
    kept = tuple(word for word in changes.extra_words if word not in lost)
    return paths.finish(
        overlay_digest(words.digest, changes),
        ListChanges(kept, changes.exclude_words),
        tuple(word for word in changes.extra_words if word in lost),
    )


def _spelled(lang: str, entries: tuple[str, ...], speller: Speller) -> tuple[list[SpelledForm], set[str]]:
    if not entries:
        return [], set()
    return spell_forms(forms_of(WordList(lang, entries, "inline")), speller, possessive=False)


class _Paths:
    """The new nodes, each with all of its edges."""

    def __init__(self, words: Words) -> None:
        self._words = words
        self._num_base = words.num_nodes
        self._edges: list[dict[int, int]] = []
        self._ranks: list[list[int]] = []
        self._kinds: list[int] = []
        self._roots = dict(words.roots)

    def put(self, row: SpelledForm, ranks: Iterable[int | None]) -> None:
        """Give a form other ranks, by mode; None leaves one as it is."""
        node = self._roots[row.root] = self._own(self._roots.get(row.root))
        for token in row.tokens:
            edges = self._edges[node - self._num_base]
            node = edges[token] = self._own(edges.get(token))
        own = self._ranks[node - self._num_base]
        for mode, rank in enumerate(ranks):
            if rank is not None:
                own[mode] = rank
        self._kinds[node - self._num_base] = row.kind

    def _own(self, node: int | None) -> int:
        """Return the node itself if it is new, else a copy; a new node without edges for None."""
        if node is not None and node >= self._num_base:
            return node
        words = self._words
        if node is None:
            self._edges.append({})
            self._ranks.append([_NEVER] * NUM_MODES)
            self._kinds.append(0)
        else:
            edges = slice(words.edge_start[node], words.edge_start[node + 1])
            self._edges.append(dict(zip(words.tokens[edges].tolist(), words.children[edges].tolist(), strict=True)))
            plain, capital = words.ranks[:, node].tolist()
            self._ranks.append([plain, capital, plain, capital])
            self._kinds.append(int(words.kinds[node]))
        return self._num_base + len(self._kinds) - 1

    def finish(self, digest: str, changes: ListChanges, dropped: tuple[str, ...]) -> Overlay:
        # A copied root has as many edges as its language has beginnings of words.
        tokens = [np.fromiter(one.keys(), dtype=np.int32, count=len(one)) for one in self._edges]
        children = [np.fromiter(one.values(), dtype=np.int32, count=len(one)) for one in self._edges]
        orders = [np.argsort(own) for own in tokens]
        counts = [0, *map(len, tokens)]
        return Overlay(
            digest=digest,
            base_digest=self._words.digest,
            changes=changes,
            dropped_words=dropped,
            roots=self._roots,
            edge_start=np.cumsum(counts, dtype=np.int32),
            tokens=_joined(own[order] for own, order in zip(tokens, orders, strict=True)),
            children=_joined(own[order] for own, order in zip(children, orders, strict=True)),
            ranks=np.asarray(self._ranks, dtype=np.int32).reshape(-1, NUM_MODES).T.copy(),
            ranks_below=self._ranks_below(children),
            kinds=np.asarray(self._kinds, dtype=np.uint8),
        )

    def _ranks_below(self, children: Sequence[Int32Array]) -> Int32Array:
        below = np.asarray(self._ranks, dtype=np.int32).reshape(-1, NUM_MODES)
        # A copy is numbered before those of its children.
        for place in range(len(below) - 1, -1, -1):
            is_new = children[place] >= self._num_base
            shared = self._words.ranks_below[:, children[place][~is_new]].min(axis=1, initial=_NEVER)
            new = below[children[place][is_new] - self._num_base].min(axis=0, initial=_NEVER)
            below[place] = np.minimum(below[place], np.minimum(np.tile(shared, 2), new))
        return below.T.copy()


def _joined(parts: Iterable[Int32Array]) -> Int32Array:
    return np.concatenate([np.zeros(0, dtype=np.int32), *parts])
