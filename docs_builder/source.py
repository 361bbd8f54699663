"""Pages of the site for files of the repository that pages link to: on GitHub the link leads to the file itself."""

import posixpath
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

FOLDER: Final = "source"
"""Of the site, where these pages are."""

_LINK: Final = re.compile(r"(?<=\]\()(?:\.\./)+[\w./-]+(?=\))")
_LANGUAGES: Final = {".py": "python", ".yaml": "yaml", ".toml": "toml"}


def linked(page: str, markdown: str) -> Iterator[str]:
    """Return what lies outside docs/ and is linked to, by its path in the repository; ``page`` is below docs/."""
    for found in _LINK.finditer(markdown):
        path = _outside(page, found[0])
        if path is not None:
            yield path


def relinked(page: str, markdown: str) -> str:
    """Return the page with links to the pages that the site has for these files."""

    def to_page(found: re.Match[str]) -> str:
        path = _outside(page, found[0])
        return found[0] if path is None else posixpath.relpath(page_of(path), posixpath.dirname(page) or ".")

    return _LINK.sub(to_page, markdown)


def page_of(path: str) -> str:
    return f"{FOLDER}/{path}.md"


def as_page(root: Path, path: str) -> str:
    """Return a file, or the names in a folder, as Markdown.

    Raises:
        FileNotFoundError: There is none of that name.
    """
    target = root / path
    if target.is_dir():
        names = sorted(entry.name for entry in target.iterdir() if not entry.name.startswith(("_", ".")))
        return f"# {path}\n\n" + "".join(f"- `{name}`\n" for name in names)
    text = target.read_text(encoding="utf-8")
    language = _LANGUAGES.get(target.suffix, "text")
    return f"---\nsearch:\n  exclude: true\n---\n\n# {path}\n\n`````{language}\n{text.rstrip()}\n`````\n"


def _outside(page: str, link: str) -> str | None:
    path = posixpath.normpath(posixpath.join("docs", posixpath.dirname(page), link))
    return None if path.startswith("docs/") else path
