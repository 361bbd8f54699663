"""Random lists of awkward words, for tests that put a whole list to the library.

Letters with accents and without, combining marks, scripts from right to left, emoji, apostrophes, hyphens, quotation
marks, brackets, the marks of a text, operators of EBNF, characters that no word may have, words that are prefixes of
others, duplicates and variants in capitals.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass

from hypothesis import strategies as st

from tests.choices import Choice, choices

LETTERS = "abcsAB" + "éñßçÅǅŉﬁ" + "iıİI" + "ςσΣ" + "ья" + "日本"
RIGHT_TO_LEFT = "שלםسلاگ"
COMBINING = "\u0301\u0308\u0327\u0338\u05b8\u064b\ufe0f"
DIGITS = "013٣½"
EMOJI = ("😀", "👩\u200d🚀", "❤\ufe0f", "🏳\ufe0f\u200d🌈", "👍🏽")
JOINED = ("می\u200cشود", "क्\u200dया", "हिन्दी")
MARKS = ".,:;!?…؟।،" + '«»“”‹›„"' + "()[]¿¡" + "—–-" + "'’" + " "
OPERATORS = '|*+?{}()[]^$\\"/#<>=~&%_' + "`´"
FORBIDDEN = "\0\x07\b\t\n\r\x1b\x7f\x85\u00ad\u200b\u200e\u200f\u202e\u2028\u2029\u2066\ufeff\ud800"
"""Characters that no text shows: an entry with one of them is refused, unless it stands at an end and is a blank."""

ALPHABET = LETTERS * 2 + RIGHT_TO_LEFT + COMBINING + DIGITS + MARKS * 2 + OPERATORS

TELLING = (
    *("l'", "l'a", "d’", "a b", "a b c", "b c", "A", "in front of", "well-known", "goin'", "’s", "s", "x" * 60),
    *("the", "It", "it's", "b of", "of b"),
    *(
        "3",
        "3rd",
        "1.5",
        "%",
        "-",
        "—",
        "'",
        "(",
        '"',
        '"a"',
        ".",
        "…",
        "a.",
        ". a",
        "a, b",
        "a - b",
        "a—b",
        "¿a",
        ":)",
    ),
    *("::=", "a ::= b", "[^a]*", "(a|b)+", "\\n", "a\\", '\\"', "//", "#", "{1,2}", "a\u0301", "\u0301", "e\u0301e"),
)
"""Entries that have been hard, or look so."""

LANGUAGES = ("en", "es", "fr", "it", "tr", "ar", "hi", "xx")


@dataclass(frozen=True)
class RandomList:
    """A list as somebody may bring it, with N, options and tokens.

    Attributes:
        lang: Language of its rules.
        choice: The options.
        share: From which parts of 1 the next word shares the rank of the one before it; 0 where none does.
        num_beyond: How many ranks are beyond N.
        seed: What else is random.
        entries: Some of them cannot be words.
    """

    lang: str
    choice: Choice
    share: float
    num_beyond: int
    seed: int
    entries: tuple[str, ...]

    def ranks(self, num_words: int) -> tuple[int, ...] | None:
        """Ranks that some words share, or None where every word has its own."""
        if not self.share:
            return None
        draw, ranks = random.Random(self.seed), [1]
        while len(ranks) < num_words:
            ranks.append(ranks[-1] + (draw.random() >= self.share))
        return tuple(ranks)

    def pieces(self, words: tuple[str, ...]) -> list[bytes]:
        """Tokens of several bytes: parts of the words, and of texts of them, that need not respect characters."""
        draw, pieces = random.Random(self.seed), set[bytes]()
        for _ in range(24):
            first, second = draw.choice(words), draw.choice(words)
            gap = draw.choice((" ", ". ", ", ", "\n", "—", " - ", "", " («", "'s ", '." ', ": ", "3.5 "))
            text = draw.choice((" ", "", "¿")) + first[:1].title() + first[1:] + gap + second
            spelled = text.encode()
            start = draw.randrange(len(spelled))
            pieces.add(spelled[start : start + draw.randint(2, 8)])
        return sorted(piece for piece in pieces if len(piece) > 1)

    def neighbours(self, word: str) -> Iterator[str]:
        """Every string that is one edit away: a character more, less, another, or two exchanged."""
        for place in range(len(word) + 1):
            before, after = word[:place], word[place:]
            yield before + after[1:]
            yield before + after[1:2] + after[:1] + after[2:]
            for character in dict.fromkeys(ALPHABET + "\n\t\0\u200b"):
                yield before + character + after
                yield before + character + after[1:]


def random_lists() -> st.SearchStrategy[RandomList]:
    """Lists of up to nine entries."""
    # The entries last: what is drawn behind much else is more often the simplest there is.
    return st.builds(
        RandomList,
        lang=st.sampled_from(LANGUAGES),
        choice=choices(),
        share=st.sampled_from([0, 0, 0.3, 0.8]),
        num_beyond=st.sampled_from([0, 0, 0, 1, 1, 2, 4]),
        seed=st.integers(0, 2**32),
        entries=st.lists(_entries(), min_size=2, max_size=6).flatmap(_with_relatives).map(tuple),
    )


def _entries() -> st.SearchStrategy[str]:
    letters = st.text(LETTERS, min_size=1, max_size=5)
    anything = st.lists(st.sampled_from([*ALPHABET, *EMOJI, *JOINED]), min_size=1, max_size=5).map("".join)
    forbidden = st.tuples(anything, st.sampled_from(FORBIDDEN), st.text("ab", max_size=2)).map("".join)
    telling = st.sampled_from(TELLING)
    return st.one_of(letters, letters, anything, anything, telling, forbidden)


def _with_relatives(entries: list[str]) -> st.SearchStrategy[list[str]]:
    """The same entries, with prefixes, longer ones, duplicates and capitals among them."""
    relative = st.tuples(
        st.sampled_from(entries),
        st.sampled_from(["prefix", "longer", "again", "upper", "title", "lower", "possessive", "two words"]),
        st.sampled_from(entries),
    ).map(lambda drawn: _relative(*drawn))
    return st.lists(relative, max_size=3).map(lambda relatives: [*entries, *relatives]).flatmap(st.permutations)


def _relative(entry: str, kind: str, other: str) -> str:
    return {
        "prefix": entry[:-1] or entry,
        "longer": entry + other[:2],
        "again": entry,
        "upper": entry.upper(),
        "title": entry[:1].title() + entry[1:],
        "lower": entry.lower(),
        "possessive": entry + "'s",
        "two words": f"{entry} {other}",
    }[kind]
