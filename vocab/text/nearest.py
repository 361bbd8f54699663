"""Find the listed words nearest to one that is not allowed: of its lemma first, then those of a similar spelling.

Spellings are compared with all words at once: Hyyrö's bit-parallel algorithm ("A Bit-Vector Algorithm for Computing
Levenshtein and Damerau Edit Distances", 2003), a column of all words at a time.
"""

from bisect import bisect_left
from collections.abc import Collection, Sequence
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from vocab.lists.known_lemmas import KnownLemmas
from vocab.lists.wordlists import WordList
from vocab.marks import APOSTROPHES, POSSESSIVE_LETTER
from vocab.text.forms import POSSESSIVE_LANGUAGES
from vocab.text.report import ListedWord, Note

MAX_NEAREST: Final = 3

MAX_CHARS: Final = 32
"""Of a word that is compared by spelling; the bits of a column are one number."""

_SHORT_CHARS: Final = 4
"""Up to here one letter may be wrong, beyond it two: with two, every short word is like dozens of others. A single
letter is like itself only, in other capitals."""


class NearestWords:
    """Search the words of rank ``n_words`` and better, less the ranks ``left_out``, and the words ``added``.

    Nothing is made of the list before the first question.
    """

    def __init__(
        self, word_list: WordList, n_words: int, left_out: Collection[int] = (), added: Sequence[str] = ()
    ) -> None:
        self._whole_list = word_list
        self._language = word_list.language
        self._n_words = n_words
        self._left_out = left_out
        self._added = added

    def note(self, word: str, rank: int | None, most: int = MAX_NEAREST) -> Note:
        """Return the lemma of a word that is not allowed, and at most ``most`` of the nearest allowed words.

        ``word`` is in NFC; ``rank`` is that of its entry in the list, if it has one.
        """
        base, lemma = self._without_possessive(word), self.lemma(word, rank)
        of_lemma = () if lemma is None else self._indices_by_lemma.get(lemma, ())
        # The same entry needs only its capital: "hund".
        found = dict.fromkeys(sorted(of_lemma, key=lambda index: (self._allowed[index].word != lemma, index)))
        if len(found) < most:
            found |= dict.fromkeys(self._spelled.nearest(base.casefold(), most))
        return Note(lemma, tuple(self._allowed[index] for index in list(found)[:most]))

    def lemma(self, word: str, rank: int | None) -> str | None:
        """Return the lemma of a word of a checked text, in NFC; ``rank`` is that of its entry in the list, if any."""
        base = self._without_possessive(word)
        # The entry first, for its capitals.
        spellings = [base, base.lower()] if rank is None else [self._entry(rank), base, base.lower()]
        lemma = next((lemma for spelling in spellings if (lemma := self._lemmas.of(spelling))), None)
        # Of a rank's forms the first one stands for all.
        has_forms = self._whole_list.ranks is not None
        return self._entry(rank) if lemma is None and rank is not None and has_forms else lemma

    def _without_possessive(self, word: str) -> str:
        is_possessive = self._language in POSSESSIVE_LANGUAGES and word.endswith(_POSSESSIVES)
        return word[:-2] if is_possessive and len(word) > 2 else word

    def _entry(self, rank: int) -> str:
        words, ranks = self._whole_list.words, self._whole_list.ranks
        return words[rank - 1 if ranks is None else bisect_left(ranks, rank)]

    @cached_property
    def _allowed(self) -> Sequence[ListedWord]:
        listed = self._whole_list.up_to(self._n_words).ranked()
        words = (ListedWord(word, rank) for rank, word in listed if rank not in self._left_out)
        return [*words, *(ListedWord(word, None) for word in self._added)]

    @cached_property
    def _indices_by_lemma(self) -> dict[str, list[int]]:
        forms: dict[str, list[int]] = {}
        for index, (word, _) in enumerate(self._allowed):
            if lemma := self._lemmas.of(word):
                forms.setdefault(lemma, []).append(index)
        return forms

    @cached_property
    def _spelled(self) -> "Spellings":
        return Spellings([word.casefold() for word, _ in self._allowed])

    @property
    def _lemmas(self) -> KnownLemmas:
        # Not cached here: there may be many of these, and a language's lemmas take 0.4 GB.
        return KnownLemmas.of_language(self._language)


class Spellings:
    """Words to be compared with, the best first."""

    def __init__(self, words: Sequence[str]) -> None:
        self._first_chars = [word[:1] for word in words]
        lengths = np.fromiter(map(len, words), np.int64, len(words))
        codes = np.frombuffer("".join(words).encode("utf-32-le"), np.uint32)
        # Numbers for the characters that occur, so that a table over them is small; 0 stands for all others.
        self._alphabet, numbers = np.unique(codes, return_inverse=True)
        self._lengths = lengths
        self._chars = np.zeros((len(words), MAX_CHARS), np.uint16)
        rows, starts = np.repeat(np.arange(len(words)), lengths), np.cumsum(lengths) - lengths
        columns = np.arange(len(codes)) - starts[rows]
        is_short = columns < MAX_CHARS
        self._chars[rows[is_short], columns[is_short]] = numbers[is_short] + 1
        self._letters = np.zeros(len(words), np.uint64)
        np.bitwise_or.at(self._letters, rows, _bit_of(codes))

    def nearest(self, word: str, num: int) -> list[int]:
        """Return the indices of at most ``num`` words that differ in one or two letters, the nearest first.

        The letters are missing, extra, others, or two that have changed places.
        """
        if not 0 < len(word) <= MAX_CHARS:
            return []
        most = 2 if len(word) > _SHORT_CHARS else min(len(word) - 1, 1)
        codes = np.frombuffer(word.encode("utf-32-le"), np.uint32)
        # Each such difference changes at most two letters of the set that a word is made of.
        others = np.bitwise_count(self._letters ^ np.bitwise_or.reduce(_bit_of(codes)))
        likely = np.flatnonzero((others <= 2 * most) & (np.abs(self._lengths - len(word)) <= most))
        likely = likely[self._lengths[likely] <= MAX_CHARS]
        distances = self._distances(codes, likely)
        near = [(int(distances[place]), int(likely[place])) for place in np.flatnonzero(distances <= most)]
        near.sort(key=lambda pair: (pair[0], self._first_chars[pair[1]] != word[0], pair[1]))
        return [index for _, index in near[:num]]

    def _distances(self, codes: NDArray[np.uint32], rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the optimal string alignment distance between a word and those of ``rows``."""
        table = np.zeros(len(self._alphabet) + 1, np.uint64)
        places = np.searchsorted(self._alphabet, codes)
        for position, (code, place) in enumerate(zip(codes, places, strict=True)):
            if place < len(self._alphabet) and self._alphabet[place] == code:
                table[place + 1] |= np.uint64(1 << position)
        one, last = np.uint64(1), np.uint64(len(codes) - 1)
        lengths = self._lengths[rows]
        distances = np.full(len(rows), len(codes), np.int64)
        zeros = np.zeros(len(rows), np.uint64)
        d0, vn, matches_before, vp = zeros, zeros, zeros, ~zeros
        for column in range(int(lengths.max(initial=0))):
            matches = table[self._chars[rows, column]]
            swapped = ((~d0 & matches) << one) & matches_before
            d0 = (((matches & vp) + vp) ^ vp) | matches | vn | swapped
            hp, hn = vn | ~(d0 | vp), d0 & vp
            is_within = column < lengths
            distances += ((hp >> last) & one).astype(np.int64) * is_within
            distances -= ((hn >> last) & one).astype(np.int64) * is_within
            hp, hn = (hp << one) | one, hn << one
            vp, vn = hn | ~(d0 | hp), hp & d0
            matches_before = matches
        return distances


_POSSESSIVES: Final = tuple(mark + POSSESSIVE_LETTER for mark in APOSTROPHES)


def _bit_of(codes: NDArray[np.uint32]) -> NDArray[np.uint64]:
    """Return a bit for each character, so that words can be compared by their sets of letters."""
    # Neighbours in the alphabet get different bits, whatever the script.
    return np.uint64(1) << (codes.astype(np.uint64) % np.uint64(61))
