"""Rank a list by lemma: all listed forms of a lemma share one rank.

simplemma maps forms to lemmas, by a dictionary per language and rules for words that it lacks; ``japanese`` has rules
of its own. A lemma that is not listed itself is not added.
"""

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Final

from simplemma.strategies import DefaultStrategy
from simplemma.strategies.dictionaries.dictionary_factory import SUPPORTED_LANGUAGES, DefaultDictionaryFactory

from vocab.errors import NoLemmasError, UnknownLanguageError
from vocab.lists.cleaned import lowercase
from vocab.lists.japanese import forms_of, lemmas_of_forms
from vocab.lists.known_lemmas import DICTIONARY_OF, dictionary_code, irregular_forms
from vocab.lists.wordlists import OWN_SOURCES, WordList, list_name, load_word_list
from vocab.marks import APOSTROPHES, BLANK

_NO_APOSTROPHES: Final = dict.fromkeys(map(ord, APOSTROPHES))

_GERMAN: Final = frozenset({"de", "lb"})
"""Where every noun has a capital, so that a list without capitals has lost which of its words are nouns."""


def lemma_languages() -> list[str]:
    """Return the languages whose lemmas are known, sorted."""
    return sorted({*SUPPORTED_LANGUAGES, *DICTIONARY_OF, "ja"})


def rank_by_lemma(word_list: WordList) -> WordList:
    """Return a list by lemma: a built-in one grouped (``group_by_lemma``), one's own with the forms of its words.

    A word of one's own list brings, at its rank, the forms that the language's built-in list has of it, so at most
    100,000 in all. A word that is itself a form, "went", brings none.

    Raises:
        NoLemmasError: As ``group_by_lemma``, or there is no built-in list of the language.
    """
    if word_list.source not in OWN_SOURCES:
        return group_by_lemma(word_list)
    language = word_list.language
    try:
        forms_of_lemma = _forms_of(list_name(language, None))
    except UnknownLanguageError:
        raise _no_lemmas(word_list.lang) from None
    rank_of = dict[str, int]()
    for rank, word in word_list.ranked():
        # Where it is a form of a word before, it has that one's rank.
        rank = rank_of.setdefault(word, rank)
        for form in (*forms_of_lemma(word), *irregular_forms(word, language)):
            rank_of.setdefault(form, rank)
    places = {rank: place for place, rank in enumerate(sorted(set(rank_of.values())), start=1)}
    words = sorted(rank_of, key=rank_of.__getitem__)
    return replace(word_list, words=tuple(words), ranks=tuple(places[rank_of[word]] for word in words))


@lru_cache(maxsize=2)
def _forms_of(language: str) -> Callable[[str], Sequence[str]]:
    """Return a function from a lemma to its forms in the language's built-in list, which takes seconds to make."""
    if (code := code_of(language)) is None:
        raise _no_lemmas(language)
    built_in = load_word_list(language, None, safe=False)
    if language == "ja":
        listed = frozenset(built_in.words)
        return lambda word: forms_of(word, listed)
    lemmas = _Lemmas(code, built_in)
    by_lemma = defaultdict[str, list[str]](list)
    for word in built_in.words:
        for lemma in lemmas.of(word):
            by_lemma[lemma].append(word)
    several = {lemma: tuple(forms) for lemma, forms in by_lemma.items() if forms != [lemma]}
    return lambda word: several.get(word) or several.get(lowercase(word, language), ())


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
    code = code_of(word_list.language)
    if code == "ja":
        known = lemmas_of_forms(word_list.words)
        lemmas_of = lambda word: known.get(word, (word,))  # noqa: E731
    elif code is not None:
        lemmas_of = _Lemmas(code, word_list).of
    else:
        raise _no_lemmas(word_list.lang)
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


def code_of(language: str) -> str | None:
    """Return simplemma's name of a language, or "ja"; None where the lemmas are not known."""
    return language if language == "ja" else dictionary_code(language)


def _no_lemmas(lang: str) -> NoLemmasError:
    return NoLemmasError(
        f"There are no lemmas for {lang!r}: leave out unit 'lemma', or choose a list of one of these languages: "
        f"{', '.join(lemma_languages())}."
    )


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
