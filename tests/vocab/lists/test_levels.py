"""Levels are bands of a language's list, or come from files that somebody brings."""

import csv
import io
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vocab.errors import InvalidWordListError, UnknownLanguageError, UnknownLevelError, UnsupportedScriptError
from vocab.lists.levels import (
    BANDS,
    FAMILIES,
    LEVEL_NAMES,
    LevelRow,
    LevelWords,
    language_of_level,
    levels_here,
    read_levels,
    resolve_level,
    write_levels,
)

FILES = {
    "en_cefr-j": "\ufeffword,level,forms\ncat,A1,cats\nbook,A2,books;booked\nthe,A1,\n,A1,\nabolish,B2,\n",
    "sv_kelly": "level,word\r\nA1,hus\r\nA2,träd\r\n",
    "en_new-dolch": "word\ngo\n",
    "no_kelly": "word,level\nfisk,A1\n",
    "pt_grade": "word,level\nsol,1\nlua,3\n",
    "zh_hsk3": "word,level\n爱,1\n阿,7-9\n",
    "zh-Hant_hsk3": "word,level\n愛,1\n",
    "ja_jlpt": "word,level,forms\n会う,N5,会い\n行く,N4,\n",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, content in FILES.items():
        (tmp_path / f"{name}.csv").write_text(content, encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize(
    ("level", "lang", "language", "expected"),
    [
        ("top-1000", "es", "es", 1000),
        ("top-500", "my_list", "my_list", 500),
        ("A1", None, "en", "cat cats the"),
        ("A2", "en", "en", "cat cats book books booked the"),
        ("B1", "en", "en", "cat cats book books booked the"),
        ("A1", "sv", "sv", "hus"),
        ("kelly-A2", "sv", "sv", "hus träd"),
        ("new-dolch", None, "en", "go"),
        ("grade-2", "pt", "pt", "sol"),
        ("grade-3", "pt-BR", "pt", "sol lua"),
        ("A1", "EN-us", "en", "cat cats the"),
        # Of Norwegian there are two codes.
        ("kelly-A1", "no", "nb", "fisk"),
        ("kelly-A1", "nb-NO", "nb", "fisk"),
        # Those of unspaced languages are named by their script.
        ("hsk3-1", None, "zh", "爱"),
        ("hsk3-7-9", "zh-CN", "zh", "爱 阿"),
        ("hsk3-6", "zh-TW", "zh-Hant", "愛"),
        ("N4", None, "ja", "会う 会い 行く"),
    ],
)
def test_a_level_is_all_words_up_to_it(
    folder: Path, level: str, lang: str | None, language: str, expected: str | int
) -> None:
    if isinstance(expected, int):
        assert resolve_level(level, lang, folder) == LevelWords(language, expected)
    else:
        assert resolve_level(level, lang, folder) == LevelWords(language, words=tuple(expected.split()))
    assert language_of_level(level, lang) == language


def test_a_level_whose_file_is_missing_says_what_to_bring_and_where_to_put_it(folder: Path) -> None:
    for place in (folder, None):
        with pytest.raises(UnknownLevelError) as error_info:
            resolve_level("ngsl-1", None, place)
        for part in ("New General Service List", "CC BY-SA 4.0", "en_ngsl.csv", "WORDLIST_DIR", "--family ngsl"):
            assert part in str(error_info.value)
    with pytest.raises(UnknownLevelError, match=r"zh_hsk2\.csv"):
        resolve_level("hsk2-1", "zh", folder)


@pytest.mark.parametrize(
    ("level", "lang", "complaint", "error"),
    [
        ("A9", "en", "There is no level 'A9'. Known levels: top-500", UnknownLevelError),
        ("1", "en", "There is no level '1'", UnknownLevelError),
        ("top-1000", None, "name that by 'lang'", UnknownLevelError),
        ("kelly-A1", None, "name one by 'lang'", UnknownLevelError),
        ("grade-1", None, "name one by 'lang'", UnknownLevelError),
        ("ngsl-1", "es", "only for en", UnknownLevelError),
        ("C1", "en", "There is no level 'C1'", UnknownLevelError),
        ("A1", "fi", "only for ar, el, en", UnknownLevelError),
        ("grade-1", "../x", "no language tag", UnknownLanguageError),
        ("grade-1", "km", "without spaces", UnsupportedScriptError),
    ],
)
def test_an_unknown_level_or_language_says_which_are_known(
    folder: Path, level: str, lang: str | None, complaint: str, error: type[Exception]
) -> None:
    with pytest.raises(error, match=complaint):
        resolve_level(level, lang, folder)


@pytest.mark.parametrize(
    ("data", "complaint"),
    [
        (b"", "must name the column 'word'"),
        (b"Word,level\na,A1\n", "must name the column 'word'"),
        (b"word,level\ncaf\xe9,A1\n", "not UTF-8"),
        ("word,level\na,A1\nb\u200bc,A1\n".encode(), "en_cefr-j.csv, line 3: invisible format character"),
        (b"word,level\na,B9\n", "no word of level 'A1'"),
        (b'word,level\n"a"b,A1\n', "no table of comma-separated values"),
        (b"word\n" + b"a\n" * 2**23, "more than"),
    ],
)
def test_a_file_that_has_no_levels_says_what_is_wrong(tmp_path: Path, data: bytes, complaint: str) -> None:
    (tmp_path / "en_cefr-j.csv").write_bytes(data)
    with pytest.raises(InvalidWordListError, match=complaint):
        resolve_level("A1", "en", tmp_path)


def test_the_levels_that_can_be_asked_for_are_named(folder: Path) -> None:
    named = {name: languages for name, _, languages in levels_here(folder)}
    assert named["top-500"] == ()
    assert (named["A1"], named["kelly-A1"], named["grade-12"]) == (("en",), ("nb", "sv"), ("pt",))
    assert "ngsl-1" not in named
    assert [name for name, _, _ in levels_here(None)] == list(BANDS)
    assert len(set(LEVEL_NAMES)) == len(LEVEL_NAMES)
    assert len({family.name for family in FAMILIES}) == len(FAMILIES)


@given(st.lists(st.text("=+-@'a,\"", min_size=1, max_size=6), max_size=4, unique=True))
def test_a_file_that_was_written_is_read_again_and_has_no_formula(
    tmp_path_factory: pytest.TempPathFactory, words: list[str]
) -> None:
    formulas = ("=cmd|' /C calc'!A0", "-ness", "'-s", "''+a", "+1", "@home", "'tis")
    rows = [LevelRow("go", "A1", ("goes", "went")), LevelRow('in "front", of', "A2"), *map(LevelRow, formulas)]
    rows += [LevelRow(word) for word in words if word not in formulas]
    table = write_levels(rows)
    for row in csv.reader(io.StringIO(table, newline="")):
        assert not any(cell.startswith(tuple("=+-@\t\r\n＝＋－＠")) for cell in row)
    path = tmp_path_factory.getbasetemp() / "levels.csv"
    path.write_text(table, encoding="utf-8", newline="\n")
    assert read_levels(path) == rows
