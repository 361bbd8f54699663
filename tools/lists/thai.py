"""Thai words: wordfreq has none. Their order is that of the Thai National Corpus, then of the Thai Textbook Corpus.

A word is what pythainlp's word list or ICU's dictionary has. Words without a frequency come last, and only those that
are not made of other words.
"""

import re
import unicodedata
from collections.abc import Iterator, Set
from pathlib import Path
from typing import Final

from tools.lists.packages import python_folder

THAI: Final = re.compile(r"[\u0e01-\u0e2e\u0e30-\u0e3a\u0e40-\u0e45\u0e47-\u0e4e]+")

SINGLE_LETTERS: Final = frozenset("ณธ")
"""Words of one letter."""

REPETITION: Final = "ๆ"
"""Says a word twice; it stands after any word, and so is one."""


def thai_words(folder: Path) -> Iterator[tuple[str, str]]:
    """Yield the words in rank order, each with why it is left out: empty for a word."""
    corpus = python_folder(folder) / "pythainlp" / "corpus"
    icu = frozenset(_read(corpus / "icubrk_th.txt"))
    known = icu | frozenset(_read(corpus / "words_th.txt"))
    counted = dict.fromkeys(
        line.partition("\t")[0] for name in ("tnc_freq", "ttc_freq") for line in _read(corpus / f"{name}.txt")
    )
    listed: set[str] = set()
    for word in counted:
        reason = _reason(word, known)
        listed.update(() if reason else (word,))
        yield word, reason
    for word in sorted(known - counted.keys()):
        reason = _reason(word, known) or ("" if not _is_joined(word, listed) else "joined")
        yield word, reason


def _reason(word: str, known: Set[str]) -> str:
    if word == REPETITION:
        return ""
    if not THAI.fullmatch(word):
        return "letter"
    if len(word) == 1:
        return "" if word in SINGLE_LETTERS else "junk"
    return "" if word in known else "unknown"


def _is_joined(word: str, listed: set[str]) -> bool:
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
