"""The lemmas that simplemma's dictionary of a language has, and irregular forms that it lacks or gives to another word.

A line of ``irregular.txt`` has a language, a word and its forms.
"""

import unicodedata
from functools import cache, lru_cache
from pathlib import Path
from typing import Final

from simplemma.strategies import DictionaryLookupStrategy
from simplemma.strategies.dictionaries.dictionary_factory import SUPPORTED_LANGUAGES, DefaultDictionaryFactory

DICTIONARY_OF: Final = {"sh": "hbs", "sr": "hbs", "hr": "hbs", "bs": "hbs", "fil": "tl", "no": "nb"}
"""simplemma's name of a language where lists have another."""


def dictionary_code(language: str) -> str | None:
    """Return simplemma's name of a language; None where it has no dictionary of it."""
    code = DICTIONARY_OF.get(language, language)
    return code if code in SUPPORTED_LANGUAGES else None


@cache
def _irregular() -> dict[tuple[str, str], list[str]]:
    rows = map(str.split, Path(__file__).with_name("irregular.txt").read_text(encoding="utf-8").splitlines())
    return {(language, word): forms for language, word, *forms in rows}


def irregular_forms(word: str, language: str) -> list[str]:
    """Return the forms of a word that simplemma lacks; none of other languages than those of ``irregular.txt``."""
    return _irregular().get((language, word), [])


class KnownLemmas:
    """The lemmas that simplemma's dictionary of a language has, without rules for other words; none of a language
    without a dictionary."""

    def __init__(self, language: str) -> None:
        self._language = language
        self._code = dictionary_code(language)
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

    def is_form(self, form: str, word: str) -> bool:
        """Return whether a word is known to have this form."""
        return self.of(form) == word or form in irregular_forms(word, self._language)

    def with_ending(self, word: str, ending: str, *, has_umlaut: bool = False) -> str | None:
        """Return a word with an ending: "Museen" of "Museum" and "en", "Häuser" of "Haus", "er" and an umlaut.

        That is a form that the dictionary gives to the word, or else any of its words that joins them; of a word that
        it does not have, both as they stand; None of one with an umlaut.
        """
        stems = [word[:end] for end in range(len(word), max(0, len(word) - 5), -1)] if self.of(word) else []
        if has_umlaut:
            stems = [
                unicodedata.normalize("NFC", f"{stem[: place + 1]}\u0308{stem[place + 1 :]}")
                for stem in stems
                for place in range(len(stem) - 1, -1, -1)
                if stem[place] in "aouAOU"
            ]
        # "Inglés" loses its accent.
        plain = ["".join(unicodedata.normalize("NFD", char)[0] for char in stem) for stem in stems if not has_umlaut]
        joined = {stem + ending: self.of(stem + ending) for stem in (*stems, *plain)}
        known = [form for form, lemma in joined.items() if lemma is not None]
        own = [form for form in known if joined[form] == word]
        return next(iter((*own, *known)), None if has_umlaut else word + ending)
