"""What may stand between words with ``punctuation`` ``full``, ``basic`` and ``none``: marks in short runs, unpaired."""

from collections.abc import Iterator
from typing import Final, NamedTuple

from vocab import marks
from vocab.marks import Marks
from vocab.options import End, Layout
from vocab.text.gap_places import (
    BEFORE_UNIT,
    COLON,
    END,
    NO_MARK,
    SENTENCE,
    Place,
    Step,
    number_steps,
    possessive_steps,
)

_AFTER_UNIT: Final = frozenset({"word", "possessable", "digits", "close"})


class FreeMarks(NamedTuple):
    """The options that matter between words."""

    marks: Marks
    layout: Layout
    numbers: bool
    end: End

    @property
    def pairs(self) -> tuple[str, ...]:
        return ()

    def is_complete(self, place: Place) -> bool:
        if self.end == "sentence":
            return place.kind == "close" and place.seen == END
        return place.kind in _AFTER_UNIT

    def steps(self, place: Place) -> Iterator[Step]:
        kind, run, seen = place
        yield from possessive_steps(place)
        if kind == "start":
            yield marks.BLANK, Place("start_blank", seen=seen)
        if kind in _AFTER_UNIT:
            yield from self._gap_steps(place)
        if kind == "break" and run < marks.MAX_LINE_BREAKS:
            yield marks.LINE_BREAK, Place("break", run + 1, seen)
        if kind == "dash_blank":
            yield self.marks.spaced_dashes, Place("dash")
        if kind == "dash":
            yield marks.BLANK, Place("space")
        opened = run if kind == "open" else 0
        if kind in BEFORE_UNIT and opened < marks.MAX_OPEN_RUN:
            yield self.marks.open, Place("open", opened + 1, seen)
        if self.numbers:
            yield from number_steps(place)

    def _gap_steps(self, place: Place) -> Iterator[Step]:
        run, seen = (place.run, place.seen) if place.kind == "close" else (0, NO_MARK)
        if run < marks.MAX_CLOSE_RUN:
            for mark in self.marks.close:
                yield mark, Place("close", run + 1, self._seen_with(mark, seen))
        yield marks.BLANK, Place("space", seen=SENTENCE if seen >= SENTENCE else NO_MARK)
        if self.marks.spaced_dashes:
            yield marks.BLANK, Place("dash_blank")
        yield self.marks.joining_dashes, Place("space")
        if seen != NO_MARK or self.layout == "lines":
            yield marks.LINE_BREAK, Place("break", 1, SENTENCE)

    def _seen_with(self, mark: str, seen: int) -> int:
        """Return what a run has seen with one more mark; ``END`` only where a text's end depends on it."""
        if mark in self.marks.sentence:
            return END if self.end == "sentence" else SENTENCE
        if mark in marks.CLOSING_QUOTES:
            return seen
        return max(min(seen, SENTENCE), COLON if mark == marks.COLON else NO_MARK)
