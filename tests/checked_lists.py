"""What counts as a word of an answer: the list that was asked for and the rules, as the checker knows them.

It imports nothing of the library: words come from the library's data files, or from the caller.
"""

import lzma
import re
import threading
import unicodedata
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Literal, NamedTuple, TypedDict

from tests.possessives import may_take_possessive

PUNCTUATION = '.!?…؟।:,;)]،؛"«»“”‹›¿¡([„—–- \n'
"""What may stand between words; any other character that is no part of a listed word is reported."""

SENTENCE_MARKS = ".!?…؟।۔"

STANDARD_PUNCTUATION = '.!?…:,;"()- \n'
STANDARD_PUNCTUATION_OF = {
    "en": "—–“”",
    "es": "—–¿¡“”«»",
    "de": "—–„“",
    "fr": "—–«»",
    "it": "—«»“”",
    "pt": "—–“”",
    "tr": "—–“”",
    "sv": "—–”",
    "ru": "—–«»„“",
    "el": "—–«»“”",
    "ar": "—–«»؟،؛",
    "fa": "«»‹›؟،؛",
    "ur": "”“؟،؛۔",
    "hi": "—–“”।",
}
"""Of other languages all marks are taken for theirs; ``tests.marks_checker`` says how marks stand."""

BASIC_PUNCTUATION = ".,!?…¿¡ \n"
BASIC_PUNCTUATION_OF = {**dict.fromkeys(["ar", "fa", "ur"], "؟،"), **dict.fromkeys(["hi", "bn", "mr", "ne"], "।")}

DATA = Path(__file__).parent.parent / "vocab" / "lists" / "data"


class Rules(TypedDict, total=False):
    """What was asked for besides the list and N.

    ``case``: ``any``, the default but for built-in lists that have capitals, lets any listed word have a capital
    anywhere; ``sentence`` only where a sentence starts; ``listed`` only added words there. ``layout``: ``lines`` is the
    default. ``possessive``, whether English words take 's, is the default of built-in lists alone.
    """

    extra_words: Sequence[str]
    exclude_words: Sequence[str]
    numbers: bool
    punctuation: Literal["standard", "full", "basic", "none"]
    end: Literal["word", "sentence"]
    case: Literal["any", "sentence", "listed"]
    layout: Literal["prose", "lines"]
    possessive: bool


class Listing(NamedTuple):
    """What counts as a word.

    Attributes:
        words: Entries that the splitter sees as one word.
        phrases: Entries with blanks, marks or symbols, and with a possessive where there is one.
        possessives: Words that may take an 's.
        elisions: Entries that join the next word ("l'").
        added: Those of all these that were added: a capital may start them wherever a sentence starts.
        marks: What may stand between words.
        sentence_marks: Those of them that end a sentence.
    """

    words: frozenset[str]
    phrases: tuple[str, ...]
    possessives: frozenset[str]
    elisions: frozenset[str]
    added: frozenset[str]
    lang: str
    marks: str
    sentence_marks: str
    numbers: bool
    case: str


_making = threading.Lock()


def listing_of(lang: str, n_words: int, words: Sequence[str] | None, rules: Rules) -> Listing:
    base = re.split("[-_]", lang)[0]
    punctuation = rules.get("punctuation", "full")
    marks = {
        "standard": STANDARD_PUNCTUATION + STANDARD_PUNCTUATION_OF.get(base, PUNCTUATION),
        "basic": BASIC_PUNCTUATION + BASIC_PUNCTUATION_OF.get(base, ""),
        "none": " \n",
    }
    # Threads that ask for the same would each make it.
    with _making:
        is_any_case = words is not None or not _has_capitals(lang)
        listing = _listing(
            lang,
            n_words,
            None if words is None else tuple(words),
            tuple(rules.get("extra_words", ())),
            tuple(rules.get("exclude_words", ())),
            rules.get("possessive", words is None),
        )
    return listing._replace(
        marks=marks.get(punctuation, PUNCTUATION),
        sentence_marks=SENTENCE_MARKS + (";" if (base, punctuation) == ("el", "standard") else ""),
        numbers=rules.get("numbers", False),
        case=rules.get("case", "any" if is_any_case else "sentence"),
    )


@lru_cache(maxsize=32)
def _listing(
    lang: str,
    n_words: int,
    listed: tuple[str, ...] | None,
    extra: tuple[str, ...],
    excluded: tuple[str, ...],
    possessive: bool,
) -> Listing:
    base = re.split("[-_]", lang)[0]
    ranked = built_in_words(lang, n_words) if listed is None else _distinct(listed, n_words)
    entries = set(map(straight_apostrophes, ranked))
    left_out = {_small(straight_apostrophes(word), base) for word in excluded}
    if base == "en":
        left_out |= {word + "'s" for word in left_out}
    added = {straight_apostrophes(unicodedata.normalize("NFC", word)) for word in extra}
    words = {entry for entry in entries if _small(entry, base) not in left_out} | added
    elisions = {entry for entry in words if entry.endswith("'")} if base in ("fr", "it", "ca") else set()
    phrases = {entry for entry in words if not all(map(is_word_character, entry))}
    possessives = {entry for entry in words if base == "en" and possessive and may_take_possessive(entry)}
    phrases |= {phrase + "'s" for phrase in phrases & possessives}
    added |= {word + "'s" for word in added & possessives}
    return Listing(
        words=frozenset(words - elisions - phrases),
        phrases=tuple(phrases - elisions),
        possessives=frozenset(possessives - phrases),
        elisions=frozenset(elisions),
        added=frozenset(added),
        lang=base,
        marks=PUNCTUATION,
        sentence_marks=SENTENCE_MARKS,
        numbers=False,
        case="any",
    )


def built_in_words(lang: str, n_words: int) -> list[str]:
    """The words of the first ranks of the list that a language's name stands for, without what is not safe."""
    lines = _built_in_lines(lang)[:n_words]
    return [word for line in lines for word in line]


@lru_cache(maxsize=8)
def _built_in_lines(lang: str) -> list[list[str]]:
    text = lzma.decompress((DATA / f"{lang}.xz").read_bytes()).decode()
    safe = ([word for word in line.split("\t") if word[0] != "!"] for line in text.splitlines())
    return [line for line in safe if line]


@lru_cache(maxsize=32)
def _has_capitals(lang: str) -> bool:
    return any(word != word.lower() for word in built_in_words(lang, 1_000))


def _distinct(words: Iterable[str], n_words: int) -> list[str]:
    return list(islice(dict.fromkeys(unicodedata.normalize("NFC", word) for word in words), n_words))


def straight_apostrophes(text: str) -> str:
    return text.replace("’", "'")


def is_word_character(char: str) -> bool:
    return unicodedata.category(char)[0] in "LMN" or char in "'-\u200c\u200d"


def with_small_first_letter(word: str, lang: str) -> str:
    """As it is listed, where a capital came of it: Dutch ij is one letter, so "Ijs" came of nothing."""
    if lang == "nl" and word[:2] in ("IJ", "Ij"):
        return "ij" + word[2:] if word[1] == "J" else word
    return unicodedata.normalize("NFC", _small(word[0], lang) + word[1:])


def _small(word: str, lang: str) -> str:
    if lang in ("tr", "az"):
        word = word.replace("İ", "i").replace("I", "ı")
    return word.lower()
