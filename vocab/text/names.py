"""The names of a checked text: words that are not listed, by their capitals."""

import re
from bisect import bisect_right
from collections.abc import Container, Iterable
from typing import Final

from vocab.errors import NamesError
from vocab.marks import APOSTROPHES, POSSESSIVE_LETTER
from vocab.text.report import CheckedWord
from vocab.text.sentences import sentence_spans

_POSSESSIVE: Final = re.compile(rf"(?<=.)[{APOSTROPHES}]{POSSESSIVE_LETTER}$")
_LETTER: Final = re.compile(r"[^\W_]")

_NO_CAPITALS: Final = frozenset({"ar", "bn", "fa", "he", "hi", "ja", "ko", "ta", "th", "ur", "zh", "zh-Hant"})


def can_tell_names(language: str) -> bool:
    """Return whether capitals tell names in a language."""
    return language != "de" and language not in _NO_CAPITALS


def check_names(language: str) -> None:
    """Raise ``NamesError`` for a language whose capitals do not tell names."""
    if not can_tell_names(language):
        why = "has no capitals" if language in _NO_CAPITALS else "has capitals at all nouns"
        raise NamesError(f"'names' cannot be told in {language!r}, which {why}: add them as 'extra_words' instead.")


def without_possessive(word: str) -> str:
    """Return a word without the English 's."""
    return _POSSESSIVE.sub("", word)


def names_in(text: str, words: Iterable[CheckedWord], known: Container[str]) -> list[str]:
    """Return the names among the words of a text that are not allowed, sorted, without the English 's.

    A word at the beginning of a sentence is one where the text has it inside a sentence too, or where the ``known``
    words, a list's that has capitals, have it with a capital only.
    """
    starts = [start for start, _ in sentence_spans(text)]
    inside: set[str] = set()
    first: set[str] = set()
    letters: dict[int, int] = {}
    for word in words:
        written = text[word.start : word.end]
        # A circled letter is upper case too.
        if not (written[:1].isupper() and written[:1].isalpha()) or word.reason == "excluded":
            continue
        start = starts[index - 1] if (index := bisect_right(starts, word.start)) else 0
        if start not in letters:
            letters[start] = found.start() if (found := _LETTER.search(text, start)) else len(text)
        (inside if letters[start] < word.start else first).add(without_possessive(written))
    return sorted(inside | {name for name in first if name in known and name.lower() not in known})
