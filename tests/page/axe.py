"""axe-core, which finds faults that keep people from using a page; npm brings it (``make page``)."""

from pathlib import Path
from typing import Final

import pytest
from playwright.sync_api import Page

_SCRIPT: Final = Path(__file__).parents[2] / "page" / "node_modules" / "axe-core" / "axe.min.js"

_SERIOUS: Final = ("serious", "critical")


def assert_accessible(page: Page) -> None:
    """axe finds no serious fault in what the page shows now. Skips the test where axe is not installed."""
    if not _SCRIPT.is_file():
        pytest.skip("axe-core is not installed: make page")
    # Not as an element, which the page's policy would keep from running.
    page.evaluate(_SCRIPT.read_text(encoding="utf-8"))
    found = page.evaluate("async () => (await axe.run(document, {resultTypes: ['violations']})).violations")
    faults = [
        f"{fault['id']}: {fault['help']}: {' | '.join(node['html'][:200] for node in fault['nodes'][:3])}"
        for fault in found
        if fault["impact"] in _SERIOUS
    ]
    assert not faults, "\n".join(faults)
