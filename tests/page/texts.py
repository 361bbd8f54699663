"""Texts of several languages with all that makes places hard to count: made of words of every rank and of none, by
chance that is the same in every run."""

import random
import unicodedata
from collections.abc import Callable, Sequence
from typing import Final, TypeVar

from vocab.lists.wordlists import load_word_list

Kind = TypeVar("Kind")

LANGUAGES: Final = ("en", "fr", "tr", "hi", "fa", "he")
"""With apostrophes and hyphens, elisions, dotted i, combining marks, joiners; the last two from right to left."""

NUM_TEXTS: Final = 50

_MAX_RANK: Final = 30_000
_NUM_WORDS: Final = 60

_BETWEEN: Final = (
    (" ", 60),
    (", ", 8),
    (". ", 8),
    ("? ", 2),
    ("! ", 2),
    ("\n", 3),
    ("\n\n", 2),
    (" — ", 2),
    (": ", 1),
    (" 😀 ", 2),
    (" “", 1),
    ("” ", 1),
    ("\t", 1),
    ("… ", 1),
    (" 👩‍👩‍👧 (", 1),
    (") ", 1),
    ("/", 1),
)

_SHAPES: Final[tuple[tuple[Callable[[str], str], int], ...]] = (
    (lambda word: word, 60),
    (str.title, 8),
    (str.upper, 3),
    (lambda word: unicodedata.normalize("NFD", word), 5),
    # A word that no list has, of the language's own letters.
    (lambda word: word[::-1] + word, 6),
    (lambda word: word + "’s", 3),
    (lambda word: "l'" + word, 3),
    (lambda word: f"{word}-{word}", 3),
    (lambda word: word + "\u0301", 1),
    (lambda word: word + "\u200c" + word, 1),
    # Letters beyond the first 65,536 code points are two units in a browser.
    (lambda word: "𝒲" + word, 1),
    (lambda _: "1,024", 2),
    (lambda _: "42%", 1),
    (lambda word: "7" + word, 1),
)


def texts() -> list[tuple[str, str]]:
    """Return the language and the text of each, ``NUM_TEXTS`` in all."""
    words = {lang: load_word_list(lang, None).words for lang in LANGUAGES}
    made = []
    for number in range(NUM_TEXTS):
        chance = random.Random(number)
        lang = LANGUAGES[number * len(LANGUAGES) // NUM_TEXTS]
        known = words[lang][:_MAX_RANK]
        text = ""
        for _ in range(chance.randint(5, _NUM_WORDS)):
            # Of each power of ten as many.
            word = known[int(len(known) ** chance.random()) - 1]
            text += _any_of(_SHAPES, chance)(word) + _any_of(_BETWEEN, chance)
        made.append((lang, text.strip()))
    return made


def _any_of(weighted: Sequence[tuple[Kind, int]], chance: random.Random) -> Kind:
    return chance.choices([one for one, _ in weighted], [weight for _, weight in weighted])[0]
