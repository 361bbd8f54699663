"""Read texts: whether they are allowed, what they are made of, and where they may be cut; whole, or as they grow.

Exact on the definition that the token automaton enforces, by a program of its own (``vocab.text.reading``).
"""

import copy
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from vocab.arrays.kernels import Int32Array, Uint8Array, address_of
from vocab.errors import PrefillError
from vocab.lists.wordlists import WordList, reference_dictionary
from vocab.options import Case, ListOptions
from vocab.text import lookup, reading
from vocab.text.changes import NO_CHANGES, ListChanges, ranks_left_out
from vocab.text.forms import (
    ELISION_LANGUAGES,
    POSSESSIVES,
    decide_possessive,
    fold_case,
    resolve_case,
    takes_possessive,
)
from vocab.text.gaps.automaton import build_gap_automaton, last_word, place_after
from vocab.text.table import NO_RANK, FormTable, code_points
from vocab.text.words import Dictionary as Dictionary

UNKNOWN_FOLLOWING: Final = "\uffff"
"""Text that followed and is not known: it may have continued the word, so the word counts as cut. No text has it."""

_SEPARATOR: Final = "\n"

_FIRST_MEMORY: Final = 96
_FIRST_LOG: Final = 64
"""Of a text that is not begun; both grow with it: what is kept of its end, some 40 numbers, and a row for each word."""

_LENGTH: Final = (1 << reading.LENGTH_BITS) - 1


@dataclass(frozen=True)
class Coverage:
    """The word counts of a text, in its parse with the most frequent words.

    Attributes:
        num_words: Running words; numbers do not count.
        num_distinct_words: Different words, listed or added; "The", "the" and "the's" are one.
        max_rank: Rank of the rarest; an added word has none, unless it is listed too. 0 where no word has one.
    """

    num_words: int
    num_distinct_words: int
    max_rank: int


class ReadWord(NamedTuple):
    """A word of a text, by code points: the number of a listed one is its rank, of one only added -1, -2 and so on."""

    start: int
    end: int
    number: int
    starts_sentence: bool


class TextReader:
    """Read texts of the words of rank ``n_words`` and better, with ``changes``.

    ``table`` is that of the whole list; without it one is made of what is needed. ``reference`` is the dictionary of a
    language without spaces, by default the built-in one. Thread-safe.
    """

    def __init__(
        self,
        word_list: WordList,
        options: ListOptions,
        n_words: int,
        table: FormTable | None = None,
        changes: ListChanges = NO_CHANGES,
        reference: Dictionary | None = None,
    ) -> None:
        self._word_list, self._n_words = word_list, n_words
        self._language = word_list.language
        options = decide_possessive(options, self._language, word_list.source)
        self._has_possessives = bool(options.possessive)
        self._gaps = build_gap_automaton(options, self._language)
        self._start = self._gaps.start
        self._case = resolve_case(word_list, options)
        self._table = table or FormTable.of(word_list.needed_up_to(n_words))
        self._left_out = ranks_left_out(word_list.up_to(n_words), changes.exclude_words)
        self._added_words = WordList(word_list.lang, changes.extra_words, "inline")
        self._added = FormTable.of(self._added_words) if changes.extra_words else None
        # "Ana" may be written in a way that only the added word has, and counts as the listed word all the same.
        names = [
            min(self._listed(word, starts_sentence=False), default=-number)
            for number, word in self._added_words.ranked()
        ]
        self._reference = _dictionary_table(word_list, reference) if word_list.is_unspaced else None
        self._arrays = {
            "left_out": np.asarray(sorted(self._left_out), dtype=np.int32),
            "added_numbers": np.asarray(names, dtype=np.int32),
            **_gap_arrays(replace(options, case="auto", segmentation="longest"), self._language),
        }
        self._record = self._make_record(options)
        self._begin()

    def _make_record(self, options: ListOptions) -> npt.NDArray[np.void]:
        """Return the record of this reader, (1,), for compiled code."""
        record, is_unspaced = np.zeros(1, lookup.ReaderRecord), self._word_list.is_unspaced
        for name, array in self._arrays.items():
            record[name] = address_of(array)
        for name, table in (("words", self._table), ("added", self._added), ("reference", self._reference)):
            record[name] = 0 if table is None else address_of(table.record)
        record["n_words"], record["num_left_out"] = min(self._n_words, NO_RANK - 1), len(self._left_out)
        record["capitals"] = lookup.CAPITALS[self._case]
        record["added_capitals"] = lookup.CAPITALS["listed" if is_unspaced else "sentence"]
        record["classes"], record["num_classes"] = address_of(lookup.CLASSES), len(lookup.CLASSES)
        record["is_unspaced"], record["is_longest"] = is_unspaced, options.segmentation == "longest"
        record["has_possessives"] = self._has_possessives
        record["has_elisions"], record["has_numbers"] = self._language in ELISION_LANGUAGES, options.numbers
        record["may_end"] = lookup.IS_COMPLETE
        return record

    def _begin(self) -> None:
        """Make what a text that is not begun has in memory."""
        self._first = np.zeros(_FIRST_MEMORY, dtype=np.int32)
        self._first[[reading.NUM_ROWS, reading.NUM_CHARS]] = 1
        self._first[reading.HEADER : reading.HEADER + reading.ROW] = self._start, 0, 0, -1, -1, 0, -1, 0
        self._address = address_of(self._record)
        self._first_state = int(
            reading.read_on(self._address, self._first, np.empty((1, reading.LOG_ROW), np.int32), code_points(""))
        )

    @property
    def place(self) -> int | None:
        """Return the gap state after a prefill; None where texts begin anew."""
        return None if self._start == self._gaps.start else self._start

    def after(self, text: str, *, is_whole: bool = False) -> Self:
        """Return a reader of the texts that go on after a text of this one's, whose own words may be any.

        ``is_whole`` is whether its last word is known to be whole.

        Raises:
            PrefillError: That text breaks off inside a word.
        """
        last = last_word(text, self._language)
        if not is_whole and self._is_begun(last):
            raise PrefillError(f"the text breaks off inside a word: {last[-80:]!r}")
        reader = copy.copy(self)
        reader._record = self._record.copy()
        reader._start = place_after(text, self._gaps, self._language, self._start)
        reader._begin()
        return reader

    def of_broken_off(self) -> Self:
        """Return the reader of texts that may end after any word or closing mark, as where a stop string came.

        They may end inside a sentence, and with a quotation or bracket open.
        """
        reader = copy.copy(self)
        reader._record = self._record.copy()
        reader._record["may_end"] = lookup.IS_COMPLETE | lookup.ENDS_UNIT
        reader._begin()
        return reader

    def is_text(self, text: str) -> bool:
        """Return whether ``text`` is a complete allowed text."""
        return self._read(text).is_complete

    def is_between_words(self, text: str) -> bool:
        """Return whether ``text`` begins an allowed text, and no word or number is half written at its end."""
        return self._read(text).is_between_words

    def coverage(self, text: str) -> Coverage:
        """Count the words of ``text``: running ones, different ones, and the rank of the rarest.

        Raises:
            ValueError: ``text`` is not a complete allowed text.
        """
        return self._read(text).coverage()

    def words(self, text: str) -> list[ReadWord]:
        """Return the words of ``text`` in order, numbers left out.

        Raises:
            ValueError: ``text`` is not a complete allowed text.
        """
        starts = [state.starts_sentence for state in self._gaps.states]
        return [
            ReadWord(start, end, number, starts[place])
            for _, number, start, end, place in self._read(text).read_words().tolist()
        ]

    def numbers(self, word: str) -> frozenset[int]:
        """Return every number (a rank, or below 0 for an added word) that ``words`` may give a word."""
        listed = {*self._listed(word, starts_sentence=True), *self._listed(word, starts_sentence=False)}
        return frozenset(listed | {-number for number, added in self._added_words.ranked() if added == word})

    def whole_prefix_length(self, text: str, following: str = "") -> int:
        """Return the length of the longest prefix of ``text`` that is a complete text and cuts no word short; or 0.

        With ``end: sentence`` such a prefix ends with a whole sentence, and where marks are paired it leaves none open.
        ``following`` is what was written after the text: "the c" is cut to "the" when "at" follows, even if "c" is a
        word. Where it is ``UNKNOWN_FOLLOWING``, nothing that could follow makes the prefix cut a word or number.
        """
        if following == UNKNOWN_FOLLOWING:
            return self._read(text).num_complete
        whole = code_points("\0" + text + following)
        return int(reading.cut_length(self._address, self._first, whole, len(text)))

    def follow(self) -> "FollowedText":
        """Return a follower of a text, empty so far, that reads it in parts as it is written: 2 µs."""
        return FollowedText(self)

    def _read(self, text: str) -> "FollowedText":
        followed = self.follow()
        followed.add(text)
        return followed

    def _listed(self, text: str, *, starts_sentence: bool) -> Iterator[int]:
        """Yield the ranks within N, and not left out, of the words that may be written as ``text``; may repeat."""
        for rank in self._ranks(self._table, self._case, text, starts_sentence):
            if rank <= self._n_words and rank not in self._left_out:
                yield rank

    def _ranks(self, table: FormTable, case: Case, text: str, starts_sentence: bool) -> Iterator[int]:
        """Yield the ranks of all words of a table that may be written as ``text``; may repeat."""
        with_capital = case == "any" or (case == "sentence" and starts_sentence)
        yield from table.ranks_of(text, with_capital=with_capital)
        if self._has_possessives and text.endswith(POSSESSIVES) and takes_possessive(text[:-2]):
            yield from table.ranks_of(text[:-2], with_capital=with_capital)

    def _is_begun(self, word: str) -> bool:
        """Return whether a word is only the beginning of a listed one; words beyond N count where none is within.

        In a language without spaces, whether a run breaks off inside a word, and its beginning is none.
        """
        if self._word_list.is_unspaced:
            return bool(lookup.breaks_off(self._address, code_points(word)))
        is_word = any(self._listed(word, starts_sentence=True)) or (
            self._added is not None and any(self._ranks(self._added, "sentence", word, True))
        )
        if not word or is_word:
            return False
        begun = _SEPARATOR + fold_case(word)
        within = self._word_list.up_to(self._n_words).words
        for words in ((*within, *self._added_words.words), self._word_list.words):
            # One text is searched at once: 30 ms for the longest list, a tenth of what its words take one by one.
            listed = _SEPARATOR + fold_case(_SEPARATOR.join(words)) + _SEPARATOR
            if begun in listed:
                return begun + _SEPARATOR not in listed
        return False


class FollowedText:
    """A text read as it grows: how much of it is words of the list, each known to be whole.

    Used by one thread at a time. It keeps the parts of the text, 20 bytes for each word, and the parses of its end.
    """

    __slots__ = ("_log", "_memory", "_parts", "_reader", "_state")

    def __init__(self, reader: TextReader) -> None:
        self._reader = reader
        self._memory = reader._first.copy()
        self._log: Int32Array = np.empty((_FIRST_LOG, reading.LOG_ROW), dtype=np.int32)
        self._state = reader._first_state
        self._parts: list[str] = []

    def add(self, text: str) -> bool:
        """Read the next part of the text; return False where the text is no beginning of an allowed one."""
        if text:
            self._parts.append(text)
            part = code_points(text)
            while (state := reading.read_on(self._reader._address, self._memory, self._log, part)) < 0:
                self._make_room(state, len(part))
            self._state = state
        return bool(self._state & reading.ALIVE)

    def _make_room(self, needed: int, num_chars: int) -> None:
        if needed == reading.NEEDS_MEMORY:
            self._memory = np.append(self._memory, np.zeros_like(self._memory))
        else:
            more = np.empty((max(len(self._log), num_chars), reading.LOG_ROW), dtype=np.int32)
            self._log = np.concatenate((self._log, more))

    @property
    def num_whole(self) -> int:
        """Return how many characters stand up to the last word, mark or blank that nothing later can be part of."""
        return self._state >> reading.FLAG_BITS & _LENGTH

    @property
    def num_complete(self) -> int:
        """Return the length of the longest prefix that is a complete text and cuts no word, whatever follows; or 0."""
        return self._state >> (reading.FLAG_BITS + reading.LENGTH_BITS)

    @property
    def is_whole(self) -> bool:
        """Return whether the text so far is whole words, marks and blanks, if its last word does not go on."""
        return bool(self._state & reading.WHOLE)

    @property
    def is_settled(self) -> bool:
        """Return whether it is whole and may be sent, where no part of a stream ends inside a word.

        In a language without spaces, no later character can be part of its last word.
        """
        return self._state & (reading.WHOLE | reading.OPEN) == reading.WHOLE

    @property
    def is_complete(self) -> bool:
        """Return whether it is a complete allowed text."""
        return bool(self._state & reading.COMPLETE)

    @property
    def is_between_words(self) -> bool:
        """Return whether it begins an allowed text, and no word or number is half written at its end."""
        return bool(self._state & reading.BETWEEN_WORDS)

    def whole_prefix_length(self, following: str = "") -> int:
        """Return what ``TextReader.whole_prefix_length`` returns of all that was read."""
        if following == UNKNOWN_FOLLOWING:
            return self.num_complete
        if not following and self.is_complete:
            return int(self._memory[reading.BASE] + self._memory[reading.NUM_CHARS]) - 1
        return self._reader.whole_prefix_length("".join(self._parts), following)

    def coverage(self) -> Coverage:
        """Count the words of all that was read.

        Raises:
            ValueError: It is not a complete allowed text.
        """
        numbers = self.read_words()[:, reading.LOG_NUMBER]
        max_rank = int(self._memory[reading.BEST_RANK])
        return Coverage(len(numbers), len(set(numbers.tolist())), max_rank)

    def read_words(self) -> Int32Array:
        """Return the words of all that was read, int32 (words, ``LOG_ROW``), as ``vocab.text.reading`` logs them.

        Raises:
            ValueError: It is not a complete allowed text.
        """
        if not self.is_complete:
            raise ValueError("not a complete text of this list")
        return reading.read_words(self._memory, self._log)


_GAP_FLAGS: Final = (
    (lookup.WORD_MAY_START, "word_may_start"),
    (lookup.STARTS_SENTENCE, "starts_sentence"),
    (lookup.AFTER_ELISION, "is_after_elision"),
    (lookup.IS_COMPLETE, "is_complete"),
    (lookup.ENDS_UNIT, "ends_unit"),
    (lookup.INSIDE_UNIT, "is_inside_unit"),
)


@lru_cache(maxsize=64)
def _gap_arrays(options: ListOptions, language: str) -> dict[str, Int32Array | Uint8Array]:
    """Return the arrays of a gap automaton that a reader's record names."""
    gaps = build_gap_automaton(options, language)
    steps = [sorted((ord(char), target) for char, target in state.transitions.items()) for state in gaps.states]
    flat = np.asarray([step for of_state in steps for step in of_state], dtype=np.int32).reshape(-1, 2)
    ends = np.asarray([gaps.contexts[state.context] for state in gaps.states], dtype=np.int32)
    flags = [sum(flag for flag, name in _GAP_FLAGS if getattr(state, name)) for state in gaps.states]
    return {
        "gap_start": np.cumsum([0, *map(len, steps)], dtype=np.int32),
        "gap_labels": np.ascontiguousarray(flat[:, 0]),
        "gap_targets": np.ascontiguousarray(flat[:, 1]),
        "gap_flags": np.asarray(flags, dtype=np.uint8),
        "after_word": np.ascontiguousarray(ends[:, 0]),
        "after_elision": np.ascontiguousarray(ends[:, 2]),
    }


def _dictionary_table(word_list: WordList, reference: Dictionary | None) -> FormTable:
    if reference is None:
        return _reference_table(word_list.language)
    return FormTable.of_dictionary(reference.all_words())


@lru_cache(maxsize=4)
def _reference_table(language: str) -> FormTable:
    """Return the table of a language's reference dictionary, cached: 330,000 words take 1 s and 10 MB."""
    return FormTable.of_dictionary(reference_dictionary(language))
