"""A compiled list: the trie of its words over the tokens of one tokenizer, for any N."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Final, NamedTuple, Self

import numpy as np

from vocab.arrays.kernels import Int32Array, Uint8Array
from vocab.lists.wordlists import Source, WordList, language_of, unspaced_language

FORMAT_VERSION: Final = 7
"""Part of every digest; incremented when the arrays or the texts they allow change."""

NEVER: Final = np.int32(2**31 - 1)
"""A rank that no list reaches."""

WORD, POSSESSABLE, ELISION = 0, 1, 2
NUM_KINDS: Final = 3
"""What a word leaves after it: the end of a word, one that may carry the English 's, or the place of the next word."""

NO_KIND: Final = -1


class Root(NamedTuple):
    """Where words of one kind begin.

    Attributes:
        lead: What the first token takes in from the left: nothing, a blank, or a mark that the tokenizer draws in.
        head: Marks at the beginning of the entries, spelled by the frame.
        tail: Marks at their end, spelled by the frame.
        kind: What entries with a head or a tail leave after them; ``NO_KIND`` for all others, whose nodes say it.
        is_elided: Whether an elision ends directly before the lead; of entries that may follow one.
        is_possessive: Whether the words end with the English 's, which shares a token with them.
    """

    lead: str = ""
    head: str = ""
    tail: str = ""
    kind: int = NO_KIND
    is_elided: bool = False
    is_possessive: bool = False


POSSESSIVE: Final = Root("'s", is_possessive=True)
"""The root of the English 's, which follows a word of the kind ``POSSESSABLE``."""


@dataclass(frozen=True)
class TrieArrays:
    """Nodes of a trie over tokens: all of a list's, or those that a request adds.

    Attributes:
        roots: The node of each root, in a fixed order.
        edge_start: int32 (nodes + 1,), where a node's edges begin in the next two.
        tokens: int32, ascending within a node.
        children: int32, nodes.
        ranks: int32 (modes, nodes), the rank of the word that ends there; ``NEVER`` where none does.
        ranks_below: int32 (modes, nodes), the smallest rank there and below.
        kinds: uint8 (nodes,), what the word that ends there leaves after it.
    """

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


@dataclass(frozen=True)
class ListedWords:
    """The words of a compiled list, decoded from its file on first use."""

    lang: str
    source: Source
    num_words: int
    num_ranks: int
    decode: Callable[[], WordList]

    @classmethod
    def of(cls, word_list: WordList) -> Self:
        return cls(word_list.lang, word_list.source, len(word_list.words), word_list.num_ranks, lambda: word_list)

    @cached_property
    def word_list(self) -> WordList:
        return self.decode()


@dataclass(frozen=True)
class CompiledList(TrieArrays):
    """A compiled list: its trie, with two modes: words as listed, and with a capital allowed. Nodes are in preorder.

    Attributes:
        digest: Names it: list, tokenizer and format.
        tokenizer_digest: The tokenizer that the token ids belong to.
        num_tokens: Size of that tokenizer's vocabulary.
        listed: The words, in rank order, without those that the tokenizer cannot spell.
        has_capitals: Whether the list has capitals, which decides ``case: auto``.
        dropped_words: What the tokenizer cannot spell.
    """

    digest: str
    tokenizer_digest: str
    num_tokens: int
    listed: ListedWords
    has_capitals: bool
    dropped_words: tuple[str, ...]

    @property
    def language(self) -> str:
        """Return the first subtag of the list's name, which decides the rules of spelling."""
        return language_of(self.listed.lang)

    @property
    def is_unspaced(self) -> bool:
        """Return whether the trie is of characters, for texts without spaces (``vocab.automaton.dictionary_trie``)."""
        return unspaced_language(self.listed.lang) is not None
