"""What a rewriting of a text asks for: the names in it, which stay, and what it changed, word by word."""

from collections.abc import Set
from difflib import SequenceMatcher
from typing import Final, NamedTuple

from vocab.marks import APOSTROPHES, POSSESSIVE_LETTER
from vocab.text.checking.checker import word_pattern
from vocab.text.checking.report import TextReport
from vocab.text.sentences import sentence_spans

_POSSESSIVES: Final = tuple(mark + POSSESSIVE_LETTER for mark in APOSTROPHES)


def names_in(text: str, report: TextReport, known: Set[str]) -> list[str]:
    """Return the names of a checked text, sorted, without the English 's.

    A word at the beginning of a sentence is one where the text has it inside a sentence too, or where the ``known``
    words, a list's that has capitals, have it with a capital only.
    """
    starts = [start for start, _ in sentence_spans(text)]
    inside: set[str] = set()
    first: set[str] = set()
    for word in report.not_allowed:
        written = text[word.start : word.end]
        # A circled letter is upper case too.
        if not (written[:1].isupper() and written[:1].isalpha()) or word.reason == "excluded":
            continue
        start = max((start for start in starts if start <= word.start), default=0)
        name = written[:-2] if written.endswith(_POSSESSIVES) else written
        (inside if any(map(str.isalnum, text[start : word.start])) else first).add(name)
    return sorted(inside | {name for name in first if name in known and name.lower() not in known})


class Change(NamedTuple):
    """Words of a text from ``start`` to ``end``, in code points, and what stands in their place. One is empty where
    words were only added or left out."""

    start: int
    end: int
    before: str
    after: str

    def shift(self, offset: int) -> "Change":
        """Return it as of a text in which there is so much more before it."""
        return self._replace(start=self.start + offset, end=self.end + offset)


def changes_between(before: str, after: str) -> list[Change]:
    """Return the changes that make one text of another, in their order; capitals count, marks do not."""
    old, new = ([match.span() for match in word_pattern().finditer(text)] for text in (before, after))
    matcher = SequenceMatcher(
        None, [before[start:end] for start, end in old], [after[start:end] for start, end in new], autojunk=False
    )
    found = []
    for kind, first, last, new_first, new_last in matcher.get_opcodes():
        if kind == "equal":
            continue
        start = old[first][0] if first < len(old) else len(before)
        end = old[last - 1][1] if last > first else start
        written = after[new[new_first][0] : new[new_last - 1][1]] if new_last > new_first else ""
        found.append(Change(start, end, before[start:end], written))
    return found
