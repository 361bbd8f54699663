"""The text of a page of HTML, as a browser shows it: a line for each block.

Read in one pass, whatever is in it: the parser of Python takes minutes for 100 KB of ``<a``.
"""

import html
import re
from typing import Final

from vocab.documents.zipped import MAX_XML_BYTES, decode_xml, normalize_text
from vocab.errors import DocumentError

_SKIPPED: Final = frozenset(
    {"title", "script", "style", "noscript", "template", "iframe", "svg", "math", "rt", "rtc", "rp"}
)
"""Not read: what is not shown, and how the words of a ruby are spoken."""

_RAW: Final = {tag: re.compile(rf"</{tag}(?=[\s/>])", re.IGNORECASE) for tag in ("title", "script", "style", "iframe")}
"""Of these the text has no tags; where it ends."""

_SPOKEN: Final = frozenset({"rt", "rtc", "rp"})
"""Their end tags may be left out."""

_INLINE: Final = re.compile(
    "a|abbr|b|bd[io]|big|cite|code|data|del|dfn|em|font|i|img|ins|kbd|mark|q|ruby|rb|s|samp|small|span|strike|strong|"
    "su[bp]|time|tt|u|var|wbr"
)
"""Elements within a line; before and after all others a line ends."""

_MARKUP: Final = re.compile(
    r"""
    <!--(?:-?>|.*?(?:--!?>|\Z))
    | <!\[CDATA\[(?P<data>.*?)(?:\]\]>|\Z)
    | <(?P<end>/?)(?P<tag>[A-Za-z][^\s/>]*+)
      (?P<attributes>(?:[^>=]++|=\s*+(?:"[^"]*+(?:"|\Z)|'[^']*+(?:'|\Z))?+)*+)(?:>|\Z)
    | <[!?/][^>]*+(?:>|\Z)
    """,
    re.VERBOSE | re.DOTALL,
)
"""Each ends at the end of the page at the latest."""

_BLANKS: Final = re.compile(r"[ \t\r\n\f]+")
_LINE_ENDS: Final = re.compile(r"(?<! ) *\n[ \n]*")
"""From the first blank on: from each, many blanks would take the square of their number."""


def text_of_html(data: bytes) -> str:
    """Return the text of a file of HTML.

    Raises:
        DocumentError: It is too large.
        UnicodeDecodeError: It is in another encoding than it says.
    """
    if len(data) > MAX_XML_BYTES:
        raise DocumentError(f"more than {MAX_XML_BYTES // 2**20} MiB of HTML; send a part of it")
    return normalize_text(text_of_page(decode_xml(data)))


def text_of_page(page: str) -> str:
    """Return the text of a page of HTML or XHTML."""
    pieces: list[str] = []
    skipped, depth, done = "", 0, 0
    while match := _MARKUP.search(page, done):
        if not skipped:
            pieces.append(_shown(html.unescape(page[done : match.start()])))
        done, tag, is_end = match.end(), (match["tag"] or "").lower(), bool(match["end"])
        if match["data"] is not None and not skipped:
            pieces.append(_shown(match["data"]))
        if not tag:
            continue
        if skipped in _SPOKEN and (tag in _SPOKEN or tag in ("rb", "ruby")):
            skipped = ""
        if not skipped and tag not in _SKIPPED:
            pieces.append("" if _INLINE.fullmatch(tag) else "\n")
        elif (match["attributes"] or "").endswith("/") and not is_end:
            continue
        elif not skipped and not is_end:
            skipped, depth = tag, 1
            if tag in _RAW:
                end = _RAW[tag].search(page, done)
                done = end.start() if end else len(page)
        elif tag == skipped:
            depth += -1 if is_end else 1
            skipped = skipped if depth else ""
    if not skipped:
        pieces.append(_shown(html.unescape(page[done:])))
    # Blanks first, for a line that ends in the source is no end of a line.
    return _LINE_ENDS.sub("\n", "".join(pieces))


def _shown(data: str) -> str:
    return _BLANKS.sub(" ", data)
