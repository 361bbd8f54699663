"""The one table of the code points that a text may have besides its words.

The text automaton, the EBNF writer, the reader and the documentation all read this table; it knows nothing of
words, tokens or bytes. The apostrophes are listed because they are *not* quotation marks: a word may end in one,
so a closing mark of the same shape would make the end of a word ambiguous.
"""

from typing import Final

SENTENCE_MARKS: Final = ".!?…؟।"
"""Closing marks that end a sentence."""

COLON: Final = ":"
"""Allows a line break after it, as a sentence mark does, but starts no sentence."""

CLOSE_MARKS: Final = SENTENCE_MARKS + COLON + ",;)]،؛" + '"«»“”‹›'
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
