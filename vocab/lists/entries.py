"""What may be an entry of a list, and the one spelling under which a list keeps it.

The same rules for a line of a list file and for an entry of a client's list. Knows nothing of files, languages,
ranks or of what else a text may hold: an entry may be made of any visible characters, marks of the text included.
"""

import unicodedata
from typing import Final

from vocab.errors import InvalidWordListError
from vocab.marks import BLANK

MAX_WORD_CHARS: Final = 1_000
"""Longest entry; what is longer is no list of words."""

_JOINERS: Final = "\u200c\u200d"
"""Zero-width (non-)joiner: invisible, but Persian and Hindi spelling needs them inside a word."""

_REJECTED_CATEGORIES: Final = {
    "Cc": "control character",
    "Cf": "invisible format character",
    "Cs": "surrogate",
    "Zl": "line separator",
    "Zp": "paragraph separator",
}


def clean_entry(entry: str) -> str:
    """The entry in NFC, without blanks around it, with one blank for each run inside; empty if nothing else is in it.

    Raises:
        InvalidWordListError: A character that no text can show, or more than ``MAX_WORD_CHARS``. The caller says where.
    """
    # Nearly all entries are letters and nothing else: no blank is among them, and none is rejected.
    if entry.isalpha() and len(entry) <= MAX_WORD_CHARS:
        return entry if entry.isascii() else unicodedata.normalize("NFC", entry)
    entry = entry.strip()
    if len(entry) > MAX_WORD_CHARS:
        raise InvalidWordListError(
            f"{len(entry)} characters; a word has at most {MAX_WORD_CHARS}. Write each word by itself."
        )
    word = unicodedata.normalize("NFC", entry)
    # What is rejected is not printable; of the rest, this passes over all but wide blanks, joiners and unknown letters.
    if not word.isprintable():
        _refuse_invisible(word)
    return BLANK.join(word.split())


def _refuse_invisible(word: str) -> None:
    for index, char in enumerate(word):
        category = unicodedata.category(char)
        is_joined = char in _JOINERS and 0 < index < len(word) - 1
        if category in _REJECTED_CATEGORIES and not is_joined:
            raise InvalidWordListError(
                f"{_REJECTED_CATEGORIES[category]} U+{ord(char):04X} at column {index + 1}. Remove it."
            )
