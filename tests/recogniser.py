"""A slow recogniser of allowed texts, written straight from the definition of an allowed text.

It shares no code with the library: its own table of marks, its own capitals, no trie and no automaton. At every
position it tries every form and every gap that the definition names. Use it to judge the fast code, on small lists.
"""

import re
import unicodedata
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any, Literal, NamedTuple

Case = Literal["auto", "sentence", "any", "listed"]
Layout = Literal["prose", "lines"]
Punctuation = Literal["full", "basic", "none"]
End = Literal["word", "sentence"]

SENTENCE_MARKS = ".!?\u2026\u061f\u0964"
CLOSING_QUOTES = ')]"\u00ab\u00bb\u201c\u201d\u2039\u203a'
OTHER_CLOSE_MARKS = ":,;\u060c\u061b" + CLOSING_QUOTES
CLOSE_MARKS = SENTENCE_MARKS + OTHER_CLOSE_MARKS
OPEN_MARKS = '\u00bf\u00a1([\u201e\u2014"\u00ab\u00bb\u201c\u201d\u2039\u203a'
DASH_GAPS = ("\u2014", " \u2014 ", " \u2013 ", " - ")
LINE_BREAK_GAPS = ("\n", "\n\n")
APOSTROPHES = "'\u2019"
MOST_CLOSE_MARKS = 4
MOST_OPEN_MARKS = 2
MOST_NUMBER_CHARACTERS = 16

BASIC_CLOSE_MARKS = ".,!?\u2026"
BASIC_OPEN_MARKS = "\u00bf\u00a1"
BASIC_MARKS_OF_LANGUAGES = {
    **dict.fromkeys(("ar", "fa", "ur"), "\u061f\u060c"),
    **dict.fromkeys(("hi", "bn", "mr", "ne"), "\u0964"),
}

NUMBER = re.compile(r"[0-9]+([.,:][0-9]+)*%?")
CUT_NUMBER = re.compile(r"[0-9]+([.,:][0-9]+)*[.,:]")


class Piece(NamedTuple):
    """A form of a listed word."""

    text: str
    sentence_only: bool
    elision: bool


def is_text(text: str, words_in_rank_order: Sequence[str], n_words: int, *, lang: str, **options: Any) -> bool:
    """Whether ``text`` is an allowed text of the first ``n_words`` words."""
    return recogniser(tuple(words_in_rank_order), n_words, lang, **options).is_text(text)


def is_prefix_of_text(
    text: str, words_in_rank_order: Sequence[str], n_words: int, *, lang: str, **options: Any
) -> bool:
    """Whether some allowed text begins with ``text``; an allowed text does."""
    return recogniser(tuple(words_in_rank_order), n_words, lang, **options).is_prefix(text)


@lru_cache(maxsize=64)
def recogniser(
    words: tuple[str, ...], n_words: int, lang: str, case: Case = "auto", layout: Layout = "prose", **options: Any
) -> "Recogniser":
    """As ``Recogniser``; all arguments can be hashed."""
    return Recogniser(words, n_words, lang, case, layout, **options)


class Recogniser:
    """The recogniser for one list and N, with all options.

    Args:
        words: The list in rank order.
        n_words: The largest rank that counts.
        lang: First part of a language tag.
        ranks: Rank of each word, where words share them; without it the place of each different word.
    """

    def __init__(
        self,
        words: Sequence[str],
        n_words: int,
        lang: str,
        case: Case = "auto",
        layout: Layout = "prose",
        *,
        numbers: bool = False,
        punctuation: Punctuation = "full",
        end: End = "word",
        extra_words: Sequence[str] = (),
        exclude_words: Sequence[str] = (),
        ranks: Sequence[int] | None = None,
    ) -> None:
        distinct = list(dict.fromkeys(unicodedata.normalize("NFC", word) for word in words))
        ranked = list(zip(distinct, range(1, len(distinct) + 1) if ranks is None else ranks, strict=True))
        if case == "auto":
            # From the whole list, whatever N and whatever is added or left out.
            case = "any" if all(word == word.lower() for word in distinct) else "sentence"
        excluded = {_bare(word, lang) for word in exclude_words}
        if lang == "en":
            excluded |= {word + "'s" for word in excluded}
        excluded_ranks = {rank for word, rank in ranked if _bare(word, lang) in excluded}
        listed = [word for word, rank in ranked if rank <= n_words and rank not in excluded_ranks]
        pieces = {piece for word in listed for piece in _pieces(word, lang, case)}
        pieces |= {piece for word in extra_words for piece in _pieces(word, lang, "sentence")}

        self._close_marks, self._open_marks = {
            "full": (CLOSE_MARKS, OPEN_MARKS),
            "basic": (BASIC_CLOSE_MARKS + BASIC_MARKS_OF_LANGUAGES.get(lang, ""), BASIC_OPEN_MARKS),
            "none": ("", ""),
        }[punctuation]
        self._dash_gaps = DASH_GAPS if punctuation == "full" else ()
        self._layout, self._numbers, self._end = layout, numbers, end
        # Elisions alone make no text: a word must follow each.
        has_words = any(not piece.elision for piece in pieces)
        self._has_texts = has_words or numbers
        self._pieces_by_letter: dict[str, list[Piece]] = {}
        for piece in pieces if has_words else set():
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
                units = [*self._words_at(text, unit_position, at_start)]
                if self._numbers and marks_may_follow:
                    units += self._numbers_at(text, unit_position)
                for is_elision, end in units:
                    if end is None:
                        begun = True
                    elif is_elision:
                        begun |= end == len(text)
                        following.append((end, False, False))
                    else:
                        complete |= self._is_end(text[end:])
                        for gap_end, starts_sentence in self._gaps_at(text, end):
                            if gap_end is None:
                                begun = True
                            else:
                                following.append((gap_end, starts_sentence, True))
            todo += [reading for reading in following if reading not in met]
            met.update(following)
        return complete, begun or complete

    def _words_at(self, text: str, position: int, at_start: bool) -> Iterator[tuple[bool, int | None]]:
        """Every form at ``position``: (is an elision, its end or None where the text ends inside it)."""
        for piece in self._pieces_by_letter.get(text[position : position + 1], ()):
            if piece.sentence_only and not at_start:
                continue
            if text.startswith(piece.text, position):
                yield piece.elision, position + len(piece.text)
            elif piece.text.startswith(text[position:]):
                yield piece.elision, None

    def _numbers_at(self, text: str, position: int) -> Iterator[tuple[bool, int | None]]:
        """Every number at ``position``, in the same way."""
        for end in range(position + 1, min(position + MOST_NUMBER_CHARACTERS, len(text)) + 1):
            if NUMBER.fullmatch(text, position, end):
                yield False, end
        rest = text[position:]
        if len(rest) < MOST_NUMBER_CHARACTERS and CUT_NUMBER.fullmatch(rest):
            yield False, None

    def _after_open_marks(self, text: str, position: int) -> Iterator[int]:
        yield position
        for end in range(position + 1, position + MOST_OPEN_MARKS + 1):
            if end > len(text) or text[end - 1] not in self._open_marks:
                return
            yield end

    def _gaps_at(self, text: str, position: int) -> Iterator[tuple[int | None, bool]]:
        """Every gap, without its opening marks: (its end or None where the text ends inside it, sentence starts)."""
        for num_marks in range(MOST_CLOSE_MARKS + 1):
            run = text[position : position + num_marks]
            if len(run) < num_marks or not self._is_close_run(run):
                return
            ends_sentence = any(mark in SENTENCE_MARKS for mark in run)
            kinds = [(" ", ends_sentence), *((gap, False) for gap in self._dash_gaps)]
            if ends_sentence or ":" in run or self._layout == "lines":
                kinds += [(gap, True) for gap in LINE_BREAK_GAPS]
            rest = text[position + num_marks :]
            for gap, starts_sentence in kinds:
                if rest.startswith(gap):
                    yield position + num_marks + len(gap), starts_sentence
                elif gap.startswith(rest):
                    yield None, starts_sentence

    def _is_close_run(self, text: str) -> bool:
        return len(text) <= MOST_CLOSE_MARKS and all(char in self._close_marks for char in text)

    def _is_end(self, text: str) -> bool:
        """Whether a text may stop where ``text`` is all that follows the last word."""
        if not self._is_close_run(text):
            return False
        return self._end == "word" or text.rstrip(CLOSING_QUOTES)[-1:] in tuple(SENTENCE_MARKS)


def _bare(word: str, lang: str) -> str:
    """What all entries that a word to leave out means have in common."""
    capital = _capital(word[0], lang)
    word = unicodedata.normalize("NFC", capital + word[1:] if capital else word)
    return "".join(char.lower().replace("ς", "σ") for char in word.replace(APOSTROPHES[1], APOSTROPHES[0]))


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
