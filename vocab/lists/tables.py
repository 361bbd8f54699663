"""Read a file of words, of whoever's making, as sheets of rows: plain lines, CSV, TSV, an export of Anki, or XLSX.

Nothing is guessed that the bytes do not show: text other than UTF-8 is of an encoding that it fits, or is refused.
"""

import csv
import html
import re
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Final, NamedTuple

from vocab.csv_cells import read_cell
from vocab.documents.zipped import Zipped
from vocab.errors import DocumentError

MAX_FILE_BYTES: Final = 16 * 2**20
"""Of a file of words. Costs ten times its size while it is read. The longest published list has 1 MB."""

MAX_CELLS: Final = 2_000_000
"""Of a file: its rows, and their cells up to the last that is filled. Costs 130 MB; 50,000 words with 20 columns have
half of it."""

MAX_CELL_CHARS: Final = 32_767
"""Of one cell, as in Excel itself."""

MAX_CHARS: Final = 64 * 2**20
"""Of all cells, each with the whole of a text that several share. Costs up to 4 bytes each."""


class Row(NamedTuple):
    """A row that is not blank. Lines count from 1; a row of a text has the line where it begins."""

    line: int
    cells: list[str]


@dataclass(frozen=True)
class Sheet:
    """Rows of a file.

    Attributes:
        is_plain: Whether each row is a line of a text, with one cell.
        name: Of one of several sheets.
        columns: Their names, where the file has them in another place than a row.
    """

    rows: list[Row]
    is_plain: bool = False
    name: str | None = None
    columns: tuple[str, ...] = ()


def read_bytes(path: Path) -> bytes:
    """Read the bytes of a file, and no more than what shows that it is too large."""
    with path.open("rb") as file:
        return file.read(MAX_FILE_BYTES + 1)


def read_sheets(
    data: bytes, name: str = "", language: str = "", column_names: Container[str] = ()
) -> tuple[list[Sheet], str | None]:
    """Read a file of words; return its sheets, and the encoding of a text.

    Args:
        data: The file's bytes.
        name: The file's, for its ending.
        language: Of the words, for encodings other than Unicode.
        column_names: In small letters; a first line with one of them has the names of columns.

    Raises:
        DocumentError: It is too large, damaged, encrypted, of another kind, or in an encoding that cannot be told.
    """
    if len(data) > MAX_FILE_BYTES:
        raise DocumentError(f"more than {MAX_FILE_BYTES // 2**20} MiB")
    if data.startswith(b"PK\x03\x04"):
        return _sheets_of_xlsx(Zipped(data)), None
    if kind := next((kind for mark, kind in _OTHER_KINDS.items() if data.startswith(mark)), None):
        raise DocumentError(kind)
    text, encoding = _decode(data, language)
    return [_sheet_of_text(text, PurePath(name).suffix.lower() in (".csv", ".tsv"), column_names)], encoding


_OTHER_KINDS: Final = {
    b"\xd0\xcf\x11\xe0": "a file of an old Excel, or one with a password; save it as .xlsx without a password",
    b"%PDF-": "a PDF; copy its words into a text, a line each",
    b"{\\rtf": "an RTF file; save it as plain text",
}

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

_HIGH: Final = re.compile(rb"[\x80-\xff]+")
_IMPLAUSIBLE: Final = re.compile(r"[a-zß-öø-ÿа-я][À-ÖØ-ÞА-Я]|[\x80-\x9f]|\bÿ")
"""In a text of one byte a character that was written in another encoding: "caf" with "Ã" after it."""


def _decode(data: bytes, language: str) -> tuple[str, str]:
    """Return the text of bytes, and the name of its encoding."""
    codec = "utf-16" if data.startswith((b"\xff\xfe", b"\xfe\xff")) else "utf-8-sig"
    # Of UTF-16 each ASCII character has a NUL, and so has the end of a line; other texts have none.
    num_ends = max(data.count(b"\n\0"), data.count(b"\0\n"))
    is_utf_16 = 4 * data.count(0) >= len(data) > 0 or 2 * num_ends > data.count(b"\n") or not _is_utf_8(data)
    if codec != "utf-16" and b"\0" in data and is_utf_16:
        codec = "utf-16-le" if data[1::2].count(0) >= data[::2].count(0) else "utf-16-be"
    try:
        return data.decode(codec), "UTF-16" if "16" in codec else "UTF-8"
    except UnicodeDecodeError as error:
        line = data[: error.start].decode(codec, "ignore").count("\n") + 1
    codec = "utf-8" if "16" in codec else _guess(data, language)
    try:
        text = data.decode(codec)
        if not (codec.startswith("cp125") and _IMPLAUSIBLE.search(text)):
            return text, codec.replace("cp", "windows-").replace("gb", "GB")
    except UnicodeDecodeError:
        pass
    raise DocumentError(f"line {line}: not UTF-8. Save the file as UTF-8")


def _guess(data: bytes, language: str) -> str:
    """Return the encoding that bytes other than UTF-8 have; UTF-8 where it cannot be told."""
    is_utf_8 = [_is_utf_8(line) for line in data.split(b"\n") if not line.isascii()]
    if 2 * sum(is_utf_8) >= len(is_utf_8):
        # UTF-8, a line of which is damaged.
        return "utf-8"
    if language in _WINDOWS:
        return _WINDOWS[language]
    runs = [run[0] for run in _HIGH.finditer(data)]
    if any(len(run) % 2 for run in runs):
        # In western languages letters with accents rarely stand beside one another.
        return "cp1252" if 10 * sum(len(run) == 1 for run in runs) >= 8 * len(runs) else "utf-8"
    # Two bytes a character: of the usual ones of GB 2312 the first is from B0 to D7, in the later half too, where
    # Korean has none; other encodings have more.
    leads = b"".join(run[::2] for run in runs)
    is_chinese = all(0xB0 <= lead <= 0xD7 or lead in b"\xa1\xa3" for lead in leads)
    return "gb18030" if is_chinese and 5 * sum(lead >= 0xC9 for lead in leads) >= len(leads) else "utf-8"


def _is_utf_8(line: bytes) -> bool:
    try:
        line.decode()
    except UnicodeDecodeError:
        return False
    return True


# Texts ---------------------------------------------------------------------------------------------------------------

_EXCEL_SEPARATOR: Final = re.compile(r'"?sep=(.)"?\s*', re.IGNORECASE)
_ANKI_HEADER: Final = re.compile(
    "#(separator|html|columns|tags|deck|notetype|(?:guid|tags|deck|notetype) column|if matches)\\s*:(.*)", re.IGNORECASE
)
_ANKI_SEPARATORS: Final = {"tab": "\t", "comma": ",", "semicolon": ";", "pipe": "|", "colon": ":", "space": " "}
_NOT_TEXT: Final = re.compile(r"<[^<>]{0,1000}>|\[(?:sound|anki):[^\[\]]*\]")
_QUOTED: Final = re.compile(r'"(?:[^"]|"")*"')
_NUMBER: Final = re.compile(r"[+-]?[\d.,\s]{1,30}%?(?:[eE][+-]?\d{1,3})?")
_DELIMITERS: Final = "\t;|,"
_LOOKED_AT: Final = 1_000
"""Lines by which a text is taken for a table."""


def is_number(text: str) -> bool:
    """Return whether a text is a number: 3, 1,000, 0.5%, 2e-5."""
    return bool(_NUMBER.fullmatch(text)) and any(map(str.isdigit, text))


def _sheet_of_text(text: str, is_table: bool, column_names: Container[str]) -> Sheet:
    # A carriage return ends a line where there is no other end, as on an old Macintosh.
    lines = [line.removesuffix("\r") for line in text.split("\n" if "\n" in text else "\r")]
    if len(lines) > MAX_CELLS:
        raise _too_large(MAX_CELLS, "cells")
    head = list[re.Match[str]]()
    for line in lines:
        if (match := _ANKI_HEADER.fullmatch(line)) is None:
            break
        head.append(match)
    said = {match[1].lower(): match[2].strip() for match in head}
    start, columns = len(head) if "separator" in said else 0, ""
    if start:
        delimiter = _ANKI_SEPARATORS.get(said["separator"].lower(), said["separator"][:1] or "\t")
        columns = said.get("columns", "")
    elif match := _EXCEL_SEPARATOR.fullmatch(lines[0]):
        start, delimiter = 1, match[1]
    else:
        delimiter = _delimiter_of(lines, is_table, column_names)
    if not delimiter and not is_table:
        return Sheet([Row(number, [line]) for number, line in enumerate(lines, 1) if line.strip()], is_plain=True)
    if delimiter == "|":
        # A table of Markdown has them at both ends.
        lines = [line.strip().removeprefix("|").removesuffix("|") for line in lines]
    # A single column has quotation marks too.
    rows = list(_rows_of_csv(lines[start:], delimiter or "\x1f", start))
    if said.get("html", "").lower() == "true":
        rows = [Row(line, [html.unescape(_NOT_TEXT.sub(" ", cell)) for cell in cells]) for line, cells in rows]
    return Sheet(rows, columns=tuple(columns.split(delimiter)) if columns else ())


def _delimiter_of(lines: Sequence[str], is_table: bool, column_names: Container[str]) -> str:
    """Return what parts the cells of a text; nothing where each line is an entry.

    A mark counts where it parts the names of columns, or where nearly all lines have it, and not as in "der Hund, -e"
    or the rare "a, an" of a plain list.
    """
    shown = [line for line in lines if line.strip() and not line.startswith("#")][:_LOOKED_AT]
    for mark in _DELIMITERS:
        cells = shown[0].split(mark) if shown else []
        if len(cells) > 1 and any(cell.strip(' "').casefold() in column_names for cell in cells):
            return mark
    shown = [_QUOTED.sub('""', line) for line in shown]
    for mark in _DELIMITERS:
        found = [line for line in shown if mark in line]
        if len(found) < max(1 if is_table else 2, len(shown) * (0.5 if mark == "\t" else 0.3 if is_table else 0.8)):
            continue
        num_numbers = sum(is_number(line.rpartition(mark)[2].strip()) for line in found)
        num_inside = sum(not _BAR.search(line) if mark == "|" else f"{mark} " in line for line in found)
        if mark == "\t" or num_numbers >= 0.8 * len(found) or num_inside < 0.5 * len(found):
            return mark
    return ""


_BAR: Final = re.compile(r"^\s*\||\s\||\|\s")
"""How | stands in tables, and not in "ab|fahren"."""


def _rows_of_csv(lines: Sequence[str], delimiter: str, start: int) -> Iterator[Row]:
    """Yield the rows that have a text, within the limit on cells; lines are counted after ``start``."""
    num_left, line = MAX_CELLS, start + 1
    reader = csv.reader((f"{text}\n" for text in lines), delimiter=delimiter, skipinitialspace=True)
    try:
        for cells in reader:
            num_left -= 1 + len(cells) if cells else 0
            if num_left < 0:
                raise _too_large(MAX_CELLS, "cells")
            if any(map(str.strip, cells)):
                yield Row(line, list(map(read_cell, cells)))
            line = start + reader.line_num + 1
    except csv.Error as error:
        raise DocumentError(f"line {line}: no table: {error}") from None


def _too_large(limit: int, unit: str) -> DocumentError:
    return DocumentError(f"more than {limit:,} {unit}; leave out columns and rows that have no words or levels")


# XLSX ----------------------------------------------------------------------------------------------------------------

_REFERENCE: Final = re.compile("([A-Z]{1,3})[0-9]+")
_FIRST_SHEET: Final = "xl/worksheets/sheet1.xml"
_TRUTH: Final = {"1": "true", "0": "false"}
"""Words that Excel takes for truth values."""


def _sheets_of_xlsx(zipped: Zipped) -> list[Sheet]:
    """Return the sheets of an XLSX file that have rows, in their order."""
    ids, targets = list[tuple[str, str]](), dict[str, str]()

    def start(name: str, attributes: dict[str, str]) -> None:
        if name.endswith(" sheet"):
            ids.append(
                (attributes.get("name", ""), next((attributes[key] for key in attributes if key.endswith(" id")), ""))
            )
        elif name.endswith(" Relationship"):
            target = attributes.get("Target", "")
            targets[attributes.get("Id", "")] = target.removeprefix("/") if target.startswith("/") else f"xl/{target}"

    for part in ("xl/workbook.xml", "xl/_rels/workbook.xml.rels"):
        if part in zipped:
            zipped.parse(part, start)
    parts = [(name, targets[one]) for name, one in ids if targets.get(one, "") in zipped]
    if not parts and _FIRST_SHEET not in zipped:
        raise DocumentError("no XLSX; save the table as CSV in UTF-8")
    strings = _Strings(zipped).strings if "xl/sharedStrings.xml" in zipped else []
    room = _Room()
    read = [(name, _Sheet(zipped, part, strings, room).rows) for name, part in parts or [("", _FIRST_SHEET)]]
    filled = [(name, rows) for name, all_rows in read if (rows := [row for row in all_rows if any(row.cells)])]
    return [Sheet(rows, name=name if len(filled) > 1 else None) for name, rows in filled]


class _Room:
    """What is left of the limits, which all sheets of a file share."""

    def __init__(self) -> None:
        self._left = {"cells": MAX_CELLS, "characters": MAX_CHARS}

    def take(self, number: int, unit: str) -> None:
        """Count before anything is made; raise ``DocumentError`` beyond the limit."""
        self._left[unit] -= number
        if self._left[unit] < 0:
            raise _too_large(MAX_CELLS if unit == "cells" else MAX_CHARS, unit)


class _Strings:
    """Parses the shared strings of an XLSX file, which its cells name by their numbers."""

    def __init__(self, zipped: Zipped) -> None:
        self.strings: list[str] = []
        self._pieces: list[str] = []
        self._is_text = self._is_spoken = False
        zipped.parse("xl/sharedStrings.xml", self._start, self._end, self._data)

    def _start(self, name: str, attributes: dict[str, str]) -> None:  # noqa: ARG002
        """Handle a start tag: leave out how a Japanese word is spoken, which stands beside it."""
        self._is_spoken = self._is_spoken or name.endswith(" rPh")
        self._is_text = name.endswith(" t") and not self._is_spoken

    def _end(self, name: str) -> None:
        """Handle an end tag, after which no text of a string comes."""
        self._is_text = False
        if name.endswith(" rPh"):
            self._is_spoken = False
        elif name.endswith(" si"):
            self.strings.append("".join(self._pieces))
            self._pieces.clear()

    def _data(self, data: str) -> None:
        if self._is_text:
            self._pieces.append(data)


class _Sheet:
    """Parses the rows of an XLSX sheet, with the texts of shared strings in their cells."""

    def __init__(self, zipped: Zipped, part: str, strings: Sequence[str], room: _Room) -> None:
        self.rows: list[Row] = []
        self._strings = strings
        self._room = room
        self._kind = ""
        self._place = 0
        self._pieces: list[str] | None = None
        zipped.parse(part, self._start, self._end, self._data)

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        """Handle a start tag: begin a row, find the column of a cell, or begin its value."""
        tag = name.rpartition(" ")[2]
        if tag == "row":
            self._room.take(1, "cells")
            number = attributes.get("r", "")
            is_number = number.isdecimal() and len(number) <= 7
            self.rows.append(Row(int(number) if is_number else len(self.rows) + 1, []))
        elif tag == "c" and self.rows:
            self._kind = attributes.get("t", "")
            reference = _REFERENCE.fullmatch(attributes.get("r", ""))
            self._place = _column_number(reference[1]) if reference else len(self.rows[-1].cells)
        elif tag in ("v", "t"):
            self._pieces = []

    def _end(self, name: str) -> None:
        """Handle the end of a value: write it, or the shared string it names, into its column."""
        tag = name.rpartition(" ")[2]
        if tag not in ("v", "t") or self._pieces is None or not self.rows:
            return
        value, self._pieces = "".join(self._pieces), None
        if self._kind == "s":
            value = self._shared(value)
        elif self._kind == "b":
            value = _TRUTH.get(value, value)
        row = self.rows[-1].cells
        num_new = max(self._place + 1 - len(row), 0)
        self._room.take(num_new, "cells")
        row.extend([""] * num_new)
        # The text of one cell may stand in several parts.
        if len(row[self._place]) + len(value) > MAX_CELL_CHARS:
            raise _too_large(MAX_CELL_CHARS, "characters in a cell")
        self._room.take(len(value), "characters")
        row[self._place] += value

    def _data(self, data: str) -> None:
        if self._pieces is not None:
            self._pieces.append(data)

    def _shared(self, number: str) -> str:
        """Return the shared string of a number; none of a number that is no index."""
        is_index = number.isdecimal() and len(number) <= len(str(len(self._strings)))
        return self._strings[int(number)] if is_index and int(number) < len(self._strings) else ""


def _column_number(letters: str) -> int:
    """Return the index of a column from its letters: 0 of A, 26 of AA."""
    number = 0
    for letter in letters:
        number = number * 26 + ord(letter) - ord("A") + 1
    return number - 1
