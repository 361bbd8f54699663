"""The lemmas that simplemma's dictionary of a language has."""

from functools import lru_cache
from typing import Final

from simplemma.strategies import DictionaryLookupStrategy
from simplemma.strategies.dictionaries.dictionary_factory import SUPPORTED_LANGUAGES, DefaultDictionaryFactory

DICTIONARY_OF: Final = {"sh": "hbs", "sr": "hbs", "hr": "hbs", "bs": "hbs", "fil": "tl", "no": "nb"}
"""simplemma's name of a language where lists have another."""


class KnownLemmas:
    """The lemmas that simplemma's dictionary of a language has, without rules for other words; none of a language
    without a dictionary."""

    def __init__(self, language: str) -> None:
        code = DICTIONARY_OF.get(language, language)
        self._code = code if code in SUPPORTED_LANGUAGES else None
        # A factory of its own: simplemma's keeps eight dictionaries for good.
        self._strategy = DictionaryLookupStrategy(DefaultDictionaryFactory(cache_max_size=1))

    @staticmethod
    @lru_cache(maxsize=1)
    def of_language(language: str) -> "KnownLemmas":
        """Return the known lemmas of a language, cached until another language is asked for."""
        return KnownLemmas(language)

    def of(self, word: str) -> str | None:
        """Return the lemma of a word, in these or other capitals; None where it is not known."""
        return None if self._code is None else self._strategy.get_lemma(word, self._code)
