"""Put lines together again: sentences that go on over line ends, and words that are cut there with a hyphen."""

import re
from collections.abc import Iterable
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


def join_lines(lines: Iterable[str]) -> str:
    """Join the lines of a text, of which one at least is not blank, where a word or a sentence goes on."""
    joined = join_cut_words("\n".join(line.strip() for line in lines if line.strip())).split("\n")
    # Not the longest: that may be a line of a table.
    full = _FULL_LINE * sorted(map(len, joined))[len(joined) * 9 // 10]
    pieces = joined[:1]
    for before, line in pairwise(joined):
        goes_on = len(before) >= full and not ENDS_SENTENCE.search(before)
        pieces.append((" " if goes_on else "\n") + line)
    return "".join(pieces)


def join_cut_words(text: str) -> str:
    """Join the words of a text that are cut at line ends; all else stays.

    A hyphen stays where the word is written with it elsewhere in the text and not without. A line ends after such a
    word, so that all lines keep their numbers but for those that had no more than its end.
    """
    written, lines = {word.lower() for word in _WORD.findall(text)}, text.split("\n")
    pieces = lines[:1]
    for before, line in pairwise(lines):
        hyphen = _hyphen_between(before.rstrip(), line.lstrip(" \t"), written)
        if hyphen is None:
            pieces.append("\n" + line)
        else:
            word, *rest = line.split(None, 1)
            pieces[-1:] = [pieces[-1].rstrip()[:-1] + hyphen, word, *("\n" + after for after in rest)]
    return "".join(pieces)


def _hyphen_between(before: str, line: str, written: set[str]) -> str | None:
    """Return what stays of the hyphen of a word that is cut between two lines; None where none is cut."""
    head, tail = _CUT.search(before[-_MAX_CUT_CHARS:]), _WORD.match(line)
    if head is None or tail is None or not tail[0][0].islower() or tail[0] in _NOT_CUT:
        return None
    # "mother-in-" and "law".
    keeps = "-" in head[1]
    is_written = f"{head[1]}-{tail[0]}".lower() in written
    if is_written != ((head[1] + tail[0]).lower() in written):
        keeps = is_written
    return "-" if keeps and before[-1] != "\u00ad" else ""
