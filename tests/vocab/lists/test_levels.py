"""Levels are bands of a language's list, or come from files that somebody brings."""

from pathlib import Path

import pytest

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

FORMULAS = ("=cmd|' /C calc'!A0", "-ness", "'-s", "''+a", "+1", "@home", "'tis")

CEFR = "word,level,forms\ncat,A1,cats\nbook,A2,books;booked\nthe,A1,\n,A1,\nabolish,B2,\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "en_cefr-j.csv").write_text("\ufeff" + CEFR, encoding="utf-8")
    (tmp_path / "sv_kelly.csv").write_text("level,word\r\nA1,hus\r\nA2,träd\r\n", encoding="utf-8")
    (tmp_path / "en_new-dolch.csv").write_text("word\ngo\n", encoding="utf-8")
    (tmp_path / "pt_grade.csv").write_text("word,level\nsol,1\nlua,3\n", encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize(
    ("level", "lang", "expected"),
    [
        ("top-1000", "es", LevelWords("es", n_words=1000)),
        ("top-500", "my_list", LevelWords("my_list", n_words=500)),
        ("A1", None, LevelWords("en", words=("cat", "cats", "the"))),
        ("A2", "en", LevelWords("en", words=("cat", "cats", "book", "books", "booked", "the"))),
        ("B1", "en", LevelWords("en", words=("cat", "cats", "book", "books", "booked", "the"))),
        ("A1", "sv", LevelWords("sv", words=("hus",))),
        ("kelly-A2", "sv", LevelWords("sv", words=("hus", "träd"))),
        ("new-dolch", None, LevelWords("en", words=("go",))),
        ("grade-2", "pt", LevelWords("pt", words=("sol",))),
        ("grade-3", "pt-BR", LevelWords("pt", words=("sol", "lua"))),
    ],
)
def test_a_level_is_all_words_up_to_it(folder: Path, level: str, lang: str | None, expected: LevelWords) -> None:
    assert resolve_level(level, lang, folder) == expected
    assert language_of_level(level, lang) == expected.lang


@pytest.mark.parametrize("folder_name", ["", None])
def test_a_level_whose_file_is_missing_says_what_to_bring_and_where_to_put_it(
    tmp_path: Path, folder_name: str | None
) -> None:
    with pytest.raises(UnknownLevelError) as error_info:
        resolve_level("ngsl-1", None, None if folder_name is None else tmp_path / folder_name)
    for result in ("New General Service List", "CC BY-SA 4.0", "en_ngsl.csv", "WORDLIST_DIR", "--family ngsl"):
        assert result in str(error_info.value)


@pytest.mark.parametrize(
    ("level", "lang", "result"),
    [
        ("A9", "en", "There is no level 'A9'. Known levels: top-500"),
        ("1", "en", "There is no level '1'"),
        ("top-1000", None, "name that by 'lang'"),
        ("kelly-A1", None, "name one by 'lang'"),
        ("grade-1", None, "name one by 'lang'"),
        ("ngsl-1", "es", "only for en"),
        ("C1", "en", "There is no level 'C1'"),
        ("A1", "fi", "only for ar, el, en"),
    ],
)
def test_an_unknown_level_says_which_are_known(folder: Path, level: str, lang: str | None, result: str) -> None:
    with pytest.raises(UnknownLevelError, match=result):
        resolve_level(level, lang, folder)


@pytest.mark.parametrize(("lang", "error"), [("../x", UnknownLanguageError), ("km", UnsupportedScriptError)])
def test_a_language_is_never_a_path(folder: Path, lang: str, error: type[Exception]) -> None:
    with pytest.raises(error):
        resolve_level("grade-1", lang, folder)


@pytest.mark.parametrize(
    ("data", "result"),
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
def test_a_file_that_has_no_levels_says_what_is_wrong(tmp_path: Path, data: bytes, result: str) -> None:
    (tmp_path / "en_cefr-j.csv").write_bytes(data)
    with pytest.raises(InvalidWordListError, match=result):
        resolve_level("A1", "en", tmp_path)


def test_the_levels_that_can_be_asked_for_are_named(folder: Path) -> None:
    named = {name: languages for name, _, languages in levels_here(folder)}
    assert named["top-500"] == ()
    assert (named["A1"], named["kelly-A1"], named["grade-12"]) == (("en",), ("sv",), ("pt",))
    assert "ngsl-1" not in named
    assert [name for name, _, _ in levels_here(None)] == list(BANDS)


def test_a_file_that_was_written_is_read_again(tmp_path: Path) -> None:
    rows = [
        LevelRow("go", "A1", ("goes", "went")),
        LevelRow('in "front", of', "A2"),
        LevelRow("a"),
        *map(LevelRow, FORMULAS),
    ]
    path = tmp_path / "levels.csv"
    path.write_text(write_levels(rows), encoding="utf-8", newline="\n")
    assert read_levels(path) == rows


def test_no_two_levels_have_one_name() -> None:
    assert len(set(LEVEL_NAMES)) == len(LEVEL_NAMES)
    assert len({family.name for family in FAMILIES}) == len(FAMILIES)


def test_levels_of_unspaced_languages_are_named_by_their_script(tmp_path: Path) -> None:
    (tmp_path / "zh_hsk3.csv").write_text("word,level\n爱,1\n阿,7-9\n", encoding="utf-8")
    (tmp_path / "zh-Hant_hsk3.csv").write_text("word,level\n愛,1\n", encoding="utf-8")
    (tmp_path / "ja_jlpt.csv").write_text("word,level,forms\n会う,N5,会い\n行く,N4,\n", encoding="utf-8")
    assert resolve_level("hsk3-1", None, tmp_path) == ("zh", None, ("爱",))
    assert resolve_level("hsk3-7-9", "zh-CN", tmp_path) == ("zh", None, ("爱", "阿"))
    assert resolve_level("hsk3-6", "zh-TW", tmp_path) == ("zh-Hant", None, ("愛",))
    assert resolve_level("N4", None, tmp_path) == ("ja", None, ("会う", "会い", "行く"))
    with pytest.raises(UnknownLevelError, match=r"zh_hsk2\.csv"):
        resolve_level("hsk2-1", "zh", tmp_path)
