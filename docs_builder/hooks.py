"""What mkdocs calls: generated parts take the place of their marks, and links lead to the site's own pages."""

import logging
import re
from collections.abc import Callable, Mapping
from html import escape
from pathlib import Path
from typing import Final

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from docs_builder.api import api_reference
from docs_builder.examples import blocks, typed_text, without_marks
from docs_builder.settings import settings_reference
from docs_builder.source import as_page, linked, page_of, relinked

# A warning of this logger fails a strict build.
logger = logging.getLogger("mkdocs.hooks.docs_builder")

ROOT: Final = Path(__file__).parents[1]
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
    return relinked(page.file.src_uri, without_marks(markdown))


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
