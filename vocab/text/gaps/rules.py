"""The rules of gaps: what may stand before, between and after words, as places and the steps between them.

A blank may be a space or the beginning of " - ", a dash may join or open, and "3." may go on as a number.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias

from typing_extensions import override

from vocab import marks
from vocab.marks import LanguageMarks, Marks, UnspacedMarks
from vocab.options import End, Layout

NO_MARK, COLON, SENTENCE, END = 0, 1, 2, 3
"""What a run of closing marks has seen; ``END`` is a sentence mark with nothing but quotes and brackets after it."""

OPENING, CLOSING = "opening", "closing"
"""Stand for a mark that opens a pair, and for the one that must close the innermost."""


class GapPlace(NamedTuple):
    """A state of the gap rules, before they are made deterministic.

    Attributes:
        kind: What was read last, such as "space" or "close".
        run: How much of it.
        seen: What its run of marks has seen; before a word, ``SENTENCE`` where a sentence starts.
    """

    kind: str
    run: int = 0
    seen: int = NO_MARK


START: Final = GapPlace("start", seen=SENTENCE)

Step: TypeAlias = tuple[Iterable[str], GapPlace]
"""Characters, ``OPENING`` or ``CLOSING``, and the place that each of them leads to."""

BEFORE_UNIT: Final = frozenset({"start", "start_blank", "space", "break", "open", "inverted"})
"""Where a word or a number may start."""

WORD_MAY_FOLLOW: Final = BEFORE_UNIT | {"elision"}

INSIDE_UNIT: Final = frozenset({"apostrophe", "joint", "elision"})
"""Where part of a word or number must still come."""


@dataclass(frozen=True)
class GapRules(ABC):
    """The rules of gaps for one kind of punctuation. Equal rules are equal, so that automata are built once."""

    layout: Layout
    numbers: bool
    end: End

    @property
    def pairs(self) -> tuple[str, ...]:
        """Return the marks that open and close, two characters each."""
        return ()

    @abstractmethod
    def steps(self, place: GapPlace) -> Iterator[Step]:
        """Yield the steps from a place: the characters that may follow, and the place after each."""

    @abstractmethod
    def is_complete(self, place: GapPlace) -> bool:
        """Return whether a text may stop at a place, if nothing is open."""

    @abstractmethod
    def ends_unit(self, place: GapPlace) -> bool:
        """Return whether a word, a number or a closing mark ends at a place."""

    def is_before_word(self, place: GapPlace) -> bool:
        """Return whether a word may begin at a place."""
        return place.kind in WORD_MAY_FOLLOW


def possessive_steps(place: GapPlace) -> Iterator[Step]:
    """Yield the steps of the English 's from a place: its apostrophe, then its letter."""
    if place.kind == "possessable":
        yield marks.APOSTROPHES, GapPlace("apostrophe")
    if place.kind == "apostrophe":
        yield marks.POSSESSIVE_LETTER, GapPlace("word")


def number_steps(place: GapPlace, *, may_begin: bool, percent: str = marks.PERCENT) -> Iterator[Step]:
    """Yield the steps of a number from a place: digits, joints and the percent sign; the first where one may begin."""
    # ``run`` counts the characters of a number: after a joint there must be room for a digit.
    kind, run, _ = place
    if may_begin:
        yield marks.DIGITS, GapPlace("digits", 1)
    if kind in ("digits", "joint") and run < marks.MAX_NUMBER_CHARS:
        yield marks.DIGITS, GapPlace("digits", run + 1)
    if kind == "digits" and run < marks.MAX_NUMBER_CHARS - 1:
        yield marks.NUMBER_JOINTS, GapPlace("joint", run + 1)
    if kind == "digits" and run < marks.MAX_NUMBER_CHARS:
        yield percent, GapPlace("word")


_AFTER_FREE: Final = frozenset({"word", "possessable", "digits", "close"})


@dataclass(frozen=True)
class UnpairedMarks(GapRules):
    """``punctuation`` ``full``, ``basic`` and ``none``: marks in short runs, unpaired."""

    marks: Marks

    @override
    def is_complete(self, place: GapPlace) -> bool:
        if self.end == "sentence":
            return place.kind == "close" and place.seen == END
        return self.ends_unit(place)

    @override
    def ends_unit(self, place: GapPlace) -> bool:
        return place.kind in _AFTER_FREE

    @override
    def steps(self, place: GapPlace) -> Iterator[Step]:
        kind, run, seen = place
        yield from possessive_steps(place)
        if kind == "start":
            yield marks.BLANK, GapPlace("start_blank", seen=seen)
        if kind in _AFTER_FREE:
            yield from self._gap_steps(place)
        if kind == "break" and run < marks.MAX_LINE_BREAKS:
            yield marks.LINE_BREAK, GapPlace("break", run + 1, seen)
        if kind == "dash_blank":
            yield self.marks.spaced_dashes, GapPlace("dash")
        if kind == "dash":
            yield marks.BLANK, GapPlace("space")
        opened = run if kind == "open" else 0
        if kind in BEFORE_UNIT and opened < marks.MAX_OPEN_RUN:
            yield self.marks.open, GapPlace("open", opened + 1, seen)
        if self.numbers:
            yield from number_steps(place, may_begin=place.kind in BEFORE_UNIT)

    def _gap_steps(self, place: GapPlace) -> Iterator[Step]:
        run, seen = (place.run, place.seen) if place.kind == "close" else (0, NO_MARK)
        if run < marks.MAX_CLOSE_RUN:
            for mark in self.marks.close:
                yield mark, GapPlace("close", run + 1, self._seen_with(mark, seen))
        yield marks.BLANK, GapPlace("space", seen=SENTENCE if seen >= SENTENCE else NO_MARK)
        if self.marks.spaced_dashes:
            yield marks.BLANK, GapPlace("dash_blank")
        yield self.marks.joining_dashes, GapPlace("space")
        if seen != NO_MARK or self.layout == "lines":
            yield marks.LINE_BREAK, GapPlace("break", 1, SENTENCE)

    def _seen_with(self, mark: str, seen: int) -> int:
        """Return what a run of marks has seen with one more; ``END`` only where a text's end depends on it."""
        if mark in self.marks.sentence:
            return END if self.end == "sentence" else SENTENCE
        if mark in marks.CLOSING_QUOTES:
            return seen
        return max(min(seen, SENTENCE), COLON if mark == marks.COLON else NO_MARK)


_BEFORE_MARKS: Final = frozenset({"word", "possessable", "digits"})
"""Closing marks of pairs may have come; they change nothing but what is open."""

_ENDED: Final = frozenset({"stop", "question", "exclamation", "ended", "closed_end"})
"""After a sentence mark: the first three may be the first of several; after the last, a pair has closed."""

_AFTER_UNIT: Final = _BEFORE_MARKS | _ENDED | {"pause", "colon"}

_STOP: Final = "."
_EXCLAMATION: Final = "!"


@dataclass(frozen=True)
class PairedMarks(GapRules):
    """``punctuation: standard``: few marks, and quotation marks and brackets in pairs.

    One character never stands for two marks, even one that opens and closes: it opens before a word, and closes after
    one.
    """

    marks: LanguageMarks

    @property
    @override
    def pairs(self) -> tuple[str, ...]:
        return self.marks.pairs

    @override
    def is_complete(self, place: GapPlace) -> bool:
        return place.kind in (_ENDED if self.end == "sentence" else _AFTER_UNIT)

    @override
    def ends_unit(self, place: GapPlace) -> bool:
        return place.kind in _AFTER_UNIT

    @override
    def steps(self, place: GapPlace) -> Iterator[Step]:
        yield from possessive_steps(place)
        if place.kind in BEFORE_UNIT:
            yield from self._opening(place)
        if place.kind in _AFTER_UNIT:
            yield from self._closing(place.kind)
            yield from self._gap(place.kind)
        yield from self._inside_gap(place)
        if self.numbers:
            yield from number_steps(place, may_begin=place.kind in BEFORE_UNIT)

    def _opening(self, place: GapPlace) -> Iterator[Step]:
        kind, run, seen = place
        yield (OPENING,), GapPlace("space", 0, seen)
        for number, mark in enumerate(self.marks.inverted):
            # ``run`` is a set: the two may stand together, either first.
            others, own = run if kind == "inverted" else 0, 1 << number
            if not others & own:
                yield mark, GapPlace("inverted", others | own, seen)

    def _closing(self, kind: str) -> Iterator[Step]:
        yield (CLOSING,), GapPlace("word" if kind in _BEFORE_MARKS else "closed_end" if kind in _ENDED else kind)
        if kind in _BEFORE_MARKS:
            yield from self._first_mark()
        elif kind == "closed_end":
            yield self.marks.pauses.replace(marks.COLON, ""), GapPlace("pause")
        elif kind == "stop":
            yield _STOP, GapPlace("dots")
        elif kind == "question":
            yield _EXCLAMATION, GapPlace("ended")
        elif kind == "exclamation":
            yield self.marks.questions, GapPlace("ended")

    def _first_mark(self) -> Iterator[Step]:
        for mark in self.marks.sentence:
            kind = {_STOP: "stop", _EXCLAMATION: "exclamation"}.get(mark, "ended")
            yield mark, GapPlace("question" if mark in self.marks.questions else kind)
        for mark in self.marks.pauses:
            # Only a line break tells the colon from the others.
            is_colon = mark == marks.COLON and self.layout == "prose"
            yield mark, GapPlace("colon" if is_colon else "pause")

    def _gap(self, kind: str) -> Iterator[Step]:
        yield marks.BLANK, GapPlace("space", seen=SENTENCE if kind in _ENDED else NO_MARK)
        yield marks.BLANK, GapPlace("dash_blank")
        yield self.marks.joining_dashes, GapPlace("space")
        if kind in _ENDED or kind == "colon" or self.layout == "lines":
            yield marks.LINE_BREAK, GapPlace("break", 1, SENTENCE)

    def _inside_gap(self, place: GapPlace) -> Iterator[Step]:
        kind, run, seen = place
        if kind == "start":
            yield marks.BLANK, GapPlace("space", seen=seen)
        if kind == "dots":
            yield _STOP, GapPlace("ended")
        if kind == "dash_blank":
            yield self.marks.spaced_dashes, GapPlace("dash")
        if kind == "dash":
            yield marks.BLANK, GapPlace("space")
        if kind == "break":
            # After the last line break it is as after a blank.
            is_last = run + 1 == marks.MAX_LINE_BREAKS
            yield marks.LINE_BREAK, GapPlace("space", 0, seen) if is_last else GapPlace("break", run + 1, seen)


_DOTS: Final = "…"

_UNSPACED_UNIT: Final = frozenset({"word", "digits", "repeat"})
_UNSPACED_ENDED: Final = frozenset({"exclamation", "dots", "ended", "closed_end"})
_UNSPACED_PAUSE: Final = frozenset({"pause"})


@dataclass(frozen=True)
class UnspacedRules(GapRules):
    """The rules of a language written without spaces: a word may begin after any word or mark, and at the start."""

    marks: UnspacedMarks

    @property
    @override
    def pairs(self) -> tuple[str, ...]:
        return self.marks.pairs

    @override
    def is_complete(self, place: GapPlace) -> bool:
        if place.kind in _UNSPACED_ENDED:
            return True
        is_end = place.kind in _UNSPACED_UNIT or (self.end == "word" and place.kind in _UNSPACED_PAUSE)
        return is_end and (self.end == "word" or self.marks.ends_bare)

    @override
    def ends_unit(self, place: GapPlace) -> bool:
        return place.kind in _UNSPACED_UNIT | _UNSPACED_ENDED | _UNSPACED_PAUSE

    @override
    def is_before_word(self, place: GapPlace) -> bool:
        return place.kind not in ("dash", "joint")

    @override
    def steps(self, place: GapPlace) -> Iterator[Step]:
        kind, run, seen = place
        starts = SENTENCE if kind in _UNSPACED_ENDED or seen == SENTENCE else NO_MARK
        if self.is_before_word(place):
            yield (OPENING,), GapPlace("open", 0, starts)
        if kind in _UNSPACED_UNIT:
            yield (CLOSING,), GapPlace("word")
            yield self.marks.sentence.replace(_DOTS, ""), GapPlace("ended", seen=SENTENCE)
            yield self.marks.exclamations, GapPlace("exclamation", seen=SENTENCE)
            yield (_DOTS if _DOTS in self.marks.sentence else ""), GapPlace("dots", seen=SENTENCE)
            yield self.marks.pauses, GapPlace("pause")
            yield self.marks.dash, GapPlace("dash")
            yield (self.marks.repeat if kind == "word" else ""), GapPlace("repeat")
        if kind in _UNSPACED_ENDED:
            yield (CLOSING,), GapPlace("closed_end", seen=SENTENCE)
        if kind == "exclamation":
            yield self.marks.exclamations, GapPlace("ended", seen=SENTENCE)
        if kind == "dots":
            yield _DOTS, GapPlace("ended", seen=SENTENCE)
        if kind == "dash":
            yield self.marks.dash, GapPlace("joined")
        if self.marks.has_blanks and kind in (_UNSPACED_UNIT | _UNSPACED_ENDED | _UNSPACED_PAUSE):
            ends_bare = self.marks.ends_bare and kind not in _UNSPACED_PAUSE
            yield marks.BLANK, GapPlace("blank", seen=SENTENCE if ends_bare else starts)
        can_break = kind in _UNSPACED_ENDED or (self.layout == "lines" and kind in _UNSPACED_UNIT | _UNSPACED_PAUSE)
        if can_break or (self.marks.ends_bare and kind in _UNSPACED_UNIT):
            yield marks.LINE_BREAK, GapPlace("break", 1, SENTENCE)
        if kind == "break" and run < marks.MAX_LINE_BREAKS:
            yield marks.LINE_BREAK, GapPlace("break", run + 1, SENTENCE)
        if self.numbers:
            # Where marks are those of numbers too, a blank stands between them.
            is_after_mark = self.marks.has_blanks and kind in _UNSPACED_PAUSE | _UNSPACED_ENDED
            may_begin = kind not in ("digits", "joint", "dash") and not is_after_mark
            yield from number_steps(place, may_begin=may_begin, percent="")
