"""The text of a PDF, which has lines and no paragraphs: words that are cut at line ends are put together again."""

import io
import logging
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from vocab.documents.lines import join_lines
from vocab.documents.zipped import normalize_text
from vocab.errors import DocumentError

if TYPE_CHECKING:
    from pypdf import PdfReader

MAX_PAGES: Final = 10_000
MAX_CHARS: Final = 32 * 2**20
"""Of the text; the longest novels have 6 million."""


def text_of_pdf(data: bytes) -> str:
    """Return the text of a PDF, a line for each sentence or paragraph.

    Raises:
        DocumentError: It cannot be read, or is a scan without text.
    """
    try:
        from pypdf import PdfReader
        from pypdf.errors import DependencyError
    except ModuleNotFoundError:
        raise DocumentError("to read PDF files: pip install 'wordbound[files]'") from None
    # It warns of each fault of a file that it can read all the same.
    logging.getLogger("pypdf").setLevel(logging.CRITICAL)
    try:
        reader = PdfReader(io.BytesIO(data))
        is_open = not reader.is_encrypted or bool(reader.decrypt(""))
        pages = _lines_of(reader) if is_open else []
        lines = list(pages)
    except DependencyError:
        is_open = False
    if not is_open:
        raise DocumentError("the file is encrypted; save it without a password")
    if not any(map(str.strip, lines)):
        raise DocumentError("there is no text in it, perhaps only pictures of pages")
    return normalize_text(join_lines(lines))


def _lines_of(reader: "PdfReader") -> Iterator[str]:
    """Yield the lines of a PDF's pages; raise ``DocumentError`` beyond the bounds on pages and characters."""
    num_chars = 0
    for number, page in enumerate(reader.pages):
        text = page.extract_text()
        num_chars += len(text)
        if number >= MAX_PAGES or num_chars > MAX_CHARS:
            raise DocumentError(f"more than {MAX_PAGES:,} pages or {MAX_CHARS:,} characters; send a part of it")
        yield from text.splitlines()
