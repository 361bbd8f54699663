"""Read published lists with levels, tables in CSV, TSV or XLSX, as the rows of a file of levels."""

import csv
import io
import re
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from vocab.documents.zipped import Zipped
from vocab.errors import DocumentError, InvalidWordListError
from vocab.lists.entries import clean_entry
from vocab.lists.japanese import GRAMMAR, forms_of
from vocab.lists.levels import (
    MAX_FILE_BYTES,
    Family,
    LevelRow,
)

_WORD_COLUMNS: Final = ("headword", "lemma", "word", "words")
_LEVEL_COLUMNS: Final = ("cefr", "cefr level", "cefr levels", "level", "grade")
_UNSPACED_WORD_COLUMNS: Final = {
    "zh": ("simplified", "hanzi", "word", "chinese"),
    "zh-Hant": ("traditional", "hanzi", "word", "chinese"),
    "ja": ("expression", "word", "kanji", "vocabulary"),
}
_READING_COLUMNS: Final = ("reading", "kana", "hiragana", "furigana")
_TAG_COLUMNS: Final = ("level", "hsk", "hsk level", "hsk_level", "jlpt", "jlpt level", "jlpt_level", "tags")

_NGSL_BAND: Final = 1_000
"""Words of each level of the NGSL, whose table has their order and no levels."""

Row = Sequence[str]

MAX_CELLS: Final = 2_000_000
"""Of a table: its rows, and their cells up to the last that is filled. Costs 130 MB; 50,000 words with 20 columns have
half of it."""

MAX_CELL_CHARS: Final = 32_767
"""Of one cell, as in Excel itself."""

MAX_CHARS: Final = 64 * 2**20
"""Of all cells, each with the whole of a text that several share. Costs up to 4 bytes each."""


def read_table(path: Path) -> list[Row]:
    """Read the rows of a table in CSV, TSV or XLSX.

    Raises:
        DocumentError: It is too large, damaged, or of another kind.
        OSError: It cannot be read.
    """
    with path.open("rb") as file:
        data = file.read(MAX_FILE_BYTES + 1)
    if len(data) > MAX_FILE_BYTES:
        raise DocumentError(f"more than {MAX_FILE_BYTES // 2**20} MiB")
    if data.startswith(b"PK\x03\x04"):
        return list(_rows_of_xlsx(Zipped(data)))
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise DocumentError("not UTF-8; save the table as CSV in UTF-8") from None
    mark = max("\t;,", key=text.partition("\n")[0].count)
    try:
        return list(_within_limits(csv.reader(io.StringIO(text, newline=""), delimiter=mark)))
    except csv.Error as error:
        raise DocumentError(f"no table: {error}") from None


def _within_limits(rows: Iterable[Row]) -> Iterator[Row]:
    """Yield the rows that have a text; raise ``DocumentError`` beyond the limit on cells."""
    num_left = MAX_CELLS
    for row in rows:
        num_left -= 1 + len(row)
        if num_left < 0:
            raise _too_large(MAX_CELLS, "cells")
        if any(row):
            yield row


def _too_large(limit: int, unit: str) -> DocumentError:
    return DocumentError(f"more than {limit:,} {unit}; leave out columns and rows that have no words or levels")


def level_rows(
    table: Sequence[Row],
    family: Family,
    forms: Mapping[str, Sequence[str]],
    word_column: str | None = None,
    level_column: str | None = None,
    language: str = "",
) -> list[LevelRow]:
    """Return the words of a published table with their levels, the lowest level first.

    A word with several levels has the lowest, and of a cell such as "a.m./am" each part counts. The reading of a
    Japanese word is a form of it.

    Args:
        table: Its first row names the columns.
        family: Whose it is.
        forms: Other forms of a word, by the word.
        word_column, level_column: Names of columns, where they are not the usual ones.
        language: Of the words; decides on the columns and cells of Chinese and Japanese tables.

    Raises:
        DocumentError: A column is missing, or there is no word with a level.
        InvalidWordListError: A cell cannot be a word.
    """
    if not table:
        raise DocumentError("an empty table")
    word_at = _column(table[0], word_column, _UNSPACED_WORD_COLUMNS.get(language, _WORD_COLUMNS))
    level_at = None
    if family.levels and not (family.name == "ngsl" and level_column is None):
        level_at = _column(table[0], level_column, _TAG_COLUMNS if family.name in _LEVEL_CELLS else _LEVEL_COLUMNS)
    reading_at = next((place for place, name in enumerate(_names(table[0])) if name in _READING_COLUMNS), None)
    readings: dict[str, list[str]] = {}
    best: dict[str, int] = {}
    for number, row in enumerate(table[1:]):
        place = 0
        if level_at is not None:
            levels_of_row = _levels_of(_cell(row, level_at), family)
            if not levels_of_row:
                continue
            place = min(levels_of_row)
        elif family.levels:
            place = min(number // _NGSL_BAND, len(family.levels) - 1)
        try:
            words = [word for part in _words_of(_cell(row, word_at), language) if (word := clean_entry(part))]
            if language == "ja" and reading_at is not None and words:
                readings.setdefault(words[0], []).extend(map(clean_entry, _words_of(_cell(row, reading_at), language)))
        except InvalidWordListError as error:
            raise InvalidWordListError(f"row {number + 2}: {error}") from None
        for word in words:
            best[word] = min(best.get(word, place), place)
    if not best:
        raise DocumentError(f"no word with a level of {family.name}: {', '.join(family.levels)}")
    levels = family.levels or ("",)
    return [
        LevelRow(word, levels[place], _distinct((*forms.get(word, ()), *readings.get(word, ())), word))
        for word, place in sorted(best.items(), key=lambda pair: pair[1])
    ]


def with_japanese_forms(rows: Sequence[LevelRow], listed: Container[str]) -> list[LevelRow]:
    """Return rows of Japanese words with the forms of verbs and adjectives, and before them the grammar's words.

    Vocabularies have dictionary forms only, and neither particles nor the endings that a text cuts off as words.

    Args:
        rows: The lowest level first.
        listed: The words of the reference dictionary.
    """
    inflected = [
        row._replace(
            forms=_distinct(
                (*row.forms, *(form for word in (row.word, *row.forms) for form in forms_of(word, listed))), row.word
            )
        )
        for row in rows
    ]
    named = {row.word for row in rows}
    grammar = [LevelRow(word, rows[0].level) for word in GRAMMAR if word in listed and word not in named]
    return [*grammar, *inflected]


def _distinct(forms: Iterable[str], word: str) -> tuple[str, ...]:
    """Return the forms of a word, each once, without the word itself."""
    return tuple(form for form in dict.fromkeys(forms) if form and form != word)


def word_families(table: Sequence[Row]) -> dict[str, list[str]]:
    """Map each word to its other forms, from rows of a word and its forms; blank cells do not count."""
    return {row[0].strip(): [cell for cell in map(str.strip, row[1:]) if cell] for row in table if row}


_LEVEL_CELLS: Final = {
    "hsk2": re.compile(r"(?:old-|^(?:hsk)?[ _]?(?:2\.0)?[ _-]*(?:level|band)?[ _-]*)([1-6])(?![\d.])"),
    "hsk3": re.compile(r"(?:new-|^(?:hsk)?[ _]?(?:3\.0)?[ _-]*(?:level|band)?[ _-]*)([1-9])(?![\d.])"),
    "jlpt": re.compile(r"(?:\bn|jlpt[ _-]n?|^)([1-5])\b"),
}
"""Levels as published tables write them: "HSK 1", "3", "7-9", "new-4", "N5", "JLPT JLPT_5"."""


def _levels_of(cell: str, family: Family) -> list[int]:
    """Return the places of the levels that a cell names."""
    pattern = _LEVEL_CELLS.get(family.name)
    if pattern is None:
        return [family.levels.index(cell)] if cell in family.levels else []
    found = pattern.findall(cell.casefold().replace("–", "-"))
    if family.name == "jlpt":
        return [family.levels.index(f"N{number}") for number in found]
    return [min(int(number), len(family.levels)) - 1 for number in found]


_SPLIT: Final = re.compile(r"[/／|｜、;；,，・]")
_NOTE: Final = re.compile(r"[(（][^()（）]*[)）]$|[0-9０-９¹²³]+$")
"""What stands behind a word: its part of speech or reading in brackets, a number that tells it from another."""
_OPTIONAL: Final = re.compile(r"[(（]([^()（）]*)[)）]")
_AFFIX_MARKS: Final = "~～〜…-－ 　"


def _words_of(cell: str, language: str) -> Iterator[str]:
    """Yield the words of a cell: of "爸爸｜爸" both, of "有（一）点儿" that with and without 一, "本" of "本（量）"."""
    if language not in _UNSPACED_WORD_COLUMNS:
        yield from cell.split("/")
        return
    for part in _SPLIT.split(cell):
        word = _NOTE.sub("", _NOTE.sub("", part.strip())).strip(_AFFIX_MARKS)
        yield _OPTIONAL.sub("", word).strip(_AFFIX_MARKS)
        yield _OPTIONAL.sub(r"\1", word).strip(_AFFIX_MARKS)


def _column(names: Row, asked: str | None, usual: Sequence[str]) -> int:
    """Return the index of the column asked for, or else of a usual name; DocumentError without one."""
    known = _names(names)
    for name in usual if asked is None else (asked.casefold(),):
        if name in known:
            return known.index(name)
    wanted = asked or " or ".join(usual)
    raise DocumentError(f"no column {wanted}; there are {', '.join(name.strip() for name in names)[:200]}")


def _names(row: Row) -> list[str]:
    """Return the names of a table's columns as they are compared."""
    return [name.strip().casefold() for name in row]


def _cell(row: Row, place: int) -> str:
    return row[place].strip() if place < len(row) else ""


_REFERENCE: Final = re.compile("([A-Z]{1,3})[0-9]+")


def _rows_of_xlsx(zipped: Zipped) -> Iterator[Row]:
    """Yield the rows of the first sheet of an XLSX file."""
    if "xl/worksheets/sheet1.xml" not in zipped:
        raise DocumentError("no XLSX; save the table as CSV in UTF-8")
    strings = _Strings(zipped).strings if "xl/sharedStrings.xml" in zipped else []
    yield from _Sheet(zipped, strings).rows


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

    def __init__(self, zipped: Zipped, strings: Sequence[str]) -> None:
        self.rows: list[list[str]] = []
        self._strings = strings
        self._kind = ""
        self._place = 0
        self._pieces: list[str] | None = None
        self._num_cells_left = MAX_CELLS
        self._num_chars_left = MAX_CHARS
        zipped.parse("xl/worksheets/sheet1.xml", self._start, self._end, self._data)

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        """Handle a start tag: begin a row, find the column of a cell, or begin its value."""
        tag = name.rpartition(" ")[2]
        if tag == "row":
            self._take_cells(1)
            self.rows.append([])
        elif tag == "c" and self.rows:
            self._kind = attributes.get("t", "")
            reference = _REFERENCE.fullmatch(attributes.get("r", ""))
            self._place = _column_number(reference[1]) if reference else len(self.rows[-1])
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
        row = self.rows[-1]
        num_new = max(self._place + 1 - len(row), 0)
        self._take_cells(num_new)
        row.extend([""] * num_new)
        # The text of one cell may stand in several parts.
        if len(row[self._place]) + len(value) > MAX_CELL_CHARS:
            raise _too_large(MAX_CELL_CHARS, "characters in a cell")
        self._num_chars_left -= len(value)
        if self._num_chars_left < 0:
            raise _too_large(MAX_CHARS, "characters")
        row[self._place] += value

    def _data(self, data: str) -> None:
        if self._pieces is not None:
            self._pieces.append(data)

    def _shared(self, number: str) -> str:
        """Return the shared string of a number; none of a number that is no index."""
        is_index = number.isdecimal() and len(number) <= len(str(len(self._strings)))
        return self._strings[int(number)] if is_index and int(number) < len(self._strings) else ""

    def _take_cells(self, num_cells: int) -> None:
        """Count cells before they are made; raise ``DocumentError`` beyond the limit."""
        self._num_cells_left -= num_cells
        if self._num_cells_left < 0:
            raise _too_large(MAX_CELLS, "cells")


def _column_number(letters: str) -> int:
    """Return the index of a column from its letters: 0 of A, 26 of AA."""
    number = 0
    for letter in letters:
        number = number * 26 + ord(letter) - ord("A") + 1
    return number - 1
