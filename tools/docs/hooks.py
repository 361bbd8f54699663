"""What mkdocs calls: generated parts take the place of their marks, and links lead to the site's own pages.

Files of the repository that pages link to are pages of the site; on GitHub such a link leads to the file itself.
"""

import logging
import posixpath
import re
from collections.abc import Callable, Iterator, Mapping
from html import escape
from pathlib import Path
from typing import Final

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from tools.docs.api import api_reference
from tools.docs.examples import blocks, typed_text, without_marks
from tools.docs.settings import settings_reference

# A warning of this logger fails a strict build.
logger = logging.getLogger("mkdocs.hooks.tools.docs")

ROOT: Final = Path(__file__).parents[2]
SOURCES: Final = "source"
"""The folder of the site with the pages of the repository's files."""

_LINK: Final = re.compile(r"(?<=\]\()(?:\.\./)+[\w./-]+(?=\))")
_LANGUAGES: Final = {".py": "python", ".yaml": "yaml", ".toml": "toml"}
_GENERATED: Final[Mapping[str, Callable[[], str]]] = {"api": api_reference, "settings": settings_reference}
_MARK: Final = re.compile(r"^<!-- generated: (\w+)\n.*?-->$", re.MULTILINE | re.DOTALL)
_ELSEWHERE: Final = re.compile(r"<(?:script|link|img|iframe)\b[^>]*\b(?:src|href)=[\"']?(?:https?:)?//[^>]*>")
_CONSOLE: Final = re.compile(r'<div class="highlight">(?=<pre><span></span><code>(?:<a [^>]*></a>)*<span class="gp">)')


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Add a page for every file of the repository that a page links to."""
    for page in [file for file in files if file.is_documentation_page()]:
        for path in linked(page.src_uri, page.content_string):
            if files.get_file_from_path(page_of(path)) is not None:
                continue
            try:
                files.append(File.generated(config, page_of(path), content=as_page(ROOT, path)))
            except FileNotFoundError:
                logger.warning("%s links to %s, which the repository does not have", page.src_uri, path)
    return files


def on_page_markdown(markdown: str, *, page: Page, **_: object) -> str:
    """Put generated parts into their places, and take out what is written for tests."""
    markdown = _MARK.sub(lambda mark: _GENERATED[mark[1]](), markdown)
    return relink(page.file.src_uri, without_marks(markdown))


def on_page_content(html: str, *, page: Page, **_: object) -> str:
    """Have the button that copies a block of commands leave out the prompts and what the commands print."""
    found = blocks(page.file.src_uri, page.markdown or "")
    typed = (typed_text(block) for block in found if block.language == "console")
    return _CONSOLE.sub(lambda _: f'<div class="highlight" data-copy="{escape(next(typed))}">', html)


def on_post_page(output: str, *, page: Page, **_: object) -> str:
    """Refuse what a browser would fetch from elsewhere."""
    for found in _ELSEWHERE.finditer(output):
        logger.warning("%s loads %s", page.file.src_uri, found[0])
    return output


def linked(page: str, markdown: str) -> Iterator[str]:
    """Return what lies outside docs/ and is linked to, by its path in the repository; ``page`` is below docs/."""
    for found in _LINK.finditer(markdown):
        path = _outside(page, found[0])
        if path is not None:
            yield path


def relink(page: str, markdown: str) -> str:
    """Return the page with links to the pages that the site has for these files."""

    def to_page(found: re.Match[str]) -> str:
        path = _outside(page, found[0])
        return found[0] if path is None else posixpath.relpath(page_of(path), posixpath.dirname(page) or ".")

    return _LINK.sub(to_page, markdown)


def page_of(path: str) -> str:
    return f"{SOURCES}/{path}.md"


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
