"""Check a text against a word list: which of its words are listed, and where those are that are not.

All words of a text that the automaton allows are listed here. Beyond that any text can be checked: marks, layout and
the ends of sentences do not matter, and a listed word counts in other capitals.
"""

import re
import sys
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import groupby
from typing import Final, Literal, NamedTuple, TypeAlias

from vocab import marks
from vocab.lists.wordlists import WordList
from vocab.options import ListOptions
from vocab.text.changes import NO_CHANGES, ListChanges, ranks_left_out
from vocab.text.elisions import follows_elision, is_elision
from vocab.text.form_ranks import FormRanks

Reason: TypeAlias = Literal["listed", "capitals", "added", "number", "rare", "excluded", "unknown"]
"""Why a word is allowed: the list has it, or has it in other capitals, or it was added, or it is a number. Why it is
not: its rank is beyond N (or it lacks the capital that the list has), it was left out, or the list does not have it."""

ALLOWED: Final[frozenset[Reason]] = frozenset(("listed", "capitals", "added", "number"))

BANDS: Final = (500, 1_000, 2_000, 3_000, 5_000, 10_000)
"""The largest rank of each band of a report."""

MAX_ELISION: Final = 16
"""Characters of an elided word, its apostrophe included; "lorsqu'" has seven."""


@dataclass(frozen=True, slots=True)
class CheckedWord:
    """A running word, or a number.

    Attributes:
        start: Where it begins, in code points.
        end: Where it ends.
        rank: Of the entry that it writes, also where that is beyond N; None where the list has none.
        reason: Why it is allowed, or not.
        key: Equal for forms that count as one word: "The", "the" and "the's".
    """

    start: int
    end: int
    rank: int | None
    reason: Reason
    key: str

    @property
    def is_allowed(self) -> bool:
        return self.reason in ALLOWED


class Band(NamedTuple):
    """The words whose rank is up to ``max_rank`` and beyond the band before; in the last one, None, all others."""

    max_rank: int | None
    num_words: int
    num_distinct_words: int


@dataclass(frozen=True, slots=True)
class TextReport:
    """What a text is made of. Numbers count nowhere.

    Attributes:
        words: All running words and numbers, in their order.
        num_words: Running words.
        num_allowed: Of them, those that are allowed.
        num_distinct_words: Different words.
        num_distinct_allowed: Of them, those that are allowed.
        bands: By rank, ascending.
    """

    words: Sequence[CheckedWord]
    num_words: int
    num_allowed: int
    num_distinct_words: int
    num_distinct_allowed: int
    bands: Sequence[Band]

    @classmethod
    def of(cls, words: Sequence[CheckedWord]) -> "TextReport":
        running = [word for word in words if not _is_number(word)]
        by_key = {word.key: word for word in running}
        allowed = {word.key for word in running if word.is_allowed}
        return cls(
            words,
            len(running),
            sum(word.is_allowed for word in running),
            len(by_key),
            len(allowed),
            tuple(_bands(running, by_key.values())),
        )

    @property
    def coverage(self) -> float:
        """The share of running words that are allowed; 1 for a text without words."""
        return self.num_allowed / self.num_words if self.num_words else 1.0

    @property
    def not_allowed(self) -> list[CheckedWord]:
        return [word for word in self.words if not word.is_allowed]


class _Found(NamedTuple):
    rank: int | None
    reason: Reason
    key: str

    @property
    def is_allowed(self) -> bool:
        return self.reason in ALLOWED


class TextChecker:
    """Check texts against the words of rank ``n_words`` and better of a list, with ``changes``.

    Made once for many texts: for the 152,778 English words in half a second. Numbers in digits are allowed with
    ``options.numbers``.
    """

    def __init__(
        self, word_list: WordList, options: ListOptions, n_words: int, changes: ListChanges = NO_CHANGES
    ) -> None:
        added = WordList(word_list.lang, changes.extra_words, "inline")
        self._language = word_list.language
        self._n_words = n_words
        self._number: Reason = "number" if options.numbers else "unknown"
        self._listed = FormRanks(word_list, options)
        self._added = FormRanks(added, replace(options, case="sentence"))
        self._left_out = ranks_left_out(word_list, changes.exclude_words)
        self._phrases = _phrases((*word_list.words, *added.words))
        self._known: dict[tuple[str, bool], _Found] = {}
        self._starts: dict[str, bool] = {}

    def check(self, text: str) -> TextReport:
        return TextReport.of(list(self._words(text)))

    def _words(self, text: str) -> Iterator[CheckedWord]:
        done = 0
        for match in word_pattern().finditer(text):
            start, end = match.span()
            if start < done:
                # Of an entry with several words.
                continue
            starts = not done or self._starts_sentence(text[done:start])
            phrase = self._phrase(text, start, end, starts) if self._phrases else None
            if phrase is not None:
                yield phrase
                done = phrase.end
                continue
            for length, found in self._parts(match[0], starts):
                yield CheckedWord(start, start + length, *found)
                start += length
            done = end

    def _starts_sentence(self, gap: str) -> bool:
        known = self._starts.get(gap)
        if known is None:
            known = self._starts[gap] = _SENTENCE_START.search(gap) is not None
        return known

    def _phrase(self, text: str, start: int, end: int, starts: bool) -> CheckedWord | None:
        """Return the longest allowed entry with blanks or marks whose first word is here."""
        for before, length in self._phrases.get(_plain(text[start:end]), ()):
            first, last = start - before, start - before + length
            if first < 0 or last > len(text) or _is_letter(text[last : last + 1]):
                continue
            if (found := self._find(text[first:last], starts)).is_allowed:
                return CheckedWord(first, last, *found)
        return None

    def _parts(self, word: str, starts: bool) -> list[tuple[int, _Found]]:
        """Return the words of a run of letters, as pairs of length and word: one, or an elision and the next."""
        whole = self._find(word, starts)
        if not whole.is_allowed:
            for cut in range(2, min(len(word), MAX_ELISION + 1)):
                head = word[:cut]
                if not is_elision(head, self._language) or not follows_elision(rest := word[cut:], self._language):
                    continue
                elided, following = self._find(head, starts), self._find(rest, False)
                # "l'homme" is two words even where one of them is not allowed, unless the list has it whole.
                if elided.reason != "unknown" and whole.reason == "unknown":
                    return [(len(head), elided), (len(rest), following)]
        return [(len(word), whole)]

    def _find(self, word: str, starts: bool) -> _Found:
        key = word, starts
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = self._look_up(word, starts)
        return found

    def _look_up(self, word: str, starts: bool) -> _Found:
        beyond: set[int] = set()
        for written, may_have_capital in ((word, starts), (word, True), *((other, True) for other in _in_small(word))):
            ranks = set(self._listed.ranks(written, starts_sentence=may_have_capital))
            allowed = [rank for rank in ranks if rank <= self._n_words and rank not in self._left_out]
            if allowed:
                is_written = written == word and may_have_capital == starts
                return _Found(min(allowed), "listed" if is_written else "capitals", str(min(allowed)))
            beyond |= ranks
            if (number := self._added.rank(written, starts_sentence=may_have_capital)) is not None:
                return _Found(min(ranks, default=None), "added", f"+{number}")
            # "hund": the list has it with a capital, which it needs.
            beyond |= set(self._listed.ranks(_with_capital(written), starts_sentence=True))
        if _NUMBER.fullmatch(word):
            return _Found(None, self._number, word)
        if not beyond:
            return _Found(None, "unknown", word.casefold())
        rank = min(beyond)
        return _Found(rank, "excluded" if rank in self._left_out else "rare", str(rank))


# Bounded, for a number is tried at each of its joints where a letter follows it.
_NUMBER: Final = re.compile(
    rf"[{marks.DIGITS}]+(?:[{marks.NUMBER_JOINTS}][{marks.DIGITS}]+){{0,{marks.MAX_NUMBER_CHARS}}}"
)
_SENTENCE_START: Final = re.compile(
    rf"[\n\r]|[{re.escape(marks.SENTENCE_MARKS)}][{re.escape(marks.CLOSING_QUOTES + marks.APOSTROPHES)}]*\s"
)


@cache
def word_pattern() -> re.Pattern[str]:
    """Return a pattern of a run of letters, with apostrophes and hyphens inside, or of a number."""
    # \w leaves out combining marks, which are half of what is written in Hindi.
    ranges = [
        (chr(group[0]), chr(group[-1]))
        for is_mark, codes in groupby(range(sys.maxunicode), lambda code: unicodedata.category(chr(code))[0] == "M")
        if is_mark and (group := list(codes))
    ]
    letter = rf"(?:[^\W_]|[{''.join(f'{first}-{last}' for first, last in ranges)}])"
    return re.compile(rf"{_NUMBER.pattern}(?!{letter})|{letter}+(?:[{marks.APOSTROPHES}-]{letter}+)*")


def _phrases(entries: Iterable[str]) -> Mapping[str, Sequence[tuple[int, int]]]:
    """Return the entries that are no plain words, by their first word: how far that is from the start, and the length;
    the longest first."""
    found: dict[str, set[tuple[int, int]]] = {}
    pattern = word_pattern()
    for entry in entries:
        if pattern.fullmatch(entry):
            continue
        if first := pattern.search(entry):
            found.setdefault(_plain(first[0]), set()).add((first.start(), len(entry)))
    return {word: sorted(shapes, key=lambda shape: -shape[1]) for word, shapes in found.items()}


def _plain(word: str) -> str:
    typewriter, curly = marks.APOSTROPHES
    return word.casefold().replace(curly, typewriter)


def _in_small(word: str) -> list[str]:
    """Return a word in other capitals than those it has: "THE" may be "the" and "The"."""
    lower = word.lower()
    return [] if lower == word else [_with_capital(lower), lower]


def _with_capital(word: str) -> str:
    return word[:1].upper() + word[1:]


def _is_letter(char: str) -> bool:
    return bool(char) and unicodedata.category(char)[0] in "LMN"


def _is_number(word: CheckedWord) -> bool:
    return word.rank is None and _NUMBER.fullmatch(word.key) is not None


def _bands(running: Sequence[CheckedWord], distinct: Iterable[CheckedWord]) -> Iterator[Band]:
    all_words, different = [word.rank for word in running], [word.rank for word in distinct]
    least = 0
    for most in (*BANDS, None):

        def is_within(rank: int | None, least: int = least, most: int | None = most) -> bool:
            return most is None if rank is None else least < rank <= (most or sys.maxsize)

        yield Band(most, sum(map(is_within, all_words)), sum(map(is_within, different)))
        least = most or least
