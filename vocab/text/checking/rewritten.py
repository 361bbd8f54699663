"""What differs between two texts, word by word."""

from difflib import SequenceMatcher
from typing import NamedTuple

from vocab.text.checking.checker import word_pattern


class Change(NamedTuple):
    """Words of a text from ``start`` to ``end``, in code points, and what stands in their place. One is empty where
    words were only added or left out."""

    start: int
    end: int
    before: str
    after: str

    def moved(self, offset: int) -> "Change":
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
