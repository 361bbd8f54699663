"""Read finished texts: whether they are allowed, what they are made of, and where they may be cut.

One pass over pairs of a position and a gap state, looking words up; exact on the definition that the token automaton
enforces.
"""

import copy
import re
from dataclasses import dataclass, replace
from typing import Final, NamedTuple, Self

from vocab import marks
from vocab.errors import PrefillError
from vocab.lists.wordlists import WordList
from vocab.marks import BLANK, CLOSE_MARKS, LINE_BREAK, OPEN_MARKS, SENTENCE_MARKS, SPACED_DASHES
from vocab.options import ListOptions
from vocab.text.changes import NO_CHANGES, ListChanges, ranks_left_out
from vocab.text.forms import FormRanks, follows_elision, is_elision
from vocab.text.gaps import GapAutomaton, build_gap_automaton


@dataclass(frozen=True)
class Coverage:
    """The word counts of a text, in its reading with the most frequent words.

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


class _Step(NamedTuple):
    """The best way to a position and gap state; smaller is better: the rarest word's rank, then the number of words."""

    max_rank: int
    num_words: int
    position_before: int
    place_before: int
    word: int
    """The word read, as ``_Words`` numbers it; 0 for a mark, a blank or a digit."""


_NEVER_IN_WORDS: Final = frozenset(marks.BLANK + marks.LINE_BREAK + marks.CLOSE_MARKS + marks.OPEN_MARKS)
"""Ends a word, unless a listed entry has it inside. Hyphen and apostrophes do not."""

_BEHIND_WORDS: Final = frozenset(marks.BLANK + marks.LINE_BREAK + marks.CLOSE_MARKS + marks.JOINING_DASH)
"""Begins a gap; after an elision, which ends in an apostrophe, stands the next word."""

_NUMBER: Final = re.compile(f"[{marks.DIGITS}]+(?:[{marks.NUMBER_JOINTS}][{marks.DIGITS}]+)*")

_SEPARATOR: Final = "\n"

_Steps = list[dict[int, _Step]]
"""For each position: the gap states that a reading may have reached there, each with the best way."""


class TextReader:
    """Read texts of the words of rank ``n_words`` and better, with ``changes``.

    ``form_ranks`` of the same list and options may be shared by readers of several N; else they are made for this N.
    """

    def __init__(
        self,
        word_list: WordList,
        options: ListOptions,
        n_words: int,
        form_ranks: FormRanks | None = None,
        changes: ListChanges = NO_CHANGES,
    ) -> None:
        self._words = _Words(word_list, options, n_words, form_ranks, changes)
        self._language = word_list.language
        self._gaps = build_gap_automaton(options, self._language)
        self._has_numbers = options.numbers
        self._start = self._gaps.start

    @property
    def place(self) -> int | None:
        """Return the gap state after a prefill; None where texts begin anew."""
        return None if self._start == self._gaps.start else self._start

    def after(self, text: str, *, is_whole: bool = False) -> Self:
        """Return a reader of the texts that go on after a prefill, whose own words may be any.

        ``is_whole`` is whether its last word is known to be whole.

        Raises:
            PrefillError: That text breaks off inside a word.
        """
        if not is_whole and self._words.is_begun(last_word(text)):
            raise PrefillError(f"the text breaks off inside a word: {last_word(text)[:80]!r}")
        reader = copy.copy(self)
        reader._start = place_after(text, self._gaps, self._language)
        return reader

    def anew(self) -> Self:
        """Return the reader of texts that begin anew, without a prefill."""
        reader = copy.copy(self)
        reader._start = self._gaps.start
        return reader

    def is_text(self, text: str) -> bool:
        """Return whether ``text`` is a complete allowed text."""
        return bool(self._complete(self._read(text)[0][-1]))

    def coverage(self, text: str) -> Coverage:
        """Count the words of ``text``: running ones, different ones, and the rank of the rarest.

        Raises:
            ValueError: ``text`` is not a complete allowed text.
        """
        last, words = self._best_reading(text)
        return Coverage(last.num_words, len({word.number for word in words}), last.max_rank)

    def words(self, text: str) -> list[ReadWord]:
        """Return the words of ``text`` in order, numbers left out.

        Raises:
            ValueError: ``text`` is not a complete allowed text.
        """
        return self._best_reading(text)[1][::-1]

    def numbers(self, word: str) -> frozenset[int]:
        """Return every number (a rank, or below 0 for an added word) that ``words`` may give a word."""
        return self._words.numbers(word)

    def _best_reading(self, text: str) -> tuple["_Step", list[ReadWord]]:
        """Return the last step of the reading with the most frequent words, and its words, the last one first."""
        steps, _ = self._read(text)
        complete = self._complete(steps[-1])
        if not complete:
            raise ValueError("not a complete text of this list")
        last = step = min(steps[-1][place] for place in complete)
        words, position = list[ReadWord](), len(text)
        while step.position_before >= 0:
            if step.word:
                starts = self._gaps.states[step.place_before].starts_sentence
                words.append(ReadWord(step.position_before, position, step.word, starts))
            position = step.position_before
            step = steps[position][step.place_before]
        return last, words

    def whole_prefix_length(self, text: str, following: str = "") -> int:
        """Return the length of the longest prefix of ``text`` that is a complete text and cuts no word short; or 0.

        With ``end: sentence`` such a prefix ends with a whole sentence, and where marks are paired it leaves none open.
        ``following`` is what was written after the text: "the c" is cut to "the" when "at" follows, even if "c" is a
        word.
        """
        whole = text + following[: self._words.max_length]
        steps, units = self._read(whole)
        if self._has_numbers:
            units |= {number.span() for number in _NUMBER.finditer(whole)}
        for cut in range(len(text), 0, -1):
            if not self._complete(steps[cut]):
                continue
            if cut == len(whole):
                return cut
            # A listed word with marks inside, such as "c.e.o", and a number go on where a text could also end. Words
            # of an entry with blanks are whole words.
            is_inside = whole[cut] != marks.BLANK and any(start < cut < end for start, end in units)
            if whole[cut] in _NEVER_IN_WORDS and not is_inside:
                return cut
        return 0

    def follow(self) -> "FollowedText":
        """Return a follower of a text, empty so far, that reads it in parts as it is written."""
        return FollowedText(self)

    def _complete(self, places: dict[int, _Step]) -> list[int]:
        """Return the gap states among these where a text may end."""
        return [place for place in places if self._gaps.states[place].is_complete]

    def _read(self, text: str) -> tuple[_Steps, set[tuple[int, int]]]:
        """Return every reading of a text as far as it goes, by position, and the words met as (start, end)."""
        steps: _Steps = [self._first_step(), *({} for _ in text)]
        return steps, self._read_on(text, steps)

    def _first_step(self) -> dict[int, _Step]:
        return {self._start: _Step(0, 0, -1, -1, 0)}

    def _read_on(self, text: str, steps: _Steps) -> set[tuple[int, int]]:
        """Extend the readings in ``steps`` over a text, and return the words met as (start, end)."""
        words: set[tuple[int, int]] = set()
        for position, places in enumerate(steps):
            for place, step in places.items():
                state = self._gaps.states[place]
                if state.word_may_start:
                    for end, word in self._words.starting_at(text, position, state.starts_sentence):
                        if state.is_after_elision and not follows_elision(text[position:end], self._language):
                            continue
                        words.add((position, end))
                        ends = self._gaps.contexts[state.context]
                        joins_next = is_elision(text[position:end], self._language)
                        _offer(
                            steps[end],
                            ends.after_elision if joins_next else ends.after_word,
                            _Step(max(step.max_rank, word), step.num_words + 1, position, place, word),
                        )
                following = state.transitions.get(text[position : position + 1])
                if following is not None:
                    _offer(steps[position + 1], following, _Step(step.max_rank, step.num_words, position, place, 0))
        return words


class FollowedText:
    """A text read as it grows: how much of it is words of the list, each known to be whole.

    Only its end is kept, as far back as a word may reach.

    Attributes:
        num_whole: Characters up to the last word, mark or blank that nothing written later can be part of.
    """

    def __init__(self, reader: TextReader) -> None:
        self._reader = reader
        self._steps: _Steps = [reader._first_step()]
        self._end = ""
        self._num_dropped = 0
        self.num_whole = 0

    @property
    def is_whole(self) -> bool:
        """Return whether the text so far is whole words, marks and blanks, if its last word does not go on."""
        return bool(self._steps[-1])

    def add(self, text: str) -> bool:
        """Read the next part of the text; return False where the text is no beginning of an allowed one."""
        self._end += text
        self._steps += ({} for _ in text)
        self._reader._read_on(self._end, self._steps)
        whole = self.num_whole - self._num_dropped
        for position in range(len(self._end), max(whole, 0), -1):
            if self._steps[position] and not _NEVER_IN_WORDS.isdisjoint(self._end[position - 1 : position + 1]):
                self.num_whole = self._num_dropped + position
                break
        num_old = max(len(self._end) - self._reader._words.max_length, 0)
        self._end, self._steps = self._end[num_old:], self._steps[num_old:]
        self._num_dropped += num_old
        return any(self._steps)


class _Words:
    """Look words up; a listed one is numbered by its rank, one that is only added by a number below 0."""

    def __init__(
        self,
        word_list: WordList,
        options: ListOptions,
        n_words: int,
        form_ranks: FormRanks | None,
        changes: ListChanges,
    ) -> None:
        self._word_list = word_list
        self._listed = form_ranks or FormRanks(word_list, options, n_words)
        self._n_words = n_words
        self._left_out = ranks_left_out(word_list.up_to(n_words), changes.exclude_words)
        self._extra_words = WordList(word_list.lang, changes.extra_words, "inline")
        self._extra = FormRanks(self._extra_words, replace(options, case="sentence"))
        # "Ana" may be written in a way that only the added word has, and counts as the listed word all the same.
        self._names = [self._rank_of(word, False) or -i for i, word in self._extra_words.ranked()]
        self._lengths = sorted({*self._listed.lengths, *self._extra.lengths})
        self.max_length = max(*self._lengths, marks.MAX_NUMBER_CHARS)

    def numbers(self, text: str) -> frozenset[int]:
        """Return the ranks of all listed words that ``text`` may write, and the number of an added one."""
        ranks = {*self._listed.ranks(text, starts_sentence=True), *self._listed.ranks(text, starts_sentence=False)}
        listed = {rank for rank in ranks if rank <= self._n_words and rank not in self._left_out}
        return frozenset(listed | {-i for i, word in self._extra_words.ranked() if word == text})

    def is_begun(self, word: str) -> bool:
        """Return whether a word is only the beginning of a listed one; words beyond N count where none is within."""
        if not word or self._word(word, True) is not None:
            return False
        begun = _SEPARATOR + _fold_case(word)
        for words in ((*self._word_list.up_to(self._n_words).words, *self._extra_words.words), self._word_list.words):
            # One text is searched at once: 30 ms for the longest list, a tenth of what its words take one by one.
            listed = _SEPARATOR + _fold_case(_SEPARATOR.join(words)) + _SEPARATOR
            if begun in listed:
                return begun + _SEPARATOR not in listed
        return False

    def starting_at(self, text: str, position: int, starts_sentence: bool) -> list[tuple[int, int]]:
        """Return (end, number) of every word of ``text`` that begins at ``position``."""
        found = []
        for length in self._lengths:
            end = position + length
            if end > len(text):
                break
            # Nothing else follows a word, so most lengths need no lookup: 9 ms, not 42, for 3,000 characters.
            if end < len(text) and text[end] not in _BEHIND_WORDS and text[end - 1] not in marks.APOSTROPHES:
                continue
            word = self._word(text[position:end], starts_sentence)
            if word is not None:
                found.append((end, word))
        return found

    def _word(self, text: str, starts_sentence: bool) -> int | None:
        """Return the number of the word that ``text`` writes: a rank, or below 0 if only added; None for none."""
        listed = self._rank_of(text, starts_sentence)
        if listed is not None:
            return listed
        extra = self._extra.rank(text, starts_sentence=starts_sentence)
        return None if extra is None else self._names[extra - 1]

    def _rank_of(self, text: str, starts_sentence: bool) -> int | None:
        """Return the best rank of an allowed listed word that ``text`` writes; None for none."""
        ranks = self._listed.ranks(text, starts_sentence=starts_sentence)
        return min((rank for rank in ranks if rank <= self._n_words and rank not in self._left_out), default=None)


def _fold_case(text: str) -> str:
    """Fold capitals and apostrophes, to find a text's last word among listed ones."""
    typewriter, curly = marks.APOSTROPHES
    return text.casefold().replace(curly, typewriter)


def _offer(places: dict[int, _Step], place: int, step: _Step) -> None:
    """Keep a step at a gap state where it is the best so far."""
    if place not in places or step < places[place]:
        places[place] = step


_MARKS: Final = frozenset(BLANK + LINE_BREAK + CLOSE_MARKS + OPEN_MARKS)
_BETWEEN: Final = re.escape("".join(sorted(_MARKS)))
_PARTS: Final = re.compile(f"[^{_BETWEEN}]+|[{_BETWEEN}]")


def place_after(text: str, gaps: GapAutomaton, language: str) -> int:
    """Return the gap state after a prefill, whose last word, if it ends with one, is whole.

    The text is not held to the list: what a client wrote of an answer itself. Only what it leaves counts:
    whether a blank must come, whether a sentence starts, which pairs are open. Its words are any words, and marks
    that the list's texts do not have are passed over.
    """
    place = gaps.start
    for part in _PARTS.findall(text):
        is_dash = part in SPACED_DASHES and part in gaps.states[place].transitions
        is_mark = is_dash or part in _MARKS
        place = _after_mark(part, place, gaps) if is_mark else _after_word(part, place, gaps, language)
    return place


def last_word(text: str) -> str:
    """Return the word with which a text ends, without signs before it; empty where the text ends otherwise."""
    part: str = (_PARTS.findall(text) or [""])[-1]
    begins = next((place for place, char in enumerate(part) if char.isalpha()), len(part))
    return "" if part in _MARKS else part[begins:]


def _after_word(word: str, place: int, gaps: GapAutomaton, language: str) -> int:
    """Return the gap state after a word of any kind, listed or not."""
    if word in SPACED_DASHES:
        # Of a list of points, or where the list's texts have no dashes.
        return place
    ends = gaps.contexts[gaps.states[place].context]
    is_elided = is_elision(word, language) and any(map(str.isalpha, word))
    return ends.after_elision if is_elided else ends.after_word


def _after_mark(mark: str, place: int, gaps: GapAutomaton) -> int:
    """Return the gap state after a mark; one that may not come here counts as after a word, or is passed over."""
    state = gaps.states[place]
    if mark in state.transitions:
        return state.transitions[mark]
    after_word = gaps.states[gaps.contexts[state.context].after_word].transitions
    if mark == LINE_BREAK:
        # After any text a line may break; what begins is a sentence.
        for end in SENTENCE_MARKS:
            if end in after_word and LINE_BREAK in (after_end := gaps.states[after_word[end]].transitions):
                return after_end[LINE_BREAK]
        return after_word.get(BLANK, place)
    if mark == BLANK:
        return place
    opened = gaps.states[after_word[BLANK]].transitions
    return after_word.get(mark, opened.get(mark, place))
