"""Surface forms: the ways to write a word of a list, by capitals, apostrophes, the English possessive and elisions.

A form has the rank of the best word that gives it, whatever N. A word of a language without spaces has one form, the
entry itself.

*Elisions.* In French, Italian and Catalan "l'" stands before a vowel, or before an h that is not sounded. Which French
words have an *h aspiré* is what its dictionaries say; where they differ ("hululer") nothing is elided. Names keep the
rule of their letters, as most writers do both: "d'Henri", "de Henri".

*The possessive.* What takes no 's is a closed list, for lists of words know no parts of speech. Words on it that are
nouns or names as well ("Said") lose theirs; "will", "may", "can", "mine", "being" and "down" are not on it for that.

*Ranks of a form* are looked up by applying the rules backwards, from "Cat’s" to "cat". A table of the forms of
312,000 English words has 1.8 million strings; this one has the words.
"""

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from itertools import repeat
from operator import attrgetter
from typing import Final, Literal, NamedTuple

from vocab.lists.cleaned import DOTTED_I_LANGUAGES, IJ_LANGUAGES
from vocab.lists.wordlists import OWN_SOURCES, Source, WordList
from vocab.marks import APOSTROPHES, BLANK
from vocab.options import ListOptions

ELISION_LANGUAGES: Final = frozenset({"fr", "it", "ca"})

# How words begin; "." is the end of one. Of several beginnings the longest counts.
_NOT_ELIDED: Final = """
ha hâ
hé. héler hèle hélé. hein. hello heaume henné hennir henni hep. héraut hère. hériss hern héron héros. herse hêtr heurt
hey. hezbollah
hibou hic. hide hidj hiérarch hiérogl hi-fi hi-han hip. hip- hippie hippy hiss hit. hit-
ho. hobb hobere hobo hoch hockey holà hold holland homard home. hondur hong hongr honni hont hool hop. hop- hoqu horde
horion hormis. hors. hors- horst hot. hot- hott hou
hub. hubl huch hue. huée huer hugueno huit hulul hum. hune. hunier hun. huns. hupp hure. hurl huron hurri husky huss
hutt
onze onzi oui. ouistiti ouah ouai uhlan y
"""
_ELIDED: Final = """
habe habi hadri hagio haïti haleine halieu hallali halluc halogé halogè haltè halté hameço hapax haplo haptique harmoni
haruspi hawaï hernand huitr huîtr hurlu
y. yeux. yeuse yonne yb yc yd yl ym yn yp yr ys yt yv
"""
_IS_ELIDED: Final = dict.fromkeys(_NOT_ELIDED.split(), False) | dict.fromkeys(_ELIDED.split(), True)
_LONGEST: Final = max(map(len, _IS_ELIDED))

_VOWELS: Final = {"fr": "aeiouyhœæ", "it": "aeiouh", "ca": "aeiouh"}
_CATALAN_CONSONANT: Final = re.compile("h?i[aeou]")
"""As in "el iogurt", "la hiena"."""


def is_elision(text: str, language: str) -> bool:
    """Return whether a form is an elision, which a word directly follows."""
    return language in ELISION_LANGUAGES and text[-1] in APOSTROPHES


def follows_elision(text: str, language: str) -> bool:
    """Return whether a form may directly follow an elision."""
    if language not in ELISION_LANGUAGES:
        return False
    return _may_follow(text[:_LONGEST].lower(), len(text) < _LONGEST, language)


@lru_cache(maxsize=1 << 16)
def _may_follow(beginning: str, is_whole: bool, language: str) -> bool:
    letters = unicodedata.normalize("NFD", beginning)
    if letters[0] not in _VOWELS[language]:
        return False
    if language == "ca":
        return not _CATALAN_CONSONANT.match(letters)
    if language == "fr":
        beginning += "." * is_whole
        return next(
            (_IS_ELIDED[start] for end in range(_LONGEST, 0, -1) if (start := beginning[:end]) in _IS_ELIDED), True
        )
    return True


POSSESSIVE_LANGUAGES: Final = frozenset({"en"})

_NO_POSSESSIVE: Final = """
a about above across after again against ago ahead all almost along already also although always am amid among an and
any are around as ask asked asks at ate away be became because become becomes been before began begin begins begun
behind below beneath beside besides between beyond both bring brings brought but by came cannot come comes could did do
does doing done during each eat eaten eats enough even ever every except far few for from gave get gets give given gives
go goes gone got had has have having he hence her here hers herself him himself his how however i if in indeed instead
into is it its itself just keep keeps kept knew know known knows least less lest let lets like made make makes many
maybe me might more most much must my myself near never no nor not now of off often on once only onto or ought our ours
ourselves out over own per perhaps put puts quite rather really said same sat say says see seem seemed seems seen sees
several shall she should since sit sits so some sometimes soon still such take taken takes tell tells than that the
their theirs them themselves then there therefore these they think thinks this those though through throughout thus till
to together told too took toward towards twice under unless until up upon us very via want wanted wants was we went were
what when where whereas whether which while who whom whose why with within without would yet you your yours yourself
yourselves
"""
"""Pronouns, articles, prepositions, conjunctions, auxiliaries, adverbs, and the commonest verbs that are no nouns."""
_TAKES_NONE: Final = frozenset(map(str.capitalize, _NO_POSSESSIVE.split()))


def decide_possessive(options: ListOptions, language: str, source: Source) -> ListOptions:
    """Return the options with ``possessive`` decided by the language and source of the list."""
    return replace(options, possessive=has_possessives(options, language, source))


def has_possessives(options: ListOptions, language: str, source: Source) -> bool:
    """Return whether words of a list of this language and source may take 's: as asked, else of a built-in list."""
    asked = source not in OWN_SOURCES if options.possessive is None else options.possessive
    return asked and language in POSSESSIVE_LANGUAGES


def takes_possessive(text: str) -> bool:
    """Return whether a form may carry the English 's: it has no apostrophe, and its last word is one that may."""
    last = text.rpartition(BLANK)[2]
    # By its capital, which all forms of a word share.
    capital = _simple_titlecase(last[:1]) or last[:1]
    return not has_apostrophe(text) and capital + last[1:] not in _TAKES_NONE


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
    """Resolve ``case: auto`` for a list: ``any`` when no word has a capital, else ``sentence``.

    It is ``listed`` for a language without spaces, whatever the options say.
    """
    if word_list.is_unspaced:
        return "listed"
    return case_of(options, has_capitals=options.case == "auto" and word_list.has_capitals)


def case_of(options: ListOptions, *, has_capitals: bool) -> Literal["sentence", "any", "listed"]:
    """Resolve ``case: auto`` by whether the list has capitals."""
    if options.case != "auto":
        return options.case
    return "sentence" if has_capitals else "any"


def surface_forms(word_list: WordList, options: ListOptions) -> list[Form]:
    """Return every surface form of the whole list, each text once, in rank order.

    A text occurs twice only when it has a better rank at the start of a sentence than anywhere: "Will" from "will"
    (rank 30) beside the listed "Will" (rank 900).
    """
    case = resolve_case(word_list, options)
    capitals = Capitals(word_list.language)
    anywhere: dict[str, int] = {}
    at_start: dict[str, int] = {}
    capitalised = at_start if case == "sentence" else anywhere
    has_possessive = has_possessives(options, word_list.language, word_list.source)
    is_as_listed = word_list.is_unspaced
    for rank, word in word_list.ranked():
        # The order of the words is the order of the ranks, so the first rank of a text is its best.
        for text in (word,) if is_as_listed else spellings(word, has_possessive):
            anywhere.setdefault(text, rank)
            if case != "listed" and (capital := capitals.of(text)) is not None:
                capitalised.setdefault(capital, rank)
    forms = list(map(Form, anywhere.keys(), anywhere.values(), repeat(False), repeat(False)))
    forms += [Form(text, rank, True, False) for text, rank in at_start.items() if rank < anywhere.get(text, rank + 1)]
    forms.sort(key=attrgetter("rank"))
    if word_list.language in ELISION_LANGUAGES:
        return [form._replace(elision=is_elision(form.text, word_list.language)) for form in forms]
    return forms


def has_apostrophe(text: str) -> bool:
    return APOSTROPHES[0] in text or APOSTROPHES[1] in text


def fold_case(text: str) -> str:
    """Fold capitals and apostrophes of a text, whatever its language."""
    typewriter, curly = APOSTROPHES
    return text.casefold().replace(curly, typewriter)


def spellings(word: str, has_possessive: bool) -> Iterator[str]:
    """Yield the word as listed, with either apostrophe, and with the possessive, not capitalized; may repeat."""
    yield word
    typewriter, curly = APOSTROPHES
    if has_apostrophe(word):
        yield word.replace(curly, typewriter)
        yield word.replace(typewriter, curly)
    elif has_possessive and takes_possessive(word):
        yield word + typewriter + "s"
        yield word + curly + "s"


class Capitals:
    """Capitalize first letters; each is looked up once, and a list has some dozens of them."""

    def __init__(self, language: str) -> None:
        self._capital_by_letter: dict[str, str | None] = {"i": "İ"} if language in DOTTED_I_LANGUAGES else {}
        self._has_ij = language in IJ_LANGUAGES

    def of(self, text: str) -> str | None:
        """Return ``text`` with a capital first letter, NFC; None where there is no such form."""
        if self._has_ij and text.startswith("ij"):
            return "IJ" + text[2:]
        letter = text[0]
        if letter not in self._capital_by_letter:
            self._capital_by_letter[letter] = _simple_titlecase(letter)
        capital = self._capital_by_letter[letter]
        if capital is None:
            return None
        # A capital and a combining mark can have one code point where the small letter has none: "i̇" gives "İ".
        return capital + text[1:] if text.isascii() else unicodedata.normalize("NFC", capital + text[1:])


def _simple_titlecase(letter: str) -> str | None:
    # str.title() is Unicode's full mapping. Where it is one code point it is the simple mapping, and where it is
    # longer ("ß" to "Ss") there is no simple one.
    capital = letter.title()
    return capital if letter.isalpha() and len(capital) == 1 and capital != letter else None


POSSESSIVES: Final = tuple(apostrophe + "s" for apostrophe in APOSTROPHES)


class FormRanks:
    """Ranks of the forms of one list; share one between checkers of different N, with and without the possessive."""

    def __init__(self, word_list: WordList, options: ListOptions) -> None:
        self._case = resolve_case(word_list, options)
        self._spelled = _RanksByText()
        # Forms whose first letter has melted with what comes after it: "i̇" gives "İ", and Dutch "ij" gives "IJ".
        self._melted = _RanksByText()
        self._small_letters: dict[str, set[str]] = {}
        self._capitals = Capitals(word_list.language)
        is_as_listed = word_list.is_unspaced
        for rank, word in word_list.ranked():
            for text in (word,) if is_as_listed else spellings(word, has_possessive=False):
                self._spelled.add(text, rank)
                if self._case != "listed" and (capital := self._capitals.of(text)) is not None:
                    self._add_capital(text, capital, rank)

    def _add_capital(self, text: str, capital: str, rank: int) -> None:
        """Record a form with a capital: by its two letters, or whole where the capital took in what comes after."""
        if capital[1:] == text[1:]:
            self._small_letters.setdefault(capital[0], set()).add(text[0])
        else:
            self._melted.add(capital, rank)

    def ranks(self, text: str, *, starts_sentence: bool, possessive: bool) -> Iterator[int]:
        """Yield the ranks of all words that may be written as ``text``, perhaps with 's, in no order; may repeat."""
        capital_allowed = self._case == "any" or (self._case == "sentence" and starts_sentence)
        yield from self._ranks_of_base(text, capital_allowed)
        if possessive and text.endswith(POSSESSIVES) and takes_possessive(text[:-2]):
            yield from self._ranks_of_base(text[:-2], capital_allowed)

    def _ranks_of_base(self, base: str, capital_allowed: bool) -> Iterator[int]:
        yield from self._spelled.of(base)
        if capital_allowed and base:
            yield from self._melted.of(base)
            for small in self._small_letters.get(base[0], ()):
                # "Ijs" is no capital of "ijs", which melts.
                if self._capitals.of(text := small + base[1:]) == base:
                    yield from self._spelled.of(text)


class _RanksByText:
    """The ranks of each text. Nearly all have one; where words share ranks there may be more."""

    def __init__(self) -> None:
        self.best: dict[str, int] = {}
        """The first rank that was added, by text."""
        self._others: dict[str, list[int]] = {}

    def add(self, text: str, rank: int) -> None:
        if self.best.setdefault(text, rank) != rank:
            self._others.setdefault(text, []).append(rank)

    def of(self, text: str) -> Iterator[int]:
        if text in self.best:
            yield self.best[text]
            yield from self._others.get(text, ())
