"""A request's own changes to a list: words added and words left out, as nodes beside those of the trie.

The path of each changed form is copied into new nodes, and all else is shared: the trie itself stays as it is, mapped
from its file. Added words are allowed whatever N: their ranks are -1, -2 and so on.
"""

import hashlib
import json
from dataclasses import dataclass
from typing import Final

import numpy as np

from vocab.arrays.interner import Interner
from vocab.arrays.kernels import Int32Array, group_starts, position_of
from vocab.automaton.compiled_list import FORMAT_VERSION, NEVER, WORD, CompiledList, Root, TrieArrays
from vocab.automaton.frame import CAPITAL, NUM_MODES, SENTENCE
from vocab.automaton.tokenizer import Speller
from vocab.automaton.trie_builder import SpelledForm, forms_of, lower_ranks, spell_forms
from vocab.lists.wordlists import WordList
from vocab.text.changes import ListChanges, entries_spelled_like

_NEVER: Final = int(NEVER)
_VERSION: Final = 3
"""Part of every digest of changes; incremented when their arrays change."""


@dataclass(frozen=True)
class Overlay(TrieArrays):
    """The nodes of a request's changes to a list, numbered after those of the trie; edges may lead to nodes of both.

    The roots are those of the trie in its order, then new ones. There are four modes: where a sentence starts, added
    words have capitals whatever the list's words have.

    Attributes:
        digest: Names it: trie and changes.
        base_digest: The trie.
        changes: The words added that the tokenizer can spell, and the entries left out.
        dropped_words: The words added that it cannot spell.
    """

    digest: str
    base_digest: str
    changes: ListChanges
    dropped_words: tuple[str, ...]


def overlay_digest(base_digest: str, changes: ListChanges) -> str:
    """Hash what an overlay is built from (SHA-256, hex): formats, trie, words added and left out."""
    facts = [FORMAT_VERSION, _VERSION, base_digest, changes.extra_words, changes.exclude_words]
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()


def build_overlay(words: CompiledList, changes: ListChanges, speller: Speller) -> Overlay:
    """Build the overlay of changes to a trie; ``exclude_words`` are entries as its list has them."""
    paths = _OverlayBuilder(words)
    modes = list(range(NUM_MODES))
    # Words that share a rank are left out together, and one of them may be written like a word that stays.
    stays = _forms_that_stay(words.listed.word_list, changes.exclude_words)
    for row in _spell(words.listed.lang, changes.exclude_words, speller)[0]:
        listed_rank, capital_rank = stays.get(row.form.text, (_NEVER, _NEVER))
        for mode in modes:
            paths.put(row, capital_rank if mode & CAPITAL else listed_rank, [mode])
    added, lost = _spell(words.listed.lang, changes.extra_words, speller)
    kept = tuple(word for word in changes.extra_words if word not in lost)
    ranks = {word: -rank for rank, word in enumerate(kept, start=1)}
    for row in added:
        word = changes.extra_words[min(row.form.listed_rank, row.form.capital_rank) - 1]
        # A word counts as lost only where none of its forms can be spelled.
        if word in ranks:
            paths.put(row, ranks[word], [mode for mode in modes if row.form.listed_rank != _NEVER or mode & SENTENCE])
    return paths.finish(
        overlay_digest(words.digest, changes),
        ListChanges(kept, changes.exclude_words),
        tuple(word for word in changes.extra_words if word in lost),
    )


def _forms_that_stay(word_list: WordList, left_out: tuple[str, ...]) -> dict[str, tuple[int, int]]:
    """Return the listed and the capital rank, by text, of forms that the entries left out and others have."""
    if word_list.ranks is None or not left_out:
        return {}
    excluded = frozenset(left_out)
    stay = [(rank, word) for rank, word in entries_spelled_like(word_list, left_out) if word not in excluded]
    ranks, words = tuple(rank for rank, _ in stay), tuple(word for _, word in stay)
    forms = forms_of(WordList(word_list.lang, words, "inline", ranks))
    return {form.text: (form.listed_rank, form.capital_rank) for form in forms}


def _spell(lang: str, entries: tuple[str, ...], speller: Speller) -> tuple[list[SpelledForm], set[str]]:
    """Tokenize all forms of a request's entries; also return those that cannot be spelled."""
    if not entries:
        return [], set()
    return spell_forms(WordList(lang, entries, "inline"), speller, is_bounded=True)


class _OverlayBuilder:
    """The paths of changed forms, as new nodes."""

    def __init__(self, words: CompiledList) -> None:
        self._words = words
        self._roots: Interner[Root] = Interner(words.roots)
        # By the parent and the token that leads there; of a root, -1 and its number.
        self._nodes: Interner[tuple[int, int]] = Interner()
        self._ends: list[tuple[int, int, int, list[int]]] = []

    def put(self, row: SpelledForm, rank: int, modes: list[int]) -> None:
        """Copy a form's path into new nodes, with another rank at its end in some modes."""
        node = self._nodes[-1, self._roots[row.root]]
        for token in row.tokens:
            node = self._nodes[node, token]
        self._ends.append((node, row.kind, rank, modes))

    def finish(self, digest: str, changes: ListChanges, dropped: tuple[str, ...]) -> Overlay:
        """Build the overlay of all forms that were put."""
        words, origins = self._words, self._origins()
        ranks = np.where(origins >= 0, np.tile(words.ranks[:, origins], (2, 1)), NEVER)
        kinds = np.where(origins >= 0, words.kinds[origins], np.uint8(WORD))
        for node, kind, rank, modes in self._ends:
            kinds[node], ranks[modes, node] = kind, rank
        edge_start, tokens, children = self._edges(origins)
        below = ranks.copy()
        lower_ranks(below, words.ranks_below, edge_start, children)
        roots = {
            root: words.num_nodes + self._nodes[-1, number] if (-1, number) in self._nodes else words.roots[root]
            for root, number in self._roots.items()
        }
        return Overlay(
            digest=digest,
            base_digest=words.digest,
            changes=changes,
            dropped_words=dropped,
            roots=roots,
            edge_start=edge_start,
            tokens=tokens,
            children=children,
            ranks=ranks,
            ranks_below=below,
            kinds=kinds,
        )

    def _origins(self) -> Int32Array:
        """Return, by new node, the node of the trie that it copies; -1 for none."""
        starts, tokens, children = self._words.edge_start, self._words.tokens, self._words.children
        origins: list[int] = []
        for parent, token in self._nodes.in_order:
            if parent < 0:
                origins.append(self._words.roots.get(self._roots.in_order[token], -1))
            else:
                origin = origins[parent]
                edge = position_of(tokens, starts[origin], starts[origin + 1], token) if origin >= 0 else -1
                origins.append(children[edge] if edge >= 0 else -1)
        return np.asarray(origins, dtype=np.int32)

    def _edges(self, origins: Int32Array) -> tuple[Int32Array, Int32Array, Int32Array]:
        """Return ``edge_start``, ``tokens`` and ``children`` of the new nodes, copied edges of the trie included."""
        words, num_nodes = self._words, len(origins)
        parents, labels = np.asarray(self._nodes.in_order, dtype=np.int32).reshape(-1, 2).T
        new = np.flatnonzero(parents >= 0).astype(np.int32)
        # Places in the arrays of the trie: those of one node lie together.
        starts = words.edge_start[origins]
        counts = np.where(origins >= 0, words.edge_start[origins + 1] - starts, 0)
        copied = np.arange(counts.sum()) + np.repeat(starts - (np.cumsum(counts) - counts), counts)
        owners = np.concatenate([parents[new], np.repeat(np.arange(num_nodes, dtype=np.int32), counts)])
        tokens = np.concatenate([labels[new], words.tokens[copied]])
        children = np.concatenate([words.num_nodes + new, words.children[copied]])
        # The first of equal ones, so that an edge to a new node replaces that of the trie.
        _, kept = np.unique(owners.astype(np.int64) << 32 | tokens, return_index=True)
        return group_starts(owners[kept], num_nodes), tokens[kept], children[kept]
