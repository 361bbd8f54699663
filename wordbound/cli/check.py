"""``wordbound check``: which words of a text are in a list, and where those are that are not."""

import csv
import io
import json
import sys
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from vocab.errors import VocabularyError
from vocab.options import ListOptions
from vocab.text.check import CheckedWord, TextChecker, TextReport
from wordbound.cli.lists import (
    ExcludeWordsOption,
    ExtraWordsOption,
    LangOption,
    ListOption,
    SafeOption,
    SourceOption,
    UnitOption,
    WordsOption,
    named_changes,
    named_list,
)

ALL_LISTED: Final = 0
NOT_ALL_LISTED: Final = 1
FAILED: Final = 2

STANDARD_INPUT: Final = "-"
FIELDS: Final = ("file", "line", "column", "start", "end", "word", "rank", "reason")
"""Of a row of CSV and of a word of JSON, there without the file; offsets count code points."""

_WHY: Final = {"rare": "rank {rank:,}", "excluded": "left out", "unknown": "not in the list"}


def check(
    files: Annotated[list[str], typer.Argument(metavar="FILE...", help="Plain text in UTF-8; - is standard input.")],
    lang: LangOption = None,
    source: SourceOption = "auto",
    safe: SafeOption = True,
    list_file: ListOption = None,
    words: WordsOption = None,
    unit: UnitOption = "form",
    extra_words: ExtraWordsOption = None,
    exclude_words: ExcludeWordsOption = None,
    numbers: Annotated[bool, typer.Option("--numbers/--no-numbers", help="Allow numbers in digits.")] = True,
    as_json: Annotated[bool, typer.Option("--json", help="Write a report of every file as JSON.")] = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="Write the words that are not allowed as CSV.")] = False,
) -> None:
    """Check texts against a word list.

    The exit status is 0 where all words are allowed, 1 where some are not, and 2 where a text could not be checked.
    """
    if as_json and as_csv:
        raise typer.BadParameter("choose one of --json and --csv")
    try:
        word_list = named_list(lang, list_file, source, safe, unit)
        changes = named_changes(extra_words, exclude_words)
        changes.check(word_list.language)
        checker = TextChecker(word_list, ListOptions(numbers=numbers), words or word_list.num_ranks, changes)
        texts = [(name, _read(name)) for name in files]
    except (VocabularyError, OSError, ValueError) as error:
        told = f"{error.filename}: {error.strerror}" if isinstance(error, OSError) else error
        print(f"wordbound check: {told}", file=sys.stderr)
        raise typer.Exit(FAILED) from None
    checked = [(name, text, checker.check(text)) for name, text in texts]
    if as_json:
        print(
            json.dumps([_as_dict(name, text, report) for name, text, report in checked], ensure_ascii=False, indent=1)
        )
    elif as_csv:
        sys.stdout.write(_csv(checked))
    else:
        for name, text, report in checked:
            print("\n".join(_lines(name, text, report)))
    raise typer.Exit(NOT_ALL_LISTED if any(report.not_allowed for _, _, report in checked) else ALL_LISTED)


def _read(name: str) -> str:
    data = sys.stdin.buffer.read() if name == STANDARD_INPUT else Path(name).read_bytes()
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ValueError(f"{name}: not a text in UTF-8; save it as plain text first") from None


def _lines(name: str, text: str, report: TextReport) -> Iterator[str]:
    yield (
        f"{name}: {report.num_words:,} words, {report.num_distinct_words:,} different;"
        f" {_percent(report.num_allowed, report.num_words)} of the words are in the list,"
        f" {_percent(report.num_distinct_allowed, report.num_distinct_words)} of the different ones"
    )
    least = 0
    for band in report.bands:
        if band.num_words:
            most = f"{least + 1:,} to {band.max_rank:,}" if band.max_rank else "all others"
            yield f"  {most:>16}  {band.num_words:>9,} running, {band.num_distinct_words:>7,} different"
        least = band.max_rank or least
    where = _Places(text)
    by_key: dict[str, list[CheckedWord]] = {}
    for word in report.not_allowed:
        by_key.setdefault(word.key, []).append(word)
    if by_key:
        yield "  not in the list:"
    for found in by_key.values():
        first = found[0]
        line, column = where.of(first.start)
        why = _WHY[first.reason].format(rank=first.rank) + (f", {len(found)} times" if len(found) > 1 else "")
        yield f"    {text[first.start : first.end]}  ({why}; {line}:{column})"


def _percent(part: int, whole: int) -> str:
    # Never 100% where a word is missing.
    return "100%" if part == whole else f"{int(1000 * part / whole) / 10}%"


def _as_dict(name: str, text: str, report: TextReport) -> dict[str, Any]:
    where = _Places(text)
    return {
        "file": name,
        "num_words": report.num_words,
        "num_allowed": report.num_allowed,
        "num_distinct_words": report.num_distinct_words,
        "num_distinct_allowed": report.num_distinct_allowed,
        "coverage": report.coverage,
        "bands": [band._asdict() for band in report.bands],
        "not_allowed": [dict(zip(FIELDS[1:], _row(text, where, word), strict=True)) for word in report.not_allowed],
    }


def _csv(checked: Iterable[tuple[str, str, TextReport]]) -> str:
    output = io.StringIO()
    writer = csv.writer(output, lineterminator="\n")
    writer.writerow(FIELDS)
    for name, text, report in checked:
        where = _Places(text)
        writer.writerows((name, *_row(text, where, word)) for word in report.not_allowed)
    return output.getvalue()


def _row(text: str, where: "_Places", word: CheckedWord) -> Sequence[Any]:
    return (*where.of(word.start), word.start, word.end, text[word.start : word.end], word.rank, word.reason)


class _Places:
    """The lines and columns of a text, both from 1."""

    def __init__(self, text: str) -> None:
        self._starts = [0, *(place + 1 for place, char in enumerate(text) if char == "\n")]

    def of(self, offset: int) -> tuple[int, int]:
        line = bisect_right(self._starts, offset)
        return line, offset - self._starts[line - 1] + 1
