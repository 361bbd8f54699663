"""The text of a PDF, which has lines and no paragraphs: words that are cut at line ends are put together again."""

import io
import logging
import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from vocab.documents.zipped import normalize_text
from vocab.errors import DocumentError
from vocab.marks import APOSTROPHES, CLOSING_QUOTES, SENTENCE_MARKS

if TYPE_CHECKING:
    from pypdf import PdfReader

MAX_PAGES: Final = 10_000
MAX_CHARS: Final = 32 * 2**20
"""Of the text; the longest novels have 6 million."""

_FULL_LINE: Final = 0.6
"""A line that is shorter than this share of the longer ones ends a paragraph."""

_MAX_CUT_CHARS: Final = 200
"""Of a word that is cut at a line end; from each letter of a line, a search takes the square of their number."""

_CUT: Final = re.compile(r"([^\W\d_]+(?:-[^\W\d_]+)*)[-\u2010\u00ad]$")
_BEGINNING: Final = re.compile(r"[^\W\d_]+")
_WORD: Final = re.compile(r"[^\W\d_]+(?:-[^\W\d_]+)*")
_ENDS_SENTENCE: Final = re.compile(rf"[{re.escape(SENTENCE_MARKS)}:][{re.escape(CLOSING_QUOTES + APOSTROPHES)}]*$")


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


def join_lines(lines: Sequence[str]) -> str:
    """Join the lines of a text: with a blank where a sentence goes on, and without where a word does.

    A hyphen at the end of a line stays where the word is written with it elsewhere in the text and not without.
    """
    lines = [line.strip() for line in lines if line.strip()]
    if not lines:
        return ""
    written = {word.lower() for line in lines for word in _WORD.findall(line)}
    # Not the longest: that may be a line of a table.
    full = _FULL_LINE * sorted(map(len, lines))[len(lines) * 9 // 10]
    pieces = [lines[0]]
    for before, line in pairwise(lines):
        cut, rest = _CUT.search(before[-_MAX_CUT_CHARS:]), _BEGINNING.match(line)
        if cut and rest and rest[0][0].islower():
            pieces[-1] = pieces[-1][:-1] + ("-" if _keeps_hyphen(cut[1], _whole(line), before[-1], written) else "")
            pieces.append(line)
        else:
            goes_on = len(before) >= full and not _ENDS_SENTENCE.search(before)
            pieces.append((" " if goes_on else "\n") + line)
    return "".join(pieces)


def _whole(line: str) -> str:
    """Return the word with which a line begins; empty for none."""
    match = _WORD.match(line)
    return match[0] if match else ""


def _keeps_hyphen(head: str, tail: str, hyphen: str, written: set[str]) -> bool:
    """Return whether a word cut at a line end keeps its hyphen, by how the text writes it elsewhere."""
    if hyphen == "\u00ad":
        return False
    with_hyphen, without = f"{head}-{tail}".lower(), (head + tail).lower()
    if (with_hyphen in written) != (without in written):
        return with_hyphen in written
    # "mother-in-" and "law".
    return "-" in head
