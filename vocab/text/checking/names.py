"""The names in a text: words that a list does not have, with a capital that no sentence gave them."""

from collections.abc import Set
from typing import Final

from vocab.marks import APOSTROPHES, POSSESSIVE_LETTER
from vocab.text.checking.report import TextReport
from vocab.text.sentences import sentence_spans

_POSSESSIVES: Final = tuple(mark + POSSESSIVE_LETTER for mark in APOSTROPHES)


def names_in(text: str, report: TextReport, known: Set[str]) -> list[str]:
    """Return the names of a checked text, sorted, without the English 's.

    A word at the beginning of a sentence is one where the text has it inside a sentence too, or where the ``known``
    words, a list's that has capitals, have it with a capital only.
    """
    starts = [start for start, _ in sentence_spans(text)]
    inside: set[str] = set()
    first: set[str] = set()
    for word in report.not_allowed:
        written = text[word.start : word.end]
        if not written[:1].isupper() or word.reason == "excluded":
            continue
        start = max((start for start in starts if start <= word.start), default=0)
        name = written[:-2] if written.endswith(_POSSESSIVES) else written
        (inside if any(map(str.isalnum, text[start : word.start])) else first).add(name)
    return sorted(inside | {name for name in first if name in known and name.lower() not in known})
