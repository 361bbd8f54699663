"""Where the sentences of any text are: for tools that take a text sentence by sentence.

A sentence ends after a sentence mark, with the quotation marks and brackets that close there, where no small letter
follows: ``"Why?" she said.`` is one. In Chinese and Japanese no blank follows, and where a comma or, after a quotation,
``と`` does, the sentence goes on. Blank lines end one, and so do line breaks, but for those of a text that is
wrapped at some width.
"""

import re
from typing import Final

from vocab.marks import APOSTROPHES, CLOSING_QUOTES, OPEN_MARKS, SENTENCE_MARKS, UNSPACED_SENTENCE_MARKS

_WRAPPED_CHARS: Final = 50
"""A shorter line was broken for its own sake."""

_ABBREVIATIONS: Final = frozenset(
    (
        *("mr", "mrs", "ms", "dr", "st", "prof", "rev", "capt", "col", "gen", "lt", "sgt", "jr", "sr", "esq"),
        *("vs", "etc", "no", "fig", "vol", "cf", "hr", "fr", "sra", "mme", "mlle", "bzw", "usw"),
    )
)

_QUOTES: Final = re.escape(CLOSING_QUOTES + APOSTROPHES)
_END: Final = re.compile(rf"[{re.escape(SENTENCE_MARKS)}]+[{_QUOTES}]*(?=\s|$)")
_WIDE_QUOTES: Final = "」』》）”’"
_WIDE_LETTER: Final = "\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_WIDE_END: Final = re.compile(
    rf"(?:…*[{UNSPACED_SENTENCE_MARKS}][{UNSPACED_SENTENCE_MARKS}…]*+|…++(?=[{_WIDE_QUOTES}]*[{_WIDE_LETTER}「『《（“‘]))"
    rf"(?:[{_WIDE_QUOTES}]++(?![と，、；：])|(?![{_WIDE_QUOTES}，、；：]))"
)
_BREAK: Final = re.compile(r"[^\S\n]*\n\s*")
_LAST_WORD: Final = re.compile(r"([^\W\d_]+)\.$")
_OPENING: Final = frozenset(OPEN_MARKS + CLOSING_QUOTES + APOSTROPHES)


def sentence_spans(text: str) -> list[tuple[int, int]]:
    """Return (start, end) of each sentence, in code points, without the blanks around it."""
    spans, start = [], 0
    for end in [*_ends(text), len(text)]:
        begin, last = start, end
        while begin < last and text[begin].isspace():
            begin += 1
        while last > begin and text[last - 1].isspace():
            last -= 1
        if begin < last:
            spans.append((begin, last))
        start = end
    return spans


def sentence_around(text: str, start: int, end: int) -> tuple[int, int]:
    """Return (start, end) of the sentence around a part of a text; from the first to the last of several."""
    spans = [span for span in sentence_spans(text) if span[1] > start and span[0] < end]
    return spans[0][0], spans[-1][1]


def _ends(text: str) -> list[int]:
    marks = [match.end() for match in _END.finditer(text) if _is_end(text, match)]
    marks += [match.end() for match in _WIDE_END.finditer(text)]
    breaks = [match.start() for match in _BREAK.finditer(text) if _is_break(text, match)]
    return sorted({*marks, *breaks})


def _is_end(text: str, match: re.Match[str]) -> bool:
    following = text[match.end() : match.end() + 40].lstrip()
    while following[:1] in _OPENING and following:
        following = following[1:]
    if following[:1].islower():
        return False
    # "Mr. Smith", "J. R. Smith"
    word = _LAST_WORD.search(text, max(match.start() - 20, 0), match.start() + 1) if match[0] == "." else None
    return word is None or not (word[1].lower() in _ABBREVIATIONS or (len(word[1]) == 1 and word[1] not in "IO"))


def _is_break(text: str, match: re.Match[str]) -> bool:
    if match[0].count("\n") > 1:
        return True
    line = text[text.rfind("\n", 0, match.start()) + 1 : match.start()]
    return len(line) < _WRAPPED_CHARS or line[-1:] == ":"
