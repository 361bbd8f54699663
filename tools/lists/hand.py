"""What a person wrote down of each language, in ``by_hand/<language>.txt``; ``all.txt`` holds for every language, and
``second.txt`` for those of the second tier.

Sections, with words apart by blanks: ``[alphabet]``, the letters of the language's own words, or the Unicode name of
their script ("GREEK"); ``[letters]``, words of one letter; ``[junk]``, entries that are no words;
``[small]`` and ``[names]``, entries that are written so and only so; ``[both]``, two spellings, the commoner first;
``[acronyms]``, those of two letters and Roman numerals that count; ``[added]``, words that wordfreq lacks, with the
steps by which they are rarer than their rarest part (``word=50``; 100 where nothing is said); ``[harmless]``, words of
the profanity lists that anybody may read, and ``[unsafe]``, patterns of what those lists lack. In a language written
without spaces ``[words]`` are entries that stay, and an added word has its place in the list (``word=150``).
"""

from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

FULL: Final = frozenset({"de", "en", "es", "fr"})
"""The first tier, where the dictionaries are complete enough to leave out what they lack. Elsewhere such entries stay,
unless another language has them far more often."""

FOLDER: Final = Path(__file__).with_name("by_hand")


@dataclass(frozen=True)
class Hand:
    """The sections of one language; ``spelled`` has the spellings of an entry, commonest first."""

    alphabet: frozenset[str] = frozenset()
    letters: frozenset[str] = frozenset()
    junk: frozenset[str] = frozenset()
    acronyms: frozenset[str] = frozenset()
    harmless: frozenset[str] = frozenset()
    unsafe: frozenset[str] = frozenset()
    words: frozenset[str] = frozenset()
    spelled: dict[str, tuple[str, ...]] = field(default_factory=dict)
    added: dict[str, int] = field(default_factory=dict)


def read_hand(language: str) -> Hand:
    sections: dict[str, list[str]] = defaultdict(list)
    for name in ("all", *(() if language in FULL else ("second",)), language):
        section = ""
        file = FOLDER / f"{name}.txt"
        for line in file.read_text(encoding="utf-8").splitlines() if file.is_file() else ():
            if line.startswith("["):
                section = line.strip("[]")
            elif not line.startswith("#"):
                sections[section] += line.split()
    pairs = [tuple(both.split("/")) for both in sections["both"]]
    spelled: dict[str, tuple[str, ...]] = {fold(word): (word,) for word in (*sections["small"], *sections["names"])}
    spelled |= {fold(pair[0]): pair for pair in pairs}
    added = (word.partition("=") for word in sections["added"])
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
        {word: int(steps or 100) for word, _, steps in added},
    )


def fold(spelling: str) -> str:
    """Fold a spelling as wordfreq's lists are folded: small letters, and ss for ß."""
    return spelling.replace("İ", "i").lower().replace("ß", "ss")
