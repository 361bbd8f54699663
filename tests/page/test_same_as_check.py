"""What the page says of a text is what ``check`` says: every word, its place, rank and reason, and the counts."""

from collections.abc import Iterator
from functools import cache
from itertools import groupby
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.page.texts import LANGUAGES, NUM_TEXTS, texts
from vocab.lists.wordlists import load_word_list
from vocab.options import ListOptions
from vocab.text.checker import TextChecker
from vocab.text.report import BANDS, TextReport, band_of

pytestmark = pytest.mark.e2e

N_WORDS = 1_000
"""What the page has by default."""

SHOWN = """() => {
    let begin = 0;
    return [...document.querySelectorAll('.words .line')].flatMap(line => {
        const start = begin;
        // A space without width holds an empty line open.
        begin += line.textContent.replace(/^\u200b$/, '').length + 1;
        return [...line.querySelectorAll('.word')].map(word => {
            const before = new Range();
            before.setStart(line, 0);
            before.setEndBefore(word);
            const at = start + before.toString().length;
            return [
                word.textContent, at, at + word.textContent.length,
                word.dataset.rank === '' ? null : +word.dataset.rank, word.dataset.reason, +word.dataset.band,
            ];
        });
    });
}"""

COUNTS = "() => [...document.querySelectorAll('.bands .number')].map(cell => +cell.textContent)"


@cache
def reports() -> dict[str, list[TextReport]]:
    """What ``wordbound check --words 1000`` makes of the texts, by language."""
    options = ListOptions(numbers=True)
    return {
        lang: [checker.check(text, folds=True) for _, text in group]
        for lang, group in groupby(texts(), key=lambda pair: pair[0])
        if (checker := TextChecker(load_word_list(lang, None), options, N_WORDS))
    }


def expected_words(report: TextReport) -> Iterator[list[Any]]:
    """The words as the page has them, whose strings count in units of UTF-16."""
    for word in report.words:
        start, end = (len(report.text[:place].encode("utf-16-le")) // 2 for place in (word.start, word.end))
        yield [report.spelling(word), start, end, word.rank, word.reason, band_of(word.rank)]


def test_the_texts_are_what_they_are_for() -> None:
    assert sum(map(len, reports().values())) == NUM_TEXTS
    assert tuple(reports()) == LANGUAGES
    for of_language in reports().values():
        reasons = {word.reason for report in of_language for word in report.words}
        assert reasons >= {"listed", "rare", "unknown", "number"}
        assert any(max(report.text) > "\uffff" for report in of_language)
        assert {band_of(word.rank) for report in of_language for word in report.words} == {*range(len(BANDS) + 1)}


@pytest.mark.parametrize("lang", LANGUAGES)
def test_the_page_says_of_a_text_what_check_says(page: Page, lang: str) -> None:
    page.get_by_label("Language").first.select_option(lang)
    area = page.get_by_role("textbox", name="Text", exact=True)
    result = page.get_by_label("What the text is made of")
    for report in reports()[lang]:
        with page.expect_response("**/v1/vocabularies/check"):
            area.fill(report.text)
        expect(result).to_have_attribute("aria-busy", "false")
        assert page.evaluate(SHOWN) == list(expected_words(report))
        assert page.evaluate(COUNTS) == [band.num_words for band in report.bands]
        expect(result.get_by_text(f"{report.num_words} words, {report.num_distinct_words} different")).to_be_visible()
    expect(area).to_have_css("direction", "rtl" if lang in ("fa", "he") else "ltr")
