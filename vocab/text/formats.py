"""Write what a check found as JSON, CSV or a page of HTML: the same bytes for the command line and for HTTP."""

import html
import json
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice, repeat
from typing import Any, Final, Literal, NamedTuple, TypeAlias, get_args

from vocab.text.report import ALLOWED, CheckedWord, TextReport, band_of

Format: TypeAlias = Literal["json", "csv", "html"]
FORMATS: Final[tuple[Format, ...]] = get_args(Format)

MAX_PLACES: Final = 100_000
"""Places of words that are not allowed, and as many of new ones, that a report lists; it counts the others. Costs 250
bytes each. A novel in another language has as many."""

FIELDS: Final = ("file", "line", "column", "start", "end", "word", "rank", "lemma", "reason", "nearest")
"""Of a row of CSV and of a word of JSON, there without the file; lines and columns count from 1, offsets from 0, in
code points."""


class NamedReport(NamedTuple):
    """A report of a text.

    Attributes:
        name: Of the text; None for one without.
        pointers: Of strings of JSON, each a line of the text, the JSON pointers; empty for other texts.
    """

    name: str | None
    report: TextReport
    pointers: tuple[str, ...] = ()


def render_reports(checked: Sequence[NamedReport], form: Format, *, with_sentences: bool = False) -> str:
    """Write reports: as a line of JSON each, with their sentences where asked for, as one table, or as one page."""
    if form == "json":
        return "".join(_json_line(named, with_sentences=with_sentences) for named in checked)
    return _csv(checked) if form == "csv" else "".join(_page(checked))


class TextLines:
    """The lines and columns of a text, both from 1."""

    def __init__(self, text: str) -> None:
        self._starts = [0, *(place + 1 for place, char in enumerate(text) if char == "\n")]

    def of(self, offset: int) -> tuple[int, int]:
        """Return the line and column of an offset."""
        line = bisect_right(self._starts, offset)
        return line, offset - self._starts[line - 1] + 1


def percent(share: float | None) -> str:
    """Format the share of listed words, cut to tenths: 100% only where none lacks; None is that of no words."""
    return "100%" if share is None or share >= 1 else f"{int(1000 * share) / 10}%"


def format_counts(report: TextReport) -> str:
    """Format a report's counts, for a page or a command: 120 words, 80 different."""
    symbols = f", {report.num_symbols:,} symbols" if report.num_symbols else ""
    return f"{report.num_words:,} words, {report.num_distinct_words:,} different{symbols}"


def why(word: CheckedWord) -> str:
    """Return why a word is not allowed, for people."""
    if word.reason == "rare":
        return f"rank {word.rank:,}"
    known = {"excluded": "left out", "new": "new", "name": "a name", "symbol": "a symbol"}
    return known.get(word.reason, "not in the list")


def _json_line(named: NamedReport, *, with_sentences: bool) -> str:
    report = named.report
    lines = TextLines(report.text)
    record: dict[str, Any] = {
        "object": "vocabulary.report",
        "file": named.name,
        "num_words": report.num_words,
        "num_allowed": report.num_allowed,
        "num_distinct_words": report.num_distinct_words,
        "num_distinct_allowed": report.num_distinct_allowed,
        "num_symbols": report.num_symbols,
        "coverage": report.coverage,
        "num_new": report.num_new,
        "coverage_with_new": report.coverage_with_new,
        "has_exactly_the_new_words": report.has_exactly_the_new_words,
        "bands": [band._asdict() for band in report.bands],
        "allowed": list(_allowed_rows(report)),
        "not_allowed": [_word(named, lines, word) for word in report.not_allowed[:MAX_PLACES]],
        "num_not_allowed": len(report.not_allowed),
        "new": [_word(named, lines, word) for word in report.new[:MAX_PLACES]],
        "new_words": [{"word": word, "count": count} for word, count in report.num_of_declared.items()],
        "num_names": report.num_names,
        "names": [{"word": word, "count": count} for word, count in report.names.items()],
    }
    if with_sentences:
        record["num_sentences"] = len(report.sentences)
        record["num_sentences_with_one"] = sum(len(lacking) == 1 for *_, lacking in report.sentences)
        record["sentences"] = [_sentence(report, lines, *one) for one in report.sentences[:MAX_PLACES]]
    if report.prompt_words is not None:
        record["prompt_words"] = [word.as_json() for word in report.prompt_words]
    if report.lemmas is not None:
        record["words"] = [
            {
                "start": word.start,
                "end": word.end,
                "rank": word.rank,
                "reason": word.reason,
                "lemma": report.lemmas[report.spelling(word)],
                **({} if report.readings is None else {"reading": reading}),
            }
            for word, reading in zip(report.words[:MAX_PLACES], report.readings or repeat(None), strict=False)
        ]
    return json.dumps(record, ensure_ascii=False, separators=(",", ":")) + "\n"


def _allowed_rows(report: TextReport) -> Iterator[dict[str, Any]]:
    counts = Counter((report.spelling(word), word.rank, word.reason) for word in report.words if word.reason in ALLOWED)
    for (spelling, rank, reason), count in counts.items():
        yield {"word": spelling, "rank": rank, "reason": reason, "count": count}


def _word(named: NamedReport, lines: TextLines, word: CheckedWord) -> dict[str, Any]:
    report = named.report
    note = report.note(word)
    line, column = lines.of(word.start)
    return {
        **({"pointer": named.pointers[line - 1]} if named.pointers else {}),
        "line": line,
        "column": column,
        "start": word.start,
        "end": word.end,
        "word": report.spelling(word),
        "rank": word.rank,
        "lemma": note.lemma,
        "reason": word.reason,
        "nearest": [{"word": listed, "rank": rank} for listed, rank in note.nearest],
    }


def _sentence(report: TextReport, lines: TextLines, start: int, end: int, lacking: Sequence[CheckedWord]) -> Any:
    words, text = [report.spelling(word) for word in lacking], report.text[start:end]
    place = {"start": start, "end": end, "line": lines.of(start)[0], "num_unlisted": len(words), "unlisted": words}
    return {**place, "text": text} if len(words) == 1 else place


def _csv(checked: Sequence[NamedReport]) -> str:
    table: list[Sequence[object]] = [FIELDS]
    for named in checked:
        report = named.report
        lines = TextLines(report.text)
        rows = (word for word in report.words if not word.is_allowed and word.reason != "name")
        for word in islice(rows, MAX_PLACES):
            record = _word(named, lines, word)
            nearest = "; ".join(listed["word"] for listed in record.pop("nearest"))
            record.pop("pointer", None)
            table.append((named.name, *record.values(), nearest))
    from vocab.csv_cells import write_csv

    return write_csv(table)


# A colour and a line each, so that no band is told by its colour alone. Dark, for text on white, and such as people
# see apart who do not see red and green apart.
_LINES: Final = (
    ("#00704f", "none"),
    ("#00704f", "1px dotted"),
    ("#005a94", "1px solid"),
    ("#005a94", "1px dashed"),
    ("#7a4fa3", "2px dotted"),
    ("#7a4fa3", "2px dashed"),
    ("#555", "3px double"),
)
_STYLE: Final = (
    "body{font:1.1em/1.7 Georgia,serif;max-width:44em;margin:2em auto;padding:0 1em;color:#222;background:#fff}"
    ".t{white-space:pre-wrap;overflow-wrap:break-word;border-top:1px solid #ccc;padding-top:1em}"
    "table{border-collapse:collapse;font-size:.9em}td,th{padding:0 1em 0 0;text-align:left;font-weight:normal}"
    "td.n{text-align:right}rt{color:#222}"
    "mark{background:#ffe3d6;color:#9a3000;font-weight:bold;text-decoration:underline wavy #d55e00}"
    "ins{background:#fff3b0;color:#5a4a00;text-decoration:underline double}"
    + "".join(
        f".b{index}{{color:{colour};border-bottom:{line}}}" for index, (colour, line) in enumerate(_LINES, start=1)
    )
)


def _page(checked: Sequence[NamedReport]) -> Iterator[str]:
    title = html.escape(", ".join(name for name, *_ in checked if name) or "A text and its words")
    # Nothing is fetched or run, whatever the text holds.
    policy = "default-src 'none'; style-src 'unsafe-inline'"
    yield (
        '<!DOCTYPE html>\n<html>\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        f"<title>{title}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n"
    )
    for name, report, _ in checked:
        yield f"<h1>{html.escape(name)}</h1>\n" if name else ""
        yield from _figures(report)
        yield '<div class="t" dir="auto">'
        yield from _mark_words(report)
        yield "</div>\n"
    yield "</body>\n</html>\n"


def _figures(report: TextReport) -> Iterator[str]:
    yield f"<p>{format_counts(report)}"
    if report.coverage is not None:
        yield f"; {percent(report.coverage)} of the words are in the list"
    if report.num_of_declared and report.coverage_with_new is not None:
        yield f"; {percent(report.coverage_with_new)} are in the list or new"
    yield ".</p>\n<table>\n<tr><th>words of rank</th><th>running</th><th>different</th></tr>\n"
    least = 0
    for index, band in enumerate(report.bands, start=1):
        name = f"{least + 1:,} to {band.max_rank:,}" if band.max_rank else "all others"
        yield (
            f'<tr><td><span class="b{index}">{name}</span></td><td class="n">{band.num_words:,}</td>'
            f'<td class="n">{band.num_distinct_words:,}</td></tr>\n'
        )
        least = band.max_rank or least
    for tag, label, words in (
        ("mark", "not in the list", report.not_allowed),
        ("ins", "new", report.new if report.num_of_declared else []),
        ("i", "names", [word for word in report.words if word.reason == "name"]),
    ):
        if words or tag == "mark":
            num_distinct = len({word.key for word in words})
            yield (
                f'<tr><td><{tag}>{label}</{tag}></td><td class="n">{len(words):,}</td>'
                f'<td class="n">{num_distinct:,}</td></tr>\n'
            )
    yield "</table>\n"


def _mark_words(report: TextReport) -> Iterator[str]:
    done = 0
    for word, reading in zip(report.words, report.readings or repeat(None), strict=False):
        yield html.escape(report.text[done : word.start], quote=False)
        spelling = html.escape(report.spelling(word), quote=False)
        if reading is not None:
            spelling = f"<ruby>{spelling}<rt>{html.escape(reading, quote=False)}</rt></ruby>"
        if word.is_allowed:
            band = f"b{band_of(word.rank) + 1}"
            yield spelling if word.reason == "number" else f'<span class="{band}">{spelling}</span>'
        else:
            tag = {"new": "ins", "name": "i"}.get(word.reason, "mark")
            yield f'<{tag} title="{html.escape(_hint(report, word))}">{spelling}</{tag}>'
        done = word.end
    yield html.escape(report.text[done:], quote=False)


def _hint(report: TextReport, word: CheckedWord) -> str:
    nearest = ", ".join(listed.word for listed in report.note(word).nearest)
    return why(word) + (f"; nearest: {nearest}" if nearest else "")
