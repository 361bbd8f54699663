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
from vocab.documents import decode
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
    text, encoding = decode(data, language)
    return [_sheet_of_text(text, PurePath(name).suffix.lower() in (".csv", ".tsv"), column_names)], encoding


_OTHER_KINDS: Final = {
    b"\xd0\xcf\x11\xe0": "a file of an old Excel, or one with a password; save it as .xlsx without a password",
    b"%PDF-": "a PDF; copy its words into a text, a line each",
    b"{\\rtf": "an RTF file; save it as plain text",
}

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
