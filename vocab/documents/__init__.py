"""Read the text of a file: plain text, subtitles, HTML, DOCX, ODT, EPUB or PDF by its bytes, Markdown by its name."""

import re
from collections.abc import Iterator
from pathlib import PurePath
from typing import Final

from vocab.errors import DocumentError

_FENCE: Final = re.compile(r"[ \t>]*(?:[-*+][ \t]+)?(`{3,}|~{3,})")
_FRONT_MATTER: Final = {"---": ("---", "..."), "+++": ("+++",)}
"""The first line of a file's own data, and its last."""

# Each ends at a bound, or at the next mark of its kind, so that no text takes more than one pass.
_MARKUP: Final = re.compile(
    r"""
    <!--(?:[^<]|<(?!!--)){0,10000}?-->                # a comment
    | (?<!`)(?P<ticks>`{1,8})(?!`)[^\n]{1,300}?(?<!`)(?P=ticks)(?!`)   # code
    | </?[A-Za-z][^<>]*>                              # a tag, or <https://…>
    | (?<=\])\([^()\n]*(?:\([^()\n]*\)[^()\n]*)*\)    # where a link leads
    | (?<=\])\[[^\]\n]*\]                             # the name of where a link leads
    | ^[ ]{0,3}\[(?!\^)[^\]\n]+\]:[^\n]*              # what such a name means
    | \b(?:https?://|www\.)[^\s<>)\]]+
    | &(?:[A-Za-z][A-Za-z0-9]{1,31}|\#[0-9]{1,7}|\#x[0-9A-Fa-f]{1,6});
    """,
    re.VERBOSE | re.MULTILINE | re.DOTALL,
)
_VISIBLE: Final = re.compile(r"[^\n\r]")


def without_markup(text: str) -> str:
    """Return a Markdown text with blanks in place of front matter, code, tags, comments, and where links lead."""
    prose = "".join(_without_blocks(text.splitlines(keepends=True)))
    return _MARKUP.sub(lambda match: _blank(match[0]), prose)


def _without_blocks(lines: list[str]) -> Iterator[str]:
    """Yield the lines, those of front matter and fenced code as blanks."""
    closing: tuple[str, ...] = ()
    if lines and (closing := _FRONT_MATTER.get(lines[0].rstrip(), ())):
        # Without an end it is a line across the page.
        closing = closing if any(line.rstrip() in closing for line in lines[1:]) else ()
    is_front = bool(closing)
    fence = ""
    for number, line in enumerate(lines):
        is_blank = is_front or bool(fence)
        if is_front:
            is_front = number == 0 or line.rstrip() not in closing
        elif match := _FENCE.match(line):
            if not fence:
                # "```a```" is code within a line.
                fence = match[1] if "`" not in line[match.end() :] else ""
            elif match[1].startswith(fence) and not line[match.end() :].strip():
                fence = ""
            is_blank = is_blank or bool(fence)
        yield _blank(line) if is_blank else line


def _blank(text: str) -> str:
    """Return a text with a blank in place of each character but line ends."""
    return _VISIBLE.sub(" ", text)


MAX_FILE_BYTES: Final = 256 * 2**20
"""Of a file that is read at all; costs its size in memory. Set by books with many pictures."""

TOO_LARGE: Final = "it takes too much memory to read; save it anew, or as plain text"

_MARKDOWN: Final = (".md", ".markdown")
_HTML: Final = (".html", ".htm", ".xhtml")
_SUBTITLES: Final = re.compile(
    r"WEBVTT(?=\s|$)|\s{0,9}\d{1,9}[ \t]{0,9}\r?\n[ \t]{0,9}[\d:]{4,12}[.,]\d{1,3}[ \t]{0,9}-->"
)
_PAGE: Final = re.compile(
    rb"(?:\xef\xbb\xbf)?\s{0,99}(?:<\?xml[^>]{0,200}>\s{0,99})?<(?:!doctype\s+html|html)[\s>]", re.I
)
_ZIP: Final = b"PK\x03\x04"
_PDF: Final = b"%PDF-"
_OLD_OFFICE: Final = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
"""Word before 2007, and the envelope of a DOCX with a password."""
_KINDS: Final = "plain text, Markdown, HTML, subtitles, DOCX, ODT, EPUB and PDF are read"


def text_of(data: bytes, name: str) -> str:
    """Read the text of a file: plain text, Markdown, HTML, subtitles, DOCX, ODT, EPUB or PDF.

    Raises:
        DocumentError: It is none of these kinds, damaged, encrypted, too large, or has no text. Its message is one of
            this package's, whatever error a reader raised.
    """
    if len(data) > MAX_FILE_BYTES:
        raise DocumentError(f"more than {MAX_FILE_BYTES // 2**20} MiB; send a part of it")
    try:
        text = _text_of(data, PurePath(name).suffix.lower())
    except DocumentError:
        raise
    except (MemoryError, RecursionError):
        raise DocumentError(TOO_LARGE) from None
    except Exception:
        # Whatever a damaged file makes of the readers: they raise errors of some dozen kinds.
        from vocab.documents.zipped import DAMAGED

        raise DocumentError(DAMAGED) from None
    if not text.strip():
        raise DocumentError("there is no text in it" if data else "the file is empty")
    return text


def _text_of(data: bytes, suffix: str) -> str:
    """Read a file's text by its kind, known by its bytes, for Markdown and parts of HTML by its suffix."""
    if data.startswith(_ZIP):
        return _text_of_zip(data)
    # Readers accept a PDF that begins somewhere in the first kilobyte.
    if _PDF in data[:1024]:
        from vocab.documents.pdf import text_of_pdf

        return text_of_pdf(data)
    if data.startswith(_OLD_OFFICE):
        raise DocumentError("a file of an old Word, or one with a password; save it as .docx without a password")
    if data.startswith(b"{\\rtf"):
        raise DocumentError("an RTF file; save it as .docx or plain text first")
    is_page = suffix in _HTML or (suffix not in _MARKDOWN and _PAGE.match(data) is not None)
    if is_page:
        from vocab.documents.page import text_of_page
        from vocab.documents.zipped import decode_xml

        try:
            page = decode_xml(data)
        except UnicodeDecodeError:
            page, _ = decode(data)
        return text_of_page(page)
    text, _ = decode(data)
    if suffix in _MARKDOWN:
        return without_markup(text)
    if _SUBTITLES.match(text):
        from vocab.documents.subtitles import text_of_subtitles

        return text_of_subtitles(text)
    from vocab.documents.lines import join_cut_words

    return join_cut_words(text)


def _text_of_zip(data: bytes) -> str:
    """Read the text of a zip file, which must be an EPUB, a DOCX or an ODT."""
    from vocab.documents.epub import text_of_epub
    from vocab.documents.office import text_of_docx, text_of_odt
    from vocab.documents.zipped import Zipped

    zipped = Zipped(data)
    if "META-INF/container.xml" in zipped:
        return text_of_epub(zipped)
    if "[Content_Types].xml" in zipped and "_rels/.rels" in zipped:
        return text_of_docx(zipped)
    if "mimetype" in zipped and "content.xml" in zipped:
        return text_of_odt(zipped)
    raise DocumentError(f"neither a DOCX, an ODT nor an EPUB; {_KINDS}")


# Encodings ------------------------------------------------------------------------------------------------------------

_WINDOWS: Final = {
    language: codec
    for codec, languages in {
        "cp1252": "en de fr es it pt nl sv nb nn da fi is ca gl eu ga id ms fil", "cp1251": "ru uk be bg mk sr",
        "cp1250": "pl cs sk hu sl sh hr bs ro sq", "cp1253": "el", "cp1254": "tr az", "cp1255": "he",
        "cp1256": "ar fa ur", "cp1257": "et lv lt", "cp1258": "vi", "cp874": "th", "cp932": "ja", "cp949": "ko",
        "gb18030": "zh", "big5": "zh-Hant",
    }.items()
    for language in languages.split()
}  # fmt: skip
"""The encodings of Windows, where it does not write Unicode."""

_IMPLAUSIBLE: Final = re.compile(r"[a-zß-öø-ÿа-я][À-ÖØ-ÞА-Я]|[\x80-\x9f]|ÿ")
"""In a text of one byte a character that was written in another encoding: "caf" with "Ã" after it."""


def decode(data: bytes, language: str = "") -> tuple[str, str]:
    """Return the text of bytes, and the name of its encoding; ``language`` tells those of Windows apart.

    Raises:
        DocumentError: It cannot be told.
    """
    for codec in _codecs_of(data, language):
        try:
            text = data.decode(codec)
        except UnicodeDecodeError:
            continue
        if not (codec.startswith("cp125") and _IMPLAUSIBLE.search(text)):
            return text, _SHOWN.get(codec, codec.replace("cp", "windows-").replace("gb", "GB"))
    line = next((number for number, line in enumerate(data.split(b"\n"), 1) if not _is_utf_8(line)), 1)
    raise DocumentError(f"line {line}: not UTF-8. Save the file as UTF-8")


_SHOWN: Final = {"utf-8-sig": "UTF-8", "utf-16": "UTF-16", "utf-16-le": "UTF-16", "utf-16-be": "UTF-16"}


def _codecs_of(data: bytes, language: str) -> Iterator[str]:
    """Yield the encodings that bytes may have."""
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        yield "utf-16"
        return
    # Of UTF-16 each ASCII character has a NUL, and so has the end of a line; other texts have none.
    num_ends = max(data.count(b"\n\0"), data.count(b"\0\n"))
    if 4 * data.count(0) < max(len(data), 1) and 2 * num_ends <= data.count(b"\n"):
        yield "utf-8-sig"
    if b"\0" in data:
        yield "utf-16-le" if data[1::2].count(0) >= data[::2].count(0) else "utf-16-be"
    lines = [_is_utf_8(line) for line in data.split(b"\n") if not line.isascii()]
    if 2 * sum(lines) >= len(lines):
        # UTF-8, a line of which is damaged.
        return
    if language in _WINDOWS:
        yield _WINDOWS[language]
        return
    runs = re.findall(rb"[\x80-\xff]+", data)
    # Of two bytes a character: of the usual ones of GB 2312 the first is from B0 to D7, in the later half too, where
    # Korean has none; other encodings have more.
    leads = b"".join(run[::2] for run in runs)
    letters = re.findall(rb"[\x80-\xde\xe0-\xff]+", data)
    if 10 * sum(len(run) == 1 for run in letters) >= 8 * len(letters):
        # In western languages letters with accents rarely stand beside one another, but for the ß of "Größe".
        yield "cp1252"
    elif (
        all(len(run) % 2 == 0 for run in runs)
        and all(0xB0 <= lead <= 0xD7 or lead in b"\xa1\xa3" for lead in leads)
        and 5 * sum(lead >= 0xC9 for lead in leads) >= len(leads)
    ):
        yield "gb18030"


def _is_utf_8(line: bytes) -> bool:
    try:
        line.decode()
    except UnicodeDecodeError:
        return False
    return True
