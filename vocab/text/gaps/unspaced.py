"""The rules of gaps of languages written without spaces between words."""

from collections.abc import Iterator
from typing import Final, NamedTuple

from vocab import marks
from vocab.marks import UnspacedMarks
from vocab.options import End, Layout
from vocab.text.gaps.rules import CLOSING, NO_MARK, OPENING, SENTENCE, Place, Step

_DOTS: Final = "…"

_UNSPACED_UNIT: Final = frozenset({"word", "digits", "repeat"})
_UNSPACED_ENDED: Final = frozenset({"exclamation", "dots", "ended", "closed_end"})
_UNSPACED_PAUSE: Final = frozenset({"pause", "colon"})


class UnspacedRules(NamedTuple):
    """The rules of a language written without spaces: a word may begin after any word or mark, and at the start."""

    marks: UnspacedMarks
    layout: Layout
    numbers: bool
    end: End

    @property
    def pairs(self) -> tuple[str, ...]:
        return self.marks.pairs

    def is_complete(self, place: Place) -> bool:
        if place.kind in _UNSPACED_ENDED:
            return True
        is_end = place.kind in _UNSPACED_UNIT or (self.end == "word" and place.kind in _UNSPACED_PAUSE)
        return is_end and (self.end == "word" or self.marks.ends_bare)

    def is_before_word(self, place: Place) -> bool:
        return place.kind not in ("dash", "joint")

    def steps(self, place: Place) -> Iterator[Step]:
        """Yield the steps from a place, as ``GapRules.steps``."""
        kind, run, seen = place
        starts = SENTENCE if kind in _UNSPACED_ENDED or seen == SENTENCE else NO_MARK
        if self.is_before_word(place):
            yield (OPENING,), Place("open", 0, starts)
        if kind in _UNSPACED_UNIT:
            yield (CLOSING,), Place("word")
            yield self.marks.sentence.replace(_DOTS, ""), Place("ended", seen=SENTENCE)
            yield self.marks.exclamations, Place("exclamation", seen=SENTENCE)
            yield (_DOTS if _DOTS in self.marks.sentence else ""), Place("dots", seen=SENTENCE)
            yield self.marks.pauses, Place("pause")
            yield self.marks.dash, Place("dash")
            yield (self.marks.repeat if kind == "word" else ""), Place("repeat")
        if kind in _UNSPACED_ENDED:
            yield (CLOSING,), Place("closed_end", seen=SENTENCE)
        if kind == "exclamation":
            yield self.marks.exclamations, Place("ended", seen=SENTENCE)
        if kind == "dots":
            yield _DOTS, Place("ended", seen=SENTENCE)
        if kind == "dash":
            yield self.marks.dash, Place("joined")
        if self.marks.has_blanks and kind in (_UNSPACED_UNIT | _UNSPACED_ENDED | _UNSPACED_PAUSE):
            ends_bare = self.marks.ends_bare and kind not in _UNSPACED_PAUSE
            yield marks.BLANK, Place("blank", seen=SENTENCE if ends_bare else starts)
        can_break = kind in _UNSPACED_ENDED or (self.layout == "lines" and kind in _UNSPACED_UNIT | _UNSPACED_PAUSE)
        if can_break or (self.marks.ends_bare and kind in _UNSPACED_UNIT):
            yield marks.LINE_BREAK, Place("break", 1, SENTENCE)
        if kind == "break" and run < marks.MAX_LINE_BREAKS:
            yield marks.LINE_BREAK, Place("break", run + 1, SENTENCE)
        if self.numbers:
            yield from self._number(place)

    def _number(self, place: Place) -> Iterator[Step]:
        """Yield the steps of a number; after a joint there must be room for a digit."""
        kind, run, _ = place
        # Where marks are those of numbers too, a blank stands between them.
        is_after_mark = self.marks.has_blanks and kind in _UNSPACED_PAUSE | _UNSPACED_ENDED
        if kind not in ("digits", "joint", "dash") and not is_after_mark:
            yield marks.DIGITS, Place("digits", 1)
        if kind in ("digits", "joint") and run < marks.MAX_NUMBER_CHARS:
            yield marks.DIGITS, Place("digits", run + 1)
        if kind == "digits" and run < marks.MAX_NUMBER_CHARS - 1:
            yield marks.NUMBER_JOINTS, Place("joint", run + 1)
