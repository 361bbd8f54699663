"""The endings that nouns and names take: what an inflected word may be a form of.

A line of ``endings.txt`` has languages, endings ("-" is none), and what the stem that is left may end in for what its
word does: "ğ-k" leads from "kitapçığ" to "kitapçık". Any word may take any ending of its language. Verbs, vowels that
change or drop out within a stem ("Önnu" of "Anna", "Льва" of "Лев") and endings after a colon are not in it.
"""

from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Final

from vocab.lists.cleaned import lowercase
from vocab.marks import APOSTROPHES

_MIN_STEM: Final = 2


@cache
def tables() -> Mapping[str, tuple[frozenset[str], list[list[str]]]]:
    """Return the endings of each language that has them, and what the stems before them may stand for."""
    lines = Path(__file__).with_name("endings.txt").read_text(encoding="utf-8").splitlines()
    return {
        language: (
            frozenset(ending.strip("-") for ending in endings.split()),
            [pair.split("-") for pair in stems.split()],
        )
        for languages, endings, stems in (line.split("|") for line in lines)
        for language in languages.split()
    }


def bases_of(word: str, language: str) -> Iterator[str]:
    """Yield the words that a word may be a form of."""
    endings, pairs = tables()[language]
    lower = lowercase(word, language)
    for cut in range(len(word), _MIN_STEM - 1, -1):
        stem = word[:cut].rstrip(APOSTROPHES + "-")
        if lower[cut:] in endings and len(stem) >= _MIN_STEM:
            yield stem
            yield from (stem[: len(stem) - len(old)] + new for old, new in pairs if stem.lower().endswith(old))
