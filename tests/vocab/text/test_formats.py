"""A report is written as JSON, CSV and HTML, each whole by itself."""

import csv
import io
import json
from html.parser import HTMLParser
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vocab.lists.wordlists import WordList
from vocab.options import ListOptions
from vocab.text import formats
from vocab.text.changes import ListChanges
from vocab.text.checker import TextChecker
from vocab.text.formats import NamedReport, Places, percent, render_reports
from vocab.text.report import TextReport

WORDS = WordList("en", ("the", "cat", "sat", "on", "I", "elephant"), "file")
TEXT = "😀 The CAT & teh\nelephants: <b>42</b> Zoltan’s the"


def report(
    text: str = TEXT,
    *new_words: str,
    n_words: int = 5,
    extra_words: tuple[str, ...] = (),
    with_lemmas: bool = False,
) -> TextReport:
    checker = TextChecker(WORDS, ListOptions(numbers=True), n_words, ListChanges(extra_words), new_words)
    return checker.check(text, with_lemmas=with_lemmas)


def as_json(*reports: TextReport) -> list[dict[str, Any]]:
    lines = render_reports([NamedReport(None, each) for each in reports], "json").splitlines()
    return [json.loads(line) for line in lines]


class Page(HTMLParser):
    """The text of a page's texts, the elements in it, and whatever it would fetch."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.text = ""
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.fetched: list[str] = []
        self._depth = 0
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.fetched += [name for name in ("src", "href") if name in given]
        self._depth += tag == "div"
        if self._depth and tag != "div":
            self.elements.append((tag, given))

    def handle_endtag(self, tag: str) -> None:
        self._depth -= tag == "div"

    def handle_data(self, data: str) -> None:
        self.text += data if self._depth else ""


def test_json_has_every_word_that_is_not_allowed_and_where_it_is() -> None:
    [result] = as_json(report())
    words = [word for word in result["not_allowed"] if word["reason"] != "symbol"]
    assert [(word["word"], word["start"], word["end"]) for word in words] == [
        ("teh", 12, 15),
        ("elephants", 16, 25),
        ("b", 28, 29),
        ("b", 34, 35),
        ("Zoltan’s", 37, 45),
    ]
    assert words[0] == {
        "line": 1, "column": 13, "start": 12, "end": 15, "word": "teh", "rank": None, "lemma": None,
        "reason": "unknown", "nearest": [{"word": "the", "rank": 1}],
    }  # fmt: skip
    assert words[1]["lemma"] == "elephant"
    symbols = [(word["word"], word["nearest"]) for word in result["not_allowed"] if word["reason"] == "symbol"]
    assert symbols[:1] == [("😀", [])] and len(symbols) == result["num_symbols"] == 5
    assert (result["num_words"], result["num_allowed"], result["num_not_allowed"]) == (8, 3, 10)
    assert result["coverage"] == 3 / 13


def test_json_says_of_every_listed_word_its_rank_and_why_it_is_allowed() -> None:
    [result] = as_json(report("The the THE 42 Zoltan's", extra_words=("Zoltan",)))
    assert result["allowed"] == [
        {"word": "The", "rank": 1, "reason": "listed", "count": 1},
        {"word": "the", "rank": 1, "reason": "listed", "count": 1},
        {"word": "THE", "rank": 1, "reason": "capitals", "count": 1},
        {"word": "42", "rank": None, "reason": "number", "count": 1},
        {"word": "Zoltan's", "rank": None, "reason": "added", "count": 1},
    ]


def test_json_has_every_word_and_its_lemma_where_they_were_asked_for() -> None:
    text = "The cats’ 42 elephant"
    [result] = as_json(report(text, with_lemmas=True))
    assert result["words"] == [
        {"start": 0, "end": 3, "rank": 1, "reason": "listed", "lemma": "the"},
        {"start": 4, "end": 8, "rank": None, "reason": "unknown", "lemma": "cat"},
        {"start": 10, "end": 12, "rank": None, "reason": "number", "lemma": None},
        {"start": 13, "end": 21, "rank": 6, "reason": "rare", "lemma": "elephant"},
    ]
    [result] = as_json(report(text))
    assert "words" not in result


def test_new_words_are_neither_listed_nor_not() -> None:
    [result] = as_json(report("The Zoltan sat on Zoltan’s elephant", "Zoltan", "elephant"))
    assert [(word["word"], word["reason"], word["rank"]) for word in result["new"]] == [
        ("Zoltan", "new", None), ("Zoltan’s", "new", None), ("elephant", "new", 6),
    ]  # fmt: skip
    assert result["new_words"] == [{"word": "Zoltan", "count": 2}, {"word": "elephant", "count": 1}]
    assert (result["not_allowed"], result["has_exactly_the_new_words"]) == ([], True)
    assert (result["num_words"], result["num_allowed"], result["num_new"]) == (6, 3, 3)
    assert (result["coverage"], result["coverage_with_new"]) == (1.0, 1.0)


@pytest.mark.parametrize(
    ("text", "new_words", "expected"),
    [
        ("the cat", (), True),
        ("the dog", (), False),
        ("the dog", ("dog",), True),
        ("the dog", ("dog", "horse"), False),
        ("the dog, the cow", ("dog",), False),
        # A listed word is no new one.
        ("the cat", ("cat",), False),
        ("in the dog’s house", ("dog’s house",), False),
        ("the dog’s house", ("dog's house",), True),
    ],
)
def test_a_report_says_whether_the_new_words_are_all_that_is_missing(
    text: str, new_words: tuple[str, ...], expected: bool
) -> None:
    assert report(text, *new_words).has_exactly_the_new_words is expected


def test_coverage_is_given_with_and_without_new_words() -> None:
    found = report("the dog and the cat", "dog")
    assert (found.coverage, found.coverage_with_new) == (3 / 4, 4 / 5)
    assert report("dog", "dog").coverage == 1.0


def test_no_cell_of_csv_is_a_formula() -> None:
    for name in ("=1+1", "+1", "-1", "@SUM(1)", "\t=1", "\r=1", "\n=1", "＝1", "'=1"):
        _, row, *_ = csv.reader(io.StringIO(render_reports([NamedReport(name, report("zzz"))], "csv"), newline=""))
        assert row[0] == f"'{name}"


def test_csv_has_a_row_for_each_place_that_is_not_listed() -> None:
    table = render_reports([NamedReport("a,b", report(TEXT, "Zoltan")), NamedReport(None, report("zzz"))], "csv")
    rows = list(csv.DictReader(io.StringIO(table)))
    assert sum(row["reason"] == "symbol" for row in rows) == 5
    assert [
        (row["file"], row["line"], row["start"], row["word"], row["reason"], row["nearest"])
        for row in rows
        if row["reason"] != "symbol"
    ] == [
        ("a,b", "1", "12", "teh", "unknown", "the"),
        ("a,b", "2", "16", "elephants", "unknown", ""),
        ("a,b", "2", "28", "b", "unknown", ""),
        ("a,b", "2", "34", "b", "unknown", ""),
        ("a,b", "2", "37", "Zoltan’s", "new", ""),
        ("", "1", "0", "zzz", "unknown", ""),
    ]


def test_a_page_shows_the_text_with_its_words_marked() -> None:
    page = render_reports([NamedReport("<story>", report(TEXT, "Zoltan"))], "html")
    shown = Page(page)
    assert shown.text == TEXT
    elements = [(tag, given.get("class") or given["title"]) for tag, given in shown.elements]
    assert elements.count(("mark", "a symbol")) == 5
    assert [element for element in elements if element[1] != "a symbol"] == [
        ("span", "b1"),
        ("span", "b1"),
        ("mark", "not in the list; nearest: the"),
        ("mark", "not in the list"),
        ("mark", "not in the list"),
        ("mark", "not in the list"),
        ("ins", "new"),
        ("span", "b1"),
    ]
    assert shown.fetched == []
    assert "<h1>&lt;story&gt;</h1>" in page
    assert "3 words of rank" not in page
    assert "100% are in the list or new" not in page


@given(text=st.text() | st.text("the <&>\"'\n\r", max_size=40))
def test_a_page_shows_any_text_as_it_is(text: str) -> None:
    shown = Page(render_reports([NamedReport(None, report(text))], "html"))
    # A parser of HTML reads these as others.
    assert shown.text == text.replace("\x00", "\ufffd") or "\r" in text or "\x00" in text


def test_no_band_is_told_by_its_colour_alone() -> None:
    assert len(set(formats._LINES)) == len({line for _, line in formats._LINES}) == 7


def test_places_beyond_the_bound_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(formats, "MAX_PLACES", 2)
    [result] = as_json(report("a b c d"))
    assert (len(result["not_allowed"]), result["num_not_allowed"]) == (2, 4)
    assert len(render_reports([NamedReport(None, report("a b c d"))], "csv").splitlines()) == 3


def test_lines_and_columns_count_code_points_from_one() -> None:
    places = Places("😀a\n\nb")
    assert [places.of(offset) for offset in (0, 1, 2, 3, 4)] == [(1, 1), (1, 2), (1, 3), (2, 1), (3, 1)]


def test_a_share_is_100_percent_only_where_no_word_is_missing() -> None:
    assert (percent(0.99999), percent(1.0), percent(0.0)) == ("99.9%", "100%", "0.0%")
