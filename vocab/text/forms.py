"""Surface forms: the ways to write a word of a list, by capitals, apostrophes, the English possessive and elisions.

A form has the rank of the best word that gives it, whatever N.
"""

import unicodedata
from collections.abc import Iterator
from itertools import repeat
from operator import attrgetter
from typing import Final, Literal, NamedTuple

from vocab.lists.cleaned import DOTTED_I_LANGUAGES
from vocab.lists.wordlists import WordList
from vocab.marks import APOSTROPHES
from vocab.options import ListOptions
from vocab.text.elisions import ELISION_LANGUAGES, is_elision

POSSESSIVE_LANGUAGES: Final = frozenset({"en"})


class Form(NamedTuple):
    """One way of writing a word.

    Attributes:
        text: NFC; never empty.
        rank: Rank of the best word written so, from 1.
        sentence_only: Allowed only where a sentence starts.
        elision: Followed directly by a word that begins with a vowel, never by a mark, a gap or the end.
    """

    text: str
    rank: int
    sentence_only: bool
    elision: bool


def resolve_case(word_list: WordList, options: ListOptions) -> Literal["sentence", "any", "listed"]:
    """Resolve ``case: auto`` for a list: ``any`` when no word has a capital, else ``sentence``."""
    return case_of(options, has_capitals=options.case == "auto" and word_list.has_capitals)


def case_of(options: ListOptions, *, has_capitals: bool) -> Literal["sentence", "any", "listed"]:
    """Resolve ``case: auto`` by whether the list has capitals."""
    if options.case != "auto":
        return options.case
    return "sentence" if has_capitals else "any"


def surface_forms(word_list: WordList, options: ListOptions, *, with_possessives: bool = True) -> list[Form]:
    """Return every surface form of the whole list, each text once, in rank order.

    A text occurs twice only when it has a better rank at the start of a sentence than anywhere: "Will" from "will"
    (rank 30) beside the listed "Will" (rank 900).
    """
    case = resolve_case(word_list, options)
    capitals = Capitals(word_list.language)
    anywhere: dict[str, int] = {}
    at_start: dict[str, int] = {}
    capitalised = at_start if case == "sentence" else anywhere
    has_possessive = with_possessives and has_possessives(word_list)
    for rank, word in word_list.ranked():
        # The order of the words is the order of the ranks, so the first rank of a text is its best.
        for text in spellings(word, has_possessive):
            anywhere.setdefault(text, rank)
            if case != "listed" and (capital := capitals.of(text)) is not None:
                capitalised.setdefault(capital, rank)
    forms = list(map(Form, anywhere.keys(), anywhere.values(), repeat(False), repeat(False)))
    forms += [Form(text, rank, True, False) for text, rank in at_start.items() if rank < anywhere.get(text, rank + 1)]
    forms.sort(key=attrgetter("rank"))
    if word_list.language in ELISION_LANGUAGES:
        return [form._replace(elision=is_elision(form.text, word_list.language)) for form in forms]
    return forms


def has_possessives(word_list: WordList) -> bool:
    """Return whether the list's words without an apostrophe may carry 's."""
    return word_list.language in POSSESSIVE_LANGUAGES


def has_apostrophe(text: str) -> bool:
    return APOSTROPHES[0] in text or APOSTROPHES[1] in text


def spellings(word: str, has_possessive: bool) -> Iterator[str]:
    """Yield the word as listed, with either apostrophe, and with the possessive, not capitalized; may repeat."""
    yield word
    typewriter, curly = APOSTROPHES
    if has_apostrophe(word):
        yield word.replace(curly, typewriter)
        yield word.replace(typewriter, curly)
    elif has_possessive:
        yield word + typewriter + "s"
        yield word + curly + "s"


class Capitals:
    """Capitalize first letters; each is looked up once, and a list has some dozens of them."""

    def __init__(self, language: str) -> None:
        self._capital_by_letter: dict[str, str | None] = {"i": "İ"} if language in DOTTED_I_LANGUAGES else {}

    def of(self, text: str) -> str | None:
        """Return ``text`` with a capital first letter, NFC; None where there is no such form."""
        letter = text[0]
        if letter not in self._capital_by_letter:
            self._capital_by_letter[letter] = _simple_titlecase(letter)
        capital = self._capital_by_letter[letter]
        if capital is None:
            return None
        # A capital and a combining mark can have one code point where the small letter has none: "i̇" gives "İ".
        return capital + text[1:] if text.isascii() else unicodedata.normalize("NFC", capital + text[1:])


def _simple_titlecase(letter: str) -> str | None:
    """Return the capital of a letter; None where it is none, or is more than one character."""
    # str.title() is Unicode's full mapping. Where it is one code point it is the simple mapping, and where it is
    # longer ("ß" to "Ss") there is no simple one.
    capital = letter.title()
    return capital if letter.isalpha() and len(capital) == 1 and capital != letter else None
