"""The text of a DOCX: its body, then its footnotes and endnotes. Headers, footers and comments are left out, and so is
what the author deleted."""

import posixpath
from typing import Final

from vocab.documents.zipped import Zipped, normalize_text
from vocab.errors import DocumentError

_NAMESPACES: Final = (
    "http://schemas.openxmlformats.org/wordprocessingml/2006/main",
    "http://purl.oclc.org/ooxml/wordprocessingml/main",
)
_SIGNS: Final = {"tab": "\t", "br": "\n", "cr": "\n", "noBreakHyphen": "-"}
"""What elements of a run stand for."""


def text_of_docx(zipped: Zipped) -> str:
    """Return the text of a DOCX, a line for each paragraph.

    Raises:
        DocumentError: It cannot be read.
    """
    document = _document(zipped)
    folder = posixpath.dirname(document)
    parts = [document, *(posixpath.join(folder, name) for name in ("footnotes.xml", "endnotes.xml"))]
    return normalize_text("".join(_Part(zipped, name).text for name in parts if name == document or name in zipped))


def _document(zipped: Zipped) -> str:
    """Return the name of a DOCX's main part; refuse other Office files."""
    found: list[str] = []

    def start(_: str, attributes: dict[str, str]) -> None:
        if attributes.get("Type", "").endswith("/officeDocument"):
            found.append(attributes.get("Target", "").lstrip("/"))

    zipped.parse("_rels/.rels", start)
    if not found or not found[0].endswith(".xml") or "word" not in found[0]:
        raise DocumentError("an Office file, but no DOCX; save it as .docx or plain text first")
    return found[0]


class _Part:
    """The text of one XML part of a DOCX."""

    def __init__(self, zipped: Zipped, name: str) -> None:
        self._pieces: list[str] = []
        self._is_text = False
        self._num_skipped = 0
        zipped.parse(name, self._start, self._end, self._data)
        self.text = "".join(self._pieces)

    def _start(self, name: str, attributes: dict[str, str]) -> None:  # noqa: ARG002
        """Handle a start tag: skip what is not shown, begin a text, or add the sign that a tag stands for."""
        namespace, _, tag = name.rpartition(" ")
        is_skipped = tag in ("moveFrom", "Fallback")
        if self._num_skipped or is_skipped:
            # Text that was moved is where it was moved to; a fallback repeats what stands before it.
            self._num_skipped += is_skipped
        elif namespace in _NAMESPACES:
            self._is_text = tag == "t"
            self._pieces.append(_SIGNS.get(tag, ""))

    def _end(self, name: str) -> None:
        """Handle an end tag: leave a skipped element, or end the line of a paragraph."""
        namespace, _, tag = name.rpartition(" ")
        self._is_text = False
        if tag in ("moveFrom", "Fallback"):
            self._num_skipped -= 1
        elif not self._num_skipped and namespace in _NAMESPACES and tag == "p":
            self._pieces.append("\n")

    def _data(self, data: str) -> None:
        if self._is_text and not self._num_skipped:
            self._pieces.append(data)
