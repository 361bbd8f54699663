"""The documentation speaks of what exists."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").glob("*.md"))]


def test_the_life_of_a_request_passes_every_room() -> None:
    page = (ROOT / "docs" / "life-of-a-request.md").read_text()
    rooms = {
        str(path.parent.relative_to(ROOT))
        for package in ("vocab", "deployments")
        for path in (ROOT / package).glob("*/__init__.py")
    }
    unnamed = {room for room in rooms if f"`{room}/" not in page}
    # The bottom of the library, and the demo, stand beside the way.
    assert unnamed == {"vocab/arrays", "deployments/demo"}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_file_that_a_page_names_exists(page: Path) -> None:
    text = page.read_text()
    named = re.findall(r"`([\w./-]+/[\w.-]+\.(?:py|yaml|md|txt))`", text) + re.findall(r"\]\(([\w./-]+)\)", text)
    assert [name for name in named if not (ROOT / name).exists() and not (page.parent / name).exists()] == []
