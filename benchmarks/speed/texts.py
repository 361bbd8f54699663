"""Texts to follow: sentences of listed words with marks, capitals and line breaks, and words that no list has.

Drawn by a fixed seed, so every process of a run makes the same ones. No engine has a part in it.
"""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from vocab.lists.wordlists import WordList
from vocab.marks import APOSTROPHES, BLANK, LINE_BREAK
from vocab.options import ListOptions
from vocab.text.forms import Capitals
from vocab.text.reader import TextReader

NUM_FREQUENT: Final = 50
"""Words of the texts "frequent": what a text is mostly made of, whatever the list."""

WORDS_OF_TEXT: Final = 100
OPTIONS: Final = ListOptions(punctuation="full")
"""Of all engines: some read regular expressions only, and one of marks in pairs would be long."""

NUM_TEXTS: Final = 3

_SENTENCES: Final = {
    "frequent": ("{}.", "{}.", "{}.", "{}.", "{}!", "{}?", '"{}."', "({})."),
    "whole": ("{}.", "{}.", "{}.", "{}.", "{}!", "¿{}?", "{}…", "“{}.”", "«{}»."),
}
_GAPS: Final = {
    "frequent": (" ",) * 16 + (", ", ", ", "; ", " - "),
    "whole": (" ",) * 16 + (", ", ", ", "; ", " — "),
}
_BETWEEN_SENTENCES: Final = (BLANK, BLANK, BLANK, LINE_BREAK, LINE_BREAK * 2)


@dataclass(frozen=True)
class TextSet:
    """Texts of one kind.

    Attributes:
        name: The kind: "frequent", of the most frequent words with the marks of ASCII, which every tokenizer spells
            with whole characters, or "whole", of words from all over the list with marks of all sorts.
        warm_up: Followed first, and not timed.
        timed: Followed then, by every engine.
    """

    name: str
    warm_up: tuple[str, ...]
    timed: tuple[str, ...]


def text_sets(word_list: WordList, n_words: int) -> list[TextSet]:
    """Texts of the first ``n_words`` words."""
    # An elision needs its neighbour.
    words = [word for word in word_list.up_to(n_words).words if word[-1] not in APOSTROPHES]
    kinds = {"frequent": words[:NUM_FREQUENT], "whole": words}
    sets = []
    for name, population in kinds.items():
        generator = random.Random(f"{name} {len(population)}")
        texts = [_text(generator, name, population, word_list.language) for _ in range(2 * NUM_TEXTS)]
        sets.append(TextSet(name, tuple(texts[:NUM_TEXTS]), tuple(texts[NUM_TEXTS:])))
    return sets


def unlisted_texts(word_list: WordList, options: ListOptions, n_words: int, num_texts: int = 10) -> list[str]:
    """Texts of a listed word and one that is not, by the library's own reader."""
    reader = TextReader(word_list, options, n_words)
    first = next(word for word in word_list.words if reader.is_text(word))
    found = []
    for word in _candidates(word_list, n_words):
        text = f"{first} {word}"
        if not reader.is_text(text):
            found.append(text)
            if len(found) == num_texts:
                break
    return found


def _candidates(word_list: WordList, n_words: int) -> Iterator[str]:
    """Words behind the first N, then listed words spelled backwards."""
    yield from word_list.words[len(word_list.up_to(n_words).words) :][:: max(1, n_words // 10)]
    for word in word_list.words:
        yield word[::-1]


def _text(generator: random.Random, kind: str, words: Sequence[str], language: str) -> str:
    capitals, text, num_words = Capitals(language), "", 0
    while num_words < WORDS_OF_TEXT:
        length = min(generator.randint(4, 12), WORDS_OF_TEXT - num_words)
        first, *rest = generator.choices(words, k=length)
        sentence = (capitals.of(first) or first) + "".join(generator.choice(_GAPS[kind]) + word for word in rest)
        text += (generator.choice(_BETWEEN_SENTENCES) if text else "") + generator.choice(_SENTENCES[kind]).format(
            sentence
        )
        num_words += length
    return text
