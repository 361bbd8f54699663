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
    common_alphabet,
    number_successors,
    possessive_successors,
)

_AFTER_UNIT: Final = frozenset({"word", "possessable", "digits", "close"})


class FreeMarks(NamedTuple):
    """The options that matter between words."""

    marks: Marks
    layout: Layout
    numbers: bool
    end: End

    def alphabet(self) -> str:
        return "".join(self.marks) + common_alphabet(self.numbers)

    def is_complete(self, place: Place) -> bool:
        if self.end == "sentence":
            return place.kind == "close" and place.seen == END
        return place.kind in _AFTER_UNIT

    def successors(self, place: Place, character: str) -> Iterator[Place]:
        kind, run, seen, _ = place
        yield from possessive_successors(place, character)
        if kind == "start" and character == marks.BLANK:
            yield Place("start_blank", seen=seen)
        if kind in _AFTER_UNIT:
            yield from self._gap_successors(place, character)
        if kind == "break" and character == marks.LINE_BREAK and run < marks.MAX_LINE_BREAKS:
            yield Place("break", run + 1, seen)
        if kind == "dash_blank" and character in self.marks.spaced_dashes:
            yield Place("dash")
        if kind == "dash" and character == marks.BLANK:
            yield Place("space")
        if kind in BEFORE_UNIT and character in self.marks.open:
            opened = run if kind == "open" else 0
            if opened < marks.MAX_OPEN_RUN:
                yield Place("open", opened + 1, seen)
        if self.numbers:
            yield from number_successors(place, character)

    def _gap_successors(self, place: Place, character: str) -> Iterator[Place]:
        run, seen = (place.run, place.seen) if place.kind == "close" else (0, NO_MARK)
        starts_sentence = seen >= SENTENCE
        if character in self.marks.close and run < marks.MAX_CLOSE_RUN:
            yield Place("close", run + 1, self._seen_with(character, seen))
        if character == marks.BLANK:
            yield Place("space", seen=SENTENCE if starts_sentence else NO_MARK)
            if self.marks.spaced_dashes:
                yield Place("dash_blank")
        if character in self.marks.joining_dashes:
            yield Place("space")
        if character == marks.LINE_BREAK and (seen != NO_MARK or self.layout == "lines"):
            yield Place("break", 1, SENTENCE)

    def _seen_with(self, mark: str, seen: int) -> int:
        """Return what a run has seen with one more mark; ``END`` only where a text's end depends on it."""
        if mark in self.marks.sentence:
            return END if self.end == "sentence" else SENTENCE
        if mark in marks.CLOSING_QUOTES:
            return seen
        return max(min(seen, SENTENCE), COLON if mark == marks.COLON else NO_MARK)
