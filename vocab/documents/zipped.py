"""Zip files of XML, read within bounds: a megabyte of zip can hold a terabyte."""

import io
import unicodedata
import zipfile
import zlib
from collections.abc import Callable
from typing import Any, Final
from xml.parsers import expat

from vocab.errors import DocumentError

MAX_XML_BYTES: Final = 64 * 2**20
"""Of all parts that are read, unpacked. Costs three times its size. The longest novels have 6 MB of text, and their
XML has three times as many bytes."""

MAX_PARTS: Final = 20_000
"""Costs 1 KB each when the file is opened. An illustrated book has some hundreds."""

_DAMAGED: Final = "the file is damaged; save it anew, or as plain text"
_FAULTS: Final = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, OSError, ValueError, IndexError)


class Zipped:
    """A zip file's parts by their names."""

    def __init__(self, data: bytes) -> None:
        # The number of parts is in the last record, before any of them is looked at.
        if data.count(b"PK\x01\x02") > MAX_PARTS:
            raise DocumentError(f"more than {MAX_PARTS:,} files inside")
        try:
            self._archive = zipfile.ZipFile(io.BytesIO(data))
        except _FAULTS:
            raise DocumentError(_DAMAGED) from None
        self._names = frozenset(self._archive.namelist())
        self._num_left = MAX_XML_BYTES

    def __contains__(self, name: str) -> bool:
        return name in self._names

    def read(self, name: str) -> bytes:
        """Return a part, unpacked.

        Raises:
            DocumentError: There is none, it is damaged or encrypted, or there is more to unpack than is allowed.
        """
        if name not in self._names:
            raise DocumentError(_DAMAGED)
        if self._archive.getinfo(name).flag_bits & 1:
            raise DocumentError("the file is encrypted; save it without a password")
        try:
            with self._archive.open(name) as part:
                data = part.read(self._num_left + 1)
        except _FAULTS:
            raise DocumentError(_DAMAGED) from None
        self._num_left -= len(data)
        if self._num_left < 0:
            raise DocumentError(f"more than {MAX_XML_BYTES // 2**20} MiB of text when unpacked; send a part of it")
        return data

    def parse(
        self,
        name: str,
        start: Callable[[str, dict[str, str]], Any],
        end: Callable[[str], Any] | None = None,
        text: Callable[[str], Any] | None = None,
    ) -> None:
        """Parse a part as XML; names are given to the functions as namespace, blank, name.

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
            parser.Parse(self.read(name), True)
        except expat.ExpatError:
            raise DocumentError(_DAMAGED) from None


def tidied(text: str) -> str:
    """Return text as a reader sees it: without soft hyphens and marks of byte order, letters in NFC, ligatures as
    letters."""
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
