"""The built-in lists of languages: data files, made by ``tools.lists``, and how a language writes capitals.

A list's file is text in UTF-8, compressed by xz: a rank a line. Words that share one have tabs between them, and a word
that a list for everybody leaves out has a ``!`` before it.
"""

import lzma
import unicodedata
from pathlib import Path
from typing import Final

FOLDER: Final = Path(__file__).with_name("data")

MAX_RANKS: Final = 100_000
"""Lines of a list whose language is written with spaces; the others' lists are the dictionaries that cut texts into
words, and whole."""

UNSAFE: Final = "!"

DOTTED_I_LANGUAGES: Final = frozenset({"tr", "az"})
"""The capital of i is İ, and that of ı is I."""

IJ_LANGUAGES: Final = frozenset({"nl"})
"""At the beginning of a word ij is one letter, whose capital is IJ: "IJs"."""


def cleaned_languages() -> list[str]:
    """Return the languages that have a built-in list, sorted."""
    return sorted(file.stem for file in FOLDER.glob("*.xz"))


def read_list(path: Path, *, safe: bool) -> tuple[tuple[str, ...], tuple[int, ...] | None]:
    """Read the file of a list: return its words in rank order, and their ranks where some share one.

    Args:
        path: The file, of the form that this module describes.
        safe: Whether to leave out what a list for everybody leaves out; the words after it move up.
    """
    text = lzma.decompress(path.read_bytes()).decode()
    words: list[str] = []
    ranks: list[int] = []
    for line in text.splitlines():
        forms = [form.removeprefix(UNSAFE) for form in line.split("\t") if not (safe and form.startswith(UNSAFE))]
        rank = ranks[-1] if ranks else 0
        words += forms
        ranks += [rank + 1] * len(forms)
    return tuple(words), tuple(ranks) if len(words) > ranks[-1] else None


def titlecase(word: str, lang: str) -> str:
    """Return the word with a capital first letter, by the rules of its language."""
    if lang in IJ_LANGUAGES and word.startswith("ij"):
        return "IJ" + word[2:]
    return unicodedata.normalize("NFC", uppercase(word[0], lang)[:1] + word[1:])


def uppercase(word: str, lang: str) -> str:
    """Return the word in capitals, by the rules of its language."""
    return (word.replace("i", "İ") if lang in DOTTED_I_LANGUAGES else word).upper()


def lowercase(word: str, lang: str) -> str:
    """Return the word in small letters, by the rules of its language; Dutch "Ij" is no capital of ij, and stays."""
    if lang in IJ_LANGUAGES and word.startswith("Ij"):
        return "Ij" + word[2:].lower()
    return (word.replace("İ", "i").replace("I", "ı") if lang in DOTTED_I_LANGUAGES else word).lower()
