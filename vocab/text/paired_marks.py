"""What may stand between words with ``punctuation: standard``: few marks, and quotation marks and brackets in pairs.

The marks that close what is open are part of each place. So one character never stands for two of them, even a mark
that opens and closes: it opens before a word, and closes behind one.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

from vocab import marks
from vocab.language_marks import LanguageMarks
from vocab.options import End, Layout
from vocab.text.gap_places import (
    BEFORE_UNIT,
    NO_MARK,
    SENTENCE,
    Place,
    common_alphabet,
    number_successors,
    possessive_successors,
)

_BEFORE_MARKS: Final = frozenset({"word", "possessable", "digits"})
"""Closing marks of pairs may have come; they change nothing but what is open."""

_ENDED: Final = frozenset({"stop", "question", "exclamation", "ended", "closed_end"})
"""Behind a sentence mark: the first three may be the first of several; behind the last, a pair has closed."""

_AFTER_UNIT: Final = _BEFORE_MARKS | _ENDED | {"pause", "colon"}

_STOP: Final = "."
_EXCLAMATION: Final = "!"


class PairedMarks(NamedTuple):
    """The options that matter between words."""

    marks: LanguageMarks
    layout: Layout
    numbers: bool
    end: End

    def alphabet(self) -> str:
        own = self.marks
        return "".join((*own.pairs, own.spaced_dashes, own.inverted, own.sentence, own.pauses)) + common_alphabet(
            self.numbers
        )

    def is_complete(self, place: Place) -> bool:
        return not place.open_pairs and place.kind in (_ENDED if self.end == "sentence" else _AFTER_UNIT)

    def successors(self, place: Place, character: str) -> Iterator[Place]:
        yield from possessive_successors(place, character)
        if place.kind in BEFORE_UNIT:
            yield from self._opening(place, character)
        if place.kind in _AFTER_UNIT:
            yield from self._closing(place, character)
            yield from self._gap(place, character)
        yield from self._inside_gap(place, character)
        if self.numbers:
            yield from number_successors(place, character)

    def _opening(self, place: Place, character: str) -> Iterator[Place]:
        kind, run, seen, open_pairs = place
        if len(open_pairs) < marks.MAX_OPEN_PAIRS:
            for pair in self.marks.pairs:
                if character == pair[0] and pair[1] not in open_pairs:
                    yield Place("space", 0, seen, open_pairs + pair[1])
        if character in self.marks.inverted:
            # ``run`` is a set: the two may stand together, either first.
            mark = 1 << self.marks.inverted.index(character)
            others = run if kind == "inverted" else 0
            if not others & mark:
                yield Place("inverted", others | mark, seen, open_pairs)

    def _closing(self, place: Place, character: str) -> Iterator[Place]:
        kind, open_pairs = place.kind, place.open_pairs
        if open_pairs and character == open_pairs[-1]:
            behind = "word" if kind in _BEFORE_MARKS else "closed_end" if kind in _ENDED else kind
            yield Place(behind, open_pairs=open_pairs[:-1])
        if kind in _BEFORE_MARKS:
            yield from self._first_mark(character, open_pairs)
        elif kind == "closed_end" and character in self.marks.pauses and character != marks.COLON:
            yield Place("pause", open_pairs=open_pairs)
        elif kind == "stop" and character == _STOP:
            yield Place("dots", open_pairs=open_pairs)
        elif (kind == "question" and character == _EXCLAMATION) or (
            kind == "exclamation" and character in self.marks.questions
        ):
            yield Place("ended", open_pairs=open_pairs)

    def _first_mark(self, character: str, open_pairs: str) -> Iterator[Place]:
        if character in self.marks.sentence:
            kind = {_STOP: "stop", _EXCLAMATION: "exclamation"}.get(character, "ended")
            yield Place("question" if character in self.marks.questions else kind, open_pairs=open_pairs)
        elif character in self.marks.pauses:
            # Only a line break tells the colon from the others.
            is_colon = character == marks.COLON and self.layout == "prose"
            yield Place("colon" if is_colon else "pause", open_pairs=open_pairs)

    def _gap(self, place: Place, character: str) -> Iterator[Place]:
        kind, open_pairs = place.kind, place.open_pairs
        if character == marks.BLANK:
            yield Place("space", seen=SENTENCE if kind in _ENDED else NO_MARK, open_pairs=open_pairs)
            yield Place("dash_blank", open_pairs=open_pairs)
        if character in self.marks.joining_dashes:
            yield Place("space", open_pairs=open_pairs)
        if character == marks.LINE_BREAK and (kind in _ENDED or kind == "colon" or self.layout == "lines"):
            yield Place("break", 1, SENTENCE, open_pairs)

    def _inside_gap(self, place: Place, character: str) -> Iterator[Place]:
        kind, run, seen, open_pairs = place
        if kind == "start" and character == marks.BLANK:
            yield Place("space", seen=seen)
        if kind == "dots" and character == _STOP:
            yield Place("ended", open_pairs=open_pairs)
        if kind == "dash_blank" and character in self.marks.spaced_dashes:
            yield Place("dash", open_pairs=open_pairs)
        if kind == "dash" and character == marks.BLANK:
            yield Place("space", open_pairs=open_pairs)
        if kind == "break" and character == marks.LINE_BREAK:
            # Behind the last line break it is as behind a blank.
            is_last = run + 1 == marks.MAX_LINE_BREAKS
            yield Place("space", 0, seen, open_pairs) if is_last else Place("break", run + 1, seen, open_pairs)
