"""The documentation speaks of what exists."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").glob("*.md"))]


def test_the_life_of_a_request_has_a_line_for_every_module() -> None:
    page = (ROOT / "docs" / "life-of-a-request.md").read_text()
    modules = {
        str(path.relative_to(ROOT))
        for package in ("vocab", "deployments")
        for path in (ROOT / package).rglob("*.py")
        if path.name != "__init__.py"
    }
    assert modules - set(re.findall(r"`([\w/]+\.py)`", page)) == set()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_file_that_a_page_names_exists(page: Path) -> None:
    text = page.read_text()
    named = re.findall(r"`([\w./-]+/[\w.-]+\.(?:py|yaml|md|txt))`", text) + re.findall(r"\]\(([\w./-]+)\)", text)
    assert [name for name in named if not (ROOT / name).exists() and not (page.parent / name).exists()] == []
