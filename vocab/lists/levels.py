"""Named levels of words: bands of a language's own list, and lists of teachers and linguists, which have files.

The bands need nothing. Of the published lists none is part of this package: either its licence forbids that, or no
package registry carries it. An operator brings the file, ``<language>_<family>.csv`` in the folder of list files, with
a column ``word``, and ``level`` and ``forms`` where it has them; ``wordbound levels --import`` makes it of what is
published. A level is all words up to it, so that A2 holds A1.
"""

import csv
import io
import re
from collections import defaultdict
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, NamedTuple

from vocab.csv_cells import read_cell, write_csv
from vocab.errors import DocumentError, InvalidWordListError, UnknownLevelError
from vocab.lists.entries import clean_entry
from vocab.lists.japanese import GRAMMAR, forms_of
from vocab.lists.list_reader import Entry, LeftOut, ReadList, level_of
from vocab.lists.shapes import folded
from vocab.lists.tables import MAX_FILE_BYTES, read_bytes
from vocab.lists.tags import RENAMED
from vocab.lists.wordlists import language_of, language_tag, paths_in

COLUMNS: Final = ("word", "level", "forms")
FORM_MARK: Final = ";"
"""Between the forms of a row: "go,1,goes;went;gone"."""


@dataclass(frozen=True)
class Family:
    """Levels of one source.

    Attributes:
        name: Also of its file, after the language.
        title: Whose it is.
        languages: That it is published for; empty for any.
        levels: Ascending, as its file has them; empty where the whole list is one level.
        prefix: Of the names of its levels.
        licence: Of the words.
        where: To find it.
    """

    name: str
    title: str
    languages: tuple[str, ...]
    levels: tuple[str, ...]
    prefix: str
    licence: str
    where: str

    @property
    def level_names(self) -> tuple[str, ...]:
        return tuple(self.prefix + level for level in self.levels) or (self.name,)

    @property
    def only_language(self) -> str | None:
        """Return the language where there is one, and of those in several scripts the first; None of several."""
        is_one = len({language.partition("-")[0] for language in self.languages}) == 1
        return self.languages[0] if is_one else None

    def file_name(self, language: str) -> str:
        return f"{language}_{self.name}.csv"


_CEFR: Final = ("A1", "A2", "B1", "B2", "C1", "C2")

BANDS: Final = {f"top-{number}": number for number in (500, 1_000, 2_000, 3_000, 5_000, 10_000)}
"""How many words each band of a language's own list has."""

FAMILIES: Final = (
    Family(
        "cefr-j", "CEFR-J Wordlist of Tono Laboratory, Tokyo University of Foreign Studies", ("en",), _CEFR[:4], "",
        "free to use, with its authors named; says nothing of passing it on", "cefr-j.org",
    ),
    Family(
        "ngsl", "New General Service List of Browne, Culligan and Phillips", ("en",), ("1", "2", "3"), "ngsl-",
        "CC BY-SA 4.0", "newgeneralservicelist.com",
    ),
    Family(
        "new-dolch", "New Dolch List of Browne and Culligan", ("en",), (), "",
        "CC BY-SA 4.0", "newgeneralservicelist.com",
    ),
    Family(
        "kelly", "Kelly lists", ("ar", "el", "en", "it", "nb", "pl", "ru", "sv"), _CEFR, "kelly-",
        "by language, in part for non-commercial use only", "spraakbanken.gu.se",
    ),
    Family(
        "hsk2", "HSK vocabulary of 2012, Center for Language Education and Cooperation", ("zh", "zh-Hant"),
        tuple("123456"), "hsk2-", "says nothing of passing it on", "chinesetest.cn",
    ),
    Family(
        "hsk3", "HSK vocabulary of the standard of 2021 or the syllabus of 2025", ("zh", "zh-Hant"),
        (*"123456", "7-9"), "hsk3-", "a standard of the Ministry of Education of China", "chinesetest.cn",
    ),
    Family(
        "jlpt", "JLPT vocabulary as teachers have put it together: there is no official list since 2010", ("ja",),
        ("N5", "N4", "N3", "N2", "N1"), "", "by collection, often CC BY or CC BY-SA", "tanos.co.uk/jlpt",
    ),
    Family(
        "grade", "list of your own by school years", (), tuple(map(str, range(1, 13))), "grade-",
        "your own", "your own file",
    ),
    Family("levels", "list of your own with its own levels", (), (), "levels-", "your own", "your own file"),
)  # fmt: skip

OWN_LEVELS: Final = FAMILIES[-1]
"""Has the levels of its file, in its order; its name by itself means all of them."""

LEVEL_NAMES: Final = (*BANDS, *(name for family in FAMILIES for name in family.level_names))


class LevelRow(NamedTuple):
    """A row of a file of levels."""

    word: str
    level: str = ""
    forms: tuple[str, ...] = ()


class LevelWords(NamedTuple):
    """What a level means: the first ``n_words`` of the list ``lang``, or ``words`` in that language."""

    lang: str
    n_words: int | None = None
    words: tuple[str, ...] | None = None


def language_of_level(level: str, lang: str | None) -> str:
    """Return the language of a level's words, for a band the name of the list.

    Raises:
        UnknownLevelError: There is no level of that name, or not for the language ``lang``; or that must be named.
    """
    if level in BANDS:
        if lang is None:
            raise UnknownLevelError(f"The level {level!r} is of a language's own list: name that by 'lang'.")
        return lang
    return _family(level, lang)[1]


def resolve_level(level: str, lang: str | None, folder: Path | None) -> LevelWords:
    """Resolve a level to a number of words of a list, or to the words of its file.

    Args:
        level: Its name.
        lang: The list of a band; of others the language, which may be left out where there is only one.
        folder: That of list files.

    Raises:
        UnknownLevelError: As ``language_of_level``, or its file is missing; the message says which file to bring, and
            where to put it.
        InvalidWordListError: The file cannot be read as one of levels.
    """
    if level in BANDS:
        return LevelWords(language_of_level(level, lang), n_words=BANDS[level])
    family, language = _family(level, lang)
    path = find_level_file(family, language, folder)
    if path is None:
        raise UnknownLevelError(
            f"The level {level!r} is of the {family.title}, which is not part of wordbound (licence: {family.licence})."
            f" Bring it from {family.where}: 'wordbound levels --import FILE --family {family.name}' makes "
            f"{family.file_name(language)} of it, for the folder WORDLIST_DIR."
        )
    return LevelWords(language, words=_words_up_to(level.removeprefix(family.prefix), family, path))


def levels_here(folder: Path | None) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """Yield the levels that can be asked for: names, sources and languages; no languages of a band, which all have."""
    for name in BANDS:
        yield name, "list", ()
    for family in FAMILIES:
        if languages := languages_here(family, folder):
            for name in family.level_names:
                yield name, family.title, languages
    own = defaultdict[str, list[str]](list)
    for language in languages_here(OWN_LEVELS, folder):
        path = find_level_file(OWN_LEVELS, language, folder)
        for level in levels_of(OWN_LEVELS, [] if path is None else read_levels(path)):
            own[OWN_LEVELS.prefix + level].append(language)
    for name, found in own.items():
        yield name, OWN_LEVELS.title, tuple(found)


def levels_of(family: Family, rows: Iterable[LevelRow]) -> tuple[str, ...]:
    """Return the levels of a family's file, the lowest first; none of a list that is one level."""
    return family.levels or (tuple(dict.fromkeys(row.level for row in rows)) if family is OWN_LEVELS else ())


def languages_here(family: Family, folder: Path | None) -> tuple[str, ...]:
    """Return the languages of a family whose files are in the folder, sorted."""
    ends = f"_{family.name}.csv"
    files = [path for path in paths_in(folder) if path.name.endswith(ends) and path.is_file()]
    names = (path.name.removesuffix(ends) for path in files)
    return tuple(sorted({RENAMED.get(name, name) for name in names}))


def find_level_file(family: Family, language: str, folder: Path | None) -> Path | None:
    """Find the file of a family's levels that was put into the folder, or None."""
    # Looked up in the folder's listing: no name is joined to a path that is not there.
    files = {path.name: path for path in paths_in(folder) if path.is_file()}
    codes = (language, *(code for code, renamed in RENAMED.items() if renamed == language))
    return next((files[name] for name in map(family.file_name, codes) if name in files), None)


def _family(level: str, lang: str | None) -> tuple[Family, str]:
    """Find the family and language that a level's name means; raise ``UnknownLevelError`` for none."""
    if level not in LEVEL_NAMES and not level.startswith(OWN_LEVELS.prefix):
        known = ", ".join((*LEVEL_NAMES, OWN_LEVELS.prefix + "…"))
        raise UnknownLevelError(f"There is no level {level[:40]!r}. Known levels: {known}.")
    # "A1" is CEFR-J's in English, and Kelly's in other languages.
    families = [family for family in FAMILIES if level in family.level_names or level in family.levels] or [OWN_LEVELS]
    if lang is None:
        family = families[0]
        if family.only_language is None:
            raise UnknownLevelError(f"The level {level!r} is there for several languages: name one by 'lang'.")
        return family, family.only_language
    language = language_of(language_tag(lang))
    for family in families:
        if not family.languages or language in family.languages:
            return family, language
    languages = sorted({language for family in families for language in family.languages})
    raise UnknownLevelError(f"There is no level {level!r} for {lang[:40]!r}, only for {', '.join(languages)}.")


def _words_up_to(level: str, family: Family, path: Path) -> tuple[str, ...]:
    rows = read_levels(path)
    levels = levels_of(family, rows)
    if levels and level != family.name:
        if level not in levels:
            raise UnknownLevelError(f"{path.name} has no level {level[:40]!r}, only {', '.join(levels)[:200]}.")
        wanted = levels[: levels.index(level) + 1]
        rows = [row for row in rows if row.level in wanted]
    words = tuple(dict.fromkeys(word for row in rows for word in (row.word, *row.forms)))
    if not words:
        raise InvalidWordListError(f"{path.name}: no word of level {level!r} or a lower one.")
    return words


def read_levels(path: Path) -> list[LevelRow]:
    """Read the rows of a file of levels, in its order.

    Raises:
        InvalidWordListError: It is too large, not UTF-8, has no column ``word``, or a cell cannot be a word.
    """
    data = read_bytes(path)
    if len(data) > MAX_FILE_BYTES:
        raise InvalidWordListError(f"{path.name}: more than {MAX_FILE_BYTES} bytes.")
    try:
        reader = csv.DictReader(io.StringIO(data.decode("utf-8-sig"), newline=""), strict=True)
        if "word" not in (reader.fieldnames or ()):
            raise InvalidWordListError(f"{path.name}: the first line must name the column 'word'.")
        return list(_rows(reader, path.name))
    except UnicodeDecodeError:
        raise InvalidWordListError(f"{path.name}: not UTF-8. Save the file as UTF-8.") from None
    except csv.Error as error:
        raise InvalidWordListError(f"{path.name}: no table of comma-separated values: {error}.") from None


def _rows(reader: "csv.DictReader[str]", name: str) -> Iterator[LevelRow]:
    for cells in reader:
        try:
            word = clean_entry(folded(read_cell(cells["word"] or "")))
            forms = [clean_entry(folded(form)) for form in read_cell(cells.get("forms") or "").split(FORM_MARK)]
        except InvalidWordListError as error:
            raise InvalidWordListError(f"{name}, line {reader.line_num}: {error}") from None
        if word:
            yield LevelRow(word, read_cell(cells.get("level") or "").strip(), tuple(filter(None, forms)))


def write_levels(rows: Sequence[LevelRow]) -> str:
    """Write rows as a file of levels, in CSV."""
    return write_csv([COLUMNS, *((row.word, row.level, FORM_MARK.join(row.forms)) for row in rows)])


_NGSL_BAND: Final = 1_000
"""Words of each level of the NGSL, whose table has their order and no levels."""


def rows_of_family(
    read: ReadList, family: Family, language: str, forms: Mapping[str, Sequence[str]]
) -> tuple[list[LevelRow], list[LeftOut]]:
    """Return the words of a published list with their levels, the lowest level first, and the rows left out.

    Args:
        read: The list.
        family: Whose it is.
        language: Of its words.
        forms: Other forms of a word, by the word.

    Raises:
        DocumentError: There are no such levels, or not in this language, or no word has one.
    """
    if family.languages and language not in family.languages:
        there = ", ".join(family.languages)
        raise DocumentError(f"the {family.title} is not for {language!r}, only for {there}: choose --family levels")
    if family is OWN_LEVELS:
        family = replace(family, levels=tuple(read.levels))
    levels = family.levels
    if not read.levels and (levels or family.name == OWN_LEVELS.name) and family.name != "ngsl":
        raise DocumentError("it has no levels: neither a column of them nor sheets named for them")
    best = list[tuple[int, Entry]]()
    left_out = list(read.left_out)
    for entry in read.entries:
        places = [place for cell in entry.levels for place in _places_in(cell, family)]
        if family.name == "ngsl" and not entry.levels:
            places = [min((entry.rank - 1) // _NGSL_BAND, len(levels) - 1)]
        if places or not levels:
            best.append((min(places, default=0), entry))
        else:
            named = ", ".join(entry.levels)
            reason = f"level {named} is beyond those of {family.name}: {', '.join(levels)}" if named else "no level"
            left_out.append(LeftOut(entry.line, entry.word, reason, entry.sheet))
    if not best:
        raise DocumentError(f"no word with a level of {family.name}: {', '.join(levels)}")
    rows = [
        LevelRow(
            entry.word,
            levels[place] if levels else "",
            tuple(dict.fromkeys(form for form in (*forms.get(entry.word, ()), *entry.forms) if form != entry.word)),
        )
        for place, entry in sorted(best, key=lambda one: one[0])
    ]
    return rows, left_out


def _places_in(cell: str, family: Family) -> list[int]:
    """Return the places of the levels that a cell names: "HSK 1", "7-9", "new-4", "2" of N2, "JLPT_5", "Grade 3"."""
    if (level := level_of(cell)) in family.levels:
        return [family.levels.index(level)]
    # Neither the version of a list, "HSK 3.0", nor a level of the other version.
    other = "old" if family.name == "hsk3" else "new"
    numbers = re.findall(r"(?<!\d)\d\d?(?!\d)", re.sub(rf"\d\.\d|{other}-\d", "", cell))
    spans = (["7", "8", "9"] if level == "7-9" else [level.removeprefix("N")] for level in family.levels)
    return [place for place, span in enumerate(spans) if not set(span).isdisjoint(numbers)]


def with_japanese_forms(rows: Sequence[LevelRow], listed: Container[str]) -> list[LevelRow]:
    """Return rows of Japanese words with the forms of verbs and adjectives, and before them the grammar's words.

    Vocabularies have dictionary forms only, and neither particles nor the endings that a text cuts off as words.

    Args:
        rows: The lowest level first.
        listed: The words of the reference dictionary.
    """
    inflected = [row._replace(forms=_with_forms(row, listed)) for row in rows]
    named = {row.word for row in rows}
    grammar = [LevelRow(word, rows[0].level) for word in GRAMMAR if word in listed and word not in named]
    return [*grammar, *inflected]


def _with_forms(row: LevelRow, listed: Container[str]) -> tuple[str, ...]:
    inflected = (form for word in (row.word, *row.forms) for form in forms_of(word, listed))
    return tuple(form for form in dict.fromkeys((*row.forms, *inflected)) if form != row.word)
