"""Signs of a bad text, counted in the text alone: marks out of place, letters that are no words, grammar, and ruts."""

from collections import Counter
from collections.abc import Sequence
from functools import cache
from typing import Any, Final

from tests.marks_checker import MARKS_OF_LANGUAGES, misplaced_marks
from vocab.decoding.select import words_of
from vocab.lists.wordlists import load_word_list

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

LOOP_TIMES: Final = 5
"""A content word that occurs so often within ``LOOP_WORDS`` words makes a loop."""

LOOP_WORDS: Final = 60
"""No text of 60 tokens has more words."""

OPENING_WORDS: Final = 4

NUM_FREQUENT: Final = 120
"""The most frequent words of a language, of which about 100 are function words."""

CONTENT_WORDS: Final = {
    "en": "time people new good know see make think want work year years day made life say world love man home long",
    "de": "gut zeit menschen heute leben deutschland neue machen kommt macht jahr jahren gehen jahre",
    "es": "años bien tiempo día mejor vida gente estado mundo año gracias cosas personas trabajo lugar gobierno país",
    "tr": "büyük yeni güzel zaman gün yer türkiye türk doğru önemli yıl insanlar istanbul iş dünya genel adam saat su",
}
"""Words among the most frequent that say something of their own."""


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


def has_loop(text: str, lang: str) -> bool:
    """Whether a content word occurs ``LOOP_TIMES`` times or more within ``LOOP_WORDS`` words; English possessives
    count as their word."""
    places: dict[str, list[int]] = {}
    for place, word in enumerate(words_of(text)):
        places.setdefault(word.removesuffix("'s").removesuffix("’s"), []).append(place)
    return any(
        last - first < LOOP_WORDS
        for word, at in places.items()
        if word not in function_words(lang)
        for first, last in zip(at, at[LOOP_TIMES - 1 :], strict=False)
    )


@cache
def function_words(lang: str) -> frozenset[str]:
    """The function words among the most frequent words of a language, casefolded; all of those where nobody sorted
    them."""
    frequent = (word.casefold() for word in load_word_list(lang, None).words[:NUM_FREQUENT])
    return frozenset(frequent) - frozenset(map(str.casefold, CONTENT_WORDS.get(lang, "").split()))


def same_opening(texts: Sequence[str]) -> float:
    """The share of the texts whose first words are those of another text."""
    openings = Counter(tuple(words_of(text)[:OPENING_WORDS]) for text in texts)
    return sum(count for count in openings.values() if count > 1) / max(len(texts), 1)
