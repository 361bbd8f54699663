"""The one table of the code points that a text may have besides its words.

The text automaton, the EBNF writer, the reader and the documentation all read this table; it knows nothing of
words, tokens or bytes. The apostrophes are listed because they are *not* quotation marks: a word may end in one,
so a closing mark of the same shape would make the end of a word ambiguous.
"""

from typing import Final, NamedTuple

from vocab.options import Punctuation

SENTENCE_MARKS: Final = ".!?…؟।"
"""Closing marks that end a sentence."""

COLON: Final = ":"
"""Allows a line break after it, as a sentence mark does, but starts no sentence."""

CLOSING_QUOTES: Final = ")]" + '"«»“”‹›'
"""Closing brackets and quotation marks: a sentence mark before them still ends the sentence."""

CLOSE_MARKS: Final = SENTENCE_MARKS + COLON + ",;،؛" + CLOSING_QUOTES
"""Marks that may follow a word, at most ``MAX_CLOSE_RUN`` in a row."""

OPEN_MARKS: Final = "¿¡([„—" + '"«»“”‹›'
"""Marks that may stand before a word, at most ``MAX_OPEN_RUN`` in a row. The quotation marks both open and close:
German writes »so«, Swedish ”so”."""

JOINING_DASH: Final = "—"
"""Joins two words without blanks around it."""

SPACED_DASHES: Final = "—–-"
"""Join two words with one blank on either side."""

BLANK: Final = " "
LINE_BREAK: Final = "\n"
APOSTROPHES: Final = "'’"
POSSESSIVE_LETTER: Final = "s"
"""Follows an apostrophe in the English possessive."""

MAX_CLOSE_RUN: Final = 4
MAX_OPEN_RUN: Final = 2
MAX_LINE_BREAKS: Final = 2

DIGITS: Final = "0123456789"
NUMBER_JOINTS: Final = ".,:"
"""Stand between two digits of a number, one at a time: "1,000", "3.14", "10:30"."""
PERCENT: Final = "%"
"""May be the last character of a number."""
MAX_NUMBER_CHARS: Final = 16
"""Of a whole number with its joints: room for "1,000,000,000.00", and no room for an endless run of digits."""


class Marks(NamedTuple):
    """The marks and dashes of one kind of punctuation; each a string of single characters, perhaps empty.

    Attributes:
        sentence: Closing marks that end a sentence.
        close: All closing marks.
        open: Opening marks.
        joining_dashes: Join two words without blanks.
        spaced_dashes: Join two words with a blank on either side.
    """

    sentence: str
    close: str
    open: str
    joining_dashes: str
    spaced_dashes: str


_FULL: Final = Marks(SENTENCE_MARKS, CLOSE_MARKS, OPEN_MARKS, JOINING_DASH, SPACED_DASHES)
_NONE: Final = Marks("", "", "", "", "")
_BASIC_SENTENCE_MARKS: Final = ".!?…"
_BASIC_COMMA: Final = ","
_BASIC_OPEN_MARKS: Final = "¿¡"

_ARABIC_LANGUAGES: Final = frozenset({"ar", "fa", "ur"})
_DANDA_LANGUAGES: Final = frozenset({"hi", "bn", "mr", "ne"})


def marks_of(punctuation: Punctuation, language: str) -> Marks:
    """The marks of ``punctuation`` in a language ("es" of "es-MX"): only the basic ones depend on it."""
    if punctuation == "full":
        return _FULL
    if punctuation == "none":
        return _NONE
    sentence, comma = _BASIC_SENTENCE_MARKS, _BASIC_COMMA
    if language in _ARABIC_LANGUAGES:
        sentence, comma = sentence + "؟", comma + "،"
    if language in _DANDA_LANGUAGES:
        sentence += "।"
    return Marks(sentence, sentence + comma, _BASIC_OPEN_MARKS, "", "")
