"""What a person wrote down of each language, in ``by_hand/<language>.txt``; ``all.txt`` holds for every language, and
``second.txt`` for those of the second tier.

Sections, with words apart by blanks: ``[alphabet]``, the letters of the language's own words, or the Unicode name of
their script ("GREEK"); ``[letters]``, words of one letter; ``[junk]``, entries that are no words;
``[small]`` and ``[names]``, entries that are written so and only so; ``[both]``, two spellings, the commoner first;
``[acronyms]``, those of two letters and Roman numerals that count; ``[added]``, words that wordfreq lacks, with the
steps by which they are rarer than their rarest part (``word=50``; 100 where nothing is said); ``[harmless]``, words of
the profanity lists that anybody may read, and ``[unsafe]``, patterns of what those lists lack. In a language written
without spaces ``[words]`` are entries that stay, and an added word has its place in the list (``word=150``).

An added word may be a class of words: ``{twenty thirty}-{one two}=60`` has four, ``{anak orang}-{}=60`` those said
twice, and ``{mag nag}-*=50`` those that a dictionary has. ``_`` is a blank inside a word, and a full stop that ends one
is that of an abbreviation ("Mr.").
"""

import fnmatch
import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Final

FULL: Final = frozenset({"de", "en", "es", "fr"})
"""The first tier, where the dictionaries are complete enough to leave out what they lack. Elsewhere such entries stay,
unless another language has them far more often."""

FOLDER: Final = Path(__file__).with_name("by_hand")

_WORD: Final = re.compile(r"(?:\{[^{}]*\}|[^\s{}])+")
_SAME: Final = "{}"


@dataclass(frozen=True)
class Hand:
    """The sections of one language.

    ``spelled`` has the spellings of an entry, commonest first; ``classes`` the steps of dictionary words, by a pattern.
    """

    alphabet: frozenset[str] = frozenset()
    letters: frozenset[str] = frozenset()
    junk: frozenset[str] = frozenset()
    acronyms: frozenset[str] = frozenset()
    harmless: frozenset[str] = frozenset()
    unsafe: frozenset[str] = frozenset()
    words: frozenset[str] = frozenset()
    spelled: dict[str, tuple[str, ...]] = field(default_factory=dict)
    added: dict[str, int] = field(default_factory=dict)
    classes: dict[re.Pattern[str], int] = field(default_factory=dict)


def read_hand(language: str) -> Hand:
    texts: dict[str, str] = defaultdict(str)
    for name in ("all", *(() if language in FULL else ("second",)), language):
        section = ""
        file = FOLDER / f"{name}.txt"
        for line in file.read_text(encoding="utf-8").splitlines() if file.is_file() else ():
            if line.startswith("["):
                section = line.strip("[]")
            elif not line.startswith("#"):
                texts[section] += line + "\n"
    sections: dict[str, list[str]] = defaultdict(list, {name: _WORD.findall(text) for name, text in texts.items()})
    pairs = [tuple(both.split("/")) for both in sections["both"]]
    spelled: dict[str, tuple[str, ...]] = {_entry(word): (word,) for word in (*sections["small"], *sections["names"])}
    spelled |= {_entry(pair[0]): pair for pair in pairs}
    # What is named alone goes before what a class has.
    patterns = sorted((word.partition("=") for word in sections["added"]), key=lambda parts: "{" not in parts[0])
    added = {word: int(steps or 100) for pattern, _, steps in patterns for word in expand(pattern)}
    scripts = frozenset(word for word in sections["alphabet"] if word.isascii() and word.isupper())
    return Hand(
        scripts | frozenset("".join(word for word in sections["alphabet"] if word not in scripts)),
        frozenset(sections["letters"]),
        frozenset(sections["junk"]) - set(spelled),
        frozenset(sections["acronyms"]),
        frozenset(sections["harmless"]),
        frozenset(sections["unsafe"]),
        frozenset(sections["words"]),
        spelled,
        {word: steps for word, steps in added.items() if "*" not in word},
        {re.compile(fnmatch.translate(word)): steps for word, steps in added.items() if "*" in word},
    )


def expand(pattern: str) -> Iterator[str]:
    """Yield the words of a class: ``{a b}-{c d}`` has four; an empty pair of braces repeats the choice of the first."""
    parts = re.split("[{}]", pattern)
    choices = [part.split() or [_SAME] if place % 2 else [part] for place, part in enumerate(parts)]
    for chosen in product(*choices):
        yield "".join(chosen[1] if text == _SAME else text for text in chosen).replace("_", " ")


def _entry(spelling: str) -> str:
    """Return wordfreq's entry of a spelling: it has "mr" for "Mr."."""
    return fold(spelling).rstrip(".")


def fold(spelling: str) -> str:
    """Fold a spelling as wordfreq's lists are folded: small letters, and ss for ß."""
    return spelling.replace("İ", "i").lower().replace("ß", "ss")
