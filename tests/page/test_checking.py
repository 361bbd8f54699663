"""The Check tab, and what is made of a text: prints, files, cards, and a link to the settings."""

import io
import re
from pathlib import Path

import pytest
from docx import Document
from playwright.sync_api import BrowserContext, Locator, Page, expect

from tests.e2e.environments import notes_in_anki
from tests.page.axe import assert_accessible
from tests.page.browser import DARK, PHONE, Faults, View, is_wider_than_its_window
from tests.vocab.documents.books import docx

pytestmark = pytest.mark.e2e

STORY = "The captain saw a dog.\nHe was happy & <old>."


@pytest.fixture
def checking(page: Page) -> Page:
    page.get_by_role("tab", name="Check").click()
    return page


def source_of(page: Page) -> Locator:
    return page.get_by_label("Text to check", exact=True)


def check(page: Page, text: str) -> None:
    source_of(page).fill(text)
    expect(page.locator(".editor .word").first).to_be_visible()
    expect(page.locator(".report")).to_have_attribute("aria-busy", "false")


def open_dialog(page: Page, name: str) -> Locator:
    page.get_by_role("button", name=name).click()
    return page.get_by_role("dialog", name=name)


def test_a_file_of_word_is_read_and_checked(checking: Page, tmp_path: Path) -> None:
    file = tmp_path / "story.docx"
    file.write_bytes(docx(["The captain saw a dog.", "It was old."]))
    checking.get_by_label("Choose a file").set_input_files(file)
    expect(source_of(checking)).to_have_value("The captain saw a dog.\nIt was old.\n")
    expect(checking.locator(".editor .is-not-allowed")).to_have_text(["captain"])


def test_a_file_that_cannot_be_read_says_why(checking: Page, tmp_path: Path, faults: Faults) -> None:
    faults.allow("400 (Bad Request)")
    check(checking, STORY)
    file = tmp_path / "story.pdf"
    file.write_bytes(b"%PDF-1.7 nothing")
    checking.get_by_label("Choose a file").set_input_files(file)
    expect(checking.get_by_role("alert").filter(has_text="the file is damaged")).to_be_visible()
    expect(source_of(checking)).to_have_value(STORY)
    file = tmp_path / "story.txt"
    file.write_text("Größe", encoding="cp1252")
    checking.get_by_label("Choose a file").set_input_files(file)
    expect(source_of(checking)).to_have_value("Größe")


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("film.srt", "1\n00:00:01,000 --> 00:00:02,000\nThe captain saw a dog.\n"),
        ("film.vtt", "WEBVTT\n\n00:01.000 --> 00:02.000\nThe captain saw a dog.\n"),
        ("page.html", "<!doctype html><title>At sea</title><p>The captain saw a dog.</p>"),
    ],
)
def test_subtitles_and_web_pages_are_read_without_their_marks(
    checking: Page, tmp_path: Path, name: str, content: str
) -> None:
    file = tmp_path / name
    file.write_text(content)
    checking.get_by_label("Choose a file").set_input_files(file)
    expect(source_of(checking)).to_have_value(re.compile(r"^\s*The captain saw a dog\.\s*$"))
    expect(checking.locator(".editor .is-not-allowed")).to_have_text(["captain"])


def test_added_words_count_with_the_endings_of_their_language(checking: Page) -> None:
    checking.get_by_label("Language").select_option("de")
    expect(checking.get_by_label("Keep names apart")).to_have_count(0)
    checking.get_by_label("Language").select_option("tr")
    checking.get_by_label("Names and other words that may come").fill("Zonguldakspor")
    check(checking, "Zonguldakspor'un evi.")
    expect(checking.locator(".editor .is-not-allowed")).to_have_text(["Zonguldakspor'un"])
    checking.get_by_label("Added words with endings").check()
    expect(checking.locator(".editor .is-not-allowed")).to_have_count(0)
    expect(checking.locator(".editor .is-added")).to_have_text(["Zonguldakspor'un"])


def test_a_text_is_rewritten_beside_its_source_and_taken(checking: Page) -> None:
    check(checking, "The captain saw Anna.")
    checking.get_by_role("button", name="Rewrite into this list").click()
    expect(checking.get_by_text("75% before, 100% now")).to_be_visible(timeout=60_000)
    expect(checking.get_by_role("deletion")).to_contain_text("captain")
    checking.get_by_role("button", name="Allow them").click()
    expect(checking.get_by_label("Names and other words that may come")).to_have_value("Anna")
    text = checking.get_by_label("Rewritten text", exact=True).input_value()
    assert "captain" not in text
    checking.get_by_role("button", name="Take this text").click()
    expect(checking.get_by_label("Text", exact=True)).to_have_value(text)
    checking.get_by_role("button", name="Undo").click()
    expect(checking.get_by_label("Text", exact=True)).to_have_value("")


def test_a_glossary_becomes_cards_and_a_file_of_word(checking: Page) -> None:
    check(checking, STORY)
    glossary = open_dialog(checking, "Glossary and cards")
    glossary.get_by_label("Also the words that are not in the list").check()
    glossary.get_by_label("Note on captain").fill("who leads a ship")
    with checking.expect_download() as cards:
        glossary.get_by_role("button", name="Save cards for Anki").click()
    head, rows = cards.value.path().read_text().split("#columns:Word\tSentence\tNote\n")
    assert head == "#separator:tab\n#html:true\n"
    assert rows == '"captain"\t"The <b>captain</b> saw a dog."\t"who leads a ship"\n'
    checking.evaluate("window.print = () => {}")
    glossary.get_by_role("button", name="Print").click()
    expect(checking.locator("#handout .example b")).to_have_text("captain")
    checking.evaluate("dispatchEvent(new Event('afterprint'))")
    checking.keyboard.press("Escape")
    expect(checking.get_by_role("button", name="Glossary and cards")).to_be_focused()
    printing = open_dialog(checking, "Print or save")
    printing.get_by_label("Title").fill("At sea")
    printing.get_by_label("With the glossary").check()
    with checking.expect_download() as file:
        printing.get_by_role("button", name="Save for Word").click()
    assert file.value.suggested_filename == "At sea.docx"
    lines = [paragraph.text for paragraph in Document(io.BytesIO(file.value.path().read_bytes())).paragraphs]
    assert lines == ["At sea", *STORY.splitlines(), "Glossary", "captain – who leads a ship"]


@pytest.mark.parametrize("separator", ["tabs", "commas"])
def test_anki_imports_every_card_as_it_was_written(checking: Page, tmp_path: Path, separator: str) -> None:
    check(checking, '"Captain, [sound:a]," said a mariner.\n#colonel {{c1::admiral}} [latex]')
    glossary = open_dialog(checking, "Glossary and cards")
    glossary.get_by_label("Also the words that are not in the list").check()
    glossary.get_by_label("Note on captain").fill(note := '"=1+1" #, [$]x[/$] {{c2::y}} & <b>')
    glossary.get_by_label("divided by").select_option(separator)
    with checking.expect_download() as cards:
        glossary.get_by_role("button", name="Save cards for Anki").click()
    path = tmp_path / cards.value.suggested_filename
    cards.value.save_as(path)
    notes = {word.casefold(): fields for word, *fields in notes_in_anki(path)}
    first, second = '"Captain, [sound:a]," said a mariner.', "#colonel {{c1::admiral}} [latex]"
    assert notes["captain"] == [first, note]
    assert {"mariner": [first, ""], "colonel": [second, ""], "admiral": [second, ""]}.items() <= notes.items()


@pytest.mark.parametrize("view", [DARK], ids=str)
def test_a_print_has_the_sheet_alone_in_black_on_white(checking: Page) -> None:
    check(checking, STORY)
    gaps = open_dialog(checking, "Gap-fill sheet")
    gaps.get_by_label("One word of how many").fill("4")
    expect(gaps.get_by_role("status")).to_have_text("2 gaps.")
    checking.evaluate("window.print = () => {}")
    gaps.get_by_role("button", name="Print").click()
    checking.emulate_media(media="print")
    sheet = checking.get_by_role("article")
    expect(sheet.locator(".gap-text")).to_have_text("The captain saw (1) dog.\nHe was (2) & <old>.")
    expect(sheet.locator(".answers li")).to_have_text(["a", "happy"])
    expect(checking.locator("#app")).to_be_hidden()
    assert sheet.evaluate("sheet => getComputedStyle(sheet).color") == "rgb(0, 0, 0)"
    assert checking.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    checking.evaluate("dispatchEvent(new Event('afterprint'))")
    checking.emulate_media(media="screen")
    expect(checking.get_by_role("dialog")).to_be_visible()


def test_a_link_has_the_settings_and_neither_key_nor_text(checking: Page, context: BrowserContext) -> None:
    check(checking, STORY)
    checking.get_by_label("Names and other words that may come").fill("captain")
    checking.get_by_role("tab", name="Write").click()
    checking.get_by_text("More settings").click()
    dialog = open_dialog(checking, "Link to these settings")
    assert_accessible(checking)
    field = dialog.get_by_role("textbox")
    expect(field).to_have_value(re.compile("#brief="))
    link = field.input_value()
    assert len(link) < 100
    other = context.browser.new_page() if context.browser else context.new_page()
    other.goto(link)
    expect(other.get_by_label("Names and other words that may come")).to_have_value("captain")
    expect(other.get_by_text("The settings of the link are in the form now.")).to_be_visible()
    expect(other.get_by_label("Key of this service")).to_be_visible()
    expect(other.get_by_label("Text", exact=True)).to_have_value("")
    other.get_by_role("button", name="Back to mine").click()
    expect(other.get_by_label("Names and other words that may come")).to_have_value("")
    other.close()


@pytest.mark.parametrize("view", [View(), DARK, PHONE], ids=str)
def test_the_tab_and_its_dialogs_have_no_serious_fault(checking: Page) -> None:
    check(checking, STORY)
    assert_accessible(checking)
    for name in ("Print or save", "Glossary and cards", "Gap-fill sheet"):
        dialog = open_dialog(checking, name)
        expect(dialog).to_be_visible()
        assert_accessible(checking)
        dialog.get_by_role("button", name="Close").click()
    assert not is_wider_than_its_window(checking)
