"""A slow recogniser of allowed texts, written straight from the definition of an allowed text.

It shares no code with the library: its own table of marks, its own capitals, no trie and no automaton. At every
position it tries every form and every gap that the definition names. Use it to judge the fast code, on small lists.
"""

import unicodedata
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Literal, NamedTuple

Case = Literal["auto", "sentence", "any", "listed"]
Layout = Literal["prose", "lines"]

SENTENCE_MARKS = ".!?\u2026\u061f\u0964"
OTHER_CLOSE_MARKS = ':,;)]\u060c\u061b"\u00ab\u00bb\u201c\u201d\u2039\u203a'
CLOSE_MARKS = SENTENCE_MARKS + OTHER_CLOSE_MARKS
OPEN_MARKS = '\u00bf\u00a1([\u201e\u2014"\u00ab\u00bb\u201c\u201d\u2039\u203a'
DASH_GAPS = ("\u2014", " \u2014 ", " \u2013 ", " - ")
LINE_BREAK_GAPS = ("\n", "\n\n")
APOSTROPHES = "'\u2019"
MOST_CLOSE_MARKS = 4
MOST_OPEN_MARKS = 2


class Piece(NamedTuple):
    """A form of a listed word."""

    text: str
    sentence_only: bool
    elision: bool


def is_text(
    text: str,
    words_in_rank_order: Sequence[str],
    n_words: int,
    *,
    lang: str,
    case: Case = "auto",
    layout: Layout = "prose",
) -> bool:
    """Whether ``text`` is an allowed text of the first ``n_words`` words."""
    return recogniser(tuple(words_in_rank_order), n_words, lang, case, layout).is_text(text)


def is_prefix_of_text(
    text: str,
    words_in_rank_order: Sequence[str],
    n_words: int,
    *,
    lang: str,
    case: Case = "auto",
    layout: Layout = "prose",
) -> bool:
    """Whether some allowed text begins with ``text``; an allowed text does."""
    return recogniser(tuple(words_in_rank_order), n_words, lang, case, layout).is_prefix(text)


@lru_cache(maxsize=64)
def recogniser(words: tuple[str, ...], n_words: int, lang: str, case: Case, layout: Layout) -> "Recogniser":
    return Recogniser(words, n_words, lang, case, layout)


class Recogniser:
    """The recogniser for one list and N."""

    def __init__(self, words: Sequence[str], n_words: int, lang: str, case: Case, layout: Layout) -> None:
        distinct = list(dict.fromkeys(unicodedata.normalize("NFC", word) for word in words))
        if case == "auto":
            # From the whole list, whatever N.
            case = "any" if all(word == word.lower() for word in distinct) else "sentence"
        pieces = {piece for word in distinct[:n_words] for piece in _pieces(word, lang, case)}
        self._layout = layout
        # Elisions alone make no text: something must follow each.
        self._has_texts = any(not piece.elision for piece in pieces)
        self._pieces_by_letter: dict[str, list[Piece]] = {}
        for piece in pieces if self._has_texts else set():
            self._pieces_by_letter.setdefault(piece.text[0], []).append(piece)

    def is_text(self, text: str) -> bool:
        return self._read(text)[0]

    def is_prefix(self, text: str) -> bool:
        return self._has_texts and self._read(text)[1]

    def _read(self, text: str) -> tuple[bool, bool]:
        """Tries every reading; returns (is a text, is the beginning of one)."""
        # A reading stands before a unit: (position, whether a sentence starts here, whether marks may come first).
        todo = [(0, True, True)]
        if text.startswith(" "):
            todo.append((1, True, True))
        met = set(todo)
        complete, begun = False, text == ""
        while todo:
            position, at_start, marks_may_follow = todo.pop()
            following: list[tuple[int, bool, bool]] = []
            for unit_position in self._after_open_marks(text, position) if marks_may_follow else [position]:
                begun |= unit_position == len(text)
                for piece, end in self._words_at(text, unit_position, at_start):
                    if end is None:
                        begun = True
                    elif piece.elision:
                        begun |= end == len(text)
                        following.append((end, False, False))
                    else:
                        complete |= self._is_close_run(text[end:])
                        for gap_end, starts_sentence in self._gaps_at(text, end):
                            if gap_end is None:
                                begun = True
                            else:
                                following.append((gap_end, starts_sentence, True))
            todo += [reading for reading in following if reading not in met]
            met.update(following)
        return complete, begun or complete

    def _words_at(self, text: str, position: int, at_start: bool) -> Iterator[tuple[Piece, int | None]]:
        """Every form that stands at ``position`` with its end, or with None where the text ends inside it."""
        for piece in self._pieces_by_letter.get(text[position : position + 1], ()):
            if piece.sentence_only and not at_start:
                continue
            if text.startswith(piece.text, position):
                yield piece, position + len(piece.text)
            elif piece.text.startswith(text[position:]):
                yield piece, None

    def _after_open_marks(self, text: str, position: int) -> Iterator[int]:
        yield position
        for end in range(position + 1, position + MOST_OPEN_MARKS + 1):
            if end > len(text) or text[end - 1] not in OPEN_MARKS:
                return
            yield end

    def _gaps_at(self, text: str, position: int) -> Iterator[tuple[int | None, bool]]:
        """Every gap, without its opening marks: (its end or None where the text ends inside it, sentence starts)."""
        for num_marks in range(MOST_CLOSE_MARKS + 1):
            run = text[position : position + num_marks]
            if len(run) < num_marks or not self._is_close_run(run):
                return
            ends_sentence = any(mark in SENTENCE_MARKS for mark in run)
            kinds = [(" ", ends_sentence), *((gap, False) for gap in DASH_GAPS)]
            if ends_sentence or ":" in run or self._layout == "lines":
                kinds += [(gap, True) for gap in LINE_BREAK_GAPS]
            rest = text[position + num_marks :]
            for gap, starts_sentence in kinds:
                if rest.startswith(gap):
                    yield position + num_marks + len(gap), starts_sentence
                elif gap.startswith(rest):
                    yield None, starts_sentence

    @staticmethod
    def _is_close_run(text: str) -> bool:
        return len(text) <= MOST_CLOSE_MARKS and all(char in CLOSE_MARKS for char in text)


def _pieces(word: str, lang: str, case: Case) -> Iterator[Piece]:
    elision = lang in ("fr", "it", "ca") and word[-1] in APOSTROPHES
    spellings = {word}
    if any(apostrophe in word for apostrophe in APOSTROPHES):
        for apostrophe in APOSTROPHES:
            spellings.add("".join(apostrophe if char in APOSTROPHES else char for char in word))
    elif lang == "en":
        spellings |= {word + apostrophe + "s" for apostrophe in APOSTROPHES}
    for spelling in spellings:
        yield Piece(spelling, False, elision)
        capital = _capital(spelling[0], lang)
        if capital and case != "listed":
            yield Piece(unicodedata.normalize("NFC", capital + spelling[1:]), case == "sentence", elision)


def _capital(letter: str, lang: str) -> str:
    if lang in ("tr", "az") and letter in "iı":
        return {"i": "İ", "ı": "I"}[letter]
    if not unicodedata.category(letter).startswith("L"):
        return ""
    capital = letter.title()
    return capital if len(capital) == 1 and capital != letter else ""
