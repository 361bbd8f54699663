"""The Write tab: with the pointer, with the keyboard alone, on a phone, and without the service."""

import re

import pytest
from playwright.sync_api import BrowserContext, Locator, Page, expect

from tests.page.axe import assert_accessible
from tests.page.browser import DARK, DARK_PHONE, DESKTOP, PHONE, Faults, View, is_wider_than_its_window

pytestmark = pytest.mark.e2e

ALLOWED = ("listed", "capitals", "added", "number")
NOT_LISTED = "The dog ate teh grass."


def text_of(page: Page) -> Locator:
    return page.get_by_label("Text", exact=True)


def word(page: Page, spelling: str) -> Locator:
    return page.locator(".editor .word").get_by_text(spelling, exact=True)


def write(page: Page, text: str) -> None:
    """Type a text, and wait until it is checked."""
    text_of(page).fill(text)
    expect(page.locator(".report")).to_have_attribute("aria-busy", "false")
    expect(page.locator(".editor .word").first).to_be_visible()


def open_settings(page: Page) -> None:
    """Unfold what is seldom set."""
    page.get_by_text("More settings").click()


def have_written(page: Page, about: str = "A story about a dog", length: int = 20) -> None:
    """Let the model write, and wait until it has."""
    page.get_by_label("What should it be about?").fill(about)
    page.get_by_label("Length, in words").fill(str(length))
    page.get_by_role("button", name="Write", exact=True).click()
    expect(page.get_by_role("button", name="Write it anew")).to_be_enabled(timeout=60_000)


def test_a_brief_becomes_a_text_of_listed_words(page: Page) -> None:
    open_settings(page)
    page.get_by_label("Words that must come").fill("river")
    expect(page.get_by_text("with river")).to_be_hidden()
    open_settings(page)
    expect(page.get_by_text("fast; with river")).to_be_visible()
    have_written(page, length=40)
    expect(page.get_by_role("img", name=re.compile("^100% of"))).to_be_visible()
    reasons = page.locator(".editor .word").evaluate_all("all => all.map((each) => each.dataset.reason)")
    assert len(reasons) > 5
    assert set(reasons) <= set(ALLOWED)
    assert "river" in text_of(page).input_value()
    # What was written is there again when the page is.
    text = text_of(page).input_value()
    page.reload()
    expect(text_of(page)).to_have_value(text)
    expect(page.get_by_role("img", name=re.compile("^100% of"))).to_be_visible()


@pytest.mark.parametrize("view", [DESKTOP, PHONE], ids=str)
def test_words_of_the_brief_that_the_list_lacks_can_be_allowed_and_are_in_the_printed_glossary(page: Page) -> None:
    about = page.get_by_label("What should it be about?")
    about.fill("A story about a dog who has maps")
    offered = page.get_by_role("group", name="Words of the brief that are not in the list").get_by_role("button")
    expect(offered).to_have_text([re.compile(r"^maps \(rank [\d,]+\)$")])
    offered.click()
    expect(offered).to_have_attribute("aria-pressed", "true")
    expect(page.get_by_label("Names and other words that may come")).to_have_value("maps, map, mapped")
    write(page, "The map")
    expect(word(page, "map")).to_have_attribute("data-reason", "added")
    assert_accessible(page)
    assert not is_wider_than_its_window(page)
    page.evaluate("window.print = () => {}")
    page.get_by_role("button", name="Print or save").click()
    page.get_by_label("With the glossary").check()
    page.get_by_role("button", name="Print", exact=True).click()
    expect(page.locator("#handout dt")).to_have_text(["map"])
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    page.keyboard.press("Escape")
    offered.click()
    expect(word(page, "map")).to_have_attribute("data-reason", "rare")
    about.fill("A story about a dog")
    expect(offered).to_have_count(0)


def test_a_word_under_the_pointer_tells_what_it_is(page: Page) -> None:
    write(page, NOT_LISTED)
    word(page, "ate").hover(force=True)
    result = page.get_by_role("dialog", name="The word ate")
    expect(result).to_contain_text("beyond the list")
    expect(result).to_contain_text("eat")
    result.get_by_role("button", name="Add to my words").click()
    expect(page.get_by_label("Names and other words that may come")).to_have_value("ate")
    expect(word(page, "ate")).to_have_attribute("data-reason", "added")
    word(page, "dog").hover(force=True)
    page.get_by_role("button", name="Never use").click()
    expect(page.get_by_label("Words that must not come")).to_have_value("dog")
    expect(word(page, "dog")).to_have_attribute("data-reason", "excluded")


def test_what_is_typed_is_checked_again(page: Page) -> None:
    write(page, "The dog was here")
    text_of(page).press("End")
    page.keyboard.type(" teh")
    expect(word(page, "teh")).to_have_class(re.compile("is-not-allowed"))
    expect(page.get_by_role("heading", name="Not in the list")).to_be_visible()
    for _ in " teh":
        page.keyboard.press("Backspace")
    expect(page.get_by_role("heading", name="Not in the list")).not_to_be_visible()
    expect(page.get_by_role("img", name="100% of 4 words are in the list.")).to_be_visible()


def test_a_word_is_swapped_and_the_swap_undone_with_the_keyboard_alone(page: Page) -> None:
    write(page, "She ate an enormous apple.")
    text_of(page).press("Control+Home")
    page.keyboard.press("Escape")
    for spelling in ("She", "ate", "an", "enormous"):
        expect(word(page, spelling)).to_be_focused()
        page.keyboard.press("ArrowRight" if spelling != "enormous" else "Enter")
    swap = page.get_by_role("button", name="Swap")
    swap.focus()
    page.keyboard.press("Enter")
    others = page.get_by_role("group", name="Other words for it").get_by_role("button")
    expect(others.first).to_be_visible(timeout=60_000)
    by = others.first.inner_text()
    others.first.focus()
    page.keyboard.press("Enter")
    expect(text_of(page)).to_have_value(f"She ate an {by} apple.")
    expect(text_of(page)).to_be_focused()
    expect(word(page, by)).to_have_attribute("data-reason", re.compile("|".join(ALLOWED)))
    page.keyboard.press("Control+z")
    expect(text_of(page)).to_have_value("She ate an enormous apple.")


def test_a_text_is_written_with_the_keyboard_alone(page: Page) -> None:
    page.get_by_role("tab", name="Write").focus()
    page.keyboard.press("Tab")
    for _ in range(20):
        if page.evaluate("document.activeElement.tagName") == "TEXTAREA":
            break
        page.keyboard.press("Tab")
    page.keyboard.type("A cat")
    for _ in range(30):
        if page.evaluate("document.activeElement.textContent") == "Write":
            break
        page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(text_of(page)).not_to_have_value("", timeout=60_000)


def test_an_answer_is_stopped_and_what_came_is_kept(page: Page) -> None:
    page.get_by_label("What should it be about?").fill("A story about a dog")
    open_settings(page)
    # No text ends before all of them came.
    page.get_by_label("Words that must come").fill("river, garden, letter, king, winter, ship, bread, horse")
    page.get_by_label("Length, in words").fill("600")
    page.get_by_role("button", name="Write", exact=True).click()
    expect(page.locator(".words")).to_contain_text(re.compile(r"\w"), timeout=60_000)
    # Not by the pointer: below a text that grows the button moves, and who misses it tries again for too long.
    page.get_by_role("button", name="Stop").press("Enter")
    expect(page.get_by_text("Stopped.", exact=True)).to_be_visible()
    kept = text_of(page).input_value()
    assert len(kept.split()) < 600
    page.wait_for_timeout(1_000)
    assert text_of(page).input_value() == kept


def test_two_sizes_are_compared_and_one_is_kept(page: Page) -> None:
    have_written(page)
    page.get_by_role("button", name="Compare").click()
    page.get_by_role("button", name="Write it", exact=True).click()
    other = page.get_by_label(re.compile(r"^Text in [\d,]+ words$"))
    expect(other).not_to_have_value("", timeout=60_000)
    expect(page.get_by_role("button", name="Keep this one")).to_have_count(2, timeout=60_000)
    chosen = other.input_value()
    page.get_by_role("button", name="Keep this one").last.click()
    expect(text_of(page)).to_have_value(chosen)
    expect(other).to_have_count(0)


def test_without_the_service_the_text_is_kept_and_checked_later(
    page: Page, context: BrowserContext, faults: Faults
) -> None:
    faults.allow("ERR_INTERNET_DISCONNECTED")
    write(page, "The dog was here.")
    context.set_offline(True)
    text_of(page).fill(NOT_LISTED)
    expect(page.get_by_role("alert").get_by_text("cannot be reached")).to_be_visible()
    expect(text_of(page)).to_have_value(NOT_LISTED)
    context.set_offline(False)
    expect(page.get_by_text("cannot be reached")).not_to_be_visible()
    expect(word(page, "teh")).to_have_attribute("data-reason", re.compile("rare|unknown"))


def test_a_language_that_is_not_supported_says_why(page: Page, faults: Faults) -> None:
    faults.allow("400")
    page.get_by_label("Language").select_option("Other…")
    page.get_by_label("Code of the language").fill("km")
    expect(page.get_by_text("written without spaces between words")).to_be_visible()


def test_a_text_from_right_to_left(page: Page) -> None:
    page.get_by_label("Language").select_option("Hebrew")
    write(page, "הכלב אכל")
    expect(text_of(page)).to_have_attribute("dir", "rtl")
    text_of(page).press("Control+Home")
    page.keyboard.press("Escape")
    expect(word(page, "הכלב")).to_be_focused()
    page.keyboard.press("ArrowLeft")
    expect(word(page, "אכל")).to_be_focused()
    first, second = word(page, "הכלב").bounding_box(), word(page, "אכל").bounding_box()
    assert first and second
    assert first["x"] > second["x"]


def test_the_focus_goes_from_an_action_to_stop_and_to_the_text(page: Page) -> None:
    write(page, "The dog was here.")
    page.get_by_role("button", name="Next chapter").focus()
    page.keyboard.press("Enter")
    stop = page.get_by_role("button", name="Stop")
    expect(stop).to_be_focused()
    expect(page.get_by_role("button", name="Next chapter")).to_have_count(0)
    page.keyboard.press("Enter")
    expect(text_of(page)).to_be_focused()
    expect(page.get_by_role("button", name="Next chapter")).to_be_visible()


@pytest.mark.parametrize("view", [DESKTOP, PHONE], ids=str)
def test_all_that_is_needed_to_write_is_in_view(page: Page, view: View) -> None:
    settings = [
        page.get_by_label("What should it be about?"),
        page.get_by_label("Language"),
        page.get_by_role("combobox", name="Words"),
        page.get_by_role("slider"),
        page.get_by_label("Length, in words"),
        page.get_by_role("button", name="Write", exact=True),
    ]
    for control in settings:
        expect(control).to_be_in_viewport(ratio=1)
    # Nothing is greyed out before there is a text.
    main = page.get_by_role("main")
    expect(main.locator("button:disabled, [aria-disabled=true]")).to_have_count(0)
    for number in range(3):
        expect(page.get_by_role("group", name="Examples").get_by_role("button").nth(number)).to_be_in_viewport(ratio=1)
    write(page, NOT_LISTED)
    page.evaluate("scrollTo(0, 0)")
    for control in [*settings[:-1], page.get_by_role("button", name="Write it anew"), word(page, "grass")]:
        expect(control).to_be_in_viewport(ratio=1)
    assert not is_wider_than_its_window(page)
    # With a long text too, the bar is; on a phone only while the model writes.
    write(page, f"{NOT_LISTED}\n" * 60)
    page.evaluate("scrollTo(0, 0)")
    last = page.get_by_role("button", name="Gap-fill sheet")
    if view.is_phone:
        expect(last).not_to_be_in_viewport()
        page.get_by_label("What should it be about?").fill("A cat")
        page.get_by_role("button", name="Write it anew").click()
        expect(page.get_by_role("button", name="Stop")).to_be_in_viewport(ratio=1)
    else:
        expect(last).to_be_in_viewport(ratio=1)


@pytest.mark.parametrize("view", [DESKTOP, PHONE], ids=str)
@pytest.mark.parametrize(("lang", "about"), [("en", "A day at the sea"), ("es", "Un día en el mar"), ("fi", "👧 🏖️ ☀️")])
def test_an_example_is_filled_in_and_written(page: Page, lang: str, about: str) -> None:
    page.get_by_label("Language").select_option(lang)
    page.get_by_label("Length, in words").fill("10")
    page.get_by_role("button", name=about).click()
    expect(page.get_by_label("What should it be about?")).to_have_value(about)
    expect(text_of(page)).not_to_have_value("", timeout=60_000)
    expect(page.get_by_role("button", name="Simpler")).to_be_visible(timeout=60_000)
    expect(page.get_by_role("group", name="Examples")).to_have_count(0)


@pytest.mark.parametrize("view", [DARK, DARK_PHONE], ids=str)
def test_a_checked_text_can_be_read_by_all(page: Page, view: View) -> None:
    write(page, f"{NOT_LISTED} Seventeen elephants hesitated, extraordinarily.")
    assert_accessible(page)
    if not view.is_phone:
        word(page, "ate").hover(force=True)
        expect(page.get_by_role("dialog", name="The word ate")).to_be_visible()
        assert_accessible(page)
