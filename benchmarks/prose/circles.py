"""Signs of a model that was trained into a rut: one content word again and again, and texts that all begin alike."""

import re
from collections import Counter
from collections.abc import Sequence
from functools import cache
from typing import Final

from tests.checked_lists import SENTENCE_MARKS
from tests.checker import CLOSING_QUOTES
from vocab.decoding.select import words_of
from vocab.lists.wordlists import load_word_list

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

_SENTENCES: Final = re.compile(rf"(?s).*[{SENTENCE_MARKS}][{CLOSING_QUOTES}]*(?=\s|$)")


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


def opening_shares(texts: Sequence[str]) -> tuple[float, float]:
    """The share of the texts whose first words are those of another text, and that of the most frequent such
    opening."""
    openings = Counter(tuple(words_of(text)[:OPENING_WORDS]) for text in texts)
    shared = [count for count in openings.values() if count > 1]
    return sum(shared) / max(len(texts), 1), max(shared, default=0) / max(len(texts), 1)


def whole_sentences(text: str) -> str:
    """A text up to the end of its last sentence; all of it where none ends."""
    found = _SENTENCES.match(text)
    return found[0] if found else text
