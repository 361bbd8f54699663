"""Thai words: wordfreq has none. Their order is that of the Thai National Corpus, then of the Thai Textbook Corpus.

A word is what pythainlp's word list or ICU's dictionary has, but for those that ``chance`` finds to be cut out of other
words. Words without a frequency come last, and only those that
are not made of other words.
"""

import re
import unicodedata
from collections.abc import Container, Iterator, Set
from pathlib import Path
from typing import Final

from tools.lists.chance import cut_by_chance
from tools.lists.packages import python_folder

THAI: Final = re.compile(r"[\u0e01-\u0e2e\u0e30-\u0e3a\u0e40-\u0e45\u0e47-\u0e4e]+")

SINGLE_LETTERS: Final = frozenset("ณธ")
"""Words of one letter."""

MAX_BY_CHANCE: Final = 10
"""With this ratio F1 is 0.784 beside pythainlp's newmm and 0.803 beside attacut on 1,000 sentences; 0.778 and 0.772
with all words. A smaller one leaves out everyday words."""

REPETITION: Final = "ๆ"
"""Says a word twice; it stands after any word, and so is one."""


def thai_words(folder: Path) -> Iterator[tuple[str, str]]:
    """Yield the words in rank order, each with why it is left out: empty for a word."""
    corpus = python_folder(folder) / "pythainlp" / "corpus"
    known = frozenset((*_read(corpus / "icubrk_th.txt"), *_read(corpus / "words_th.txt")))
    counts = _counts(corpus / "tnc_freq.txt")
    counted = dict.fromkeys((*counts, *_counts(corpus / "ttc_freq.txt")))
    total = sum(counts.values())
    share = {word: counts.get(word, 1) / total for word in counted if not _reason(word, known)}
    fragments = cut_by_chance(share, MAX_BY_CHANCE, lambda _: True)
    for word in counted:
        yield word, _reason(word, known) or ("junk" if word in fragments else "")
    for word in sorted(known - counted.keys()):
        yield word, _reason(word, known) or ("joined" if _is_joined(word, share) else "")


def _counts(file: Path) -> dict[str, int]:
    return {word: int(count) for word, _, count in (line.partition("\t") for line in _read(file))}


def _reason(word: str, known: Set[str]) -> str:
    if word == REPETITION:
        return ""
    if not THAI.fullmatch(word):
        return "letter"
    if len(word) == 1:
        return "" if word in SINGLE_LETTERS else "junk"
    return "" if word in known else "unknown"


def _is_joined(word: str, listed: Container[str]) -> bool:
    """Whether a word is made of listed ones."""
    reached = {0}
    for end in range(1, len(word) + 1):
        if any(word[start:end] in listed for start in reached):
            reached.add(end)
    return len(word) in reached


def _read(file: Path) -> Iterator[str]:
    for line in file.read_text(encoding="utf-8-sig").splitlines():
        if line and not line.startswith("#"):
            yield unicodedata.normalize("NFC", line.strip())
