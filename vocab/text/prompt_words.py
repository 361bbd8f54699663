"""The words of a prompt that a list may take up: a story about a map cannot be told without the word.

They are words that the list does not allow and the language's list knows, each with the forms of its lemma.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from typing import Final

from vocab.lists.known_lemmas import KnownLemmas
from vocab.lists.wordlists import OWN_SOURCES, WordList, known_languages
from vocab.options import DEFAULT_OPTIONS
from vocab.text.changes import PromptWord, fold
from vocab.text.checker import ListForms, TextChecker

MAX_WORDS: Final = 8
"""That a prompt allows; of more, the rarest, which say what it is about."""

MAX_FORMS: Final = 32
"""Of one word, the most frequent; a Turkish verb has 126."""

MAX_LENGTH: Final = 60
"""A prompt of so many words allows none: a text that was pasted into it never widens a list."""

REACH: Final = 50_000
"""Ranks of the language's list that count. Beyond them are mostly names, and words that few readers know."""

FUNCTION_WORDS: Final = 120
"""Ranks that count neither: most of them are function words, which the author of a short list left out on purpose."""

_INSTRUCTIONS: Final = {
    "de": "aufsatz beschreiben bitte einfach erklären erzählen fassen gedicht geschichte kurz satz schreiben text "
    "verfassen zusammen zusammenfassen zusammenfassung",
    "en": "brief briefly compose describe essay explain paragraph please poem rewrite sentence short story summarize "
    "summary tell text write",
    "es": "breve brevemente contar corta corto cuento describir escribir explicar favor frase historia oración poema "
    "párrafo redactar resumen resumir sencillo simple texto",
    "fr": "bref brièvement conte court décrire décris expliquer histoire phrase plaire poème raconter rédiger résumer "
    "résumé simple texte écrire",
    "it": "breve brevemente descrivere favore frase poesia raccontare racconto riassumere riassunto scrivere semplice "
    "spiegare storia testo",
    "nl": "alsjeblieft alstublieft beschrijven eenvoudig gedicht kort leggen opstel samenvatten samenvatting schrijven "
    "tekst uitleggen vatten verhaal vertellen zin",
    "pt": "breve brevemente contar conto curto descrever escrever explicar favor frase história poema redigir resumir "
    "resumo simples texto",
    "ru": "история краткий написать объяснить описать писать пожалуйста предложение простой рассказ рассказать "
    "сочинить стихотворение текст короткий",
}
"""Words that say what to write and not what about. Of other languages those are left that are beyond N."""


def language_list(word_list: WordList) -> str | None:
    """Return the name of the built-in list of the language of a list that somebody made; None for any other list."""
    language = word_list.language
    return language if word_list.source in OWN_SOURCES and language in known_languages(None) else None


class PromptReader:
    """Finds the words of prompts in a language's list, whose forms are ``forms``.

    Made once for many prompts, in 0.2 s, or 3 s with the language's dictionary of lemmas.
    """

    def __init__(self, known: WordList, forms: ListForms) -> None:
        self._known, self._forms = known, forms
        self._instructions = frozenset(_INSTRUCTIONS.get(known.language, "").split())
        lemmas = KnownLemmas.of_language(known.language)
        of_lemma: dict[str, list[str]] = {}
        for word in known.up_to(REACH).words:
            if (lemma := lemmas.of(word)) is not None:
                of_lemma.setdefault(lemma, []).append(word)
        self._others: Mapping[str, Sequence[str]] = {
            word: words for words in of_lemma.values() if len(words) > 1 for word in words
        }

    def read(
        self, prompt: str, allowed: TextChecker, left_out: Sequence[str] = (), *, room: int = MAX_WORDS * MAX_FORMS
    ) -> tuple[PromptWord, ...]:
        """Return the words of a prompt that a list is to allow besides, in the order of the prompt.

        Args:
            allowed: Of the list at its N, with its changes.
            left_out: Words that stay left out.
            room: How many words and forms there may be together.
        """
        report = TextChecker(self._known, DEFAULT_OPTIONS, REACH, forms=self._forms).check(prompt, with_notes=False)
        if report.num_words >= MAX_LENGTH:
            return ()
        keys = {fold(word, self._known.language) for word in left_out}

        def is_missing(word: str) -> bool:
            return allowed.reason(word) in ("rare", "unknown") and fold(word, self._known.language) not in keys

        found: list[PromptWord] = []
        # A German noun in small letters has its rank, and is not allowed.
        for rank in dict.fromkeys(word.rank or 0 for word in report.words):
            if not FUNCTION_WORDS < rank <= REACH:
                continue
            [word, *others] = self._entries(rank)
            forms = dict.fromkeys((word, *others, *self._others.get(word, ())))
            is_named = any(word in one.forms for one in found)
            if is_missing(word) and not is_named and self._instructions.isdisjoint(map(str.casefold, forms)):
                found.append(PromptWord(word, rank, tuple(form for form in forms if form != word and is_missing(form))))
        rarest = sorted(found, key=lambda one: -one.rank)[:MAX_WORDS]
        each = min(room // max(len(rarest), 1), MAX_FORMS)
        return tuple(one._replace(forms=one.forms[: each - 1]) for one in found if one in rarest and each > 0)

    def _entries(self, rank: int) -> Sequence[str]:
        """Return the words of a rank, the most frequent first."""
        ranks = self._known.ranks
        if ranks is None:
            return self._known.words[rank - 1 : rank]
        return self._known.words[bisect_left(ranks, rank) : bisect_right(ranks, rank)]
