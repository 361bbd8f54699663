"""Rank a list by lemma: all listed forms of a lemma share one rank.

simplemma maps forms to lemmas, by a dictionary per language and rules for words that it lacks; ``japanese`` has rules
of its own. A lemma that is not listed itself is not added.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from typing import Final

from simplemma.strategies import DefaultStrategy, DictionaryLookupStrategy
from simplemma.strategies.dictionaries.dictionary_factory import SUPPORTED_LANGUAGES, DefaultDictionaryFactory

from vocab.errors import NoLemmasError
from vocab.lists.cleaned import lowercase
from vocab.lists.wordlists import WordList
from vocab.marks import APOSTROPHES, BLANK

DICTIONARY_OF: Final = {"sh": "hbs", "sr": "hbs", "hr": "hbs", "bs": "hbs", "fil": "tl", "no": "nb"}
"""simplemma's name of a language where lists have another."""

_NO_APOSTROPHES: Final = dict.fromkeys(map(ord, APOSTROPHES))

_GERMAN: Final = frozenset({"de", "lb"})
"""Where every noun has a capital, so that a list without capitals has lost which of its words are nouns."""


def lemma_languages() -> list[str]:
    """Return the languages whose lemmas are known, sorted."""
    return sorted({*SUPPORTED_LANGUAGES, *DICTIONARY_OF, "ja"})


def group_by_lemma(word_list: WordList) -> WordList:
    """Rank the same words by lemma, lemmas in the order of their first words; a word of several has the best rank.

    337,000 Spanish words take 4 s, 726,000 Finnish ones 14 s; simplemma's dictionary, 0.1 to 0.4 GB,
    is not cached. A list whose forms share ranks already, as the Korean one's, stays as it is.

    Raises:
        NoLemmasError: There is neither a dictionary of simplemma's of the language, nor are there rules.
    """
    if word_list.ranks is not None:
        return word_list
    lemmas_of: Callable[[str], tuple[str, ...]]
    code = DICTIONARY_OF.get(word_list.language, word_list.language)
    if code == "ja":
        from vocab.lists.japanese import lemmas_of_forms

        known = lemmas_of_forms(word_list.words)
        lemmas_of = lambda word: known.get(word, (word,))  # noqa: E731
    elif code in SUPPORTED_LANGUAGES:
        lemmas_of = _Lemmas(code, word_list).of
    else:
        raise NoLemmasError(
            f"There are no lemmas for {word_list.lang!r}: leave out unit 'lemma', or choose a list of one of these "
            f"languages: {', '.join(lemma_languages())}."
        )
    rank_of_lemma: dict[str, int] = {}
    ranks = [
        min(rank_of_lemma.setdefault(lemma, len(rank_of_lemma)) for lemma in lemmas_of(word))
        for word in word_list.words
    ]
    # A lemma all of whose words have a better rank through another one leaves a hole.
    rank_without_holes = {rank: place for place, rank in enumerate(sorted(set(ranks)), start=1)}
    order = sorted(range(len(ranks)), key=ranks.__getitem__)
    return replace(
        word_list,
        words=tuple(word_list.words[index] for index in order),
        ranks=tuple(rank_without_holes[ranks[index]] for index in order),
    )


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


class _Lemmas:
    """The lemmas of one list's words, by simplemma's dictionary and rules."""

    def __init__(self, code: str, word_list: WordList) -> None:
        # A factory of its own: simplemma's keeps eight dictionaries for good.
        dictionaries = DefaultDictionaryFactory(cache_max_size=1)
        self._code = code
        self._dictionary = dictionaries.get_dictionary(code)
        self._strategy = DefaultStrategy(dictionary_factory=dictionaries)
        self._has_lost_capitals = not word_list.has_capitals
        self._is_german = code in _GERMAN

    def of(self, word: str) -> tuple[str, ...]:
        """Return the word's lemmas, in small letters where the list is; the word itself first if it is one."""
        if BLANK in word:
            return (word,)
        lemma = self._strategy.get_lemma(word, self._code)
        if lemma == word.translate(_NO_APOSTROPHES):
            # English "it's" is listed as a spelling of "its".
            lemma = word
        if not self._has_lost_capitals:
            return (lemma or word,)
        if not self._is_german:
            return (lowercase(lemma or word, self._code),)
        # "haus" is a form of "hausen", but "Haus" is what it stands for.
        lemmas = (lemma, *map(self._dictionary.get, _german_spellings(word)))
        names = {lowercase(lemma, self._code).replace("ß", "ss"): None for lemma in lemmas if lemma is not None}
        return tuple(sorted(names, key=word.__ne__)) or (word,)


def _german_spellings(word: str) -> tuple[str, ...]:
    """Return spellings that a list may have folded to this word: it lost capitals and, like many, ß."""
    spellings = (word, word.replace("ss", "ß")) if "ss" in word else (word,)
    return (*spellings[1:], *(spelling.capitalize() for spelling in spellings))
