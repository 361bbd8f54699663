"""What a browser loads, and how the page asks for a key."""

import pytest
from playwright.sync_api import Page, Response, expect

from deployments.page.bundle import CONTENT_SECURITY_POLICY
from tests.e2e.service import KEY, MODEL
from tests.page.axe import assert_accessible
from tests.page.browser import DARK, DARK_PHONE, DESKTOP, PHONE, Faults, View, is_wider_than_its_window

pytestmark = pytest.mark.e2e

MAX_BYTES = 120_000
"""Of all that a browser fetches to show the page, as it is sent."""


def test_it_loads_without_a_key_and_little(blank: Page, url: str) -> None:
    responses: list[Response] = []
    blank.on("response", lambda response: responses.append(response))
    blank.goto("/", wait_until="networkidle")
    expect(blank.get_by_label("Key of this service")).to_be_visible()
    assert responses[0].headers["content-security-policy"] == CONTENT_SECURITY_POLICY
    assert {response.url for response in responses} >= {f"{url}/", f"{url}/page/page.js", f"{url}/page/page.css"}
    assert {response.status for response in responses} == {200}
    assert sum(response.request.sizes()["responseBodySize"] for response in responses) < MAX_BYTES


def test_a_browser_that_has_it_fetches_nothing_again(blank: Page) -> None:
    blank.goto("/", wait_until="networkidle")
    responses: list[Response] = []
    blank.on("response", lambda response: responses.append(response))
    blank.reload(wait_until="networkidle")
    assert responses
    # Chromium 150 gives less than nothing for an answer without a body, whose headers it counts by itself.
    assert all(response.request.sizes()["responseBodySize"] <= 0 for response in responses)


def test_the_key_of_the_address_is_taken_out_of_it(page: Page, url: str) -> None:
    expect(page.get_by_text(MODEL)).to_be_visible()
    assert page.url == f"{url}/"
    page.reload()
    expect(page.get_by_text(MODEL)).to_be_visible()


def test_a_wrong_key_is_told_and_a_right_one_accepted(blank: Page, faults: Faults) -> None:
    faults.allow("401")
    blank.goto("/#key=wrong")
    field = blank.get_by_label("This key is not valid")
    field.fill("wrong-too")
    field.press("Enter")
    expect(field).to_be_visible()
    expect(blank.get_by_text(MODEL)).not_to_be_visible()
    field.fill(KEY)
    field.press("Enter")
    expect(blank.get_by_text(MODEL)).to_be_visible()
    expect(field).not_to_be_visible()


@pytest.mark.parametrize("view", [DESKTOP, PHONE, DARK, DARK_PHONE], ids=str)
def test_it_can_be_used_by_all_at_any_width(page: Page, view: View) -> None:
    assert_accessible(page)
    assert not is_wider_than_its_window(page)


@pytest.mark.parametrize("view", [DESKTOP, DARK_PHONE], ids=str)
def test_the_form_for_the_key_can_be_used_by_all(blank: Page, view: View) -> None:
    blank.goto("/")
    expect(blank.get_by_label("Key of this service")).to_be_visible()
    assert_accessible(blank)
    assert not is_wider_than_its_window(blank)
