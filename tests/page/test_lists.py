"""The tab of a teacher's own lists: pasted, read from files, made of two, used, saved, deleted and brought back."""

import csv
import re
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.page.axe import assert_accessible
from tests.page.browser import DARK_PHONE, PHONE, Faults, View, is_wider_than_its_window
from tests.vocab.lists.test_list_reader import xlsx

pytestmark = pytest.mark.e2e


@pytest.fixture
def lists(page: Page) -> Page:
    page.get_by_role("tab", name="My lists").click()
    return page


def save(page: Page, name: str, words: str) -> None:
    """Save a list from the form, which is open."""
    page.get_by_role("textbox", name="Name").fill(name)
    page.get_by_label("Words, one a line").fill(words)
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.get_by_role("heading", name=name, exact=True)).to_be_visible()


def words_of(page: Page) -> Locator:
    return page.locator(".list-words li")


def test_what_is_no_word_is_told_by_its_line_and_the_rest_is_saved(lists: Page) -> None:
    typed = "cat\nda\u200bte\ndog\ncat"
    lists.get_by_label("Words, one a line").fill(typed)
    expect(lists.get_by_label("Rows that were left out").get_by_role("listitem")).to_have_text(
        [re.compile("^Line 2: .*invisible"), "Line 4: cat, as in line 1"]
    )
    save(lists, "Animals", typed)
    expect(words_of(lists)).to_have_text(["cat", "dog"])
    # The browser keeps it.
    lists.reload()
    lists.get_by_role("tab", name="My lists").click()
    expect(words_of(lists)).to_have_text(["cat", "dog"])


def test_a_text_is_checked_with_a_list_of_ones_own(lists: Page) -> None:
    save(lists, "Animals", "the\ncat\nsaw\nelephant")
    lists.get_by_role("button", name="Write with it").click()
    expect(lists.get_by_role("tab", name="Write")).to_be_focused()
    lists.get_by_label("Text", exact=True).fill("The cat saw an elephant.")
    expect(lists.locator(".editor .is-not-allowed")).to_have_text(["an"])


def test_words_of_a_language_are_taken_from_a_list(lists: Page) -> None:
    save(lists, "Animals", "The\ndog\nelephant")
    lists.get_by_role("button", name="Make one of two").click()
    lists.get_by_role("button", name="Make the list").click()
    expect(lists.get_by_role("heading", name="Animals without English 1000")).to_be_visible()
    expect(words_of(lists)).to_have_text(["elephant"])
    lists.get_by_role("button", name="Make one of two").click()
    lists.get_by_label("Words of either list").check()
    lists.get_by_role("spinbutton", name="Its first words").fill("1001")
    lists.get_by_role("button", name="Make the list").click()
    # Two pages of the service's; the elephant comes first, as it did in its list.
    expect(lists.get_by_role("status").filter(has_text="of 1,002 words")).to_be_visible()
    expect(words_of(lists).first).to_have_text("elephant")


def test_a_list_that_was_deleted_is_brought_back(lists: Page) -> None:
    save(lists, "Animals", "cat")
    lists.get_by_role("button", name="Delete").click()
    expect(words_of(lists)).to_have_count(0)
    lists.get_by_role("button", name="Undo").click()
    expect(words_of(lists)).to_have_text(["cat"])
    expect(lists.get_by_role("heading", name="Animals")).to_be_focused()


def test_a_list_of_ten_thousand_words_is_saved_as_a_table_and_read_again(lists: Page, tmp_path: Path) -> None:
    words = ["".join("abcdefghij"[int(digit)] for digit in f"{number:04}") for number in range(10_000)]
    file = tmp_path / "Long.txt"
    file.write_text("\n".join(words))
    lists.get_by_label("Choose a file").set_input_files(file)
    lists.get_by_role("button", name="Save", exact=True).click()
    expect(words_of(lists)).to_have_count(200)
    lists.get_by_label("Find a word").fill("jjj")
    expect(words_of(lists)).to_have_count(19)
    with lists.expect_download() as download:
        lists.get_by_role("button", name="Download .csv").click()
    assert download.value.suggested_filename == "Long.csv"
    table = tmp_path / "Again.csv"
    download.value.save_as(table)
    assert table.read_text("utf-8-sig").split() == ["word", *words]
    lists.get_by_role("button", name="New list").click()
    lists.get_by_label("Choose a file").set_input_files(table)
    expect(lists.get_by_role("textbox", name="Name")).to_have_value("Again")
    expect(lists.get_by_label("What was read").get_by_role("status")).to_contain_text("10,000 words.")
    expect(lists.get_by_label("What was read")).to_contain_text('Columns: word from "word".')


GERMAN = """Wort;Stufe
der Hund, -e;A1
gehen, ging, ist gegangen;A2
das Haus, ¨-er;B1
12;A1
der Hund;A2
"""


def test_a_file_is_looked_at_before_it_is_used(lists: Page, tmp_path: Path) -> None:
    file = tmp_path / "Klasse 5.csv"
    file.write_text(GERMAN, encoding="cp1252")
    lists.get_by_label("Language").select_option("de")
    lists.get_by_label("Choose a file").set_input_files(file)
    read = lists.get_by_label("What was read")
    expect(read).to_contain_text('Columns: word from "Wort", level from "Stufe". Shapes: ')
    expect(read).to_contain_text("Encoding: windows-1252.")
    first = read.get_by_label("The first words").get_by_role("listitem")
    expect(first).to_have_text(["Hund Hunde A1", "gehen ging, gegangen A2", "Haus Häuser B1"])
    expect(read.get_by_label("Rows that were left out")).to_contain_text("Line 5: 12, no letters")
    with lists.expect_download() as download:
        read.get_by_role("button", name="Download these rows").click()
    assert download.value.suggested_filename == "Klasse 5 left out.csv"
    rows = [*csv.reader(download.value.path().read_text("utf-8-sig").splitlines())]
    assert rows[0] == ["line", "text", "reason", "sheet"]
    assert ["5", "12", "no letters", ""] in rows
    read.get_by_label("Words up to the level").select_option("A2")
    lists.get_by_role("button", name="Save", exact=True).click()
    expect(lists.get_by_role("heading", name="Klasse 5", exact=True)).to_be_visible()
    expect(words_of(lists)).to_have_text(["Hund", "Hunde", "gehen", "ging", "gegangen"])


def test_a_file_that_cannot_be_read_says_why_and_words_can_be_typed_instead(
    lists: Page, tmp_path: Path, faults: Faults
) -> None:
    faults.allow("400 (Bad Request)")
    file = tmp_path / "list.xlsx"
    file.write_bytes(b"PK\x03\x04 nothing")
    lists.get_by_label("Choose a file").set_input_files(file)
    expect(lists.get_by_role("alert").filter(has_text="The file cannot be read")).to_be_visible()
    lists.get_by_role("button", name="Type words instead").click()
    expect(lists.get_by_role("alert").filter(has_text="The file cannot be read")).to_have_count(0)
    save(lists, "Animals", "cat")
    expect(words_of(lists)).to_have_text(["cat"])


def test_headwords_have_their_forms_and_s_where_the_list_says_so(lists: Page) -> None:
    lists.get_by_label("Each word with all its forms").check()
    lists.get_by_label("Each word also with 's").check()
    save(lists, "Headwords", "the\ngo\ndog")
    lists.get_by_role("button", name="Write with it").click()
    lists.get_by_role("tab", name="Check").click()
    lists.get_by_label("Text to check", exact=True).fill("The dogs went. The dog's cat goes.")
    expect(lists.locator(".editor .is-not-allowed")).to_have_text(["cat"])
    lists.get_by_role("tab", name="My lists").click()
    lists.get_by_role("button", name="Change", exact=True).click()
    expect(lists.get_by_label("Each word with all its forms")).to_be_checked()
    lists.get_by_label("Each word with all its forms").uncheck()
    lists.get_by_role("button", name="Save", exact=True).click()
    lists.get_by_role("tab", name="Check").click()
    expect(lists.locator(".editor .is-not-allowed")).to_have_text(["dogs", "went", "cat", "goes"])


CLASS = [
    ["Class 5b: our words"],
    ["Word", "Level"],
    *([word, "A1"] for word in ("the", "a, an", "I/me", "dog", "cat", "to see", "to run", "in", "and", "garden")),
    *([word, "A1"] for word in ("friend", "big", "12", "dog")),
    *([word, "A2"] for word in ("old (not young)", "under", "behind", "to find")),
    ["adventure", "B1"],
]
STORY = (
    "In the garden Anna and Tom see a dog. The dog ran behind a tree. Tom's friend found the old cat under the tent."
)


@pytest.mark.parametrize("view", [View(), PHONE], ids=str)
def test_a_teachers_hour(lists: Page, tmp_path: Path, view: View) -> None:
    def keep_picture(name: str) -> None:
        lists.screenshot(path=tmp_path / f"{name}-{view}.png", full_page=True)

    file = tmp_path / "Class 5b.xlsx"
    file.write_bytes(xlsx(Tabelle1=CLASS))
    lists.get_by_label("Choose a file").set_input_files(file)
    read = lists.get_by_label("What was read")
    expect(read.get_by_role("status")).to_contain_text("rows were left out")
    expect(read.get_by_label("Rows that were left out").get_by_role("listitem")).to_have_text(
        [
            "Line 1: Class 5b: our words, a title",
            "Line 2: Word Level, the names of the columns",
            "Line 15: 12, no letters",
            "Line 16: dog, as in line 6",
        ]
    )
    read.get_by_label("Words up to the level").select_option("A2")
    lists.get_by_label("Each word with all its forms").check()
    lists.get_by_label("Each word also with 's").check()
    keep_picture("import")
    assert_accessible(lists)
    assert not is_wider_than_its_window(lists)
    lists.get_by_role("button", name="Save", exact=True).click()
    expect(words_of(lists).filter(has_text="adventure")).to_have_count(0)
    expect(words_of(lists).filter(has_text=re.compile("^(an|me|old|find)$"))).to_have_count(4)
    lists.get_by_role("button", name="Write with it").click()
    lists.get_by_label("What should it be about?").fill("A dog in the garden")
    lists.get_by_label("Length, in words").fill("10")
    lists.get_by_role("button", name="Write", exact=True).click()
    written = lists.get_by_label("Text", exact=True)
    expect(written).not_to_have_value("")
    expect(lists.get_by_role("button", name="Write it anew")).to_be_visible()
    # The teacher's own text, with names.
    lists.get_by_role("tab", name="Check").click()
    lists.get_by_label("Text to check", exact=True).fill(STORY)
    missing = lists.locator(".editor .is-not-allowed")
    expect(missing).to_have_text(["Anna", "Tom", "tree", "Tom's", "tent"])
    lists.get_by_label("Keep names apart").check()
    expect(missing).to_have_text(["tree", "tent"])
    expect(lists.locator(".editor .is-name")).to_have_text(["Anna", "Tom", "Tom's"])
    report = lists.get_by_label("What the text is made of")
    expect(report.get_by_text("24 words, 19 different, 3 names")).to_be_visible()
    next_ones = report.get_by_role("group").filter(has_text="2 of 3 sentences have one word")
    next_ones.get_by_text("2 of 3").click()
    expect(next_ones.get_by_role("button")).to_have_text(
        ["The dog ran behind a tree.", "Tom's friend found the old cat under the tent."]
    )
    keep_picture("check")
    assert_accessible(lists)
    assert not is_wider_than_its_window(lists)
    next_ones.get_by_role("button").last.click()
    selected = "field => field.value.slice(field.selectionStart, field.selectionEnd)"
    assert lists.get_by_label("Text to check", exact=True).evaluate(selected) == "tent"
    lists.get_by_role("button", name="Print or save").click()
    printing = lists.get_by_role("dialog", name="Print or save")
    printing.get_by_label("Title").fill("In the garden")
    lists.evaluate("window.print = () => {}")
    printing.get_by_role("button", name="Print", exact=True).click()
    lists.emulate_media(media="print")
    sheet = lists.get_by_role("article")
    expect(sheet.get_by_role("heading")).to_have_text("In the garden")
    expect(sheet.get_by_role("paragraph")).to_have_text([STORY])
    expect(lists.locator("#app")).to_be_hidden()
    keep_picture("print")


@pytest.mark.parametrize("view", [View(), DARK_PHONE], ids=str)
def test_the_tab_has_no_serious_fault(lists: Page) -> None:
    lists.get_by_label("Words, one a line").fill("cat\ncat")
    expect(lists.get_by_label("Rows that were left out")).to_be_visible()
    assert_accessible(lists)
    assert not is_wider_than_its_window(lists)
    save(lists, "Animals", "cat")
    assert_accessible(lists)
    lists.get_by_role("button", name="Make one of two").click()
    assert_accessible(lists)
    assert not is_wider_than_its_window(lists)
