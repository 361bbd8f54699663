"""A browser for the tests of this folder, and a page in it that must show no fault.

``WORDBOUND_PAGE_URL`` names a service that runs already, with the demo's model and key, instead of starting one.
"""

import os
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

from tests.e2e.service import KEY
from tests.page.browser import ARGUMENTS, CHROMIUM, DESKTOP, NEEDED, Faults, View

# A small model writes three sentences in this time, also where another one writes beside it.
expect.set_options(timeout=60_000)


@pytest.fixture(scope="session")
def url(request: pytest.FixtureRequest) -> str:
    """Where the page is, without the slash at the end."""
    given = os.environ.get("WORDBOUND_PAGE_URL")
    return given.rstrip("/") if given else str(request.getfixturevalue("service").url)


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    """Debian's chromium, for the tests of this folder: playwright's loop must end before asynchronous tests begin."""
    if CHROMIUM is None:
        pytest.skip(NEEDED)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=list(ARGUMENTS))
        yield browser
        browser.close()


@pytest.fixture
def view() -> View:
    """The window; a test gets another one by ``parametrize``."""
    return DESKTOP


@pytest.fixture
def faults(url: str) -> Faults:
    """What went wrong in the page so far."""
    return Faults(url)


@pytest.fixture
def context(browser: Browser, url: str, view: View, faults: Faults) -> Iterator[BrowserContext]:
    """A browser of its own, with nothing kept; a fault in any of its pages fails the test."""
    context = browser.new_context(
        base_url=url,
        viewport={"width": view.width, "height": view.height},
        color_scheme=view.color_scheme,
        reduced_motion=view.reduced_motion,
        has_touch=view.is_phone,
        is_mobile=view.is_phone,
        locale="en-GB",
    )
    faults.watch(context)
    yield context
    context.close()
    assert not faults.unexpected


@pytest.fixture
def blank(context: BrowserContext) -> Page:
    """A page that has gone nowhere yet."""
    return context.new_page()


@pytest.fixture
def page(blank: Page) -> Page:
    """The page, opened as the demo's address opens it, with the service ready."""
    blank.goto(f"/#key={KEY}")
    expect(blank.get_by_role("tab", name="Write")).to_be_visible()
    expect(blank.locator(".model")).not_to_be_empty()
    return blank
