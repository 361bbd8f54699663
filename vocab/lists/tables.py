"""Read a file of words, of whoever's making, as sheets of rows: plain lines, CSV, TSV, an export of Anki, or XLSX.

Nothing is guessed that the bytes do not show: text other than UTF-8 is of an encoding that it fits, or is refused.
"""

import csv
import html
import io
import re
import warnings
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any, Final, NamedTuple

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
        return _sheets_of_xlsx(data), None
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

_IMPLAUSIBLE: Final = re.compile(r"[a-zß-öø-ÿа-я][À-ÖØ-ÞА-Я]|[\x80-\x9f]|ÿ")
"""In a text of one byte a character that was written in another encoding: "caf" with "Ã" after it."""


def _decode(data: bytes, language: str) -> tuple[str, str]:
    """Return the text of bytes, and the name of its encoding."""
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
    if 10 * sum(len(run) == 1 for run in runs) >= 8 * len(runs):
        # In western languages letters with accents rarely stand beside one another.
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
        raise DocumentError(f"more than {MAX_CELLS:,} cells; leave out lines without words")
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
    rows = list(_within_limits(_rows_of_csv(lines[start:], delimiter or "\x1f", start)))
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
    """Yield the rows; lines are counted after ``start``."""
    line = start + 1
    reader = csv.reader((f"{text}\n" for text in lines), delimiter=delimiter, skipinitialspace=True)
    try:
        for cells in reader:
            if cells:
                yield Row(line, list(map(read_cell, cells)))
            line = start + reader.line_num + 1
    except csv.Error as error:
        raise DocumentError(f"line {line}: no table: {error}") from None


def _within_limits(rows: Iterable[Row]) -> Iterator[Row]:
    """Yield the rows that have a text; raise ``DocumentError`` beyond a limit."""
    num_cells = num_chars = 0
    for row in rows:
        num_cells += 1 + len(row.cells)
        lengths = list(map(len, row.cells))
        num_chars += sum(lengths)
        for number, limit, unit in (
            (num_cells, MAX_CELLS, "cells"),
            (max(lengths, default=0), MAX_CELL_CHARS, "characters in a cell"),
            (num_chars, MAX_CHARS, "characters"),
        ):
            if number > limit:
                raise DocumentError(f"more than {limit:,} {unit}; leave out columns and rows without words or levels")
        if any(map(str.strip, row.cells)):
            yield row


# XLSX ----------------------------------------------------------------------------------------------------------------


def _sheets_of_xlsx(data: bytes) -> list[Sheet]:
    """Return the sheets of an XLSX file that have rows, in their order."""
    Zipped(data).check()
    try:
        from openpyxl import load_workbook
    except ModuleNotFoundError:
        raise DocumentError("to read XLSX files: pip install 'wordbound[files]'; or save the table as CSV") from None
    try:
        with warnings.catch_warnings():
            # Of what it does not read in a file that it can read all the same.
            warnings.simplefilter("ignore")
            book = load_workbook(io.BytesIO(data), read_only=True, data_only=True, keep_links=False)
            found = [(sheet.title, row) for sheet in book.worksheets for row in _within_limits(_rows_of_sheet(sheet))]
    except (DocumentError, MemoryError):
        raise
    except Exception:
        # Whatever a damaged file makes of the reader: it raises errors of some dozen kinds.
        raise DocumentError("no XLSX, or a damaged one; save the table anew, or as CSV in UTF-8") from None
    names = dict.fromkeys(name for name, _ in found)
    return [Sheet([row for of, row in found if of == name], name=name if len(names) > 1 else None) for name in names]


def _rows_of_sheet(sheet: Any) -> Iterator[Row]:
    # What a sheet says of its size is often wrong.
    sheet.reset_dimensions()
    for line, values in enumerate(sheet.iter_rows(values_only=True), 1):
        yield Row(line, ["" if value is None else _text_of_value(value) for value in values])


def _text_of_value(value: object) -> str:
    """Return a cell's value as it is typed: words that Excel takes for truth values, whole numbers, or a text."""
    if isinstance(value, bool):
        return str(value).lower()
    return str(int(value) if isinstance(value, float) and value.is_integer() else value)
