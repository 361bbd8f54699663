"""The dictionary of a language written without spaces as a trie over characters, with the links of longest match.

The trie is a ``CompiledList`` like any other, stored and shared alike, but its edges are code points and not tokens:
such a text is cut into tokens anywhere, so its words are followed by their characters. A word of the dictionary that
is not listed has the rank ``UNLISTED``.

Longest match from the left is a deterministic automaton over this trie: its state is the unfinished rest of a run, a
node. Where no edge goes on with the next character, the words that the rest begins with are cut off, and the walk goes
on at the node of what is left of it: that link is made for all nodes at once (Song et al. 2021, "Fast WordPiece
Tokenization").
"""

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from vocab.arrays.kernels import Int32Array, group_starts, kernel, position_of
from vocab.automaton.compiled_list import NEVER, CompiledList, ListedWords, Root
from vocab.automaton.overlay import Overlay, overlay_digest
from vocab.automaton.tokenizer import Speller
from vocab.automaton.trie_builder import (
    MAX_NODES,
    MAX_OWN_NODES,
    edges_of,
    insert_sorted,
    lower_ranks,
    words_digest,
)
from vocab.errors import EmptyWordListError, ListTooLargeError
from vocab.lists.wordlists import WordList, reference_dictionary
from vocab.text.changes import ListChanges

UNLISTED: Final = int(NEVER) - 1
"""The rank of a word of the dictionary that the list lacks: greater than any N."""

_VERSION: Final = 1
"""Part of every digest; incremented when the arrays or the texts they allow change."""

_ROOT: Final = Root()
_NO_RANK: Final = -(2**31)
"""Less than the rank of any word."""


class ReferenceWords(NamedTuple):
    """The reference dictionary of a language, and what names it."""

    words: tuple[str, ...]
    digest: str


@lru_cache(maxsize=2)
def reference_words(language: str) -> ReferenceWords:
    """Return the reference dictionary of an unspaced language, cached: 330,000 words take 0.3 s and 40 MB."""
    words = reference_dictionary(language)
    return ReferenceWords(words, hashlib.sha256("\n".join(words).encode()).hexdigest())


def segmented_digest(word_list: WordList, speller: Speller, reference: ReferenceWords) -> str:
    """Hash what such a list is built from (SHA-256, hex): as ``words_digest``, with the dictionary."""
    base = words_digest(word_list, speller, has_capitals=False)
    return hashlib.sha256(f"{_VERSION} {base} {reference.digest}".encode()).hexdigest()


def build_segmented(word_list: WordList, speller: Speller, reference: ReferenceWords | None = None) -> CompiledList:
    """Compile a list with the dictionary by which its texts are segmented; the list's own words count as part of it.

    Without ``reference``, that is the language's. Words with a character that the tokenizer cannot spell are dropped.

    Raises:
        EmptyWordListError: The tokenizer can spell no word of the list.
        ListTooLargeError: The trie has more than ``MAX_NODES``.
    """
    reference = reference or reference_words(word_list.language)
    spelled = _spellable(word_list.words, speller)
    dropped = tuple(word for word in word_list.words if not spelled.issuperset(word))
    if len(dropped) == len(word_list.words):
        raise EmptyWordListError(f"the model's tokenizer cannot spell any word of the list {word_list.lang!r}")
    kept = word_list.without(frozenset(dropped)) if dropped else word_list
    ranks = {word: rank for rank, word in kept.ranked()}
    words = sorted({*ranks, *reference.words})
    chars = np.frombuffer("".join(words).encode("utf-32-le"), dtype=np.int32)
    parents, labels, ends = trie_of(chars, np.fromiter(map(len, words), dtype=np.int32, count=len(words)))
    # A list of a request's own is held to the nodes that it adds to its language's dictionary.
    num_own = sum(map(len, ranks)) if word_list.source == "inline" else 0
    if len(parents) > MAX_NODES or num_own > MAX_OWN_NODES:
        raise ListTooLargeError("The list has too many characters: send fewer or shorter words.")
    by_node = np.full(len(parents), NEVER, dtype=np.int32)
    by_node[ends] = np.fromiter((ranks.get(word, UNLISTED) for word in words), dtype=np.int32, count=len(words))
    ranks_by_mode = np.stack([by_node, by_node])
    edge_start, tokens, children = edges_of(parents, labels)
    below = ranks_by_mode.copy()
    lower_ranks(below, ranks_by_mode[:, :0], edge_start, children)
    return CompiledList(
        digest=segmented_digest(word_list, speller, reference),
        tokenizer_digest=speller.facts.digest,
        num_tokens=len(speller.facts),
        listed=ListedWords.of(kept),
        has_capitals=False,
        dropped_words=dropped,
        roots={_ROOT: 0},
        edge_start=edge_start,
        tokens=tokens,
        children=children,
        ranks=ranks_by_mode,
        ranks_below=below,
        kinds=np.zeros(len(parents), dtype=np.uint8),
    )


def build_segmented_overlay(words: CompiledList, changes: ListChanges, speller: Speller) -> Overlay:
    """Build the overlay of changes to such a list: it names them, and adds no nodes of its own."""
    spelled = _spellable(changes.extra_words, speller)
    kept = tuple(word for word in changes.extra_words if spelled.issuperset(word))
    empty, no_ranks = np.zeros(0, dtype=np.int32), np.zeros((4, 0), dtype=np.int32)
    return Overlay(
        digest=overlay_digest(words.digest, changes),
        base_digest=words.digest,
        changes=ListChanges(kept, changes.exclude_words),
        dropped_words=tuple(word for word in changes.extra_words if word not in kept),
        roots=words.roots,
        edge_start=np.zeros(1, dtype=np.int32),
        tokens=empty,
        children=empty,
        ranks=no_ranks,
        ranks_below=no_ranks,
        kinds=np.zeros(0, dtype=np.uint8),
    )


@dataclass(frozen=True)
class DictionaryTrie:
    """A dictionary's trie with its links, for any N; node 0 is the root, and a parent precedes its children.

    Attributes:
        edge_start: int32 (nodes + 1,), where a node's edges begin in the next two.
        labels: int32 (edges,), code points, ascending within a node.
        children: int32 (edges,).
        parents: int32 (nodes,), -1 of the root.
        depths: int32 (nodes,).
        own_labels: int32 (nodes,), the character that leads to a node; 0 of the root.
        ranks: int32 (nodes,), of the word that ends there: ``UNLISTED``, or ``NEVER`` where none does.
        below: int32 (nodes,), the smallest rank there and below.
        links: int32 (nodes,), where the walk goes on when a node's first words are cut off; -1 where they cannot be.
        cut_ranks: int32 (nodes,), the greatest rank of the words that are cut off then.
        num_cut: int32 (nodes,), how many words these are.
        whole_ranks: int32 (nodes,), the greatest rank of all words of a rest that ends here; ``NEVER`` where it has no
            segmentation.
    """

    edge_start: Int32Array
    labels: Int32Array
    children: Int32Array
    parents: Int32Array
    depths: Int32Array
    own_labels: Int32Array
    ranks: Int32Array
    below: Int32Array
    links: Int32Array
    cut_ranks: Int32Array
    num_cut: Int32Array
    whole_ranks: Int32Array

    @classmethod
    def of(cls, words: CompiledList, overlay: Overlay | None = None, marks: Sequence[int] = ()) -> "DictionaryTrie":
        """Add the changes of an overlay to a list's trie, and make its links: 30 ms for 300,000 words.

        No edge leads by one of ``marks``, code points: they are no part of a word, though an entry has one.
        """
        num_nodes = words.num_nodes
        parents, own_labels = np.full(num_nodes, -1, dtype=np.int32), np.zeros(num_nodes, dtype=np.int32)
        parents[words.children] = np.repeat(np.arange(num_nodes, dtype=np.int32), np.diff(words.edge_start))
        own_labels[words.children] = words.tokens
        ranks = words.ranks[0].copy()
        edges = words.edge_start, words.tokens, words.children
        if overlay is not None:
            _exclude(ranks, edges, overlay.changes.exclude_words)
            parents, own_labels, ranks = _add(parents, own_labels, ranks, edges, overlay.changes.extra_words)
            edges = edges_of(parents, own_labels)
        if len(marks):
            is_cut = _has_any_above(parents, np.isin(own_labels, marks))
            ranks[is_cut] = NEVER
            children = edges[2][~is_cut[edges[2]]]
            edges = group_starts(parents[children], len(parents)), own_labels[children], children
        below = ranks.copy()
        lower_ranks(below.reshape(1, -1), below.reshape(1, -1)[:, :0], *edges[::2])
        depths = depths_of(parents)
        order = np.argsort(depths, kind="stable").astype(np.int32)
        links = _link(order, parents, own_labels, ranks, *edges)
        return cls(*edges, parents, depths, own_labels, ranks, below, *links)

    def child(self, node: int, char: int) -> int:
        """Return the node that a character leads to; -1 for none."""
        return _child((self.edge_start, self.labels, self.children), node, char)

    def path_to(self, node: int) -> tuple[int, ...]:
        """Return the nodes from the root to one, without the root."""
        path = list[int]()
        while node > 0:
            path.append(node)
            node = int(self.parents[node])
        return tuple(reversed(path))

    def paths_to(self, ranks: Sequence[int]) -> list[tuple[int, ...]]:
        """Return the paths to the words of some ranks."""
        ends = np.flatnonzero(np.isin(self.ranks, ranks)) if ranks else ()
        return [self.path_to(int(node)) for node in ends]

    @property
    def num_nodes(self) -> int:
        return len(self.ranks)

    @property
    def num_bytes(self) -> int:
        return 4 * (11 * self.num_nodes + len(self.labels))


def is_ascii_letter(char: int) -> bool:
    """Return whether a code point is one of A-Z and a-z, between which no word ends."""
    return 65 <= char <= 90 or 97 <= char <= 122


_is_ascii_letter = kernel(is_ascii_letter)

_Edges = tuple[Int32Array, Int32Array, Int32Array]


def _spellable(words: Sequence[str], speller: Speller) -> set[str]:
    """Return the characters of words that the tokenizer can spell, each by itself."""
    chars = sorted(set("".join(words)))
    return {char for char, tokens in zip(chars, speller.spell(chars), strict=True) if tokens is not None}


def trie_of(chars: Int32Array, lengths: Int32Array) -> tuple[Int32Array, Int32Array, Int32Array]:
    """Build the trie of sorted words, in preorder: parents, labels, and the node of each word.

    ``lengths`` are how many of ``chars`` each of them has.
    """
    # The root stands before each word, and first by itself.
    sizes = np.append(1, lengths + 1)
    ends = np.cumsum(sizes)
    is_char = np.ones(ends[-1], dtype=np.bool_)
    is_char[ends - sizes] = False
    flat = np.zeros(len(is_char), dtype=np.int32)
    flat[is_char] = chars
    parents, labels, nodes = insert_sorted(flat, ends - sizes, ends, np.arange(len(ends)), len(flat))
    return parents, labels, nodes[1:]


@kernel
def _has_any_above(parents: Int32Array, is_one: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    """Return, by node, whether it or a node above it is one of some nodes; the root is none."""
    has_one = is_one.copy()
    has_one[0] = False
    for node in range(1, len(parents)):
        has_one[node] = has_one[node] or has_one[parents[node]]
    return has_one


@kernel
def depths_of(parents: Int32Array) -> Int32Array:
    """Return the depth of each node."""
    depths = np.zeros(len(parents), np.int32)
    for node in range(1, len(parents)):
        depths[node] = depths[parents[node]] + 1
    return depths


def _child(edges: _Edges, node: int, char: int) -> int:
    """Return the node that a character leads to in a trie given by its edges; -1 for none."""
    starts, labels, children = edges
    edge = position_of(labels, starts[node], starts[node + 1], char)
    return int(children[edge]) if edge >= 0 else -1


def _exclude(ranks: Int32Array, edges: _Edges, words: Iterable[str]) -> None:
    """Make listed words unlisted: the dictionary has them still."""
    for word in words:
        node = 0
        for char in word:
            node = _child(edges, node, ord(char)) if node >= 0 else -1
        if node >= 0 and ranks[node] != NEVER:
            ranks[node] = UNLISTED


def _add(
    parents: Int32Array, labels: Int32Array, ranks: Int32Array, edges: _Edges, words: Sequence[str]
) -> tuple[Int32Array, Int32Array, Int32Array]:
    """Add words to a trie, with the ranks -1, -2 and so on, after its nodes; return parents, labels and ranks."""
    new: dict[tuple[int, str], int] = {}
    changed: dict[int, int] = {}
    num_nodes = len(parents)
    for number, word in enumerate(words, start=1):
        node = 0
        for char in word:
            found = _child(edges, node, ord(char)) if node < num_nodes else -1
            node = found if found >= 0 else new.setdefault((node, char), num_nodes + len(new))
        changed.setdefault(node, -number)
    parents = np.append(parents, np.asarray([parent for parent, _ in new], dtype=np.int32))
    labels = np.append(labels, np.asarray([ord(char) for _, char in new], dtype=np.int32))
    ranks = np.append(ranks, np.full(len(new), NEVER, dtype=np.int32))
    for node, rank in changed.items():
        ranks[node] = rank
    return parents.astype(np.int32), labels.astype(np.int32), ranks.astype(np.int32)


@kernel
def _link(
    order: Int32Array,
    parents: Int32Array,
    own_labels: Int32Array,
    ranks: Int32Array,
    edge_start: Int32Array,
    labels: Int32Array,
    children: Int32Array,
) -> tuple[Int32Array, Int32Array, Int32Array, Int32Array]:
    """Make the links of all nodes, which ``order`` gives by depth."""
    num_nodes = len(parents)
    links, cut_ranks = np.full(num_nodes, -1, np.int32), np.full(num_nodes, NEVER, np.int32)
    whole_ranks, num_cut = np.full(num_nodes, NEVER, np.int32), np.zeros(num_nodes, np.int32)
    whole_ranks[0] = _NO_RANK
    for node in order[1:]:
        if ranks[node] != NEVER:
            links[node], cut_ranks[node], num_cut[node], whole_ranks[node] = 0, ranks[node], 1, ranks[node]
            continue
        parent, char = parents[node], own_labels[node]
        place, rank, num = links[parent], cut_ranks[parent], num_cut[parent]
        while place >= 0:
            edge = position_of(labels, edge_start[place], edge_start[place + 1], char)
            if edge >= 0 and not (place == 0 and _is_ascii_letter(char) and _is_ascii_letter(own_labels[parent])):
                links[node], cut_ranks[node], num_cut[node] = children[edge], rank, num
                whole_ranks[node] = max(rank, whole_ranks[children[edge]])
                break
            rank, num, place = max(rank, cut_ranks[place]), num + num_cut[place], links[place]
    return links, cut_ranks, num_cut, whole_ranks
