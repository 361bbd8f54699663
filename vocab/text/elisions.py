"""Where French, Italian and Catalan elide: "l'" stands before a vowel, or before an h that is not sounded.

Which French words have an *h aspiré* is what its dictionaries say; where they differ ("hululer") nothing is elided.
Names keep the rule of their letters, as most writers do both: "d'Henri", "de Henri".
"""

import re
import unicodedata
from functools import lru_cache
from typing import Final

from vocab.marks import APOSTROPHES

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
    """Return whether a word that begins so may follow an elision, by the rules of its language."""
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
