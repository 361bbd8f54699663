"""Fold how a word is spelt to how lists spell it: other apostrophes and hyphens, ligatures, full width, vowel marks.

For the second look of checks at words that are unlisted as they are spelt; masks and readers are exact.
"""

import re
import unicodedata
from collections.abc import Iterator
from typing import Final

from vocab.marks import APOSTROPHES

MAX_CHARS: Final = 100
"""Of a word that is folded, as long as an entry of a request may be."""

_APOSTROPHES: Final = "´`‘ʼ′＇‛ʻʹ՚׳"
_HYPHENS: Final = "\u2010\u2011\u05be\ufe63\uff0d"
_DOTS: Final = "·‧"
"""Which plain German has inside long words: Haus·tier."""
# Points and accents of Hebrew, vowel signs of Arabic, and the tatweel.
_LEFT_OUT: Final = re.compile(
    "[\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7\u0610-\u061a\u0640\u064b-\u0652\u0670"
    "\u06d6-\u06dc\u06df-\u06e4\u06e7\u06e8\u06ea-\u06ed]"
)
# Ligatures and digraphs, presentation forms of Hebrew and Arabic, full and half width.
_OTHER_SHAPES: Final = re.compile(
    "[\u0132\u0133\u0140\u0149\u017f\u01c4-\u01cc\ufb00-\ufdff\ufe70-\ufefc\uff01-\uff0c\uff0e-\uffdc]"
)
FOLDED: Final = re.compile(f"[{_APOSTROPHES}{_HYPHENS}{_DOTS}]|{_LEFT_OUT.pattern}|{_OTHER_SHAPES.pattern}|SS")
"""What a word has that is folded."""

_AS_APOSTROPHE: Final = str.maketrans(dict.fromkeys(_APOSTROPHES, APOSTROPHES[0]))
_AS_ONE_WORD: Final = str.maketrans(dict.fromkeys(_HYPHENS, "-") | dict.fromkeys(_DOTS, ""))

JOINT: Final = re.compile(f"[{_APOSTROPHES}{_HYPHENS}{_DOTS}]?")
"""What may stand between two words that are one when they are folded."""
EDGE: Final = frozenset(_APOSTROPHES + APOSTROPHES)
"""What a word may begin or end with."""


def foldings(word: str, language: str) -> Iterator[str]:
    """Yield the ways to fold a word, the likeliest first; none for one that is long."""
    if len(word) > MAX_CHARS:
        return
    shaped = _OTHER_SHAPES.sub(lambda found: unicodedata.normalize("NFKC", found[0]), word.translate(_AS_APOSTROPHE))
    parted = _LEFT_OUT.sub("", shaped)
    folded = parted.translate(_AS_ONE_WORD)
    # Parted, "don´t‑ask" may be two words.
    yield from (way for way in dict.fromkeys((folded, parted)) if way != word)
    if language == "de" and folded.isupper():
        yield from (f"{folded[: match.start()]}ß{folded[match.end() :]}" for match in re.finditer("SS", folded))
