"""What may stand between words with ``punctuation: standard``: few marks, and quotation marks and brackets in pairs.

One character never stands for two marks, even one that opens and closes: it opens before a word, and closes after one.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

from vocab import marks
from vocab.language_marks import LanguageMarks
from vocab.options import End, Layout
from vocab.text.gap_places import (
    BEFORE_UNIT,
    CLOSING,
    NO_MARK,
    OPENING,
    SENTENCE,
    Place,
    Step,
    number_steps,
    possessive_steps,
)

_BEFORE_MARKS: Final = frozenset({"word", "possessable", "digits"})
"""Closing marks of pairs may have come; they change nothing but what is open."""

_ENDED: Final = frozenset({"stop", "question", "exclamation", "ended", "closed_end"})
"""After a sentence mark: the first three may be the first of several; after the last, a pair has closed."""

_AFTER_UNIT: Final = _BEFORE_MARKS | _ENDED | {"pause", "colon"}

_STOP: Final = "."
_EXCLAMATION: Final = "!"


class PairedMarks(NamedTuple):
    """The options that matter between words."""

    marks: LanguageMarks
    layout: Layout
    numbers: bool
    end: End

    @property
    def pairs(self) -> tuple[str, ...]:
        return self.marks.pairs

    def is_complete(self, place: Place) -> bool:
        return place.kind in (_ENDED if self.end == "sentence" else _AFTER_UNIT)

    def steps(self, place: Place) -> Iterator[Step]:
        yield from possessive_steps(place)
        if place.kind in BEFORE_UNIT:
            yield from self._opening(place)
        if place.kind in _AFTER_UNIT:
            yield from self._closing(place.kind)
            yield from self._gap(place.kind)
        yield from self._inside_gap(place)
        if self.numbers:
            yield from number_steps(place)

    def _opening(self, place: Place) -> Iterator[Step]:
        kind, run, seen = place
        yield (OPENING,), Place("space", 0, seen)
        for number, mark in enumerate(self.marks.inverted):
            # ``run`` is a set: the two may stand together, either first.
            others, own = run if kind == "inverted" else 0, 1 << number
            if not others & own:
                yield mark, Place("inverted", others | own, seen)

    def _closing(self, kind: str) -> Iterator[Step]:
        yield (CLOSING,), Place("word" if kind in _BEFORE_MARKS else "closed_end" if kind in _ENDED else kind)
        if kind in _BEFORE_MARKS:
            yield from self._first_mark()
        elif kind == "closed_end":
            yield self.marks.pauses.replace(marks.COLON, ""), Place("pause")
        elif kind == "stop":
            yield _STOP, Place("dots")
        elif kind == "question":
            yield _EXCLAMATION, Place("ended")
        elif kind == "exclamation":
            yield self.marks.questions, Place("ended")

    def _first_mark(self) -> Iterator[Step]:
        for mark in self.marks.sentence:
            kind = {_STOP: "stop", _EXCLAMATION: "exclamation"}.get(mark, "ended")
            yield mark, Place("question" if mark in self.marks.questions else kind)
        for mark in self.marks.pauses:
            # Only a line break tells the colon from the others.
            is_colon = mark == marks.COLON and self.layout == "prose"
            yield mark, Place("colon" if is_colon else "pause")

    def _gap(self, kind: str) -> Iterator[Step]:
        yield marks.BLANK, Place("space", seen=SENTENCE if kind in _ENDED else NO_MARK)
        yield marks.BLANK, Place("dash_blank")
        yield self.marks.joining_dashes, Place("space")
        if kind in _ENDED or kind == "colon" or self.layout == "lines":
            yield marks.LINE_BREAK, Place("break", 1, SENTENCE)

    def _inside_gap(self, place: Place) -> Iterator[Step]:
        kind, run, seen = place
        if kind == "start":
            yield marks.BLANK, Place("space", seen=seen)
        if kind == "dots":
            yield _STOP, Place("ended")
        if kind == "dash_blank":
            yield self.marks.spaced_dashes, Place("dash")
        if kind == "dash":
            yield marks.BLANK, Place("space")
        if kind == "break":
            # After the last line break it is as after a blank.
            is_last = run + 1 == marks.MAX_LINE_BREAKS
            yield marks.LINE_BREAK, Place("space", 0, seen) if is_last else Place("break", run + 1, seen)
