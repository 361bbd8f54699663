"""Check and normalize the entries of a list: the lines of a file and the words of a request alike."""

import re
import unicodedata
from collections.abc import Sequence
from typing import Final

from vocab.errors import InvalidWordListError
from vocab.marks import BLANK, unspaced_marks

MAX_WORD_CHARS: Final = 1_000

_JOINERS: Final = "\u200c\u200d"
"""Zero-width (non-)joiner: invisible, but Persian and Hindi spelling needs them inside a word."""

_VARIATION_SELECTORS: Final = re.compile("[\u180b-\u180f\ufe00-\ufe0f\U000e0100-\U000e01ef]")

_REJECTED_CATEGORIES: Final = {
    "Cc": "control character",
    "Cf": "invisible format character",
    "Cs": "surrogate",
    "Zl": "line separator",
    "Zp": "paragraph separator",
}


def clean_words(words: Sequence[str], place: str, unspaced: str | None = None) -> tuple[str, ...]:
    """Normalize each word of a request with ``clean_entry``, and drop duplicates.

    Unlike a line of a file, an entry that begins with "#" is a word and an empty one is an error.

    Args:
        words: As the client wrote them.
        place: Where they stand in the request ("vocab.words"), for the error message.
        unspaced: The language without spaces that they are of, if any, as ``clean_entry``.

    Raises:
        InvalidWordListError: An entry cannot be a word; names the place and the first such entry, counted from 0.
    """
    cleaned: dict[str, None] = {}
    for index, entry in enumerate(words):
        try:
            word = clean_entry(entry, unspaced)
            if not word:
                raise InvalidWordListError("an entry without a character. Remove it.")
        except InvalidWordListError as error:
            raise InvalidWordListError(f"{place}[{index}]: {error}") from None
        cleaned[word] = None
    return tuple(cleaned)


def clean_entry(entry: str, unspaced: str | None = None) -> str:
    """Normalize an entry: NFC, stripped, with runs of blanks collapsed to one; it may become empty.

    Any visible characters are allowed, the marks of a text included; but an entry of a language without spaces
    (``unspaced``: zh, zh-Hant, ja, th) has no blank, none of that language's marks, and nothing that is only shown with
    the character before it where that is another word's.

    Raises:
        InvalidWordListError: It has an invisible character, or more than ``MAX_WORD_CHARS``. The caller says where.
    """
    word = _clean(entry)
    if unspaced is not None:
        _check_unspaced(word, unspaced)
    return word


def _check_unspaced(word: str, language: str) -> None:
    if BLANK in word:
        raise InvalidWordListError(f"{word[:80]!r} has a blank, and words are not parted here. Write each by itself.")
    for char in word:
        if char in unspaced_marks(language):
            raise InvalidWordListError(
                f"{word[:80]!r} has the mark {char!r}, which stands between words. Write the words without it."
            )
        if _VARIATION_SELECTORS.match(char) or char in _JOINERS:
            raise InvalidWordListError(
                f"{word[:80]!r} has U+{ord(char):04X}, which only changes how a character looks. Remove it."
            )
    if word and unicodedata.category(word[0])[0] == "M":
        raise InvalidWordListError(
            f"{word[:80]!r} begins with the combining mark U+{ord(word[0]):04X}. Write it with its letter."
        )


def _clean(entry: str) -> str:
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
