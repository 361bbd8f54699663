"""The text of HTML and XHTML, as a browser shows it: for files, and for the chapters of an EPUB."""

import re
from html.parser import HTMLParser
from typing import Final

from typing_extensions import override

from vocab.documents.zipped import normalize_text

_SKIPPED: Final = frozenset({"title", "script", "style", "noscript", "template", "iframe", "svg", "math"})
_SPOKEN: Final = frozenset({"rt", "rtc", "rp"})
"""How the words of a ruby are spoken, also skipped; the end tags may be left out."""

_INLINE: Final = re.compile(
    "a|abbr|b|bd[io]|big|cite|code|data|del|dfn|em|font|i|img|ins|kbd|mark|q|ruby|rb|s|samp|small|span|strike|strong|"
    "su[bp]|time|tt|u|var|wbr"
)
"""Elements within a line; before and after all others a line ends."""

_BLANKS: Final = re.compile(r"[ \t\r\n\f]+")
_LINE_ENDS: Final = re.compile(r"(?<! ) *\n[ \n]*")
"""From the first blank on: from each, many blanks would take the square of their number."""


def text_of_page(html: str) -> str:
    """Return the text of a page, which may be neither well-formed nor whole."""
    page = _Page()
    page.feed(html)
    # A tag or comment that does not end is not shown.
    if not page.rawdata.startswith("<"):
        page.close()
    # Blanks first, for a line that ends in the source is no end of a line.
    return normalize_text(_LINE_ENDS.sub("\n", "".join(page.pieces)))


class _Page(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.pieces: list[str] = []
        self._num_skipped = 0
        self._is_spoken = False

    @override
    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._num_skipped += tag in _SKIPPED
        self._is_spoken = tag in _SPOKEN or (self._is_spoken and tag != "rb")
        self._end_line(tag)

    @override
    def handle_endtag(self, tag: str) -> None:
        self._num_skipped -= tag in _SKIPPED and self._num_skipped > 0
        self._is_spoken = self._is_spoken and tag not in _SPOKEN and tag != "ruby"
        self._end_line(tag)

    @override
    def handle_data(self, data: str) -> None:
        if not self._num_skipped and not self._is_spoken:
            self.pieces.append(_BLANKS.sub(" ", data))

    @override
    def unknown_decl(self, data: str) -> None:
        if data.startswith("CDATA["):
            self.handle_data(data.removeprefix("CDATA["))

    def _end_line(self, tag: str) -> None:
        """End the line at a block tag, one that is not inline."""
        if not self._num_skipped and tag not in _SKIPPED | _SPOKEN and not _INLINE.fullmatch(tag):
            self.pieces.append("\n")
