"""Read a file of words, of whoever's making: its entries, and every row of which nothing was taken.

A plain text of one word a line is read as it stands. Of a table the columns are found by their names, or else by what
is in them; what the cells mean is read by the shapes that published lists have (``shapes``).
"""

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Final, NamedTuple

from vocab.answers import ReadEntry, ReadVocabulary
from vocab.errors import DocumentError, InvalidWordListError
from vocab.lists.entries import clean_entry
from vocab.lists.shapes import AFFIX_MARKS, CellReader, folded, read_lines
from vocab.lists.tables import Row, Sheet, is_number, read_sheets
from vocab.marks import unspaced_marks

MAX_ENTRIES: Final = 100_000
"""That are sent; twice as many as a request may have words."""

MAX_LEFT_OUT: Final = 10_000
"""Rows left out that are sent."""

_WORD_NAMES: Final = {
    "zh": "simplified hanzi chinese 简体 词语 生词 汉字 单词", "ko": "단어 어휘 표제어 korean",
    "zh-Hant": "traditional hanzi chinese 繁體 詞語 生詞 漢字 單詞", "th": "thai คำ คำศัพท์",
    "ja": "expression kanji japanese vocabulary 単語 言葉 語彙 漢字", "fr": "mot mots français french",
    "de": "wort wörter vokabel vokabeln deutsch german", "es": "palabra palabras español spanish",
    "it": "parola parole italiano italian", "pt": "palavra palavras português portuguese",
    "nl": "woord woorden nederlands dutch", "sv": "ord svenska swedish", "nb": "ord norsk norwegian",
    "da": "ord dansk danish", "pl": "słowo słowa wyraz polski polish", "cs": "slovo česky czech",
    "ru": "слово слова русский russian", "fi": "sana suomi finnish", "tr": "kelime sözcük türkçe turkish",
    "hu": "szó magyar hungarian", "el": "λέξη ελληνικά greek", "ar": "كلمة arabic", "he": "מילה hebrew",
    "": "headword lemma word words entry expression term vocabulary vocab lexeme front item english",
}  # fmt: skip
"""What tables name their column of words, by language; the last, of any."""

_LEVEL_NAMES: Final = (
    "cefr", "cefr level", "cefr levels", "level", "levels", "grade", "hsk", "hsk level", "hsk_level", "jlpt",
    "jlpt level", "jlpt_level", "niveau", "stufe", "klasse", "nivel", "livello", "nível", "poziom", "уровень", "等级",
    "级别", "レベル", "unit", "lesson", "lektion", "kapitel", "unidad", "unité", "tags",
)  # fmt: skip
_FORM_NAMES: Final = ("forms", "inflections", "word forms", "other forms", "formen", "principal parts", "plural")
_READING_NAMES: Final = ("reading", "kana", "hiragana", "furigana")
_OTHER_NAMES: Final = (
    "pos", "part of speech", "freq", "frequency", "rank", "count", "id", "meaning", "translation", "#",
)  # fmt: skip
_BESIDE_NAMES: Final = frozenset((*_LEVEL_NAMES, *_FORM_NAMES, *_READING_NAMES, *_OTHER_NAMES))
_KELLY: Final = "items for translation"

_ALL_WORD_NAMES: Final = (*(name for names in reversed(_WORD_NAMES.values()) for name in names.split()), _KELLY)
_SURE_NAMES: Final = frozenset((*_ALL_WORD_NAMES, *_LEVEL_NAMES, *_FORM_NAMES, *_READING_NAMES)) - frozenset(
    ["front", "item", "term", "entry", "unit", "level", "levels", "grade", "lesson", "ord", "english"]
)
"""Of a first line of names, where the others are also words."""

_CEFR: Final = re.compile(r"(?<![^\W_])([ABC])[ .]?([12])(?![^\W_])")
_JLPT: Final = re.compile(r"(?:\bN|JLPT[ _-]*N?)([1-5])\b")
_LOOK_ALIKES: Final = str.maketrans("АВСΑΒ", "ABCAB")
_UNSPACED_SCRIPT: Final = re.compile("[\u0e00-\u0e7f\u3005\u3040-\u30ff\u3400-\u9fff\U00020000-\U0003ffff]")
_FORM_PARTS: Final = re.compile(r"\s*[;,/、；，]\s*")
_WORDS_IN_A_LINE: Final = re.compile(r"\s*[,;，；、]\s*")
_TITLE: Final = re.compile(
    r"\b(?:word ?list|words?|vocab(?:ulary)?|wortliste|wörter|wortschatz|vokabeln|vocabulario|palabras|vocabulaire|"
    r"mots|list[ae]?|parole|vocabolario|unit|lektion|lesson)\b",
    re.IGNORECASE,
)
_SAMPLE: Final = 300


class Entry(NamedTuple):
    """A word of a file.

    Attributes:
        rank: From 1; the words of one row share it.
        line: Where it comes first.
        levels: What stands beside it, in any row.
        sheet: Its name where there are several.
    """

    word: str
    rank: int
    line: int
    forms: tuple[str, ...] = ()
    levels: tuple[str, ...] = ()
    sheet: str | None = None


class LeftOut(NamedTuple):
    """A row of which no word was taken; ``is_fault`` unless it is a title, or its words came before."""

    line: int
    text: str
    reason: str
    sheet: str | None = None
    is_fault: bool = True


@dataclass
class ReadList:
    """What was understood of a file.

    Attributes:
        columns: Which column each role has: its name, or its number where it has none.
        shapes: What was applied to lines and cells, as phrases for people.
    """

    entries: list[Entry] = field(default_factory=list)
    left_out: list[LeftOut] = field(default_factory=list)
    columns: dict[str, str] = field(default_factory=dict)
    shapes: dict[str, None] = field(default_factory=dict)
    encoding: str | None = None

    @property
    def levels(self) -> list[str]:
        """The levels of the entries: in the file's order where each comes in one piece, else by name or number."""
        found = [level for level, _ in groupby(level_of(level) for entry in self.entries for level in entry.levels)]
        distinct = list(dict.fromkeys(found))
        if len(found) == len(distinct) or not all(re.fullmatch(r"\D*\d{1,9}\D*", level) for level in distinct):
            return distinct
        is_jlpt = all(map(_JLPT.fullmatch, distinct))
        return sorted(
            distinct, key=lambda level: re.sub(r"\d+", lambda match: match[0].zfill(9), level), reverse=is_jlpt
        )

    def as_json(self) -> ReadVocabulary:
        """Return what the service answers.

        Raises:
            DocumentError: There are none, or more than ``MAX_ENTRIES``.
        """
        if not self.entries:
            first = f"; line {self.left_out[0].line}: {self.left_out[0].reason}" if self.left_out else ""
            raise DocumentError(f"there is no word in it{first}")
        if len(self.entries) > MAX_ENTRIES:
            raise DocumentError(f"more than {MAX_ENTRIES:,} words; send a part of it")
        levels = self.levels
        entries: list[ReadEntry] = [
            {
                "rank": entry.rank,
                "word": entry.word,
                "level": min(map(level_of, entry.levels), key=levels.index, default=None),
                "forms": list(entry.forms),
                "line": entry.line,
                "sheet": entry.sheet,
            }
            for entry in self.entries
        ]
        return {
            "object": "vocabulary.entries",
            "entries": entries,
            "num_ranks": self.entries[-1].rank,
            "levels": levels,
            "columns": self.columns,
            "shapes": list(self.shapes),
            "encoding": self.encoding,
            "left_out": [
                {"line": row.line, "text": row.text[:200], "reason": row.reason, "sheet": row.sheet}
                for row in self.left_out[:MAX_LEFT_OUT]
            ],
            "num_left_out": len(self.left_out),
        }


def level_of(cell: str) -> str:
    """Return the level that a cell names: the lowest of "a1-A2", "N5" of "JLPT_5"; others as they are written."""
    text = " ".join(unicodedata.normalize("NFKC", cell).split())
    plain = text.upper().translate(_LOOK_ALIKES)
    if found := _CEFR.findall(plain):
        return "".join(min(found))
    return f"N{max(numbers)}" if (numbers := _JLPT.findall(plain)) else text


def read_list(
    data: bytes, name: str = "", language: str = "", word_column: str | None = None, level_column: str | None = None
) -> ReadList:
    """Read a file of words.

    Args:
        data: The file's bytes.
        name: The file's; its ending may say that it is a table.
        language: Of the words, as ``language_of`` has it; empty where it is not known.
        word_column, level_column: Names of columns, where they are not the usual ones.

    Raises:
        DocumentError: It cannot be read, or has no such column.
    """
    asked = {column.casefold() for column in (word_column, level_column) if column}
    sheets, encoding = read_sheets(data, name, language, _SURE_NAMES | asked)
    reader = _Reader(language, word_column, level_column)
    columns = [reader.columns_of(sheet) for sheet in sheets]
    for sheet, found in zip(sheets, columns, strict=True):
        # Beside sheets that name their columns, one that does not is of remarks.
        if found is None or (found.is_guess and any(other and not other.is_guess for other in columns)):
            for row in sheet.rows:
                reader.leave_out(sheet, row, "the sheet has no column of words", is_fault=False)
        else:
            reader.read(sheet, found)
    reader.result.encoding = encoding
    return reader.result


@dataclass
class _Columns:
    """Where a sheet has what: the index of the first row below the names, these, and indexes of columns."""

    start: int = 0
    names: Sequence[str] = ()
    word: int = 0
    level: int | None = None
    forms: tuple[int, ...] = ()
    is_guess: bool = True
    are_families: bool = False


class _Reader:
    """Reads sheet after sheet into one result."""

    def __init__(self, language: str, word_column: str | None, level_column: str | None) -> None:
        self.result = ReadList()
        self._language = language
        self._unspaced = language if unspaced_marks(language) else None
        self._word_column, self._level_column = word_column, level_column
        own = f"{_WORD_NAMES.get(language, '')} {_WORD_NAMES['']}".split()
        self._word_names = (*own, _KELLY) if language else _ALL_WORD_NAMES
        self._places = dict[str, int]()

    def columns_of(self, sheet: Sheet) -> _Columns | None:
        """Find the columns of a sheet; None where none has words.

        Raises:
            DocumentError: A column that was asked for is not there.
        """
        if sheet.is_plain:
            return _Columns()
        start = 0 if sheet.columns else self._num_above(sheet.rows)
        names = sheet.columns or (sheet.rows[start - 1].cells if start else ())
        compared = _compared(names)
        rows = sheet.rows[start:][:_SAMPLE]
        columns = [_column(rows, at) for at in range(min(30, max((len(row.cells) for row in rows), default=0)))]
        word = _find(compared, self._word_column, self._word_names)
        is_guess = word is None
        if word is None:
            word = next((at for at, cells in enumerate(columns) if self._are_words(cells)), None)
        if word is None and len(columns) == 1:
            word = 0
        if word is None:
            return None
        level = _find(compared, self._level_column, _LEVEL_NAMES)
        if level is None:
            level = next((at for at, cells in enumerate(columns) if at != word and _are_levels(cells)), None)
        forms = tuple(at for at, name in enumerate(compared) if name in (*_FORM_NAMES, *_READING_NAMES))
        return _Columns(start, names, word, level, forms, is_guess, not names and level is None and _are_families(rows))

    def _num_above(self, rows: Sequence[Row]) -> int:
        """Return how many rows stand above those of words: titles, and the names of columns."""
        known = {*_compared(filter(None, (self._word_column, self._level_column))), *self._word_names, *_SURE_NAMES}
        for place, row in enumerate(rows[:10]):
            names = _compared(row.cells)
            # Below a title there is more than one name.
            if not known.isdisjoint(names) and sum(name in known or name in _BESIDE_NAMES for name in names) > bool(
                place
            ):
                return place + 1
            if place and sum(map(bool, names)) > 1:
                break
        # What stands above numbers is a name.
        first = rows[0].cells if rows else ()
        for at, cell in enumerate(first):
            below = _column(rows[1:_SAMPLE], at)
            if cell.strip() and not is_number(cell.strip()) and len(below) > 1 and all(map(is_number, below)):
                return 1
        return 0

    def _are_words(self, cells: Sequence[str]) -> bool:
        """Return whether cells are different words, of the script of a language without spaces."""
        words = [cell for cell in cells if any(map(str.isalpha, cell)) and not _CEFR.fullmatch(cell)]
        if self._unspaced is not None:
            words = [cell for cell in words if _UNSPACED_SCRIPT.search(cell)]
        return 2 * len(words) >= len(cells) > 0 and 2 * len(set(cells)) >= len(cells)

    def read(self, sheet: Sheet, columns: _Columns) -> None:
        """Take the words of a sheet's rows, and note what is left out."""
        for place, row in enumerate(sheet.rows[: columns.start]):
            is_names = place + 1 == columns.start
            self.leave_out(sheet, row, "the names of the columns" if is_names else "a title", is_fault=False)
        rows = self._plain_rows(sheet) if sheet.is_plain else sheet.rows[columns.start :]
        lines, shapes = read_lines([_cell(row, columns.word) for row in rows])
        texts = [folded(text.strip(), is_unspaced=bool(self._unspaced)) for text, _ in lines]
        # Lines with numbers, counts or marks around their words are no plain list.
        cells = CellReader(texts, self._language, is_table=not sheet.is_plain or bool(shapes))
        for row, text, (_, level) in zip(rows, texts, lines, strict=True):
            level = level or _cell(row, columns.level) or ("" if columns.level is not None else sheet.name or "")
            self._take(sheet, row, text, cells, columns, level)
        if columns.are_families:
            shapes.append("families")
        self.result.shapes |= {**dict.fromkeys(shapes), **cells.shapes}
        if not sheet.is_plain:
            roles = {"word": columns.word, "level": columns.level, "forms": next(iter(columns.forms), None)}
            for role, at in roles.items():
                if at is not None:
                    name = columns.names[at].strip() if at < len(columns.names) else ""
                    self.result.columns.setdefault(role, name or str(at + 1))

    def _plain_rows(self, sheet: Sheet) -> list[Row]:
        """Return the rows of a plain text, without comments and a title; the words of a single line as rows."""
        rows = [row for row in sheet.rows if not row.cells[0].lstrip().startswith("#")]
        if len(rows) > 1:
            title, word = rows[0].cells[0].strip(), rows[1].cells[0].strip()
            # "word" is a word, and "Word" is none before one without a capital.
            is_name = title.casefold() in _SURE_NAMES and title.istitle() and word.islower()
            is_title = " " in title and " " not in word and bool(_TITLE.search(title))
            if is_name or is_title or title.casefold() == "headword":
                self.leave_out(sheet, rows.pop(0), "a title", is_fault=False)
        elif rows and len(parts := _WORDS_IN_A_LINE.split(rows[0].cells[0])) > 2:
            self.result.shapes["words in one line"] = None
            rows = [Row(rows[0].line, [part]) for part in parts if part.strip()]
        return rows

    def _take(self, sheet: Sheet, row: Row, text: str, cells: CellReader, columns: _Columns, level: str) -> None:
        """Take the words of a row, or leave it out with the reason."""
        if not sheet.is_plain and text and not text.strip("-: "):
            self.leave_out(sheet, row, "a line across the table", is_fault=False)
            return
        try:
            if not text:
                raise InvalidWordListError("no word in the column of words")
            if not sheet.is_plain and not any(char.isalpha() or unicodedata.category(char) == "So" for char in text):
                raise InvalidWordListError("no letters")
            words, forms = cells.read(text)
            words = list(dict.fromkeys(word for one in words if (word := self._cleaned(one))))
            cleaned = list(map(self._cleaned, (*forms, *self._forms_beside(row, columns))))
        except InvalidWordListError as error:
            self.leave_out(sheet, row, str(error), text)
            return
        entries, levels = self.result.entries, (level,) if level else ()
        is_new = [word not in self._places for word in words]
        rank = (entries[-1].rank if entries else 0) + 1
        for place, word in enumerate(words):
            own = () if place else tuple(dict.fromkeys(form for form in cleaned if form and form not in words))
            at = self._places.setdefault(word, len(entries))
            if at == len(entries):
                entries.append(Entry(word, rank, row.line, own, levels, sheet.name))
            else:
                before = entries[at]
                both = [tuple(dict.fromkeys(pair)) for pair in ((*before.forms, *own), (*before.levels, *levels))]
                entries[at] = before._replace(forms=both[0], levels=both[1])
        if not any(is_new):
            reason = f"as in line {entries[self._places[words[0]]].line}" if words else "no word"
            self.leave_out(sheet, row, reason, text, is_fault=not words)

    def _forms_beside(self, row: Row, columns: _Columns) -> Iterator[str]:
        """Yield the forms and readings that stand in other columns; no endings."""
        for at in range(columns.word + 1, len(row.cells)) if columns.are_families else columns.forms:
            for form in _FORM_PARTS.split(_cell(row, at)):
                if not form.startswith(("-", "–")):
                    yield re.sub(r"[(（][^()（）]*[)）]$", "", form).strip(AFFIX_MARKS)

    def _cleaned(self, text: str) -> str:
        return clean_entry(folded(text, is_unspaced=bool(self._unspaced)), self._unspaced)

    def leave_out(self, sheet: Sheet, row: Row, reason: str, text: str = "", *, is_fault: bool = True) -> None:
        """Note a row of which nothing is taken."""
        text = text or "  ".join(filter(None, map(str.strip, row.cells)))
        self.result.left_out.append(LeftOut(row.line, text, reason, sheet.name, is_fault))


def _find(names: Sequence[str], asked: str | None, usual: Sequence[str]) -> int | None:
    """Return the index of the column asked for, or else of a usual name."""
    wanted = _compared([asked]) if asked else usual
    if asked and wanted[0] not in names:
        raise DocumentError(f"no column {asked}; there are {', '.join(filter(None, names))[:200] or 'no names'}")
    return next((names.index(name) for name in wanted if name in names), None)


def _compared(names: Iterable[str]) -> list[str]:
    """Return names to compare; Kelly's lists have "Swedish items for translation"."""
    compared = (" ".join(name.split()).casefold() for name in names)
    return [_KELLY if name.endswith(_KELLY) else name for name in compared]


def _cell(row: Row, at: int | None) -> str:
    return row.cells[at].strip() if at is not None and at < len(row.cells) else ""


def _column(rows: Sequence[Row], at: int) -> list[str]:
    """Return the cells of a column that are not blank."""
    return [cell for row in rows if (cell := _cell(row, at))]


def _are_levels(cells: Sequence[str]) -> bool:
    named = [cell for cell in cells if len(cell) < 12 and re.fullmatch("[ABC][12]|N[1-5]", level_of(cell))]
    return len(cells) > 1 and 5 * len(named) >= 4 * len(cells)


def _are_families(rows: Sequence[Row]) -> bool:
    """Return whether rows are of a word and its forms, of which there are more and less."""
    filled = [[cell.strip() for cell in row.cells if cell.strip()] for row in rows]
    several = [cells for cells in filled if len(cells) > 1]
    num_alike = sum(any(cell[:2] == cells[0][:2] for cell in cells[1:]) for cells in several)
    are_words = all(any(map(str.isalpha, cell)) for cells in filled for cell in cells)
    is_ragged = len({len(cells) for cells in filled}) > 1
    return is_ragged and are_words and 2 * len(several) >= len(filled) and 4 * num_alike >= 3 * len(several)
