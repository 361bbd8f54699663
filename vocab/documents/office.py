"""The text of a DOCX or ODT: its body, then its footnotes and endnotes. Headers, footers and comments are left out, and
so are what the author deleted and how the words of a ruby are spoken."""

import posixpath
from typing import Final

from vocab.documents.zipped import Zipped, normalize_text
from vocab.errors import DocumentError

_ODF: Final = "urn:oasis:names:tc:opendocument:xmlns:"
_NAMESPACES: Final = (
    "http://schemas.openxmlformats.org/wordprocessingml/2006/main",
    "http://purl.oclc.org/ooxml/wordprocessingml/main",
    f"{_ODF}text:1.0",
)
_SIGNS: Final = {"tab": "\t", "br": "\n", "cr": "\n", "noBreakHyphen": "-", "s": " ", "line-break": "\n"}
"""What elements of a run stand for."""
_PARAGRAPHS: Final = ("p", "h")
# Text that was moved is where it was moved to, and a fallback repeats what stands before it.
_SKIPPED: Final = frozenset(
    ("moveFrom", "Fallback", "rt", "tracked-changes", "annotation", "ruby-text", "note-citation", "desc")
)
_PICTURE_TITLE: Final = f"{_ODF}svg-compatible:1.0 title"


def text_of_docx(zipped: Zipped) -> str:
    """Return the text of a DOCX, a line for each paragraph.

    Raises:
        DocumentError: It cannot be read.
    """
    document = _document(zipped)
    folder = posixpath.dirname(document)
    parts = [document, *(posixpath.join(folder, name) for name in ("footnotes.xml", "endnotes.xml"))]
    return normalize_text(
        "".join(_Part(zipped, name, ("t",)).text for name in parts if name == document or name in zipped)
    )


def text_of_odt(zipped: Zipped) -> str:
    """Return the text of an ODT, a line for each paragraph.

    Raises:
        DocumentError: It cannot be read, or is encrypted.
    """
    if "META-INF/manifest.xml" in zipped and b"encryption-data" in zipped.read("META-INF/manifest.xml"):
        raise DocumentError("the file is encrypted; save it without a password")
    return normalize_text(_Part(zipped, "content.xml", _PARAGRAPHS).text)


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
    """The text of one XML part of a document, in elements of these names; that of the notes in it last."""

    def __init__(self, zipped: Zipped, name: str, texts: tuple[str, ...]) -> None:
        self._texts = texts
        self._text: list[str] = []
        self._notes: list[str] = []
        self._num_texts = self._num_skipped = self._num_notes = 0
        zipped.parse(name, self._start, self._end, self._data)
        self.text = "".join(self._text + self._notes)

    def _add(self, piece: str) -> None:
        (self._notes if self._num_notes else self._text).append(piece)

    def _start(self, name: str, attributes: dict[str, str]) -> None:  # noqa: ARG002
        """Handle a start tag: skip what is not shown, begin a text, or add the sign that a tag stands for."""
        namespace, _, tag = name.rpartition(" ")
        self._num_skipped += tag in _SKIPPED or name == _PICTURE_TITLE
        if not self._num_skipped and namespace in _NAMESPACES:
            self._num_texts += tag in self._texts
            self._num_notes += tag == "note"
            self._add(_SIGNS.get(tag, ""))

    def _end(self, name: str) -> None:
        """Handle an end tag: leave a skipped element, or end the line of a paragraph."""
        namespace, _, tag = name.rpartition(" ")
        if tag in _SKIPPED or name == _PICTURE_TITLE:
            self._num_skipped -= 1
        elif not self._num_skipped and namespace in _NAMESPACES:
            self._num_texts -= tag in self._texts
            self._add("\n" * (tag in _PARAGRAPHS))
            self._num_notes -= tag == "note"

    def _data(self, data: str) -> None:
        if self._num_texts and not self._num_skipped:
            self._add(data)
