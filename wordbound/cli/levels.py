"""``wordbound levels`` and ``words``: named levels, and the words of a list with their ranks and lemmas.

Published lists with levels are read as tables in CSV, TSV or XLSX, and made into files of levels.
"""

import csv
import io
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Final

import typer

from vocab.documents.zipped import Zipped
from vocab.errors import DocumentError, InvalidWordListError, VocabularyError
from vocab.lists.entries import clean_entry
from vocab.lists.lemmas import KnownLemmas
from vocab.lists.levels import (
    BANDS,
    FAMILIES,
    MAX_FILE_BYTES,
    Family,
    LevelRow,
    find_level_file,
    languages_here,
    read_levels,
    write_levels,
)
from vocab.lists.wordlists import check_language, words_with
from wordbound.cli.commands import InputError
from wordbound.cli.lists import (
    FolderOption,
    LevelOption,
    ListOption,
    SafeOption,
    SourceOption,
    UnitOption,
    load_named_list,
    num_words,
)

_BY_NAME: Final = {family.name: family for family in FAMILIES}


def levels(
    folder: FolderOption = None,
    lang: Annotated[str | None, typer.Option(metavar="TAG", help="Of which language.")] = None,
    imported: Annotated[
        Path | None,
        typer.Option("--import", metavar="FILE", help="A published list (CSV, TSV, XLSX) to be made a file of levels."),
    ] = None,
    family: Annotated[str | None, typer.Option(metavar="NAME", help="Which list that is.")] = None,
    forms: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A table of words and their forms, a row for each word.")
    ] = None,
    word_column: Annotated[str | None, typer.Option(metavar="NAME", help="Where its words are.")] = None,
    level_column: Annotated[str | None, typer.Option(metavar="NAME", help="Where its levels are.")] = None,
) -> None:
    """List the named levels of words, or import a published list.

    They are what --level and vocab.level may name; --import makes the file of one.
    It is written into the folder of --lists, or the current one.
    """
    try:
        if imported is None:
            _show(folder, lang)
        else:
            print(_import(imported, family, lang, folder or Path(), forms, word_column, level_column))
    except OSError as error:
        raise InputError(f"{error.filename}: {error.strerror}") from None
    except VocabularyError as error:
        raise InputError(f"{imported}: {error}" if imported else str(error)) from None


def _show(folder: Path | None, lang: str | None) -> None:
    """Print the named levels of every published list, with the files found and those that are missing."""
    print(f"{' '.join(BANDS)}\n  any language: the first words of its own list")
    for family in FAMILIES:
        if lang is not None and family.languages and lang not in family.languages:
            continue
        languages = [lang] if lang else family.languages or languages_here(family, folder)
        shown = ", ".join(languages) or "any language"
        print(f"{' '.join(family.level_names)}\n  {shown}: {family.title} (licence: {family.licence})")
        missing = []
        for language in languages:
            if path := find_level_file(family, language, folder):
                print(f"  {path}: {_sizes(family, path)}")
            else:
                missing.append(family.file_name(language))
        if missing or not languages:
            names = ", ".join(missing) or family.file_name("LANGUAGE")
            print(f"  not here: {names} ({family.where}; --import FILE --family {family.name})")


def _sizes(family: Family, path: Path) -> str:
    """Format how many words each level of a file has, the lower levels included."""
    rows = read_levels(path)
    if not family.levels:
        return f"{len(rows):,} words"
    return ", ".join(
        f"{name}: {sum(row.level in family.levels[:number] for row in rows):,} words"
        for number, name in enumerate(family.level_names, start=1)
    )


def _import(
    path: Path,
    name: str | None,
    lang: str | None,
    folder: Path,
    forms: Path | None,
    word_column: str | None,
    level_column: str | None,
) -> str:
    """Convert a published list into a file of levels in ``folder``; return a line with its path and sizes."""
    if name not in _BY_NAME:
        raise typer.BadParameter(f"--import needs --family, one of {', '.join(_BY_NAME)}")
    family = _BY_NAME[name]
    language = lang or (family.languages[0] if len(family.languages) == 1 else None)
    if language is None:
        raise typer.BadParameter(f"--family {name} needs --lang TAG")
    check_language(language)
    by_word = {} if forms is None else families_of(table_of(forms))
    rows = levels_of(table_of(path), family, by_word, word_column, level_column)
    folder.mkdir(parents=True, exist_ok=True)
    output = folder / family.file_name(language)
    output.write_text(write_levels(rows), encoding="utf-8", newline="\n")
    print(f"The words are their owners': licence {family.licence} ({family.where}).", file=sys.stderr)
    return f"{output}: {_sizes(family, output)}"


def words(
    lang: Annotated[str | None, typer.Argument(metavar="LANG", help="The list of a language, or of that name.")] = None,
    find: Annotated[str, typer.Option(metavar="TEXT", help="Only words that have it in them, in any capitals.")] = "",
    source: SourceOption = "auto",
    safe: SafeOption = True,
    list_file: ListOption = None,
    level: LevelOption = None,
    folder: FolderOption = None,
    unit: UnitOption = "form",
    offset: Annotated[int, typer.Option(metavar="N", min=0, help="How many to pass over.")] = 0,
    limit: Annotated[int | None, typer.Option(metavar="N", min=1, help="How many at most; all, if not given.")] = None,
) -> None:
    """List the words of a list, with their ranks and lemmas.

    A line each: rank, word and lemma, with tabs between them. With --find those that begin so come first.
    """
    try:
        word_list = load_named_list(lang, list_file, source, safe, unit, level, folder)
    except (VocabularyError, OSError) as error:
        raise InputError(str(error)) from None
    found = words_with(word_list.up_to(num_words(word_list, None, level)), find)
    lemmas = KnownLemmas.of_language(word_list.language)
    for rank, word in found[offset : None if limit is None else offset + limit]:
        sys.stdout.write(f"{rank}\t{word}\t{lemmas.of(word) or ''}\n")


_WORD_COLUMNS: Final = ("headword", "lemma", "word", "words")
_LEVEL_COLUMNS: Final = ("cefr", "cefr level", "cefr levels", "level", "grade")
_NGSL_BAND: Final = 1_000
"""Words of each level of the NGSL, whose table has their order and no levels."""

Row = Sequence[str]


def table_of(path: Path) -> list[Row]:
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
        return [row for row in csv.reader(io.StringIO(text, newline=""), delimiter=mark) if any(row)]
    except csv.Error as error:
        raise DocumentError(f"no table: {error}") from None


def levels_of(
    table: Sequence[Row],
    family: Family,
    forms: Mapping[str, Sequence[str]],
    word_column: str | None = None,
    level_column: str | None = None,
) -> list[LevelRow]:
    """Return the words of a published table with their levels, the lowest level first.

    A word with several levels has the lowest, and of a cell such as "a.m./am" each part counts.

    Args:
        table: Its first row names the columns.
        family: Whose it is.
        forms: Other forms of a word, by the word.
        word_column, level_column: Names of columns, where they are not the usual ones.

    Raises:
        DocumentError: A column is missing, or there is no word with a level.
        InvalidWordListError: A cell cannot be a word.
    """
    if not table:
        raise DocumentError("an empty table")
    word_at = _column(table[0], word_column, _WORD_COLUMNS)
    level_at = None
    if family.levels and not (family.name == "ngsl" and level_column is None):
        level_at = _column(table[0], level_column, _LEVEL_COLUMNS)
    best: dict[str, int] = {}
    for number, row in enumerate(table[1:]):
        place = 0
        if level_at is not None:
            level = _cell(row, level_at)
            if level not in family.levels:
                continue
            place = family.levels.index(level)
        elif family.levels:
            place = min(number // _NGSL_BAND, len(family.levels) - 1)
        for part in _cell(row, word_at).split("/"):
            try:
                word = clean_entry(part)
            except InvalidWordListError as error:
                raise InvalidWordListError(f"row {number + 2}: {error}") from None
            if word:
                best[word] = min(best.get(word, place), place)
    if not best:
        raise DocumentError(f"no word with a level of {family.name}: {', '.join(family.levels)}")
    levels = family.levels or ("",)
    return [
        LevelRow(word, levels[place], tuple(form for form in forms.get(word, ()) if form != word))
        for word, place in sorted(best.items(), key=lambda pair: pair[1])
    ]


def families_of(table: Sequence[Row]) -> dict[str, list[str]]:
    """Map each word to its other forms, from rows of a word and its forms; blank cells do not count."""
    return {row[0].strip(): [cell for cell in map(str.strip, row[1:]) if cell] for row in table if row}


def _column(names: Row, asked: str | None, usual: Sequence[str]) -> int:
    """Return the index of the column asked for, or else of a usual name; DocumentError without one."""
    known = [name.strip().casefold() for name in names]
    for name in usual if asked is None else (asked.casefold(),):
        if name in known:
            return known.index(name)
    wanted = asked or " or ".join(usual)
    raise DocumentError(f"no column {wanted}; there are {', '.join(name.strip() for name in names)[:200]}")


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
        self._is_text = self._is_spoken = False
        zipped.parse("xl/sharedStrings.xml", self._start, self._end, self._data)

    def _start(self, name: str, attributes: dict[str, str]) -> None:  # noqa: ARG002
        """Handle a start tag: begin a string, or leave out how a Japanese word is spoken."""
        if name.endswith(" si"):
            self.strings.append("")
        # How a word of Japanese is spoken stands beside it.
        self._is_spoken = self._is_spoken or name.endswith(" rPh")
        self._is_text = name.endswith(" t") and not self._is_spoken

    def _end(self, name: str) -> None:
        """Handle an end tag, after which no text of a string comes."""
        self._is_text = False
        if name.endswith(" rPh"):
            self._is_spoken = False

    def _data(self, data: str) -> None:
        if self._is_text and self.strings:
            self.strings[-1] += data


class _Sheet:
    """Parses the rows of an XLSX sheet, with the texts of shared strings in their cells."""

    def __init__(self, zipped: Zipped, strings: Sequence[str]) -> None:
        self.rows: list[list[str]] = []
        self._strings = strings
        self._kind = ""
        self._place = 0
        self._value: str | None = None
        zipped.parse("xl/worksheets/sheet1.xml", self._start, self._end, self._data)

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        """Handle a start tag: begin a row, find the column of a cell, or begin its value."""
        tag = name.rpartition(" ")[2]
        if tag == "row":
            self.rows.append([])
        elif tag == "c" and self.rows:
            self._kind = attributes.get("t", "")
            reference = _REFERENCE.fullmatch(attributes.get("r", ""))
            self._place = _column_number(reference[1]) if reference else len(self.rows[-1])
        elif tag in ("v", "t"):
            self._value = ""

    def _end(self, name: str) -> None:
        """Handle the end of a value: write it, or the shared string it names, into its column."""
        tag = name.rpartition(" ")[2]
        if tag not in ("v", "t") or self._value is None or not self.rows:
            return
        value, self._value = self._value, None
        if self._kind == "s":
            value = self._strings[int(value)] if value.isdecimal() and int(value) < len(self._strings) else ""
        row = self.rows[-1]
        row.extend([""] * (self._place + 1 - len(row)))
        row[self._place] += value

    def _data(self, data: str) -> None:
        if self._value is not None:
            self._value += data


def _column_number(letters: str) -> int:
    """Return the index of a column from its letters: 0 of A, 26 of AA."""
    number = 0
    for letter in letters:
        number = number * 26 + ord(letter) - ord("A") + 1
    return number - 1
