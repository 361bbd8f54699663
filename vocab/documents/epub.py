"""The text of an EPUB: its chapters in reading order, without the table of contents."""

import posixpath
from urllib.parse import unquote

from vocab.documents.page import text_of_page
from vocab.documents.zipped import Zipped, decode_xml
from vocab.errors import DocumentError


def text_of_epub(zipped: Zipped) -> str:
    """Return the text of an EPUB, a line for each paragraph.

    Raises:
        DocumentError: It cannot be read, or is encrypted.
    """
    chapters = _chapters(zipped)
    if _encrypted_parts(zipped) & set(chapters):
        raise DocumentError("the book is encrypted (DRM), and cannot be read")
    return "\n".join(text_of_page(decode_xml(zipped.read(name), "replace")) for name in chapters)


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
