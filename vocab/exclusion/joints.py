"""What stands between words, as bytes, and which words it keeps apart from all others.

A word stands between *joints*: blanks, line breaks, marks, the dash that joins; before a word also the apostrophe of a
French, Italian or Catalan elision, behind it the English 's. A word without a joint of its own that stands between two
joints is read as that word, unless it is part of an entry with joints. It knows no list.
"""

from collections.abc import Iterable
from typing import Final, NamedTuple

from vocab import marks
from vocab.text.forms import ELISION_LANGUAGES, POSSESSIVE_LANGUAGES, Capitals, spellings

_DASHES: Final = frozenset(marks.SPACED_DASHES)
_POSSESSIVES: Final = tuple(apostrophe + marks.POSSESSIVE_LETTER for apostrophe in marks.APOSTROPHES)


class Joints(NamedTuple):
    """What stands before words and behind them, in bytes."""

    before: frozenset[bytes]
    behind: frozenset[bytes]

    @classmethod
    def of(cls, language: str) -> "Joints":
        """Of all marks, whatever the options: a joint that the options forbid is in no text."""
        gaps = marks.BLANK + marks.LINE_BREAK + marks.JOINING_DASH
        before = gaps + marks.OPEN_MARKS + (marks.APOSTROPHES if language in ELISION_LANGUAGES else "")
        behind = [*(gaps + marks.CLOSE_MARKS), *(_POSSESSIVES if language in POSSESSIVE_LANGUAGES else ())]
        return cls(frozenset(char.encode() for char in before), frozenset(text.encode() for text in behind))


def excluded_forms(entries: Iterable[str], language: str) -> set[str]:
    """All spellings of the entries with a capital or a small first letter, whether the options allow them or not."""
    capitals = Capitals(language)
    forms: set[str] = set()
    for entry in entries:
        for spelling in spellings(entry, has_possessive=False):
            forms.update((spelling, capitals.of(spelling) or spelling))
            small = {"İ": "i", "I": "ı"} if language in ("tr", "az") else {}
            letter = small.get(spelling[0], spelling[0].lower())
            if capitals.of(letter + spelling[1:]) == spelling:
                forms.add(letter + spelling[1:])
    if language in POSSESSIVE_LANGUAGES:
        # "dog's" is found with "dog": its 's is a joint.
        return {form for form in forms if not (form.endswith(_POSSESSIVES) and form[:-2] in forms)}
    return forms


def can_tell(forms: Iterable[str], joints: Joints, *, numbers: bool) -> bool:
    """Whether each form is without joints of its own and cannot be taken for a dash or a number."""
    parts = joints.before | joints.behind
    for form in forms:
        spelled = form.encode()
        is_number = numbers and any(char in marks.DIGITS for char in form)
        if form in _DASHES or is_number or any(part in spelled for part in parts):
            return False
    return True
