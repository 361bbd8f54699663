"""Read finished texts: whether they are allowed, what they are made of, and where they may be cut.

One pass over pairs of a position and a gap state, looking words up; exact on the definition that the token automaton
enforces.
"""

import copy
from dataclasses import dataclass
from typing import Final, NamedTuple, Self

from typing_extensions import override

from vocab import marks
from vocab.errors import PrefillError
from vocab.lists.wordlists import WordList
from vocab.options import ListOptions
from vocab.text.changes import NO_CHANGES, ListChanges
from vocab.text.forms import FormRanks, follows_elision, is_elision
from vocab.text.gaps.automaton import build_gap_automaton, last_word, place_after
from vocab.text.words import ANY_NUMBER, Dictionary, SegmentedWords, Words, cuts_letters


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


class _Step(NamedTuple):
    """The best way to a position and gap state; smaller is better: the rarest word's rank, then the number of words."""

    max_rank: int
    num_words: int
    position_before: int
    place_before: int
    word: int
    """The word read, as ``Words`` numbers it; 0 for a mark, a blank or a digit."""


_NEVER_IN_WORDS: Final = frozenset(marks.BLANK + marks.LINE_BREAK + marks.CLOSE_MARKS + marks.OPEN_MARKS)
"""Ends a word, unless a listed entry has it inside. Hyphen and apostrophes do not."""

_INNUMBERS: Final = frozenset(marks.DIGITS + marks.NUMBER_JOINTS)

UNKNOWN_FOLLOWING: Final = "\uffff"
"""Text that followed and is not known: it may have continued the word, so the word counts as cut. No text has it."""

_Steps = list[dict[int, _Step]]
"""For each position: the gap states that a parse may have reached there, each with the best way."""


class TextReader:
    """Read texts of the words of rank ``n_words`` and better, with ``changes``.

    ``form_ranks`` of the same list and options may be shared by readers of several N; else they are made for this N.
    ``reference`` is the dictionary of a language without spaces, by default the built-in one.
    """

    def __init__(
        self,
        word_list: WordList,
        options: ListOptions,
        n_words: int,
        form_ranks: FormRanks | None = None,
        changes: ListChanges = NO_CHANGES,
        reference: Dictionary | None = None,
    ) -> None:
        self._words: Words
        if not word_list.is_unspaced:
            self._words = Words(word_list, options, n_words, form_ranks, changes)
        else:
            self._words = SegmentedWords(word_list, options, n_words, form_ranks, changes, reference)
        self._language = word_list.language
        self._gaps = build_gap_automaton(options, self._language)
        self._has_numbers = options.numbers
        self._start = self._gaps.start
        self._may_break_off = False

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
        if not is_whole and self._words.is_begun(last):
            raise PrefillError(f"the text breaks off inside a word: {last[-80:]!r}")
        reader = copy.copy(self)
        reader._start = place_after(text, self._gaps, self._language, self._start)
        return reader

    def of_broken_off(self) -> Self:
        """Return the reader of texts that may end after any word or closing mark, as where a stop string came.

        They may end inside a sentence, and with a quotation or bracket open.
        """
        reader = copy.copy(self)
        reader._may_break_off = True
        return reader

    def is_text(self, text: str) -> bool:
        """Return whether ``text`` is a complete allowed text."""
        return bool(self._complete(self._read(text)[0][-1]))

    def is_between_words(self, text: str) -> bool:
        """Return whether ``text`` begins an allowed text, and no word or number is half written at its end."""
        return any(not self._gaps.states[place].is_inside_unit for place in self._read(text)[0][-1])

    def coverage(self, text: str) -> Coverage:
        """Count the words of ``text``: running ones, different ones, and the rank of the rarest.

        Raises:
            ValueError: ``text`` is not a complete allowed text.
        """
        last, words = self._best_parse(text)
        return Coverage(last.num_words, len({word.number for word in words}), last.max_rank)

    def words(self, text: str) -> list[ReadWord]:
        """Return the words of ``text`` in order, numbers left out.

        Raises:
            ValueError: ``text`` is not a complete allowed text.
        """
        return self._best_parse(text)[1][::-1]

    def numbers(self, word: str) -> frozenset[int]:
        """Return every number (a rank, or below 0 for an added word) that ``words`` may give a word."""
        return self._words.numbers(word)

    def _best_parse(self, text: str) -> tuple["_Step", list[ReadWord]]:
        """Return the last step of the parse with the most frequent words, and its words, the last one first."""
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
        if isinstance(self._words, SegmentedWords):
            return self._whole_segments(text, following, self._words)
        whole = text + following[: self._words.max_length]
        steps, units = self._read(whole)
        if self._has_numbers:
            units |= {number.span() for number in ANY_NUMBER.finditer(whole)}
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

    def _whole_segments(self, text: str, following: str, words: SegmentedWords) -> int:
        """Return the length of the longest prefix that is a complete text and ends where a word of the whole does."""
        whole = text if following == UNKNOWN_FOLLOWING else text + following
        steps, units = self._read(whole)
        if following == UNKNOWN_FOLLOWING:
            settled = _settled(whole, steps, units, words.begun_at(whole, _last_starts(steps, words)))
            return max((cut for cut in settled if self._complete(steps[cut])), default=0)
        numbers = ANY_NUMBER.finditer(whole) if self._has_numbers else ()
        inside = {place for number in numbers for place in range(number.start() + 1, number.end())}
        ends = self._ends_of_best_parse(whole, steps, words)
        return max((end for end in ends if end <= len(text) and end not in inside), default=0)

    def _ends_of_best_parse(self, text: str, steps: _Steps, words: SegmentedWords) -> list[int]:
        """Return where a text may end on the best of the parses that go furthest; one may end in a begun word."""
        end = len(text)
        if not steps[end]:
            begun = (start for start in _last_starts(steps, words)[::-1] if words.begun_at(text, [start]) is not None)
            end = next(begun, max(position for position, places in enumerate(steps) if places))
        place = min(self._complete(steps[end]) or steps[end], key=steps[end].__getitem__)
        found = []
        while end >= 0:
            if self._may_end(place):
                found.append(end)
            step = steps[end][place]
            end, place = step.position_before, step.place_before
        return found

    def follow(self) -> "FollowedText":
        """Return a follower of a text, empty so far, that reads it in parts as it is written."""
        return FollowedSegments(self, self._words) if isinstance(self._words, SegmentedWords) else FollowedText(self)

    def _complete(self, places: dict[int, _Step]) -> list[int]:
        return [place for place in places if self._may_end(place)]

    def _may_end(self, place: int) -> bool:
        state = self._gaps.states[place]
        return state.is_complete or (self._may_break_off and state.ends_unit)

    def _read(self, text: str) -> tuple[_Steps, set[tuple[int, int]]]:
        """Return every parse of a text as far as it goes, by position, and the words met as (start, end)."""
        steps: _Steps = [self._first_step(), *({} for _ in text)]
        return steps, self._read_on(text, steps)

    def _first_step(self) -> dict[int, _Step]:
        return {self._start: _Step(0, 0, -1, -1, 0)}

    def _read_on(self, text: str, steps: _Steps) -> set[tuple[int, int]]:
        """Extend the parses in ``steps`` over a text, and return the words met as (start, end)."""
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
        self._all = ""

    @property
    def num_complete(self) -> int:
        return self._reader.whole_prefix_length(self._all, UNKNOWN_FOLLOWING)

    @property
    def is_whole(self) -> bool:
        """Return whether the text so far is whole words, marks and blanks, if its last word does not go on."""
        return bool(self._steps[-1])

    @property
    def is_settled(self) -> bool:
        """Return whether it is whole and may be sent, where no part of a stream ends inside a word."""
        return self.is_whole

    def add(self, text: str) -> bool:
        """Read the next part of the text; return False where the text is no beginning of an allowed one."""
        self._end += text
        self._all += text
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


class FollowedSegments(FollowedText):
    """A text without spaces, read as it grows.

    Its end is kept from the last settled place on, or twice as far back as a word may reach.
    """

    def __init__(self, reader: TextReader, words: SegmentedWords) -> None:
        super().__init__(reader)
        self._words = words
        self._may_go_on = False

    @property
    @override
    def is_settled(self) -> bool:
        return self.is_whole and not self._may_go_on

    @override
    def add(self, text: str) -> bool:
        """Read the next part of the text; return False where the text is no beginning of an allowed one."""
        old, most = len(self._end), self._words.max_length
        self._end += text
        self._all += text
        # What has come may make the longest match longer, or a cut one between letters.
        first_changed = 1 if self._words.is_longest else old + (not cuts_letters(self._end, old))
        self._steps[first_changed:] = [{} for _ in range(len(self._end) + 1 - first_changed)]
        words = self._reader._read_on(self._end, self._steps)
        begun = self._words.begun_at(self._end, _last_starts(self._steps, self._words))
        # Words from before what is kept may go on inside its first part.
        first = 0 if self.num_whole == self._num_dropped else most
        settled = [place for place in _settled(self._end, self._steps, words, begun) if place >= first]
        self.num_whole = max(self.num_whole, self._num_dropped + max(settled, default=0))
        is_begun = bool(self._steps[-1]) or begun is not None
        self._may_go_on = begun is not None or _ends_openly(self._end)
        num_old = max(self.num_whole - self._num_dropped, len(self._end) - 2 * most, 0)
        self._end, self._steps = self._end[num_old:], self._steps[num_old:]
        self._num_dropped += num_old
        return is_begun


def _last_starts(steps: _Steps, words: SegmentedWords) -> list[int]:
    """Return where parses have come, within a word's reach of the end of their text, but for the end itself."""
    end = len(steps) - 1
    return [position for position in range(max(end - words.max_length, 0), end) if steps[position]]


def _ends_openly(text: str) -> bool:
    return text[-1:] in _INNUMBERS or (text[-1:].isascii() and text[-1:].isalpha())


def _settled(text: str, steps: _Steps, words: set[tuple[int, int]], begun: int | None) -> list[int]:
    """Return where parses have come and nothing written later is part of what stands before, ascending.

    ``words`` are all that the parses met, and ``begun`` is where the first begins that may go on after the end.
    """
    inside = {place for start, end in words for place in range(start + 1, end)}
    # A number has digits and joints on both sides.
    last = len(text) - _ends_openly(text) if begun is None else begun
    return [
        place
        for place in range(1, last + 1)
        if steps[place] and place not in inside and not _INNUMBERS.issuperset(text[place - 1 : place + 1])
    ]


def _offer(places: dict[int, _Step], place: int, step: _Step) -> None:
    if place not in places or step < places[place]:
        places[place] = step
