"""A word list as arrays that a file can hold, decoded on first use."""

from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np

from vocab.arrays.byte_trie import Int32Array, Uint8Array
from vocab.lists.wordlists import Source, WordList


@dataclass(frozen=True)
class StoredWords:
    """A ``WordList`` as arrays.

    Attributes:
        spelled: uint8, the words in UTF-8, joined by line breaks: no word holds one.
        ranks: int32 (words,), the rank of each word; empty where the word of rank r is the r-th.
    """

    lang: str
    source: Source
    num_words: int
    num_ranks: int
    spelled: Uint8Array
    ranks: Int32Array

    @classmethod
    def of(cls, word_list: WordList) -> Self:
        """Encode a word list as arrays."""
        ranks = np.asarray(word_list.ranks or (), dtype=np.int32)
        words = word_list.words
        return cls(word_list.lang, word_list.source, len(words), word_list.num_ranks, spell(words), ranks)

    @cached_property
    def word_list(self) -> WordList:
        """Decode the word list, on first use."""
        ranks = tuple(self.ranks.tolist()) if len(self.ranks) else None
        return WordList(self.lang, read_words(self.spelled), self.source, ranks)


def spell(words: tuple[str, ...]) -> Uint8Array:
    """Encode words as one uint8 array, in UTF-8."""
    return np.frombuffer("\n".join(words).encode(), dtype=np.uint8)


def read_words(spelled: Uint8Array) -> tuple[str, ...]:
    """Decode the words that ``spell`` encoded."""
    text = spelled.tobytes().decode()
    return tuple(text.split("\n")) if text else ()
