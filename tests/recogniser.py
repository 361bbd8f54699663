"""A slow recogniser of allowed texts, written straight from the definition of an allowed text.

It shares no code with the library: its own table of marks, its own capitals, no trie and no automaton. At every
position it tries every form and every gap that the definition names. Use it to judge the fast code, on small lists.
"""

import re
import unicodedata
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import permutations, product
from typing import Any, Literal, NamedTuple

from tests.possessives import may_take_possessive

Case = Literal["auto", "sentence", "any", "listed"]
Layout = Literal["prose", "lines"]
Punctuation = Literal["standard", "full", "basic", "none"]
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

STANDARD_MARKS = {
    # Language: sentence marks, questions, pauses, inverted marks, gaps with a dash, pairs.
    "en": (".!?\u2026", "?", ",;:", "", ("\u2014", " \u2014 ", " \u2013 "), ("\u201c\u201d",)),
    "de": (".!?\u2026", "?", ",;:", "", ("\u2014", " \u2014 ", " \u2013 "), ("\u201e\u201c",)),
    "fr": (".!?\u2026", "?", ",;:", "", ("\u2014", " \u2014 ", " \u2013 "), ("\u00ab\u00bb",)),
    "sv": (".!?\u2026", "?", ",;:", "", ("\u2014", " \u2014 ", " \u2013 "), ("\u201d\u201d",)),
    "it": (".!?\u2026", "?", ",;:", "", ("\u2014", " \u2014 "), ("\u00ab\u00bb", "\u201c\u201d")),
    "es": (
        ".!?\u2026", "?", ",;:", "\u00bf\u00a1", ("\u2014", " \u2014 ", " \u2013 "), ("\u201c\u201d", "\u00ab\u00bb")
    ),
    "el": (".!;\u2026", ";", ",:", "", ("\u2014", " \u2014 ", " \u2013 "), ("\u00ab\u00bb", "\u201c\u201d")),
    "ar": (".!\u061f\u2026", "\u061f", "\u060c\u061b:", "", ("\u2014", " \u2014 ", " \u2013 "), ("\u00ab\u00bb",)),
    "fa": (".!\u061f\u2026", "\u061f", "\u060c\u061b:", "", (), ("\u00ab\u00bb", "\u2039\u203a")),
    "ur": (".!\u061f\u2026\u06d4", "\u061f", "\u060c\u061b:", "", (), ("\u201d\u201c",)),
    "hi": (".!?\u2026\u0964", "?", ",;:", "", ("\u2014", " \u2014 ", " \u2013 "), ("\u201c\u201d",)),
}  # fmt: skip
STANDARD_PAIRS_OF_ALL = ('""', "()")
STANDARD_DASH_GAP_OF_ALL = " - "
MOST_OPEN_PAIRS = 2

NUMBER = re.compile(r"[0-9]+([.,:][0-9]+)*%?")
CUT_NUMBER = re.compile(r"[0-9]+([.,:][0-9]+)*[.,:]")
SOUNDED = re.compile(
    "(?i)oui$|ouais$|onz|y[aeo]|haut|hauss|hor(s|mis)|huit|holland|hongr|hong$|héros$|hasard|haricot|hont|haine|haï|harry|hâ|"
    "he(in|y)$|hoc|h[aoé]p?$|hum$|haha|hal+o?$|hamon|harc|hibou|hou"
)
"""French words among those of the tests that take no elision, though they begin with a vowel or an h."""


class Run(NamedTuple):
    """Closing marks that may follow a word, and what is still open behind them."""

    text: str
    ends_sentence: bool
    allows_break: bool
    still_open: tuple[str, ...]


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
        possessive: Whether English words may take 's, as those of one's own list do only if asked.
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
        possessive: bool = False,
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
        pieces = {piece for word in listed for piece in _pieces(word, lang, case, possessive)}
        pieces |= {piece for word in extra_words for piece in _pieces(word, lang, "sentence", possessive)}

        self._close_marks, self._open_marks = {
            "full": (CLOSE_MARKS, OPEN_MARKS),
            "basic": (BASIC_CLOSE_MARKS + BASIC_MARKS_OF_LANGUAGES.get(lang, ""), BASIC_OPEN_MARKS),
            "none": ("", ""),
            "standard": ("", ""),
        }[punctuation]
        self._dash_gaps: tuple[str, ...] = DASH_GAPS if punctuation == "full" else ()
        self._pairs: tuple[str, ...] = ()
        self._closing_runs: dict[tuple[str, ...], list[Run]] = {}
        if punctuation == "standard":
            sentence, questions, pauses, inverted, dashes, quotes = STANDARD_MARKS.get(lang, STANDARD_MARKS["en"])
            self._open_marks, self._dash_gaps = inverted, (*dashes, STANDARD_DASH_GAP_OF_ALL)
            self._pairs = (*quotes, *STANDARD_PAIRS_OF_ALL)
            self._closing_runs = _paired_runs(sentence, questions, pauses, self._pairs)
        self._layout, self._numbers, self._end = layout, numbers, end
        # Elisions alone make no text: a word that takes one must follow each.
        has_words = any(not piece.elision for piece in pieces)
        if not any(_takes_elision(piece.text, lang) for piece in pieces if not (piece.elision or piece.sentence_only)):
            pieces = {piece for piece in pieces if not piece.elision}
        self._lang = lang
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
        # A reading stands before a unit: (position, whether a sentence starts here, whether marks may come first, and
        # the pairs that are open).
        todo: list[tuple[int, bool, bool, tuple[str, ...]]] = [(0, True, True, ())]
        if text.startswith(" "):
            todo.append((1, True, True, ()))
        met = set(todo)
        complete, begun = False, text == ""
        while todo:
            position, at_start, marks_may_follow, were_open = todo.pop()
            following: list[tuple[int, bool, bool, tuple[str, ...]]] = []
            before = self._after_open_marks(text, position, were_open) if marks_may_follow else [(position, were_open)]
            for unit_position, are_open in before:
                begun |= unit_position == len(text)
                units = [*self._words_at(text, unit_position, at_start, is_elided=not marks_may_follow)]
                if self._numbers and marks_may_follow:
                    units += self._numbers_at(text, unit_position)
                for is_elision, end in units:
                    if end is None:
                        begun = True
                    elif is_elision:
                        begun |= end == len(text)
                        following.append((end, False, False, are_open))
                    else:
                        complete |= self._is_end(text[end:], are_open)
                        for gap_end, starts_sentence, still_open in self._gaps_at(text, end, are_open):
                            if gap_end is None:
                                begun = True
                            else:
                                following.append((gap_end, starts_sentence, True, still_open))
            todo += [reading for reading in following if reading not in met]
            met.update(following)
        return complete, begun or complete

    def _words_at(
        self, text: str, position: int, at_start: bool, *, is_elided: bool
    ) -> Iterator[tuple[bool, int | None]]:
        """Every form at ``position``: (is an elision, its end or None where the text ends inside it)."""
        for piece in self._pieces_by_letter.get(text[position : position + 1], ()):
            if (piece.sentence_only and not at_start) or (is_elided and not _takes_elision(piece.text, self._lang)):
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

    def _after_open_marks(
        self, text: str, position: int, are_open: tuple[str, ...], num_marks: int = 0
    ) -> Iterator[tuple[int, tuple[str, ...]]]:
        """Every place where a word may stand behind opening marks, with the pairs open there."""
        yield position, are_open
        mark = text[position : position + 1]
        if not mark:
            return
        # Two inverted marks are different ones.
        is_repeated = bool(self._pairs) and num_marks == 1 and mark == text[position - 1]
        if mark in self._open_marks and num_marks < MOST_OPEN_MARKS and not is_repeated:
            yield from self._after_open_marks(text, position + 1, are_open, num_marks + 1)
        if len(are_open) < MOST_OPEN_PAIRS:
            for pair in self._pairs:
                if mark == pair[0] and pair not in are_open:
                    yield from self._after_open_marks(text, position + 1, (*are_open, pair))

    def _gaps_at(
        self, text: str, position: int, are_open: tuple[str, ...]
    ) -> Iterator[tuple[int | None, bool, tuple[str, ...]]]:
        """Every gap, without its opening marks: (its end or None where the text ends inside it, whether a sentence
        starts behind it, the pairs that are still open)."""
        rest = text[position:]
        for run in self._runs_at(rest, are_open):
            if len(rest) < len(run.text):
                yield None, False, run.still_open
                continue
            kinds = [(" ", run.ends_sentence), *((gap, False) for gap in self._dash_gaps)]
            if run.allows_break or self._layout == "lines":
                kinds += [(gap, True) for gap in LINE_BREAK_GAPS]
            after = rest[len(run.text) :]
            for gap, starts_sentence in kinds:
                if after.startswith(gap):
                    yield position + len(run.text) + len(gap), starts_sentence, run.still_open
                elif gap.startswith(after):
                    yield None, starts_sentence, run.still_open

    def _runs_at(self, rest: str, are_open: tuple[str, ...]) -> Iterator[Run]:
        """Every run of closing marks that ``rest`` begins with, or is the beginning of."""
        if self._pairs:
            runs = self._closing_runs[are_open]
            yield from (run for run in runs if rest.startswith(run.text) or run.text.startswith(rest))
            return
        for num_marks in range(MOST_CLOSE_MARKS + 1):
            text = rest[:num_marks]
            if len(text) < num_marks or not self._is_close_run(text):
                return
            ends_sentence = any(mark in SENTENCE_MARKS for mark in text)
            yield Run(text, ends_sentence, ends_sentence or ":" in text, ())

    def _is_close_run(self, text: str) -> bool:
        return len(text) <= MOST_CLOSE_MARKS and all(char in self._close_marks for char in text)

    def _is_end(self, text: str, are_open: tuple[str, ...]) -> bool:
        """Whether a text may stop where ``text`` is all that follows the last word."""
        if self._pairs:
            return any(
                run.text == text and not run.still_open and (self._end == "word" or run.ends_sentence)
                for run in self._closing_runs[are_open]
            )
        if not self._is_close_run(text):
            return False
        return self._end == "word" or text.rstrip(CLOSING_QUOTES)[-1:] in tuple(SENTENCE_MARKS)


def _paired_runs(
    sentence: str, questions: str, pauses: str, pairs: tuple[str, ...]
) -> dict[tuple[str, ...], list[Run]]:
    """All runs of closing marks, by the pairs that are open before them: some close, one mark, some close."""
    ends = [*sentence, "...", *(mark + "!" for mark in questions), *("!" + mark for mark in questions)]
    found: dict[tuple[str, ...], list[Run]] = {}
    for are_open in (some for number in range(MOST_OPEN_PAIRS + 1) for some in permutations(pairs, number)):
        runs = set()
        closing = "".join(pair[1] for pair in reversed(are_open))
        for closed in range(len(are_open) + 1):
            still_open = are_open[: len(are_open) - closed]
            runs.add(Run(closing[:closed], False, False, still_open))
            for before in range(closed + 1):
                for mark in [*ends, *pauses]:
                    text = closing[:before] + mark + closing[before:closed]
                    runs.add(Run(text, mark in ends, mark in ends or mark == ":", still_open))
                # A pair that closes behind the end of a sentence may be followed by a comma.
                for after in range(before + 1, closed + 1):
                    for end, pause in product(ends, pauses.replace(":", "")):
                        text = closing[:before] + end + closing[before:after] + pause + closing[after:closed]
                        runs.add(Run(text, False, False, still_open))
        found[are_open] = sorted(runs)
    return found


def _bare(word: str, lang: str) -> str:
    """What all entries that a word to leave out means have in common."""
    word = _with_capital(word, lang) or word
    return "".join(char.lower().replace("ς", "σ") for char in word.replace(APOSTROPHES[1], APOSTROPHES[0]))


def _pieces(word: str, lang: str, case: Case, possessive: bool) -> Iterator[Piece]:
    elision = lang in ("fr", "it", "ca") and word[-1] in APOSTROPHES
    spellings = {word}
    if any(apostrophe in word for apostrophe in APOSTROPHES):
        for apostrophe in APOSTROPHES:
            spellings.add("".join(apostrophe if char in APOSTROPHES else char for char in word))
    elif lang == "en" and possessive and may_take_possessive(word):
        spellings |= {word + apostrophe + "s" for apostrophe in APOSTROPHES}
    for spelling in spellings:
        yield Piece(spelling, False, elision)
        capital = _with_capital(spelling, lang)
        if capital and case != "listed":
            yield Piece(capital, case == "sentence", elision)


def _takes_elision(text: str, lang: str) -> bool:
    if lang == "fr" and SOUNDED.match(text):
        return False
    if lang == "ca" and re.match("(?i)h?i[aeou]", text):
        return False
    letter = unicodedata.normalize("NFD", text[0].lower())[0]
    return letter in "aeiouhœæ" + "y" * (lang == "fr")


def _with_capital(word: str, lang: str) -> str:
    """The word with a capital first letter, empty where there is none; Dutch ij is one letter."""
    if lang == "nl" and word[:2] == "ij":
        return "IJ" + word[2:]
    capital = _capital(word[0], lang)
    return unicodedata.normalize("NFC", capital + word[1:]) if capital else ""


def _capital(letter: str, lang: str) -> str:
    if lang in ("tr", "az") and letter in "iı":
        return {"i": "İ", "ı": "I"}[letter]
    if not unicodedata.category(letter).startswith("L"):
        return ""
    capital = letter.title()
    return capital if len(capital) == 1 and capital != letter else ""
