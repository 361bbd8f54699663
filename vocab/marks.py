"""The code points that a text may have besides its words.

The apostrophes are *not* quotation marks: a word may end in one, so a closing mark of the same shape would make the end
of a word ambiguous.
"""

from typing import Final, Literal, NamedTuple

_FULL_SENTENCE_MARKS: Final = ".!?…؟।"
SENTENCE_MARKS: Final = _FULL_SENTENCE_MARKS + "۔"
"""Closing marks that end a sentence in any language, but for the Greek question mark, which looks like a semicolon."""

COLON: Final = ":"
"""Allows a line break after it, as a sentence mark does, but does not end a sentence."""

CLOSING_QUOTES: Final = ")]" + '"«»“”‹›'
"""Closing brackets and quotation marks: a sentence mark before them still ends the sentence."""

_PAUSES_AND_QUOTES: Final = COLON + ",;،؛" + CLOSING_QUOTES
CLOSE_MARKS: Final = SENTENCE_MARKS + _PAUSES_AND_QUOTES
"""Marks that may follow a word, whatever the language and the options; at most ``MAX_CLOSE_RUN`` in a row."""

OPEN_MARKS: Final = "¿¡([„—" + '"«»“”‹›'
"""Marks that may precede a word, at most ``MAX_OPEN_RUN`` in a row. Quotation marks both open and close: German writes
»so«, Swedish ”so”."""

JOINING_DASH: Final = "—"
"""Joins two words without blanks."""

SPACED_DASHES: Final = "—–-"
"""Join two words with one blank on either side."""

BLANK: Final = " "
LINE_BREAK: Final = "\n"
APOSTROPHES: Final = "'’"
POSSESSIVE_LETTER: Final = "s"
"""Follows an apostrophe in the English possessive."""

MAX_OPEN_PAIRS: Final = 2
"""Pairs of ``standard`` open at once, one inside the other."""

MAX_CLOSE_RUN: Final = 4
MAX_OPEN_RUN: Final = 2
MAX_LINE_BREAKS: Final = 2

DIGITS: Final = "0123456789"
NUMBER_JOINTS: Final = ".,:"
"""Stand between two digits of a number, one at a time: "1,000", "3.14", "10:30"."""
PERCENT: Final = "%"
"""May be the last character of a number."""
MAX_NUMBER_CHARS: Final = 16
"""Of a whole number with its joints: room for "1,000,000,000.00", not for an endless run of digits."""


class Marks(NamedTuple):
    """The marks of a punctuation without pairs, each a string of single characters, perhaps empty."""

    sentence: str
    close: str
    open: str
    joining_dashes: str
    spaced_dashes: str


_FULL: Final = Marks(
    _FULL_SENTENCE_MARKS, _FULL_SENTENCE_MARKS + _PAUSES_AND_QUOTES, OPEN_MARKS, JOINING_DASH, SPACED_DASHES
)
_NONE: Final = Marks("", "", "", "", "")
_ARABIC_LANGUAGES: Final = frozenset({"ar", "fa", "ur"})
_DANDA_LANGUAGES: Final = frozenset({"hi", "bn", "mr", "ne"})


def marks_of(punctuation: Literal["full", "basic", "none"], language: str) -> Marks:
    """Return the marks of ``punctuation``; only the basic ones depend on the language ("es" of "es-MX").

    The marks of ``standard`` are those of ``vocab.language_marks``.

    A new mark must also be in ``CLOSE_MARKS`` or ``OPEN_MARKS``, which the reader uses for every language. Compiled
    lists keep the marks they were made with: increment ``FORMAT_VERSION`` of ``vocab.automaton.automaton``.
    """
    if punctuation == "full":
        return _FULL
    if punctuation == "none":
        return _NONE
    sentence, comma = ".!?…", ","
    if language in _ARABIC_LANGUAGES:
        sentence, comma = sentence + "؟", comma + "،"
    if language in _DANDA_LANGUAGES:
        sentence += "।"
    return Marks(sentence, sentence + comma, "¿¡", "", "")
