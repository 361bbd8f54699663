"""The Exercises tab: made from a text, changed, printed and saved, stopped, and in a language from right to left."""

import io
import re
import zipfile
from pathlib import Path

import pytest
from docx import Document
from playwright.sync_api import Locator, Page, expect

from tests.page.axe import assert_accessible
from tests.page.browser import DARK, DARK_PHONE, DESKTOP, Faults, View, is_wider_than_its_window

pytestmark = pytest.mark.e2e

STORY = "The man went to the house. He saw the water there. It was a very good day. Then he came back home."
KINDS = ("Questions", "True or false", "Gaps", "Matching", "Order", "Dictation")


@pytest.fixture
def tab(page: Page) -> Page:
    page.get_by_role("tab", name="Exercises").click()
    return page


def make(page: Page, text: str, *kinds: str, num_items: int = 2) -> Locator:
    """Have exercises made, and return where they are."""
    page.get_by_label("Text for exercises", exact=True).fill(text)
    choose(page, *kinds)
    page.get_by_label("Items of each").fill(str(num_items))
    page.get_by_role("button", name="Make exercises").click()
    expect(page.get_by_text(re.compile("ready"))).to_be_visible(timeout=120_000)
    return page.get_by_role("region", name="Exercises", exact=True)


def choose(page: Page, *kinds: str) -> None:
    for kind in KINDS:
        page.get_by_role("checkbox", name=kind).set_checked(kind in kinds)


def items_of(page: Page, kind: str) -> Locator:
    return page.get_by_role("region", name=kind, exact=True).get_by_role("listitem")


def open_dialog(page: Page) -> Locator:
    page.get_by_role("button", name="Print or save").click()
    return page.get_by_role("dialog", name="Print or save")


def test_exercises_of_every_kind_are_made_from_a_text_of_write(page: Page) -> None:
    page.get_by_label("Text", exact=True).fill(STORY)
    page.get_by_role("button", name="Exercises", exact=True).click()
    expect(page.get_by_role("tab", name="Exercises")).to_be_focused()
    expect(page.get_by_label("Text for exercises", exact=True)).to_have_value(STORY)
    sheet = make(page, STORY, *KINDS)
    told = " ".join(sheet.get_by_text("Fewer items than asked for").all_inner_texts())
    for kind in KINDS:
        number = items_of(page, kind).count()
        assert number == 2 or f"{kind} {number}" in told
    expect(page.get_by_label("Instruction of Order")).to_have_value("What comes first?")
    expect(items_of(page, "Dictation").first).to_contain_text("He saw the water there.")


def test_items_are_removed_and_the_rest_is_kept(tab: Page) -> None:
    make(tab, STORY, "Order", "Dictation", num_items=3)
    dictated = items_of(tab, "Dictation")
    tab.get_by_label("Show the answers").uncheck()
    expect(dictated.get_by_role("img", name="Line to write on")).to_have_count(3)
    tab.get_by_label("Show the answers").check()
    last = dictated.nth(2).get_by_role("button", name="Remove item 3")
    last.focus()
    tab.keyboard.press("Enter")
    expect(dictated.nth(1).get_by_role("button")).to_be_focused()
    tab.keyboard.press("Enter")
    tab.keyboard.press("Enter")
    # The focus went to the other exercise, which needs two sentences.
    expect(items_of(tab, "Order")).to_have_count(3)
    expect(dictated).to_have_count(0)
    expect(items_of(tab, "Order").nth(2).get_by_role("button")).to_be_focused()
    tab.keyboard.press("Enter")
    expect(items_of(tab, "Order")).to_have_count(2)
    assert sorted(items_of(tab, "Order").locator(".answer").all_inner_texts()) == ["1", "2"]
    tab.get_by_label("Instruction of Order").fill("And then?")
    tab.reload()
    tab.get_by_role("tab", name="Exercises").click()
    expect(tab.get_by_label("Instruction of Order")).to_have_value("And then?")
    items_of(tab, "Order").first.get_by_role("button").click()
    expect(tab.get_by_role("region", name="Exercises", exact=True)).to_have_count(0)
    expect(tab.get_by_label("Text for exercises", exact=True)).to_be_focused()


def test_sentences_that_are_not_in_the_list_are_told_and_shown_in_check(tab: Page) -> None:
    text = f"{STORY} She ate an enormous apple."
    make(tab, text, "Dictation", num_items=20)
    expect(tab.get_by_text(re.compile("as the text has too few sentences .*: Dictation 4."))).to_be_visible()
    expect(tab.get_by_text("1 of 5 sentences were not used")).to_be_visible()
    tab.get_by_role("button", name="See them in Check").click()
    expect(tab.get_by_role("tab", name="Check")).to_be_focused()
    expect(tab.get_by_label("Text to check", exact=True)).to_have_value(text)


def test_a_text_without_a_sentence_in_the_list_says_what_to_do(tab: Page, faults: Faults) -> None:
    faults.allow("400 (Bad Request)")
    tab.get_by_label("Text for exercises", exact=True).fill("Elephants hesitated extraordinarily.")
    tab.get_by_role("button", name="Make exercises").click()
    expect(tab.get_by_role("alert").filter(has_text="rewrite it in the list first")).to_be_visible()


def test_they_are_saved_for_word_for_platforms_and_as_cards(tab: Page, tmp_path: Path) -> None:
    make(tab, STORY, "True or false", "Gaps", "Order")
    gaps = items_of(tab, "Gaps").count()
    dialog = open_dialog(tab)
    dialog.get_by_label("Title").fill("A day")
    files = {}
    for button in ("Word", "Moodle", "other platforms", "Anki"):
        with tab.expect_download() as download:
            dialog.get_by_role("button", name=button).click()
        files[download.value.suggested_filename] = download.value.path().read_bytes()
    assert list(files) == ["A day.docx", "A day.gift", "A day.zip", "A day.tsv"]
    lines = [paragraph.text for paragraph in Document(io.BytesIO(files["A day.docx"])).paragraphs]
    assert lines[:3] == ["A day", STORY, "1. Is it true? Write yes or no."]
    assert "Key" in lines
    assert "{T}" in files["A day.gift"].decode() or "{F}" in files["A day.gift"].decode()
    assert "imsmanifest.xml" in zipfile.ZipFile(io.BytesIO(files["A day.zip"])).namelist()
    assert len(files["A day.tsv"].decode().splitlines()) == 3 + gaps


@pytest.mark.parametrize("view", [DARK], ids=str)
def test_learners_get_lines_and_the_key_has_a_page_of_its_own(tab: Page) -> None:
    make(tab, STORY, "Order", "Dictation")
    dialog = open_dialog(tab)
    tab.evaluate("window.print = () => {}")
    dialog.get_by_role("button", name="Print", exact=True).click()
    tab.emulate_media(media="print")
    sheet = tab.get_by_role("article")
    expect(sheet.get_by_role("heading", level=2)).to_have_text(["1. What comes first?", "2. Listen and write.", "Key"])
    expect(sheet.locator("p")).to_have_text([STORY])
    dictation = sheet.locator(".exercise").last
    expect(dictation.get_by_role("img", name="Line to write on")).to_have_count(2)
    expect(dictation).not_to_contain_text("He saw")
    key = sheet.locator(".key")
    expect(key).to_contain_text("He saw the water there.")
    expect(key).to_have_css("break-before", "page")
    expect(sheet).to_have_css("color", "rgb(0, 0, 0)")
    tab.evaluate("dispatchEvent(new Event('afterprint'))")
    tab.emulate_media(media="screen")
    dialog.get_by_label("With the text").uncheck()
    dialog.get_by_role("button", name="Print", exact=True).click()
    expect(sheet.locator("p")).to_have_count(0)


def test_they_are_stopped_and_the_focus_stays_with_the_form(tab: Page) -> None:
    tab.get_by_label("Text for exercises", exact=True).fill(STORY * 10)
    tab.get_by_label("Items of each").fill("20")
    tab.get_by_role("button", name="Make exercises").press("Enter")
    stop = tab.get_by_role("button", name="Stop")
    stop.focus()
    tab.keyboard.press("Enter")
    expect(tab.get_by_role("status").filter(has_text="Stopped.")).to_be_visible()
    expect(tab.get_by_role("button", name=re.compile("^Make "))).to_be_focused()


def test_exercises_from_right_to_left(tab: Page) -> None:
    tab.get_by_label("Language").select_option("Hebrew")
    make(tab, "הוא היה בבית עם הילדים. היא לא רוצה ללכת לשם.", "Dictation")
    item = items_of(tab, "Dictation").first
    expect(item).to_have_css("direction", "rtl")
    dialog = open_dialog(tab)
    tab.evaluate("window.print = () => {}")
    dialog.get_by_role("button", name="Print", exact=True).click()
    expect(tab.locator("article")).to_have_attribute("lang", "he")
    expect(tab.locator("article")).to_have_attribute("dir", "rtl")


@pytest.mark.parametrize("view", [DESKTOP, DARK_PHONE], ids=str)
def test_the_tab_has_no_serious_fault(tab: Page, view: View) -> None:
    assert_accessible(tab)
    for name in ("Language", "Items of each"):
        expect(tab.get_by_label(name)).to_be_in_viewport(ratio=1)
    expect(tab.get_by_role("button", name="Make exercises")).to_be_in_viewport(ratio=1)
    make(tab, f"{STORY} She ate an enormous apple.", "True or false", "Gaps", "Order", "Dictation")
    assert_accessible(tab)
    assert not is_wider_than_its_window(tab)
    open_dialog(tab)
    assert_accessible(tab)
