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
from vocab.text.formats import NamedReport, percent, render_reports
from vocab.text.report import TextReport

WORDS = WordList("en", ("the", "cat", "sat", "on", "I", "elephant"), "file")
TEXT = "😀 The CAT & teh\nelephants: <b>42</b> Zoltan’s the"
NOT_ALLOWED = [("teh", 1, 12), ("elephants", 2, 16), ("b", 2, 28), ("b", 2, 34), ("Zoltan’s", 2, 37)]
"""The words of the text that are not allowed, each with its line and where it begins."""


def report(text: str, *new_words: str, extra_words: tuple[str, ...] = (), with_lemmas: bool = False) -> TextReport:
    checker = TextChecker(WORDS, ListOptions(numbers=True, possessive=True), 5, ListChanges(extra_words), new_words)
    return checker.check(text, with_lemmas=with_lemmas)


def as_json(text: str, *new_words: str, **options: Any) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(render_reports([NamedReport(None, report(text, *new_words, **options))], "json"))
    return found


class Page(HTMLParser):
    """The text of a page's texts, the elements in it, and whatever it would fetch."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.text = ""
        self.elements: list[tuple[str, str | None]] = []
        self.fetched: list[str] = []
        self._depth = 0
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.fetched += given.keys() & {"src", "href"}
        self._depth += tag == "div"
        if self._depth and tag != "div":
            self.elements.append((tag, given.get("class") or given["title"]))

    def handle_endtag(self, tag: str) -> None:
        self._depth -= tag == "div"

    def handle_data(self, data: str) -> None:
        self.text += data if self._depth else ""


def test_json_has_every_word_that_is_not_allowed_and_where_it_is() -> None:
    result = as_json(TEXT)
    words = [word for word in result["not_allowed"] if word["reason"] != "symbol"]
    assert [(word["word"], word["line"], word["start"]) for word in words] == NOT_ALLOWED
    assert words[0] == {
        "line": 1, "column": 13, "start": 12, "end": 15, "word": "teh", "rank": None, "lemma": None,
        "reason": "unknown", "nearest": [{"word": "the", "rank": 1}],
    }  # fmt: skip
    assert (words[1]["lemma"], words[1]["column"]) == ("elephant", 1)
    symbols = [(word["word"], word["nearest"]) for word in result["not_allowed"] if word["reason"] == "symbol"]
    assert symbols[:1] == [("😀", [])] and len(symbols) == result["num_symbols"] == 5
    assert (result["num_words"], result["num_allowed"], result["num_not_allowed"]) == (8, 3, 10)
    assert result["coverage"] == 3 / 13
    assert "words" not in result


def test_json_says_of_every_listed_word_its_rank_and_why_it_is_allowed() -> None:
    result = as_json("The the THE 42 Zoltan's", extra_words=("Zoltan",))
    assert [tuple(word.values()) for word in result["allowed"]] == [
        ("The", 1, "listed", 1), ("the", 1, "listed", 1), ("THE", 1, "capitals", 1), ("42", None, "number", 1),
        ("Zoltan's", None, "added", 1),
    ]  # fmt: skip
    assert [*result["allowed"][0]] == ["word", "rank", "reason", "count"]


def test_json_has_every_word_and_its_lemma_where_they_were_asked_for() -> None:
    words = as_json("The cats’ 42 elephant", with_lemmas=True)["words"]
    assert [tuple(word.values()) for word in words] == [
        (0, 3, 1, "listed", "the"), (4, 8, None, "unknown", "cat"), (10, 12, None, "number", None),
        (13, 21, 6, "rare", "elephant"),
    ]  # fmt: skip
    assert [*words[0]] == ["start", "end", "rank", "reason", "lemma"]


def test_new_words_are_neither_listed_nor_not() -> None:
    result = as_json("The Zoltan sat on Zoltan’s elephant", "Zoltan", "elephant")
    assert [(word["word"], word["reason"], word["rank"]) for word in result["new"]] == [
        ("Zoltan", "new", None), ("Zoltan’s", "new", None), ("elephant", "new", 6),
    ]  # fmt: skip
    assert result["new_words"] == [{"word": "Zoltan", "count": 2}, {"word": "elephant", "count": 1}]
    assert (result["not_allowed"], result["has_exactly_the_new_words"]) == ([], True)
    assert (result["num_words"], result["num_allowed"], result["num_new"]) == (6, 3, 3)
    assert (result["coverage"], result["coverage_with_new"]) == (1.0, 1.0)
    found = report("the dog and the cat", "dog")
    assert (found.coverage, found.coverage_with_new) == (3 / 4, 4 / 5)
    assert report("dog", "dog").coverage == 1.0


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


def test_csv_has_a_row_for_each_place_that_is_not_listed_and_no_formula() -> None:
    names = ("=1+1", "+1", "-1", "@SUM(1)", "\t=1", "\r=1", "\n=1", "＝1", "'=1")
    reports = [NamedReport("a,b", report(TEXT, "Zoltan")), *(NamedReport(name, report("zzz")) for name in names)]
    table = render_reports([*reports, NamedReport(None, report("zzz"))], "csv")
    rows = list(csv.DictReader(io.StringIO(table, newline="")))
    words = [row for row in rows if row["reason"] != "symbol"]
    assert len(rows) - len(words) == 5
    assert [(row["word"], int(row["line"]), int(row["start"])) for row in words[:5]] == NOT_ALLOWED
    assert [row["file"] for row in words] == [*["a,b"] * 5, *(f"'{name}" for name in names), ""]
    assert [(row["reason"], row["nearest"]) for row in words[:5]] == [
        ("unknown", "the"), *[("unknown", "")] * 3, ("new", ""),
    ]  # fmt: skip


def test_a_page_shows_the_text_with_its_words_marked() -> None:
    page = render_reports([NamedReport("<story>", report(TEXT, "Zoltan"))], "html")
    shown = Page(page)
    assert shown.text == TEXT
    assert shown.elements.count(("mark", "a symbol")) == 5
    listed, unlisted = ("span", "b1"), ("mark", "not in the list")
    assert [element for element in shown.elements if element[1] != "a symbol"] == [
        listed, listed, ("mark", "not in the list; nearest: the"), *[unlisted] * 3, ("ins", "new"), listed,
    ]  # fmt: skip
    assert shown.fetched == []
    assert "<h1>&lt;story&gt;</h1>" in page
    assert "3 words of rank" not in page
    assert "100% are in the list or new" not in page
    # No band is told by its colour alone.
    assert len(set(formats._LINES)) == len({line for _, line in formats._LINES}) == 7


@given(text=st.text() | st.text("the <&>\"'\n\r", max_size=40))
def test_a_page_shows_any_text_as_it_is(text: str) -> None:
    shown = Page(render_reports([NamedReport(None, report(text))], "html"))
    # A parser of HTML reads these as others.
    assert shown.text == text.replace("\x00", "\ufffd") or "\r" in text or "\x00" in text


def test_places_beyond_the_bound_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(formats, "MAX_PLACES", 2)
    result = as_json("a b c d")
    assert (len(result["not_allowed"]), result["num_not_allowed"]) == (2, 4)
    assert len(render_reports([NamedReport(None, report("a b c d"))], "csv").splitlines()) == 3


def test_a_share_is_100_percent_only_where_no_word_is_missing() -> None:
    assert (percent(0.99999), percent(1.0), percent(0.0)) == ("99.9%", "100%", "0.0%")
