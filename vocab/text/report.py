"""What a text is made of: its words, which of them are listed, and the counts."""

import re
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Final, NamedTuple

from vocab import marks

if TYPE_CHECKING:
    from vocab.answers import Reason
    from vocab.text.changes import PromptWord

ALLOWED: Final[frozenset["Reason"]] = frozenset(("listed", "capitals", "spelling", "added", "number"))

NOT_MISSING: Final = ALLOWED | {"new", "name"}

UNLISTED: Final[frozenset["Reason"]] = frozenset(("rare", "excluded", "unknown", "new"))

BANDS: Final = (500, 1_000, 2_000, 3_000, 5_000, 10_000)
"""The largest rank of each band of a report."""

# Bounded, for a number is tried at each of its joints where a letter follows it.
NUMBER: Final = re.compile(
    rf"[{marks.DIGITS}]+(?:[{marks.NUMBER_JOINTS}][{marks.DIGITS}]+){{0,{marks.MAX_NUMBER_CHARS}}}"
)


class ListedWord(NamedTuple):
    """A word that is allowed, as the list has it; without a rank where it was added."""

    word: str
    rank: int | None


@dataclass(frozen=True, slots=True)
class Note:
    """What is known of a word that is not allowed.

    Attributes:
        lemma: As simplemma's dictionary has it; None where the word or the language is not known.
        nearest: Words that could stand for it, or were meant; the best first.
    """

    lemma: str | None = None
    nearest: tuple[ListedWord, ...] = ()


NO_NOTE: Final = Note()


class CheckedWord(NamedTuple):
    """A running word, a number, or a symbol.

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
    reason: "Reason"
    key: str

    @property
    def is_allowed(self) -> bool:
        return self.reason in ALLOWED

    @property
    def is_number(self) -> bool:
        return self.rank is None and NUMBER.fullmatch(self.key) is not None

    @property
    def is_symbol(self) -> bool:
        return self.reason == "symbol"


class Band(NamedTuple):
    """The words whose rank is up to ``max_rank`` and beyond the band before; in the last one, None, all others."""

    max_rank: int | None
    num_words: int
    num_distinct_words: int


@dataclass(frozen=True)
class TextReport:
    """The report of a checked text. Numbers count nowhere, and symbols are no words: they count against the coverage.

    Attributes:
        text: The whole of it.
        words: All running words, numbers and symbols, in their order.
        declared: The words that were declared to be new.
        notes: By spelling, what else is known of words that are not allowed; of the first ``MAX_NOTED``.
        lemmas: By spelling, the lemma of every word; None where they were not asked for.
        readings: How each of ``words`` is read; None where that was not asked for.
        prompt_words: Those that the text's prompt allows; None where it was not asked.
    """

    text: str
    words: Sequence[CheckedWord]
    declared: Sequence[str] = ()
    notes: Mapping[str, Note] = field(default_factory=dict)
    lemmas: Mapping[str, str | None] | None = None
    readings: Sequence[str | None] | None = None
    prompt_words: "Sequence[PromptWord] | None" = None

    @cached_property
    def num_words(self) -> int:
        """Return the number of running words."""
        return len(self._running)

    @cached_property
    def num_symbols(self) -> int:
        """Return the number of runs of symbols."""
        return sum(word.is_symbol for word in self.words)

    @cached_property
    def num_allowed(self) -> int:
        """Return the number of running words that are allowed."""
        return sum(self._num_by_reason[reason] for reason in ALLOWED)

    @cached_property
    def num_new(self) -> int:
        """Return the number of running words that were declared to be new, which are neither allowed nor not."""
        return self._num_by_reason["new"]

    @property
    def num_names(self) -> int:
        """Return the number of running words that are names, where these are counted apart."""
        return self._num_by_reason["name"]

    @cached_property
    def names(self) -> Mapping[str, int]:
        """Count the names, by spelling."""
        return Counter(self.spelling(word) for word in self.words if word.reason == "name")

    @property
    def num_distinct_words(self) -> int:
        return len(self._by_key)

    @cached_property
    def num_distinct_allowed(self) -> int:
        return len({word.key for word in self._running if word.reason in ALLOWED})

    @cached_property
    def num_distinct_apart(self) -> int:
        """Return the number of different words that are new or names."""
        return len({word.key for word in self._running if word.reason in ("new", "name")})

    @cached_property
    def bands(self) -> Sequence[Band]:
        """Count the words by band of rank, ascending."""
        running = Counter(band_of(word.rank) for word in self._running)
        distinct = Counter(band_of(word.rank) for word in self._by_key.values())
        return [Band(most, running[index], distinct[index]) for index, most in enumerate((*BANDS, None))]

    @property
    def coverage(self) -> float | None:
        """Return the share of running words and symbols that are allowed, new words and names aside; None without
        words."""
        return self._share(self.num_allowed, self.num_new)

    @property
    def coverage_with_new(self) -> float | None:
        """Return the share of running words and symbols that are allowed or new, names aside; None without words."""
        return self._share(self.num_allowed + self.num_new, 0)

    def _share(self, num_words: int, num_aside: int) -> float | None:
        num_others = self.num_words - self.num_names - num_aside + self.num_symbols
        return (num_words / num_others if num_others else 1.0) if self.num_words else None

    @cached_property
    def not_allowed(self) -> list[CheckedWord]:
        """Return the words that are neither allowed nor new nor names, symbols among them."""
        return [word for word in self.words if word.reason not in NOT_MISSING]

    @cached_property
    def new(self) -> list[CheckedWord]:
        return [word for word in self.words if word.reason == "new"]

    @cached_property
    def num_of_declared(self) -> Mapping[str, int]:
        """Count how often each word that was declared to be new is there as such."""
        number = Counter(word.key for word in self.new)
        return {word: number[new_key(index)] for index, word in enumerate(self.declared, start=1)}

    @property
    def has_exactly_the_new_words(self) -> bool:
        """Return whether the words that the list does not allow are exactly those that were declared to be new."""
        return not self.not_allowed and all(self.num_of_declared.values())

    @cached_property
    def sentences(self) -> Sequence[tuple[int, int, Sequence[CheckedWord]]]:
        """Return where each sentence is, and the first of each of its different words that the list lacks, new too."""
        from vocab.text.sentences import sentence_spans

        spans = sentence_spans(self.text)
        lacking: list[dict[str, CheckedWord]] = [{} for _ in spans]
        for word in self.words:
            if word.reason in UNLISTED:
                lacking[bisect_right(spans, (word.start, len(self.text))) - 1].setdefault(word.key, word)
        return [(*span, [*words.values()]) for span, words in zip(spans, lacking, strict=True)]

    def spelling(self, word: CheckedWord) -> str:
        """Return a word as the text has it."""
        return self.text[word.start : word.end]

    def note(self, word: CheckedWord) -> Note:
        """Return what else is known of a word that is not allowed."""
        return self.notes.get(self.spelling(word), NO_NOTE)

    @cached_property
    def _running(self) -> Sequence[CheckedWord]:
        return [word for word in self.words if not word.is_number and not word.is_symbol]

    @cached_property
    def _num_by_reason(self) -> Counter["Reason"]:
        return Counter(word.reason for word in self._running)

    @cached_property
    def _by_key(self) -> Mapping[str, CheckedWord]:
        return {word.key: word for word in self._running}


def band_of(rank: int | None) -> int:
    """Return the index of a rank's band in a report; words without a rank are in the last one."""
    return len(BANDS) if rank is None else bisect_left(BANDS, rank)


def new_key(number: int) -> str:
    """Return the key of the word declared to be new with this number."""
    return f"n{number}"
