"""Decide, for one of wordfreq's entries, how it is written in the cleaned list, if it is a word at all."""

import re
import unicodedata
from collections.abc import Mapping
from math import log10
from typing import Final, NamedTuple

from tools.lists.evidence import Evidence
from tools.lists.hand import FULL, Hand, fold
from tools.lists.wordfreq_list import STEMS
from vocab.lists.cleaned import titlecase, uppercase
from vocab.marks import APOSTROPHES
from vocab.text.forms import POSSESSIVE_LANGUAGES, POSSESSIVES, takes_possessive

SENTENCE_STARTS: Final = 0.12
"""Capitals for each small letter of a word that is no name: "The" is 7% of "the" in the counts, "dog" 6% with titles,
"however" more."""

SECOND_SHARE: Final = 0.25
"""A name beside a word in small letters, when it is used a quarter as often."""

NOUN_SHARE: Final = 0.1
"""A German noun beside a verb or adjective."""

SMALL_SHARE: Final = 0.5
"""The other way round more is asked: 6% of "Madrid" and 20% of "Monday" are written small on the web."""

WEAK_NAME: Final = 8
"""How much commoner the capital must be where only lists of people's names have it: "Oh", "He" and "So" are in them."""

MAX_ACRONYM: Final = 5

_ROMAN: Final = frozenset("ivxl")

STEPS: Final = 100
"""wordfreq counts in hundredths of powers of ten; of two spellings by hand, the second is ten times rarer."""

_CONTRACTIONS: Final = frozenset({"d", "ll", "m", "re", "s", "t", "ve"})

_JOINTS: Final = frozenset(APOSTROPHES) | {"-"}

_VOWELS: Final = frozenset("aeiouyæøœəıаеёиоуыэюяіїєѣαεηιουω")

_ENCLITIC: Final = re.compile("(.+r|.+ndo)(?:me|te|se|le|lo|la|nos|les|los|las)")


class Spelling(NamedTuple):
    """A word of the cleaned list, and by how many of wordfreq's steps it is rarer than the entry."""

    text: str
    steps: int = 0


class Judge:
    """Judge the entries of one language; ``foreign`` are words of another that are no evidence of a word."""

    def __init__(self, evidence: Evidence, hand: Hand, foreign: frozenset[str] = frozenset()) -> None:
        self._evidence = evidence
        self._hand = hand
        self._foreign = foreign
        # Where nobody counted, what the dictionaries have with a capital is often the start of a sentence.
        proper = evidence.proper if evidence.is_counted else frozenset()
        self._local = evidence.places | evidence.people | proper
        self._paired = evidence.places | proper
        self._keeps_unknown = evidence.language not in FULL
        self._letters = {fold(letter): letter for letter in hand.letters}

    def spellings(self, entry: str) -> tuple[str, tuple[Spelling, ...]]:
        """Return the reason and the spellings; none where the entry is left out."""
        if not self._is_of_alphabet(entry):
            return "script", ()
        if entry in self._hand.spelled:
            return "by hand", tuple(Spelling(text, STEPS * n) for n, text in enumerate(self._hand.spelled[entry]))
        if entry in self._hand.junk:
            return "junk", ()
        if len(entry) == 1 and not unicodedata.name(entry).startswith("HANGUL SYLLABLE"):
            return "letter", tuple(Spelling(self._letters[entry]) for _ in [0] if entry in self._letters)
        if any(mark in entry for mark in APOSTROPHES):
            return self._with_apostrophe(entry)
        return self._plain(entry)

    def _with_apostrophe(self, entry: str) -> tuple[str, tuple[Spelling, ...]]:
        if self._is_foreign(entry):
            return "unknown", ()
        is_possessive = self._evidence.language in POSSESSIVE_LANGUAGES and entry.endswith(POSSESSIVES)
        if is_possessive and not takes_possessive(entry[:-2]):
            # "the's". Those that are words ("it's") are written down by hand.
            return "apostrophe", ()
        mark = next(mark for mark in APOSTROPHES if mark in entry)
        head, _, tail = entry.partition(mark)
        if head in STEMS.get(self._evidence.language, ()) or (not tail and self._evidence.language in STEMS):
            found = self.spellings(tail)[1][:1] if tail else (Spelling(""),)
            return "elision", tuple(Spelling(head + mark + word.text) for word in found)
        for whole in (self._title(entry), self._title(head) + mark + self._title(tail) if head and tail else ""):
            is_name = whole in self._evidence.proper or whole in self._evidence.other_names
            if is_name and tail not in _CONTRACTIONS:
                return "name", (Spelling(whole),)
        reason, found = self.spellings(head) if head and tail else ("apostrophe", ())
        # An abbreviation of its own: Ukrainian "ім'я" is none of "ім.".
        found = tuple(one for one in found if not one.text.endswith("."))
        if entry in self._evidence.small and (not found or found[0].text == head):
            return "word", (Spelling(entry),)
        if not found and self._keeps_unknown:
            # No suffix: Ukrainian "п'ять", Hebrew "ג'ון".
            return self._plain(entry)
        if head in self._hand.junk:
            return "apostrophe", ()
        return reason, tuple(Spelling(found[0].text + mark + tail) for _ in found[:1])

    def _plain(self, entry: str) -> tuple[str, tuple[Spelling, ...]]:
        evidence, language = self._evidence, self._evidence.language
        uses = evidence.uses.get(entry, {})
        # The candidates, each in the spelling that is used most, or else that a dictionary has.
        spellings = self._small_spellings(entry, uses)
        small = max(spellings, key=lambda text: (uses.get(text, 0), text in evidence.small))
        titles = [titlecase(text, language) for text in spellings]
        title = max(titles, key=lambda text: (uses.get(text, 0), text in evidence.proper))
        capitals = uppercase(entry, language)
        used = {text: uses.get(text, 0.0) for text in (small, title, capitals)}
        others = [text for text in uses if text not in used and text != text.lower()]
        mixed = max(others, key=lambda text: uses[text], default="")
        # What the dictionaries and lists of names say of them.
        is_small = small in evidence.small or self._is_joined(small)
        is_strong = title in self._local
        as_name = used[title] - SENTENCE_STARTS * used[small]
        # "Berlin" is more frequent in German than anywhere, and a name everywhere.
        is_foreign = entry in self._foreign and not (self._keeps_unknown and as_name > WEAK_NAME * used[small])
        is_name = is_strong or (title in evidence.other_names and not is_foreign)
        if small == title:
            # A script without capitals.
            return ("word", (Spelling(small),)) if is_small else self._unknown(entry)
        # Neither small nor with one capital: "iPhone", "USA".
        if mixed and uses[mixed] > max(used[small], sum(used.values()) - used[small] / 2):
            return "name", (Spelling(mixed),)
        if capitals in self._hand.acronyms and (not is_small or used[capitals] > used[small]):
            return "acronym", (Spelling(capitals),)
        if is_small and not is_strong and title in evidence.nouns:
            # Tokenizers learnt the capitals of all languages together: "Reise" is German.
            return "word", (Spelling(small),)
        is_known = is_small and self._keeps_unknown
        if used[capitals] > used[small] + used[title] and len(entry) <= MAX_ACRONYM and not is_known:
            is_read = len(entry) > 2 and not set(entry) <= _ROMAN and self._is_common_name(used)
            return ("acronym", (Spelling(capitals),)) if is_read else ("unread acronym", ())
        if not is_small and not is_strong and self._is_fragment(entry):
            return "junk", ()
        # A name or noun.
        if title in evidence.places and as_name * 3 > used[small]:
            return self._order(title, as_name, small, used[small] if is_small else 0)
        if not uses:
            return self._by_dictionary(small, title, is_small=is_small, is_name=is_name)
        if as_name > used[small]:
            if is_small and not is_strong and as_name < WEAK_NAME * used[small]:
                return "word", (Spelling(small),)
            if not is_name and (entry in self._foreign or not self._is_common_name(used)):
                return ("word", (Spelling(small),)) if is_small else self._unknown(entry)
            return self._order(title, as_name, small, used[small] if is_small else 0)
        # A word, and perhaps a name as well.
        if not is_small and not self._is_common_word(entry, used[small]):
            return ("name", (Spelling(title),)) if is_name else self._unknown(entry)
        share = NOUN_SHARE if language == "de" else SECOND_SHARE
        is_second = used[small] > 0 and title in self._paired and as_name >= share * used[small]
        return "word", (Spelling(small), *([Spelling(title, _steps(as_name / used[small]))] if is_second else ()))

    def _order(self, title: str, as_name: float, small: str, as_word: float) -> tuple[str, tuple[Spelling, ...]]:
        if as_word < SMALL_SHARE * as_name:
            return "name", (Spelling(title),)
        return "both", (Spelling(title), Spelling(small, _steps(as_word / as_name)))

    def _by_dictionary(
        self, small: str, title: str, *, is_small: bool, is_name: bool
    ) -> tuple[str, tuple[Spelling, ...]]:
        if is_small and title in self._local:
            return "both", (Spelling(small), Spelling(title))
        if is_small:
            return "word", (Spelling(small),)
        return ("name", (Spelling(title),)) if is_name else self._unknown(small)

    def _is_of_alphabet(self, entry: str) -> bool:
        """Whether all letters are the language's; where no alphabet is written down, any are."""
        alphabet = self._hand.alphabet
        return not alphabet or all(
            char in alphabet or char in _JOINTS or unicodedata.name(char).split()[0] in alphabet for char in entry
        )

    def _is_foreign(self, entry: str) -> bool:
        return self._keeps_unknown and entry in self._foreign and entry not in self._evidence.small

    def _is_fragment(self, entry: str) -> bool:
        """Whether an unknown entry is cut off or abbreviated: without a vowel, or of two letters."""
        if not self._keeps_unknown:
            return False
        is_short = len(entry) == 2 and bool(self._evidence.small)
        return is_short or _VOWELS.isdisjoint(unicodedata.normalize("NFD", entry))

    def _unknown(self, entry: str) -> tuple[str, tuple[Spelling, ...]]:
        is_kept = self._keeps_unknown and entry not in self._foreign
        return ("word", (Spelling(entry),)) if is_kept else ("unknown", ())

    def _small_spellings(self, entry: str, uses: Mapping[str, float]) -> list[str]:
        """Return the entry, and in German the spellings that wordfreq has folded to it."""
        if self._evidence.language != "de" or "ss" not in entry:
            return [entry]
        known = {text.lower() for text in uses}
        sharp = entry.replace("ss", "ß")
        # "ß" is written in a list's entry only where a dictionary or a count has it.
        listed = {sharp} if sharp in self._evidence.small or titlecase(sharp, "de") in self._evidence.proper else set()
        return [entry, *sorted((known | listed) - {entry})]

    def _is_common_name(self, used: Mapping[str, float]) -> bool:
        """Whether an unknown name is common enough for the sources to lack it by mistake."""
        return sum(used.values()) > 2e-6 if self._evidence.is_counted else sum(used.values()) > 1e-5

    def _is_common_word(self, entry: str, used: float) -> bool:
        """Whether an unknown word is common enough for the sources to lack it by mistake."""
        if entry in self._foreign:
            return False
        return used > 2e-6 if self._evidence.is_counted else used > 1e-5

    def _is_joined(self, word: str) -> bool:
        """Whether a Spanish infinitive or gerund carries a pronoun: "hablarle"."""
        found = _ENCLITIC.fullmatch(word) if self._evidence.language == "es" else None
        return found is not None and found[1] in self._evidence.small

    def _title(self, entry: str) -> str:
        return titlecase(entry, self._evidence.language)


def _steps(share: float) -> int:
    return max(0, round(-STEPS * log10(min(share, 1.0))))
