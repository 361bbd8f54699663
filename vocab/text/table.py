"""The forms of a list as a trie of characters with ranks, in which a text's words are looked up, for any N and options.

It is made of the entries and of the rules of forms alone, and shares nothing with the trie over tokens that a text was
written by. What a rule gives has no nodes of its own: a capital stands for its small letters, and the English
possessive follows a node that may carry it. A capital that melts with what comes after it does: "i̇" gives "İ", and
Dutch "ij" gives "IJ".
"""

import codecs
import hashlib
import unicodedata
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, Final, Self

import numpy as np
import numpy.typing as npt

from vocab.arrays.kernels import Int32Array, Uint8Array, address_of, kernel, position_of, short_kernel
from vocab.lists.cleaned import IJ_LANGUAGES
from vocab.lists.wordlists import WordList
from vocab.text.forms import (
    ELISION_LANGUAGES,
    POSSESSIVE_LANGUAGES,
    Capitals,
    follows_elision,
    has_apostrophe,
    spellings,
    takes_possessive,
)

TABLE_VERSION: Final = 3
"""Part of every digest; incremented when the arrays or the forms they hold change."""

NO_RANK: Final = 2**31 - 1
"""A rank that no list reaches."""

PLAIN_ROOT, MELTED_ROOT, NUM_ROOTS = 0, 1, 2
"""The nodes of words as listed, and of capitals that take in what comes after."""

FOLLOWS_ELISION, POSSESSABLE, MELTS = 1, 2, 4
"""What holds of the form that ends at a node: it may directly follow an elision; it may carry the English 's; its
capital stands under ``MELTED_ROOT`` only."""

TrieRecord: Final = np.dtype(
    [
        (field, np.int64)
        for field in (
            *("first_child", "labels", "ranks", "ranks_below", "kinds"),
            *("more_nodes", "more_ranks", "num_more", "capitals", "small_letters", "num_capitals"),
        )
    ]
)
"""A table for compiled code: the addresses of its arrays, and the lengths of the last two pairs of them."""


_encode: Final = codecs.getencoder("utf-32-le")
_INT32: Final = np.dtype(np.int32)


def code_points(text: str) -> Int32Array:
    """Return the code points of a text, int32, which cannot be written to."""
    # The encoder itself, and a type made before: 0.3 µs instead of 1.
    return np.frombuffer(_encode(text, "surrogatepass")[0], _INT32)


def table_digest(word_list: WordList) -> str:
    """Return the name of a list's table: of its words and ranks, whatever the tokenizer (SHA-256, hex)."""
    return hashlib.sha256(f"forms {TABLE_VERSION} {word_list.digest}".encode()).hexdigest()


@dataclass(frozen=True)
class FormTable:
    """A trie of characters. Nodes are in order of their depth, and a node's children follow one another.

    Attributes:
        first_child: int32 (nodes + 1,); the children of a node are those from here up to the next node's first child.
        labels: int32 (nodes,), the code point that leads to a node, ascending within its parent.
        ranks: int32 (nodes,), the best rank of a word written so; ``NO_RANK`` where none is.
        ranks_below: int32 (nodes,), the smallest rank there and below.
        kinds: uint8 (nodes,), the sum of ``FOLLOWS_ELISION``, ``POSSESSABLE`` and ``MELTS``.
        more_nodes: int32, ascending: nodes of forms that several words give, once for each further rank,
        more_ranks: int32, which is this.
        capitals: int32, ascending: code points of capital letters, once for each small letter that has it,
        small_letters: int32, which is this.
    """

    first_child: Int32Array
    labels: Int32Array
    ranks: Int32Array
    ranks_below: Int32Array
    kinds: Uint8Array
    more_nodes: Int32Array
    more_ranks: Int32Array
    capitals: Int32Array
    small_letters: Int32Array

    @classmethod
    def of(cls, word_list: WordList) -> Self:
        """Make the table of all words of a list: 0.2 s for 50,000."""
        if word_list.is_unspaced:
            return cls._of_forms(list(word_list.words), [rank for rank, _ in word_list.ranked()])
        texts, ranks = list[str](), list[int]()
        for rank, word in word_list.ranked():
            for text in dict.fromkeys(spellings(word, False)) if has_apostrophe(word) else (word,):
                texts.append(text)
                ranks.append(rank)
        pairs, melted = _capitals_of(texts, word_list.language)
        kinds = _kinds_of(texts, word_list)
        for index, _ in melted:
            kinds[index] |= MELTS
        # A capital that melted has its word's kinds: they look at the letters without their marks, or at none.
        capitals = [capital for _, capital in melted]
        all_kinds = [*kinds, *(kinds[index] & ~MELTS for index, _ in melted)]
        return cls._of_forms(texts, ranks, capitals, [ranks[index] for index, _ in melted], all_kinds, pairs)

    @classmethod
    def of_dictionary(cls, words: Collection[str]) -> Self:
        """Make the table of words without ranks: 0.7 s for 330,000."""
        return cls._of_forms(list(words), [1] * len(words))

    @classmethod
    def _of_forms(
        cls,
        texts: list[str],
        ranks: list[int],
        melted: Sequence[str] = (),
        melted_ranks: Sequence[int] = (),
        kinds: Sequence[int] = (),
        capitals: Sequence[tuple[int, int]] = (),
    ) -> Self:
        """Build the trie of texts and of melted capitals, each with its rank; ``kinds`` are of both."""
        forms = [*texts, *melted]
        plain = sorted(range(len(texts)), key=forms.__getitem__)
        order = [*plain, *sorted(range(len(texts), len(forms)), key=forms.__getitem__)]
        in_order = [forms[index] for index in order]
        chars = code_points("".join(in_order))
        lengths = np.fromiter(map(len, in_order), dtype=np.int64, count=len(in_order))
        parents, labels, depths, ends = _insert(chars, lengths, len(plain))
        # From preorder to the order of depths, in which a node's children stay together.
        by_depth = np.argsort(depths, kind="stable")
        place = np.empty(len(by_depth), dtype=np.int32)
        place[by_depth] = np.arange(len(by_depth), dtype=np.int32)
        parents, labels, ends = place[parents[by_depth]], labels[by_depth], place[ends]
        num_nodes = len(labels)
        first_child = np.full(num_nodes + 1, NUM_ROOTS, dtype=np.int32)
        first_child[1:] += np.cumsum(np.bincount(parents[NUM_ROOTS:], minlength=num_nodes)).astype(np.int32)
        index = np.asarray(order, dtype=np.int64)
        of_form = np.asarray([*ranks, *melted_ranks], dtype=np.int32)[index]
        by_node, more_nodes, more_ranks = _ranks_by_node(ends, of_form, num_nodes)
        kinds_by_node = np.zeros(num_nodes, dtype=np.uint8)
        if kinds:
            kinds_by_node[ends] = np.asarray(kinds, dtype=np.uint8)[index]
        below = by_node.copy()
        _lower(below, parents)
        pairs = np.asarray(sorted(capitals), dtype=np.int32).reshape(-1, 2)
        return cls(
            first_child,
            labels,
            by_node,
            below,
            kinds_by_node,
            more_nodes,
            more_ranks,
            np.ascontiguousarray(pairs[:, 0]),
            np.ascontiguousarray(pairs[:, 1]),
        )

    @property
    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Return its arrays by name."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @property
    def num_nodes(self) -> int:
        return len(self.labels)

    @property
    def num_bytes(self) -> int:
        return sum(array.nbytes for array in self.arrays.values())

    @cached_property
    def record(self) -> npt.NDArray[np.void]:
        """Return its ``TrieRecord``, (1,), good as long as the table is there."""
        record = np.zeros(1, TrieRecord)
        for name, array in self.arrays.items():
            record[name] = address_of(array)
        record["num_more"], record["num_capitals"] = len(self.more_nodes), len(self.capitals)
        return record

    def ranks_of(self, text: str, *, with_capital: bool) -> Iterator[int]:
        """Yield the ranks of all words that may be written as ``text``, the possessive left out; may repeat."""
        if not text:
            return
        yield from self._ranks_at(self._find(PLAIN_ROOT, text))
        if with_capital:
            yield from self._ranks_at(self._find(MELTED_ROOT, text))
            for place in np.flatnonzero(self.capitals == ord(text[0])):
                node = self._find(PLAIN_ROOT, chr(self.small_letters[place]) + text[1:])
                if node >= 0 and not self.kinds[node] & MELTS:
                    yield from self._ranks_at(node)

    def _ranks_at(self, node: int) -> Iterator[int]:
        if node >= 0 and self.ranks[node] != NO_RANK:
            yield int(self.ranks[node])
            first, last = np.searchsorted(self.more_nodes, (node, node + 1))
            yield from self.more_ranks[first:last].tolist()

    def _find(self, root: int, text: str) -> int:
        return int(_find(self.first_child, self.labels, root, code_points(text)))

    def check(self) -> None:
        """Raise ``ValueError`` for indices out of range: compiled code does not check bounds."""
        num_nodes = self.num_nodes
        sizes_agree = (
            len(self.first_child) == num_nodes + 1
            and num_nodes >= NUM_ROOTS
            and len(self.ranks) == len(self.ranks_below) == len(self.kinds) == num_nodes
            and len(self.more_nodes) == len(self.more_ranks)
            and len(self.capitals) == len(self.small_letters)
        )
        has_types = all(
            array.dtype == (np.uint8 if name == "kinds" else np.int32) for name, array in self.arrays.items()
        )
        if not sizes_agree or not has_types:
            raise ValueError("its arrays do not fit together")
        first = self.first_child
        # Children come after their parent, so that every walk ends.
        is_tree = bool(
            first[0] == NUM_ROOTS
            and first[-1] == num_nodes
            and np.all(np.diff(first) >= 0)
            and np.all(first[:-1] > np.arange(num_nodes))
        )
        if not is_tree:
            raise ValueError("its arrays point outside themselves")


def _ranks_by_node(ends: Int32Array, ranks: Int32Array, num_nodes: int) -> tuple[Int32Array, Int32Array, Int32Array]:
    """Return the best rank at each node, and the further ones: their nodes, ascending, and them."""
    by_node = np.full(num_nodes, NO_RANK, dtype=np.int32)
    if not len(ends):
        return by_node, ends, ranks
    order = np.lexsort((ranks, ends))
    ends, ranks = ends[order], ranks[order]
    is_new = np.append(True, (np.diff(ends) != 0) | (np.diff(ranks) != 0))
    ends, ranks = ends[is_new], ranks[is_new]
    is_first = np.append(True, np.diff(ends) != 0)
    by_node[ends[is_first]] = ranks[is_first]
    return by_node, ends[~is_first], ranks[~is_first]


def _capitals_of(texts: Sequence[str], language: str) -> tuple[list[tuple[int, int]], list[tuple[int, str]]]:
    """Return pairs of a capital and its small letter, and the capitals that melted, each with its text's index."""
    capitals = Capitals(language)
    by_letter = {letter: capitals.of(letter) for letter in {text[0] for text in texts}}
    pairs = [(ord(capital), ord(letter)) for letter, capital in by_letter.items() if capital and len(capital) == 1]
    # A capital melts with a combining mark and with the j of "ij" only, or is no single character in NFC.
    melting = {char for char in {text[1:2] for text in texts} if char and unicodedata.category(char)[0] == "M"}
    melting |= {"j"} if language in IJ_LANGUAGES else set()
    odd = {letter for letter, capital in by_letter.items() if capital and len(capital) != 1}
    melted = list[tuple[int, str]]()
    if melting or odd:
        for index, text in enumerate(texts):
            if text[1:2] not in melting and text[0] not in odd:
                continue
            capital = capitals.of(text)
            if capital is not None and (capital[1:] != text[1:] or text[0] in odd):
                melted.append((index, capital))
    return pairs, melted


def _kinds_of(texts: Sequence[str], word_list: WordList) -> list[int]:
    if word_list.language in ELISION_LANGUAGES:
        return [FOLLOWS_ELISION * follows_elision(text, word_list.language) for text in texts]
    if word_list.language in POSSESSIVE_LANGUAGES:
        return [POSSESSABLE * takes_possessive(text) for text in texts]
    return [0] * len(texts)


@kernel
def _insert(
    chars: Int32Array, lengths: npt.NDArray[np.int64], num_plain: int
) -> tuple[Int32Array, Int32Array, npt.NDArray[np.uint16], Int32Array]:
    """Build the trie of sorted texts in preorder: parents, labels, depths, and the node of each text.

    The first ``num_plain`` stand under the first root, the others under the second.
    """
    room, longest = len(chars) + NUM_ROOTS, 0
    for length in lengths:
        longest = max(longest, length)
    parents, labels = np.zeros(room, np.int32), np.zeros(room, np.int32)
    depths, ends = np.zeros(room, np.uint16), np.zeros(len(lengths), np.int32)
    path = np.zeros(longest + 1, np.int32)
    num_nodes, start, start_before = NUM_ROOTS, 0, 0
    for form in range(len(lengths)):
        common = 0
        if form == num_plain:
            path[0] = MELTED_ROOT
        elif form > 0:
            most = min(lengths[form - 1], lengths[form])
            while common < most and chars[start_before + common] == chars[start + common]:
                common += 1
        for depth in range(common, lengths[form]):
            parents[num_nodes], labels[num_nodes] = path[depth], chars[start + depth]
            depths[num_nodes] = depth + 1
            path[depth + 1] = num_nodes
            num_nodes += 1
        ends[form] = path[lengths[form]]
        start_before = start
        start += lengths[form]
    return parents[:num_nodes].copy(), labels[:num_nodes].copy(), depths[:num_nodes].copy(), ends


@short_kernel
def _find(first_child: Int32Array, labels: Int32Array, node: int, text: Int32Array) -> int:
    """Return the node that ``text`` leads to from another; -1 for none."""
    for char in text:
        node = position_of(labels, first_child[node], first_child[node + 1], char)
        if node < 0:
            break
    return node


@kernel
def _lower(below: Int32Array, parents: Int32Array) -> None:
    """Lower each node's smallest rank to those below it; a parent stands before its children."""
    for node in range(len(below) - 1, NUM_ROOTS - 1, -1):
        parent = parents[node]
        below[parent] = min(below[parent], below[node])
