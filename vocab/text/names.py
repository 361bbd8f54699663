"""The names of a checked text: words that are not listed, by their capitals."""

import re
from collections.abc import Container, Iterable, Mapping
from typing import Final

from vocab.text.forms import POSSESSIVES
from vocab.text.report import CheckedWord
from vocab.text.sentences import sentence_spans

NO_NAMES: Final[Mapping[str, str]] = {
    "de": "has capitals at all nouns",
    **dict.fromkeys(["ar", "bn", "fa", "he", "hi", "ja", "ko", "ta", "th", "ur", "zh", "zh-Hant"], "has no capitals"),
}
"""Why capitals tell no names in a language."""

_LETTER: Final = re.compile(r"[^\W_]")


def without_possessive(word: str) -> str:
    """Return a word without the English 's."""
    return word[:-2] if word.endswith(POSSESSIVES) else word


def names_in(text: str, words: Iterable[CheckedWord], known: Container[str]) -> list[str]:
    """Return the names among the words of a text that are not listed, sorted, without the English 's.

    A word at the beginning of a sentence is one where the text has it inside a sentence too, or where the ``known``
    words, a list's that has capitals, have it with a capital only.
    """
    matches = (_LETTER.search(text, start, end) for start, end in sentence_spans(text))
    beginnings = {match.start() for match in matches if match}
    inside: set[str] = set()
    first: set[str] = set()
    for word in words:
        written = text[word.start : word.end]
        # A circled letter is upper case too.
        if word.reason in ("unknown", "rare") and written[0].isupper() and written[0].isalpha():
            (first if word.start in beginnings else inside).add(without_possessive(written))
    return sorted(inside | {name for name in first if name in known and name.lower() not in known})
