"""The text of an EPUB: its chapters in reading order, without the table of contents."""

import posixpath
import re
from html.parser import HTMLParser
from typing import Final
from urllib.parse import unquote

from typing_extensions import override

from vocab.documents.zipped import Zipped, decode_xml, normalize_text
from vocab.errors import DocumentError

_SKIPPED: Final = frozenset({"head", "script", "style", "rt", "rp", "svg", "math"})
"""Not read: scripts and styles, and how the words of a ruby are spoken."""

_INLINE: Final = re.compile(
    "a|abbr|b|bd[io]|big|cite|code|data|del|dfn|em|font|i|img|ins|kbd|mark|q|ruby|rb|s|samp|small|span|strike|strong|"
    "su[bp]|time|tt|u|var|wbr"
)
"""Elements within a line; before and after all others a line ends."""

_BLANKS: Final = re.compile(r"[ \t\r\n\f]+")
_LINE_ENDS: Final = re.compile(r"(?<! ) *\n[ \n]*")
"""From the first blank on: from each, many blanks would take the square of their number."""


def text_of_epub(zipped: Zipped) -> str:
    """Return the text of an EPUB, a line for each paragraph.

    Raises:
        DocumentError: It cannot be read, or is encrypted.
    """
    chapters = _chapters(zipped)
    if _encrypted_parts(zipped) & set(chapters):
        raise DocumentError("the book is encrypted (DRM), and cannot be read")
    return normalize_text("\n".join(_Chapter(decode_xml(zipped.read(name), "replace")).text for name in chapters))


def _chapters(zipped: Zipped) -> list[str]:
    """Return the names of an EPUB's chapters in reading order, without the table of contents."""
    packages: list[str] = []
    items: dict[str, str] = {}
    spine: list[str] = []

    def rootfile(name: str, attributes: dict[str, str]) -> None:
        if name.endswith(" rootfile"):
            packages.append(attributes.get("full-path", ""))

    def item(name: str, attributes: dict[str, str]) -> None:
        if name.endswith(" item") and "nav" not in attributes.get("properties", "").split():
            items[attributes.get("id", "")] = unquote(attributes.get("href", ""))
        elif name.endswith(" itemref"):
            spine.append(attributes.get("idref", ""))

    zipped.parse("META-INF/container.xml", rootfile)
    if not packages:
        raise DocumentError("the EPUB names no book")
    zipped.parse(packages[0], item)
    folder = posixpath.dirname(packages[0])
    # Each once, as the standard has it: a chapter of no bytes could be read a million times.
    hrefs = (items[name] for name in dict.fromkeys(spine) if name in items)
    return list(dict.fromkeys(posixpath.normpath(posixpath.join(folder, href)) for href in hrefs))


def _encrypted_parts(zipped: Zipped) -> set[str]:
    """Return the names of an EPUB's encrypted parts; fonts are in many books, which harms no text."""
    names: set[str] = set()

    def start(name: str, attributes: dict[str, str]) -> None:
        if name.endswith(" CipherReference"):
            names.add(unquote(attributes.get("URI", "")))

    if "META-INF/encryption.xml" in zipped:
        zipped.parse("META-INF/encryption.xml", start)
    return names


class _Chapter(HTMLParser):
    # Not an XML parser: many books are not well-formed, and all may name HTML's entities.

    def __init__(self, page: str) -> None:
        super().__init__()
        self._pieces: list[str] = []
        self._num_skipped = 0
        self.feed(page)
        self.close()
        # Blanks first, for a line that ends in the source is no end of a line.
        self.text = _LINE_ENDS.sub("\n", "".join(self._pieces))

    @override
    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._num_skipped += tag in _SKIPPED
        self._end_line(tag)

    @override
    def handle_endtag(self, tag: str) -> None:
        if tag in _SKIPPED and self._num_skipped:
            self._num_skipped -= 1
        self._end_line(tag)

    @override
    def handle_data(self, data: str) -> None:
        if not self._num_skipped:
            self._pieces.append(_BLANKS.sub(" ", data))

    @override
    def unknown_decl(self, data: str) -> None:
        if data.startswith("CDATA["):
            self.handle_data(data.removeprefix("CDATA["))

    def _end_line(self, tag: str) -> None:
        """End the line at a block tag, one that is not inline."""
        if tag not in _SKIPPED and not _INLINE.fullmatch(tag):
            self._pieces.append("\n")
