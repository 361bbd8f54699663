"""The tab of a teacher's own lists: pasted, made of two, used, saved, deleted and brought back."""

from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.page.axe import assert_accessible
from tests.page.browser import DARK_PHONE, View, is_wider_than_its_window

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
    lists.get_by_label("Words, one a line").fill("cat\n42\ndog\ncat")
    expect(lists.get_by_label("Lines that were left out").get_by_role("listitem")).to_have_text(
        ["Line 2: 42, it has no letters", "Line 4: cat, it is in line 1 already"]
    )
    save(lists, "Animals", "cat\n42\ndog\ncat")
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
    expect(lists.get_by_role("status").filter(has_text='10,000 words. The column "word"')).to_be_visible()


@pytest.mark.parametrize("view", [View(), DARK_PHONE], ids=str)
def test_the_tab_has_no_serious_fault(lists: Page) -> None:
    lists.get_by_label("Words, one a line").fill("cat\n42")
    assert_accessible(lists)
    assert not is_wider_than_its_window(lists)
    save(lists, "Animals", "cat")
    assert_accessible(lists)
    lists.get_by_role("button", name="Make one of two").click()
    assert_accessible(lists)
    assert not is_wider_than_its_window(lists)
