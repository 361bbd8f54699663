"""Faults that a reader sees, counted in the text alone: marks out of place, letters that are no words, grammar."""

from collections.abc import Sequence
from functools import cache
from typing import Any, Final

from tests.marks_checker import MARKS_OF_LANGUAGES, misplaced_marks
from vocab.decoding.select import words_of

LETTER_WORDS: Final = {
    "en": frozenset("ai"),
    "es": frozenset("aeouy"),
    "de": frozenset(),
    "fr": frozenset("aàyô"),
    "tr": frozenset("o"),
}
"""The words of one letter of each language; of a language that is not here, every letter may be one."""

TASTE: Final = frozenset({"Enhancement", "Readability", "Redundancy", "Regionalism", "Style", "WordChoice"})
"""What Harper calls advice on good English; all else is a fault."""


def is_stray(text: str, lang: str) -> bool:
    """Whether a text has a mark out of place or a letter that is no word."""
    letters = LETTER_WORDS.get(lang)
    has_letter = letters is not None and any(len(word) == 1 and word.isalpha() and word not in letters
                                             for word in map(str.lower, words_of(text)))  # fmt: skip
    return has_letter or (lang in MARKS_OF_LANGUAGES and bool(misplaced_marks(text, lang, layout="lines")))


def faults_per_100_words(texts: Sequence[str], lang: str) -> float | None:
    """The faults of English grammar that Harper finds; None of other languages, and where it is not installed."""
    if lang != "en" or (linter := _linter()) is None:
        return None
    num_faults = sum(lint.lint_kind not in TASTE for text in texts for lint in linter.lint(text))
    return 100 * num_faults / max(sum(len(words_of(text)) for text in texts), 1)


@cache
def _linter() -> Any:
    try:
        from harper import Linter
    except ImportError:
        return None
    return Linter()
