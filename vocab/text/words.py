"""The words that any text without spaces is cut into, whether they are listed or not: for checks and the word tools.

``segmentation: longest`` takes, from left to right, always the longest word of a dictionary; ``any`` takes listed words
only, in whatever way they fit. Two Latin letters are never cut apart.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from itertools import groupby
from typing import Final, NamedTuple, TypeAlias

from vocab import marks
from vocab.lists.wordlists import WordList, reference_dictionary
from vocab.options import Segmentation
from vocab.text.changes import NO_CHANGES, ListChanges, ranks_left_out
from vocab.text.units import runs_of

_NO_LENGTHS: Final[tuple[int, ...]] = ()


class Dictionary:
    """Words, found by where they begin in a text; those of ``base`` count too."""

    def __init__(self, words: Iterable[str], base: "Dictionary | None" = None) -> None:
        self._base = base
        self._words = frozenset(words)
        lengths: dict[str, set[int]] = {}
        for word in self._words:
            lengths.setdefault(word[0], set()).add(len(word))
        self._lengths = {first: tuple(sorted(of_first)) for first, of_first in lengths.items()}

    def __contains__(self, word: str) -> bool:
        return word in self._words or (self._base is not None and word in self._base)

    def with_words(self, words: Iterable[str]) -> "Dictionary":
        """Return a dictionary that has these words too."""
        missing = [word for word in words if word not in self]
        return Dictionary(missing, self) if missing else self

    def longest_at(self, text: str, position: int) -> int:
        """Return where the longest word that begins at ``position`` ends; ``position`` where none does."""
        best = position if self._base is None else self._base.longest_at(text, position)
        for length in reversed(self._lengths.get(text[position : position + 1], _NO_LENGTHS)):
            end = position + length
            if end <= best:
                break
            if end <= len(text) and text[position:end] in self._words:
                return end
        return best

    def ends_at(self, text: str, position: int) -> list[int]:
        """Return where the words that begin at ``position`` end, ascending."""
        lengths = self._lengths.get(text[position : position + 1], _NO_LENGTHS)
        may_end = [position + length for length in lengths if position + length <= len(text)]
        ends = [end for end in may_end if text[position:end] in self._words]
        return ends if self._base is None else sorted(ends + self._base.ends_at(text, position))

    def all_words(self) -> frozenset[str]:
        """Return its words, those of ``base`` too."""
        return self._words if self._base is None else self._words | self._base.all_words()


@lru_cache(maxsize=4)
def _reference(language: str) -> Dictionary:
    """Return the reference dictionary of a language, cached in the process: 330,000 words take 0.3 s and 60 MB."""
    return Dictionary(reference_dictionary(language))


def dictionary_of(
    word_list: WordList, changes: ListChanges = NO_CHANGES, reference: Dictionary | None = None
) -> Dictionary:
    """Return the dictionary that texts of a list are segmented with.

    It is the reference dictionary of the list's language, or ``reference``, with all words of the list, whatever N, and
    those that a request adds; a word that it leaves out stays.
    """
    base = reference or _reference(word_list.language)
    # A language's cleaned list is part of its reference dictionary.
    own = () if word_list.source == "cleaned" and reference is None else word_list.words
    return base.with_words((*own, *changes.extra_words))


def cuts_letters(text: str, position: int) -> bool:
    """Return whether a cut at ``position`` would part two Latin letters."""
    around = text[max(position - 1, 0) : position + 1]
    return len(around) == 2 and around.isascii() and around.isalpha()


class Segment(NamedTuple):
    """A part of a run, by characters: a word of the dictionary or an allowed one; or else what begins no word.

    The latter is one character, or all of a Latin word.
    """

    start: int
    end: int
    is_word: bool


_Pieces: TypeAlias = Iterator[tuple[int, int | None, bool]]
"""Of segments that begin at a place: where each ends, its rank (None where it is not allowed), and ``is_word``."""

_LATIN_WORD: Final = re.compile(rf"[A-Za-z]+(?:[{marks.APOSTROPHES}-][A-Za-z]+)*")
ANY_NUMBER: Final = re.compile(f"[{marks.DIGITS}]+(?:[{marks.NUMBER_JOINTS}][{marks.DIGITS}]+)*")
"""Of any length."""


class Segmenter:
    """Cut runs of characters without marks and blanks into words.

    ``rank_of`` returns the rank of an allowed word, below 0 for one that is only added, and None for any other.
    """

    def __init__(
        self, dictionary: Dictionary, rank_of: Callable[[str], int | None], *, has_numbers: bool = False
    ) -> None:
        self._dictionary = dictionary
        self._rank_of = rank_of
        self._has_numbers = has_numbers

    def allowed_at(self, text: str, position: int) -> list[tuple[int, int]]:
        """Return (end, rank) of every allowed word that begins at a position, ascending."""
        return [
            (end, rank)
            for end in self._dictionary.ends_at(text, position)
            if not cuts_letters(text, end) and (rank := self._rank_of(text[position:end])) is not None
        ]

    def longest(self, run: str) -> list[Segment]:
        """Return the segments of a run by the longest match; all of it is in one."""
        return [segment for segment, _ in self._best(run, self._longest_pieces)]

    def any(self, run: str) -> list[Segment]:
        """Return the segments of the reading with the fewest characters that are not in allowed words.

        Of several it is the one whose rarest word is the most frequent, then the one with the fewest words. What is not
        allowed is cut by the longest match.
        """
        found = list[Segment]()
        for is_allowed, group in groupby(self._best(run, self._any_pieces), lambda one: one[1] is not None):
            segments = [segment for segment, _ in group]
            if not is_allowed:
                first = segments[0].start
                parts = self.longest(run[first : segments[-1].end])
                segments = [Segment(first + start, first + end, is_word) for start, end, is_word in parts]
            found += segments
        return found

    def _longest_pieces(self, run: str, start: int) -> _Pieces:
        end = self._dictionary.longest_at(run, start)
        if end == start or cuts_letters(run, end):
            yield self._other(run, start)
        else:
            yield end, self._rank_of(run[start:end]), True
        yield from self._numbers(run, start)

    def _any_pieces(self, run: str, start: int) -> _Pieces:
        yield self._other(run, start)
        for end, rank in self.allowed_at(run, start):
            yield end, rank, True
        yield from self._numbers(run, start)

    def _other(self, run: str, start: int) -> tuple[int, int | None, bool]:
        """Return the Latin word at a place, which may be allowed in other capitals, or the one character."""
        if latin := _LATIN_WORD.match(run, start):
            rank = self._rank_of(latin[0])
            return latin.end(), rank, rank is not None
        return start + 1, None, False

    def _numbers(self, run: str, start: int) -> _Pieces:
        """Yield the number at a place, and its beginnings, after which a word may begin with a digit."""
        if number := ANY_NUMBER.match(run, start):
            for end in range(start + 1, number.end() + 1):
                if run[end - 1] in marks.DIGITS:
                    yield end, 0 if self._has_numbers else None, True

    def _best(self, run: str, pieces: Callable[[str, int], _Pieces]) -> list[tuple[Segment, int | None]]:
        """Return the best way through a run by pieces, each with its rank."""
        # Characters that are not allowed, the rarest rank, segments; and the last segment with its rank.
        best: dict[int, tuple[int, int, int, tuple[Segment, int | None] | None]] = {0: (0, 0, 0, None)}
        for start in range(len(run)):
            if start not in best:
                continue
            others, rarest, number, _ = best[start]
            for end, rank, is_word in pieces(run, start):
                cost = (others + (end - start if rank is None else 0), max(rarest, rank or 0), number + 1)
                if end not in best or cost < best[end][:3]:
                    best[end] = *cost, (Segment(start, end, is_word), rank)
        found, end = list[tuple[Segment, int | None]](), len(run)
        while (last := best[end][3]) is not None:
            found.append(last)
            end = last[0].start
        return found[::-1]


class ListSegments:
    """The words that texts of a list's first ``n_words`` words are cut into, without whether each is allowed.

    Attributes:
        dictionary: That of ``dictionary_of``.
        words: Those that are allowed.
    """

    def __init__(
        self, word_list: WordList, n_words: int, segmentation: Segmentation, changes: ListChanges = NO_CHANGES
    ) -> None:
        left_out = ranks_left_out(word_list, changes.exclude_words)
        listed = (word for rank, word in word_list.up_to(n_words).ranked() if rank not in left_out)
        self.words = frozenset((*listed, *changes.extra_words))
        self.dictionary = dictionary_of(word_list, changes)
        segmenter = Segmenter(self.dictionary, lambda word: 0 if word in self.words else None)
        self._language = word_list.language
        self._cut = segmenter.longest if segmentation == "longest" else segmenter.any

    def spans(self, text: str) -> list[tuple[int, int]]:
        """Return (start, end) of each word of the dictionary that a text is cut into, in code points."""
        return [
            (run.starts[start], run.ends[end - 1])
            for run in runs_of(text, self._language)
            for start, end, is_word in self._cut(run.shown)
            if is_word
        ]

    def has_word(self, before: str, word: str, after: str) -> bool:
        """Return whether a word between two texts is one of the words that the whole is cut into."""
        return (len(before), len(before) + len(word)) in self.spans(before + word + after)
