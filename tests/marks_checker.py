"""A checker of marks: finds stray, foreign, unpaired and empty ones in a finished text of ``punctuation: standard``.

It knows no words and nothing of the library: a small table says which marks four languages have, a regular expression
what may stand between two words, and a stack what is open. That the words are listed, ``tests.checker`` says.
"""

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import NamedTuple

BRACKETS = '"" ()'
MARKS_OF_LANGUAGES = {
    # Language: sentence marks, pauses, dashes, inverted marks, quotation marks.
    "en": (". ! ? …", ", ; :", "— –", "", "“”"),
    "es": (". ! ? …", ", ; :", "— –", "¿ ¡", "“” «»"),
    "de": (". ! ? …", ", ; :", "— –", "", "„“"),
    "fr": (". ! ? …", ", ; :", "— –", "", "«»"),
}
MOST_OPEN_PAIRS = 2

WORD = re.compile(
    r"""
    \d+ (?: [.,:] \d+ )* %? (?! [^\W_] )               # a number
    | (?: [^\W_] [\u0300-\u036f]* )+                    # or letters,
      (?: ['’-]+ (?: [^\W_] [\u0300-\u036f]* )+ )*      # joined by apostrophes and hyphens,
      ['’]?                                             # with an apostrophe behind
    """,
    re.VERBOSE,
)


class Table(NamedTuple):
    """A language's marks: all of them, its pairs, and what may stand before, between and behind words."""

    marks: frozenset[str]
    pairs: tuple[str, ...]
    before: re.Pattern[str]
    between: re.Pattern[str]
    after: re.Pattern[str]


@lru_cache
def table_of(lang: str, layout: str) -> Table:
    sentence, pauses, dashes, inverted, quotes = MARKS_OF_LANGUAGES[lang]
    pairs = (*quotes.split(), *BRACKETS.split())
    ends = "|".join(map(re.escape, ["...", "?!", "!?", *sentence.split()]))
    pause = "|".join(map(re.escape, pauses.split()))
    close_one = "[" + re.escape("".join(pair[1] for pair in pairs)) + "]"
    closing = f"{close_one}*"
    # „Why?“, she asked: a comma behind a pair that closed on a sentence mark.
    closed_end = f"(?:{ends}){close_one}+[,;]"
    opening = "[" + re.escape("".join(pair[0] for pair in pairs) + inverted.replace(" ", "")) + "]*"
    dash = "|".join([*(["—"] if "—" in dashes else []), *(f" {dash} " for dash in [*dashes.split(), "-"])])
    close = rf"(?P<close>{closing}(?:{closed_end}|{ends}|{pause})?{closing})"
    before_break = rf"(?:{ends}|:)" if layout == "prose" else rf"(?:{closed_end}|{ends}|{pause})?"
    line = rf"(?P<close_line>{closing}{before_break}{closing})\n\n?"
    return Table(
        frozenset("".join((sentence, pauses, dashes, inverted, *pairs, "-\n "))),
        pairs,
        re.compile(rf" ?(?P<open>{opening})"),
        re.compile(rf"(?:{line}|{close}(?: |{dash}))(?P<open>{opening})"),
        re.compile(close),
    )


def misplaced_marks(text: str, lang: str, *, layout: str = "prose", entries: Iterable[str] = ()) -> list[str]:
    """What is wrong with the marks of ``text``, in words; empty where nothing is.

    Args:
        text: A finished text.
        lang: One of ``MARKS_OF_LANGUAGES``.
        layout: ``lines`` allows line breaks behind any word.
        entries: Listed entries that have marks or blanks inside.
    """
    table = table_of(lang, layout)
    runs = WORD.split(_without_entries(text, entries))
    if len(runs) == 1:
        return ["no word"]
    return [*_misplaced(runs, table), *_unpaired(runs, table)]


def _misplaced(runs: list[str], table: Table) -> Iterator[str]:
    for number, run in enumerate(runs):
        pattern = table.before if number == 0 else table.after if number == len(runs) - 1 else table.between
        foreign = sorted(set(run) - table.marks)
        if foreign:
            yield f"foreign: {foreign} in {run!r}"
        elif any(pair in run.replace(" ", "") and not pattern.fullmatch(run) for pair in table.pairs):
            yield f"empty pair: {run!r}"
        elif not pattern.fullmatch(run):
            yield f"stray: {run!r}"
        elif re.search("([¿¡])[¿¡]?\\1|[¿¡]{3}", run):
            yield f"repeated: {run!r}"


def _unpaired(runs: list[str], table: Table) -> Iterator[str]:
    closes = {pair[1]: pair for pair in table.pairs}
    opens = {pair[0]: pair for pair in table.pairs}
    still_open: list[str] = []
    for number, run in enumerate(runs):
        closing, opening = _parts(run, number, len(runs), table)
        for mark in closing:
            pair = closes.get(mark)
            if pair and still_open and still_open[-1] == pair:
                still_open.pop()
            elif pair:
                yield f"unpaired: {mark} in {run!r}"
        for mark in opening:
            pair = opens.get(mark)
            if pair and (pair in still_open or len(still_open) == MOST_OPEN_PAIRS):
                yield f"nested: {mark} in {run!r}"
            elif pair:
                still_open.append(pair)
    if still_open:
        yield f"unpaired: {still_open} at the end"


def _parts(run: str, number: int, num_runs: int, table: Table) -> tuple[str, str]:
    """The closing and the opening marks of a run; none where it is out of order."""
    pattern = table.before if number == 0 else table.after if number == num_runs - 1 else table.between
    found = pattern.fullmatch(run)
    if not found:
        return "", ""
    named = found.groupdict()
    return named.get("close") or named.get("close_line") or "", named.get("open") or ""


def _without_entries(text: str, entries: Iterable[str]) -> str:
    """The text with a plain word in the place of each of these entries."""
    known = sorted(entries, key=len, reverse=True)
    if not known:
        return text
    # "etc..." is a word and three dots, not an abbreviation and two.
    return re.sub(
        rf"(?<!\w)(?:{'|'.join(map(re.escape, known))})(?!\w|(?<=\.)\.\.(?!\.))", "entry", text, flags=re.IGNORECASE
    )
