"""The pages of the documentation and their blocks of code, for the tests that run them."""

from pathlib import Path
from typing import Final

from tools.docs.examples import Block, blocks

ROOT: Final = Path(__file__).parent.parent
PAGES: Final = ["README.md", *sorted(str(path.relative_to(ROOT)) for path in (ROOT / "docs").rglob("*.md"))]
BLOCKS: Final = [block for page in PAGES for block in blocks(page, (ROOT / page).read_text())]


def blocks_run_by(file: str, page: str) -> list[Block]:
    """Return the blocks of a page that are marked to be run by a test file, which gives its ``__file__``."""
    name = str(Path(file).relative_to(ROOT))
    return [block for block in BLOCKS if block.page == page and block.marks.get("run by") == name]
