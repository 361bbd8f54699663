"""Put lines together again: sentences that go on over line ends, and words that are cut there with a hyphen."""

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from vocab.marks import APOSTROPHES, CLOSING_QUOTES, SENTENCE_MARKS

_FULL_LINE: Final = 0.6
"""A line that is shorter than this share of the longer ones ends a paragraph."""

_MAX_CUT_CHARS: Final = 200
"""Of a word that is cut at a line end; from each letter of a line, a search takes the square of their number."""

_CUT: Final = re.compile(r"([^\W\d_]+(?:-[^\W\d_]+)*)[-\u2010\u00ad]$")
_NOT_CUT: Final = frozenset({"und", "oder", "bzw", "and", "or", "och", "eller", "og", "en", "of", "ja", "tai"})
"""What follows a hyphen for which a part of a word is left out: "Vor- und Nachteile"."""
_WORD: Final = re.compile(r"[^\W\d_]+(?:-[^\W\d_]+)*")
ENDS_SENTENCE: Final = re.compile(rf"[{re.escape(SENTENCE_MARKS)}:][{re.escape(CLOSING_QUOTES + APOSTROPHES)}]*$")


def join_lines(lines: Sequence[str]) -> str:
    """Join the lines of a text: with a blank where a sentence goes on, and without where a word does.

    A hyphen at the end of a line stays where the word is written with it elsewhere in the text and not without.
    """
    lines = [line.strip() for line in lines if line.strip()]
    if not lines:
        return ""
    written = {word.lower() for line in lines for word in _WORD.findall(line)}
    # Not the longest: that may be a line of a table.
    full = _FULL_LINE * sorted(map(len, lines))[len(lines) * 9 // 10]
    pieces = [lines[0]]
    for before, line in pairwise(lines):
        if cut := _cut_between(before, line):
            pieces[-1] = pieces[-1][:-1] + ("-" if _keeps_hyphen(cut, before[-1], written) else "")
            pieces.append(line)
        else:
            goes_on = len(before) >= full and not ENDS_SENTENCE.search(before)
            pieces.append((" " if goes_on else "\n") + line)
    return "".join(pieces)


def join_cut_words(text: str) -> str:
    """Join the words of a plain text that are cut at line ends, by the rules of ``join_lines``; all else stays.

    A line ends after such a word, so that all lines keep their numbers but for those that had no more than its end.
    """
    written, lines = {word.lower() for word in _WORD.findall(text)}, text.split("\n")
    pieces = [lines[0]]
    for before, line in pairwise(lines):
        if cut := _cut_between(before.rstrip(), line.lstrip(" \t")):
            word, *rest = line.split(None, 1)
            kept = "-" if _keeps_hyphen(cut, before.rstrip()[-1], written) else ""
            pieces[-1:] = [pieces[-1].rstrip()[:-1] + kept, word, *("\n" + after for after in rest)]
        else:
            pieces.append("\n" + line)
    return "".join(pieces)


def _cut_between(before: str, line: str) -> tuple[str, str] | None:
    """Return the two parts of a word that is cut between two lines; None where there is none."""
    head, tail = _CUT.search(before[-_MAX_CUT_CHARS:]), _WORD.match(line)
    if head is None or tail is None or not tail[0][0].islower() or tail[0] in _NOT_CUT:
        return None
    return head[1], tail[0]


def _keeps_hyphen(cut: tuple[str, str], hyphen: str, written: set[str]) -> bool:
    """Return whether a word cut at a line end keeps its hyphen, by how the text writes it elsewhere."""
    head, tail = cut
    if hyphen == "\u00ad":
        return False
    with_hyphen, without = f"{head}-{tail}".lower(), (head + tail).lower()
    if (with_hyphen in written) != (without in written):
        return with_hyphen in written
    # "mother-in-" and "law".
    return "-" in head
