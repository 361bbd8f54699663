"""The units that any text is made of: words, numbers and symbols; and the runs of a text without spaces.

A symbol is what is neither of the others, nor mark, nor blank. Every character that is shown is part of one of them.
"""

import re
import sys
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from itertools import groupby
from typing import Final, NamedTuple

from vocab import marks
from vocab.text.report import NUMBER

SYMBOL: Final = "symbol"
"""The group of ``unit_pattern`` that a symbol matches."""

_HIDDEN: Final = (
    "\u00ad\u061c\u180b-\u180f\u200b-\u200f\u202a-\u202c\u2060-\u2064"
    "\u2066-\u2069\ufe00-\ufe0f\ufeff\U000e0100-\U000e01ef"
)
"""Characters that are not shown and that ordinary texts have: soft hyphens, joiners and spaces without width,
directions, variation selectors. As in a regular expression's brackets. Tags (U+E0000), overrides of the direction,
which show a text in another order, and all others that are not shown count as symbols."""

HIDDEN_CHARACTER: Final = re.compile(f"[{_HIDDEN}]")

_MAX_HIDDEN: Final = 2
"""So many in a row belong to what is around them. More may carry a message of their own, and are a symbol."""


@cache
def word_pattern() -> re.Pattern[str]:
    """Return a pattern of a run of letters, with apostrophes and hyphens inside, or of a number.

    Hidden characters inside a word join its letters, as they do where it is shown. Circled, squared and Braille letters
    are letters.
    """
    letter, hidden = _letter(), f"[{_HIDDEN}]{{0,{_MAX_HIDDEN}}}"
    joint = rf"{hidden}[{marks.APOSTROPHES}-]{hidden}|[{_HIDDEN}]{{1,{_MAX_HIDDEN}}}"
    return re.compile(rf"{NUMBER.pattern}(?!{hidden}{letter})|{letter}+(?:(?:{joint}){letter}+)*")


@cache
def unit_pattern() -> re.Pattern[str]:
    """Return a pattern of a word, a number, or a symbol: a run of what is neither of them, nor mark, nor blank."""
    others = _ranges(lambda char: unicodedata.category(char)[0] in "PZ" or char.isspace())
    symbol = rf"(?!{_letter()})[^{others}{_HIDDEN}]"
    hidden = f"[{_HIDDEN}]{{0,{_MAX_HIDDEN}}}"
    many_hidden = f"[{_HIDDEN}]{{{_MAX_HIDDEN + 1},}}"
    return re.compile(rf"{word_pattern().pattern}|(?P<{SYMBOL}>{symbol}(?:{hidden}{symbol})*{hidden}|{many_hidden})")


@cache
def _letter() -> str:
    # \w leaves out combining marks, which are half of what is written in Hindi.
    return rf"(?![{_HIDDEN}])(?:[^\W_]|[{_ranges(_is_letter_outside_w)}])"


def _is_letter_outside_w(char: str) -> bool:
    """Return whether a word may hold a character that ``\\w`` lacks: a mark, or a letter in a shape."""
    category = unicodedata.category(char)
    if category != "So":
        return category[0] == "M"
    name = unicodedata.name(char, "")
    # Two regional indicators are a flag.
    is_shape = " LETTER " in name and not name.startswith("REGIONAL INDICATOR")
    return is_shape or name.startswith("BRAILLE PATTERN")


def _ranges(is_meant: Callable[[str], bool]) -> str:
    """Return the characters of which a condition holds, as in a regular expression's brackets."""
    groups = (list(group) for is_one, group in groupby(map(chr, range(sys.maxunicode + 1)), is_meant) if is_one)
    return "".join(f"{re.escape(group[0])}-{re.escape(group[-1])}" for group in groups)


class Run(NamedTuple):
    """Characters of a text without spaces that no mark and no blank parts.

    Attributes:
        shown: As it is read: in NFC, without hidden characters.
        starts: Where each of these characters begins in the text.
        ends: Where each ends.
    """

    shown: str
    starts: Sequence[int]
    ends: Sequence[int]


def runs_of(text: str, language: str) -> Iterator[Run]:
    """Yield the runs of a text of a language without spaces, whose marks count."""
    for match in _run_pattern(language).finditer(text):
        start, run = match.start(), match[0]
        if unicodedata.is_normalized("NFC", run) and HIDDEN_CHARACTER.search(run) is None:
            places = range(start, match.end() + 1)
            yield Run(run, places[:-1], places[1:])
            continue
        shown, starts, ends = list[str](), list[int](), list[int]()
        for cluster in _cluster_pattern().finditer(run):
            first, last = start + cluster.start(), start + cluster.end()
            if _FEW_HIDDEN.fullmatch(cluster[0]):
                continue
            written = unicodedata.normalize("NFC", cluster[0])
            shown.append(written)
            is_as_it_is = len(written) == last - first
            starts += range(first, last) if is_as_it_is else [first] * len(written)
            ends += range(first + 1, last + 1) if is_as_it_is else [last] * len(written)
        yield Run("".join(shown), starts, ends)


@cache
def _run_pattern(language: str) -> re.Pattern[str]:
    """Return a pattern of a run, with the marks inside numbers."""
    between = re.escape("".join(sorted(marks.unspaced_marks(language))))
    digit, joint = f"[{marks.DIGITS}]", f"[{marks.NUMBER_JOINTS}]"
    return re.compile(rf"(?:[^\s{between}]|(?<={digit}){joint}(?={digit}))+")


_FEW_HIDDEN: Final = re.compile(f"[{_HIDDEN}]{{1,{_MAX_HIDDEN}}}")


@cache
def _cluster_pattern() -> re.Pattern[str]:
    """Return a pattern of hidden characters, or of a character with those that may combine with it."""
    combining = _ranges(lambda char: unicodedata.combining(char) > 0)
    return re.compile(f"[{_HIDDEN}]+|.[{combining}]*", re.DOTALL)
