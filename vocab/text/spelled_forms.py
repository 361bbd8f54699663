"""All surface forms of a list as arrays: the forms of ``vocab.text.forms``, made for compiling whole languages.

A text may occur more than once; its best rank counts. Possessives are left to the text automaton.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from vocab.arrays.byte_trie import ByteStrings, Int32Array, Uint8Array
from vocab.errors import CompileError
from vocab.lists.wordlists import WordList
from vocab.marks import APOSTROPHES
from vocab.options import ListOptions
from vocab.text.forms import ELISION_LANGUAGES, Capitals, Form, has_apostrophe, resolve_case, spellings

MAX_BYTES: Final = 1 << 30
"""UTF-8 of all forms together: a hundred times that of wordfreq's largest lists."""

BoolArray = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class SpelledForms:
    """Forms as arrays of shape (forms,).

    Attributes:
        strings: The forms in UTF-8.
        ranks: int32, the rank of the word that each writes.
        sentence_only: bool, allowed only where a sentence starts.
        elides: bool, followed directly by a word.
        has_apostrophe: bool.
    """

    strings: ByteStrings
    ranks: Int32Array
    sentence_only: BoolArray
    elides: BoolArray
    has_apostrophe: BoolArray

    @classmethod
    def of(cls, forms: list[Form]) -> "SpelledForms":
        ranks = np.asarray([form.rank for form in forms], dtype=np.int32)
        sentence_only = np.asarray([form.sentence_only for form in forms], dtype=bool)
        return _spell([form.text for form in forms], ranks, sentence_only, [form.elision for form in forms])


def spell_forms(word_list: WordList, options: ListOptions) -> SpelledForms:
    """Return the forms of the whole list, without possessives.

    Raises:
        CompileError: They have more than ``MAX_BYTES``.
    """
    case = resolve_case(word_list, options)
    ranks = range(1, len(word_list.words) + 1) if word_list.ranks is None else word_list.ranks
    texts, text_ranks = list(word_list.words), np.asarray(ranks, dtype=np.int32)
    with_apostrophe = [index for index, text in enumerate(texts) if has_apostrophe(text)]
    variants = [(text_ranks[i], text) for i in with_apostrophe for text in set(spellings(texts[i], False))]
    texts += [text for _, text in variants]
    text_ranks = np.append(text_ranks, np.asarray([rank for rank, _ in variants], dtype=np.int32))

    capitals = [] if case == "listed" else list(map(Capitals(word_list.language).of, texts))
    is_capital = np.asarray([capital is not None for capital in capitals], dtype=bool)
    num_plain = len(texts)
    texts += [capital for capital in capitals if capital is not None]
    text_ranks = np.append(text_ranks, text_ranks[np.flatnonzero(is_capital)])
    sentence_only = np.arange(len(texts)) >= (num_plain if case == "sentence" else len(texts))
    elides = (text[-1] in APOSTROPHES for text in texts) if word_list.language in ELISION_LANGUAGES else ()
    return _spell(texts, text_ranks, sentence_only, elides)


def _spell(texts: list[str], ranks: Int32Array, sentence_only: BoolArray, elides: Iterable[bool]) -> SpelledForms:
    # Joined by line breaks, which no form holds.
    data = np.frombuffer("\n".join(texts).encode(), dtype=np.uint8)
    if len(data) > MAX_BYTES:
        raise CompileError(f"the list's words have more than {MAX_BYTES} bytes; take fewer or shorter words")
    breaks = np.flatnonzero(data == ord("\n")).astype(np.int32)
    starts, ends = np.append(np.int32(0), breaks + 1), np.append(breaks, np.int32(len(data)))
    elision = np.zeros(len(texts), dtype=bool)
    elision[np.flatnonzero(np.fromiter(elides, dtype=bool))] = True
    return SpelledForms(
        ByteStrings(data, starts.astype(np.int32), ends.astype(np.int32)),
        ranks,
        sentence_only,
        elision,
        _with_apostrophe(data, ends),
    )


def _with_apostrophe(data: Uint8Array, ends: Int32Array) -> BoolArray:
    """Return which of the strings, given by their ends, have an apostrophe: bool (strings,)."""
    found = np.zeros(len(ends), dtype=bool)
    for apostrophe in map(str.encode, APOSTROPHES):
        places = np.flatnonzero(data == apostrophe[0])
        for offset in range(1, len(apostrophe)):
            places = places[places + offset < len(data)]
            places = places[data[places + offset] == apostrophe[offset]]
        found[np.searchsorted(ends, places)] = True
    return found
