"""What a text without spaces may be, written down once more and plainly: the last word on such texts in the tests.

It reads the text, the dictionary, the listed words and the marks below, and imports nothing of the library.
"""

import string
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple

LETTERS = frozenset(string.ascii_letters)
DIGITS = "0123456789"
JOINTS = ".,:"
MOST_NUMBER_CHARACTERS = 16


class Marks(NamedTuple):
    """The marks of a language: all of its sentences' ends, which of them may stand twice, and so on."""

    pairs: tuple[str, ...]
    ends: str
    twice: str
    pauses: str
    dash: str
    repeats: str
    has_blanks: bool


CHINESE = Marks(("“”", "‘’", "《》", "（）"), "。！？…", "！？", "，、；：", "—", "", False)
MARKS = {
    "zh": CHINESE,
    "zh-Hant": CHINESE._replace(pairs=("「」", "『』", "《》", "（）")),
    "ja": Marks(("「」", "『』", "（）"), "。！？…", "！？", "、：", "―", "", False),
    "th": Marks(("“”", "()"), ".!?…", "!?", ",:", "", "ๆฯ", True),
}


class After(NamedTuple):
    """What stands before a place: its kind, how much of it, and the closing marks that must still come."""

    kind: str
    length: int = 0
    closing: str = ""


@dataclass(frozen=True)
class SegmentedOracle:
    """The texts of a list, ``listed``, whose words are found by the dictionary or in any way."""

    language: str
    dictionary: Collection[str]
    listed: Collection[str]
    segmentation: Literal["longest", "any"] = "longest"
    numbers: bool = False
    layout: Literal["prose", "lines"] = "prose"
    end: Literal["word", "sentence"] = "word"
    punctuation: Literal["standard", "basic", "none"] = "standard"

    @property
    def marks(self) -> Marks:
        marks = MARKS[self.language]
        if self.punctuation == "none":
            return Marks((), "", "", "", "", "", marks.has_blanks)
        if self.punctuation == "basic":
            return marks._replace(pairs=(), pauses=marks.pauses[0], dash="")
        return marks

    def is_text(self, text: str) -> bool:
        """Whether the whole of it is a text."""
        return any(self._may_end(after) for after in self._places(text)[-1])

    def words(self, text: str) -> list[tuple[int, int]]:
        """The words of a text by the longest match, listed or not, as (start, end); what is none is passed over."""
        found, place = [], 0
        while place < len(text):
            end = self._longest(text, place) or place
            found += [(place, end)] if end > place else []
            place = max(end, place + 1)
        return found

    def _places(self, text: str) -> list[set[After]]:
        """All that may stand before each place of the text."""
        places: list[set[After]] = [{After("start")}, *(set[After]() for _ in text)]
        for place, char in enumerate(text):
            for after in places[place]:
                if self._word_may_begin(after):
                    for end in self._words_at(text, place):
                        places[end].add(After("word", closing=after.closing))
                places[place + 1].update(self._after_character(after, char))
        return places

    def _words_at(self, text: str, place: int) -> list[int]:
        """Where the words end that may be written at a place."""
        if self.segmentation == "longest":
            end = self._longest(text, place)
            ends = [] if end is None else [end]
        else:
            ends = list(range(place + 1, len(text) + 1))
        return [end for end in ends if text[place:end] in self.listed and not self._parts_letters(text, end)]

    def _longest(self, text: str, place: int) -> int | None:
        return next((end for end in range(len(text), place, -1) if text[place:end] in self.dictionary), None)

    @staticmethod
    def _parts_letters(text: str, place: int) -> bool:
        return text[place - 1] in LETTERS and text[place : place + 1] in LETTERS

    def _word_may_begin(self, after: After) -> bool:
        return after.kind not in ("dash", "joint")

    def _after_character(self, after: After, char: str) -> Iterator[After]:
        """What stands before the next place when a mark, blank or digit is written."""
        marks, kind, closing = self.marks, after.kind, after.closing
        is_unit = kind in ("word", "number", "repeat")
        is_ended = kind in ("end", "first of two", "first dots", "closed")
        if self._word_may_begin(after) and len(closing) < 2:
            yield from (After("open", 0, p[1] + closing) for p in marks.pairs if p[0] == char and p[1] not in closing)
        if closing and char == closing[0] and (is_unit or is_ended):
            yield After("word" if is_unit else "closed", 0, closing[1:])
        if is_unit and char in marks.ends:
            is_first = char in marks.twice
            yield After("first of two" if is_first else "first dots" if char == "…" else "end", 0, closing)
        if (kind == "first of two" and char in marks.twice) or (kind == "first dots" and char == "…"):
            yield After("end", 0, closing)
        if is_unit and char in marks.pauses:
            yield After("pause", 0, closing)
        if char == marks.dash and (is_unit or kind == "dash"):
            yield After("dash" if is_unit else "after dash", 0, closing)
        if kind == "word" and char in marks.repeats:
            yield After("repeat", 0, closing)
        if char == " " and marks.has_blanks and (is_unit or is_ended or kind == "pause"):
            yield After("blank", 0, closing)
        may_break = is_ended or (is_unit and marks.has_blanks) or (self._has_bare_ends and is_unit)
        if char == "\n" and (may_break or (self.layout == "lines" and (is_unit or kind == "pause"))):
            yield After("break", 1, closing)
        if char == "\n" and kind == "break" and after.length == 1:
            yield After("break", 2, closing)
        if self.numbers:
            yield from self._after_digit(after, char)

    def _after_digit(self, after: After, char: str) -> Iterator[After]:
        is_mark = after.kind in ("pause", "end", "first of two", "first dots", "closed")
        may_begin = after.kind not in ("number", "joint", "dash") and not (is_mark and self.marks.has_blanks)
        if char in DIGITS and may_begin:
            yield After("number", 1, after.closing)
        if char in DIGITS and after.kind in ("number", "joint") and after.length < MOST_NUMBER_CHARACTERS:
            yield After("number", after.length + 1, after.closing)
        if char in JOINTS and after.kind == "number" and after.length < MOST_NUMBER_CHARACTERS - 1:
            yield After("joint", after.length + 1, after.closing)

    @property
    def _has_bare_ends(self) -> bool:
        return self.punctuation == "none" or self.marks.has_blanks

    def _may_end(self, after: After) -> bool:
        if after.closing:
            return False
        if after.kind in ("end", "first of two", "first dots", "closed"):
            return True
        if self.end == "word":
            return after.kind in ("word", "number", "repeat", "pause")
        return self._has_bare_ends and after.kind in ("word", "number", "repeat")
