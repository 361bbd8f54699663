"""Zip files of XML, read within bounds: a megabyte of zip can hold a terabyte."""

import codecs
import io
import re
import unicodedata
import zipfile
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final
from xml.parsers import expat

from vocab.errors import DocumentError

MAX_XML_BYTES: Final = 64 * 2**20
"""Of all parts that are read, unpacked. Costs three times its size. The longest novels have 6 MB of text, and their
XML has three times as many bytes."""

MAX_PARTS: Final = 20_000
"""Costs 1 KB each when the file is opened. An illustrated book has some hundreds."""

DAMAGED: Final = "the file is damaged; save it anew, or as plain text"

_COMPRESSIONS: Final = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
"""All that the standards of DOCX, XLSX and EPUB allow."""

_ENCODINGS: Final = frozenset(
    {"ascii", "utf-8"}
    | {f"iso8859-{part}" for part in range(1, 17) if part != 12}
    | {f"cp{page}" for page in range(1250, 1259)}
    | {"koi8-r", "koi8-u", "gb2312", "gbk", "gb18030", "big5", "shift_jis", "cp932", "euc_jp", "euc_kr", "cp949"}
)
"""Of XML, as Python names them, besides UTF-16, which is told by its first bytes. All take time in proportion to the
text. Of Python's others, some raise errors of any kind, and punycode takes minutes for a megabyte."""

_NAMED_ENCODING: Final = re.compile(
    rb"""<\?xml[^>]{0,200}?encoding\s*=\s*["']([A-Za-z0-9._-]{1,40})["']"""
    rb"""|(?i:<meta\s[^>]{0,200}?charset\s{0,9}=\s{0,9}["']?([A-Za-z0-9._-]{1,40}))"""
)
_MAX_HEAD: Final = 1_024
"""Bytes of a page within which it names its encoding, by the standard of HTML."""
_MARKS_OF_ENCODINGS: Final = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
    (b"<\0", "utf-16-le"),
    (b"\0<", "utf-16-be"),
)


class Zipped:
    """The parts of a zip file by name, unpacked within a bound."""

    def __init__(self, data: bytes) -> None:
        # The number of parts is in the last record, before any of them is looked at.
        if data.count(b"PK\x01\x02") > MAX_PARTS:
            raise DocumentError(f"more than {MAX_PARTS:,} files inside")
        try:
            self._archive = zipfile.ZipFile(io.BytesIO(data))
        except Exception:
            raise DocumentError(DAMAGED) from None
        self._names = frozenset(self._archive.namelist())
        self._num_left = MAX_XML_BYTES

    def __contains__(self, name: str) -> bool:
        return name in self._names

    def read(self, name: str) -> bytes:
        """Unpack one part of the zip file.

        Raises:
            DocumentError: There is none, it is damaged or encrypted, or there is more to unpack than is allowed.
        """
        if name not in self._names or (info := self._archive.getinfo(name)).compress_type not in _COMPRESSIONS:
            raise DocumentError(DAMAGED)
        if info.flag_bits & 1:
            raise DocumentError("the file is encrypted; save it without a password")
        try:
            with self._archive.open(name) as part:
                data = part.read(self._num_left + 1)
        except Exception:
            # Whatever a damaged file makes of the readers: they raise errors of some dozen kinds.
            raise DocumentError(DAMAGED) from None
        self._num_left -= len(data)
        if self._num_left < 0:
            raise DocumentError(f"more than {MAX_XML_BYTES // 2**20} MiB of text when unpacked; send a part of it")
        return data

    def check(self) -> None:
        """Unpack every part; raise ``DocumentError`` as ``read``."""
        for name in self._names:
            self.read(name)

    def parse(
        self,
        name: str,
        start: Callable[[str, dict[str, str]], Any],
        end: Callable[[str], Any] | None = None,
        text: Callable[[str], Any] | None = None,
    ) -> None:
        """Parse a part as XML with these handlers, which get names as namespace, blank, name.

        Raises:
            DocumentError: As ``read``, or it is not well-formed, or declares entities.
        """
        parser = expat.ParserCreate(namespace_separator=" ")
        parser.buffer_text = True
        parser.StartElementHandler = start
        parser.EndElementHandler = end
        parser.CharacterDataHandler = text
        parser.EntityDeclHandler = _refuse_entity
        try:
            # As text, for whose encoding expat does not ask.
            parser.Parse(decode_xml(self.read(name)), True)
        except (expat.ExpatError, UnicodeError):
            raise DocumentError(DAMAGED) from None


def decode_xml(data: bytes, errors: str = "strict") -> str:
    """Decode XML or HTML by the encoding that it names; as UTF-8 where it names none, or one that is not read.

    Raises:
        UnicodeDecodeError: It is in another encoding, and ``errors`` is "strict".
    """
    for mark, encoding in _MARKS_OF_ENCODINGS:
        if data.startswith(mark):
            return data.decode(encoding, errors)
    encoding = "utf-8"
    if match := _NAMED_ENCODING.search(data[:_MAX_HEAD]):
        with suppress(LookupError):
            named = codecs.lookup((match[1] or match[2]).decode()).name
            # What browsers take it for.
            named = "cp1252" if match[2] and named == "iso8859-1" else named
            encoding = named if named in _ENCODINGS else encoding
    return data.decode(encoding, errors)


def normalize_text(text: str) -> str:
    """Normalize text as a reader sees it: NFC, ligatures as letters, no soft hyphens or byte order marks."""
    for char, seen in _SEEN.items():
        text = text.replace(char, seen)
    return unicodedata.normalize("NFC", text)


_SEEN: Final = {
    "\u00ad": "",
    "\ufeff": "",
    "\u2010": "-",
    "\u2011": "-",
    **{chr(code): unicodedata.normalize("NFKC", chr(code)) for code in range(0xFB00, 0xFB07)},
}


def _refuse_entity(*_: object) -> None:
    # A few of them, each made of the one before, can stand for gigabytes.
    raise DocumentError("its XML declares entities, which is not supported")
