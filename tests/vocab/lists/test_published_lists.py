"""Published tables become files of levels. The words are made up; the columns are those of the lists."""

import io
from collections.abc import Mapping, Sequence

import openpyxl
import pytest

from tests.vocab.documents.books import xlsx_of
from vocab.errors import DocumentError
from vocab.lists import levels
from vocab.lists.levels import FAMILIES, LevelRow, rows_of_family, with_japanese_forms
from vocab.lists.list_reader import LeftOut, ReadList, read_list

BY_NAME = {family.name: family for family in FAMILIES}


def imported(
    data: str | bytes,
    family: str,
    language: str,
    forms: Mapping[str, Sequence[str]] | None = None,
    *columns: str | None,
) -> tuple[list[LevelRow], list[LeftOut]]:
    read = read_list(data if isinstance(data, bytes) else data.encode(), "table", language, *columns)
    return rows_of_family(read, BY_NAME[family], language, forms or {})


def read(data: bytes) -> ReadList:
    return read_list(data, "x.csv")


NGSL = "Lemma,SFI Rank,SFI\nthe,1,88.7\nbe,2,86.5\nand,3,86.0\n"
KELLY = "ID\tWPM\tCEFR levels\tSwedish items for translation\n1\t5\tA1\thus\n2\t3\tB1\tträd\n"
HSK2 = "simplified\ttraditional\tlevel\n爱\t愛\tHSK 1\n学习\t學習\tHSK 1\n虽然\t雖然\t2\nx\tx\t9\n"
HSK3 = """hanzi,pinyin,level
爸爸｜爸,bàba,1
（一）点儿,diǎnr,HSK 1
本（量）,běn,HSK 3.0 Level 2
点1,diǎn,new-3
有（一）些,yǒuxiē,6
一一,yīyī,7-9
阿,ā,HSK 7–9
安,ān,8
无,wú,
"""
JLPT = """expression,reading,meaning,tags
会う,あう,to meet,JLPT JLPT_5
いい/よい,,good,JLPT JLPT_5
～さん,,Mr,N5
学校(がっこう),がっこう,school,JLPT N4
行く,いく,to go,N1 N3
水、お水,みず,water,2
無,,none,common
"""
BOTH_HSK = 'simplified,level\n爱,"new-1, old-3"\n'


STRINGS = (
    "<si><t>headword</t></si><si><r><t>le</t></r><r><t>vel</t></r></si>"
    "<si><t>cat</t><rPh sb='0' eb='1'><t>kat</t></rPh></si>"
)


def sheet(*rows: str) -> bytes:
    return xlsx_of({"Sheet1": "".join(rows)}, STRINGS)


TABLES: dict[str, tuple[str, str, str, str, dict[int, str]]] = {
    # Name: family, language, table, its rows, and the faults by line. A word has its lowest level.
    "cells of several words": ("cefr-j", "en", "headword,pos,CEFR,CoreInventory 1\nbook,verb,B1,\ncat,noun,A1,x\n"
        "book,noun,A2,\na.m./am,adverb,A1\nodd,noun,D9\n", "cat@A1 a.m.@A1 am@A1 book@A2",
        {4: "as in line 2", 6: "level D9 is beyond those of cefr-j: A1, A2, B1, B2"}),
    "any case, and ranges": ("cefr-j", "en", "Headword;cefr\nlie1;a1\nlie2;C1\nbank (money);A1-A2\n"
        'be (am/is/are);b1/B2\n"a, an";Level A2\nto go;C1\nodd;\n', "lie@A1 bank@A1 a@A2 an@A2 be:am,is,are@B1",
        {3: "as in line 2", 7: "level C1 is beyond those of cefr-j: A1, A2, B1, B2", 8: "no level"}),
    "no word": ("cefr-j", "en", "headword,CEFR\ncat,A1\nd\u200bg,A1\n", "cat@A1", {3: "invisible format character"}),
    "kelly": ("kelly", "sv", KELLY, "hus@A1 träd@B1", {}),
    "of Goethe's kind": ("levels", "de",
        "Wort;Stufe\nder Hund, -e;Start\ngehen, ging, ist gegangen;Start\ndas Haus, ¨-er;Ziel\n",
        "Hund:Hunde@Start gehen:ging,gegangen@Start Haus:Häuser@Ziel", {}),
    "without levels": ("new-dolch", "en", "Word\ngo\n", "go@", {}),
    **{f"year {year!r}": ("grade", "pt", f"word;grade\nsol;1\nlua;{year}\n", f"sol@1 lua@{number}", {})
        for year, number in (("3", 3), ("Grade 12", 12), ("Klasse 3-4", 3))},
    **{f"no year {year!r}": ("grade", "pt", f"word;grade\nsol;1\nlua;{year}\n", "sol@1", {3: f"level {year} is beyond"})
        for year in ("13", "x")},
    "hsk2": ("hsk2", "zh", HSK2, "爱@1 学习@1 虽然@2", {5: "level 9 is beyond those of hsk2: 1, 2, 3, 4, 5, 6"}),
    "hsk2 of traditional": ("hsk2", "zh-Hant", HSK2, "愛@1 學習@1 雖然@2", {5: "level 9 is beyond those of hsk2"}),
    "hsk3": ("hsk3", "zh", HSK3, "爸爸@1 爸@1 点儿@1 一点儿@1 本@2 点@3 有些@6 有一些@6 一一@7-9 阿@7-9 安@7-9",
        {10: "no level"}),
    "hsk2 of both": ("hsk2", "zh", BOTH_HSK, "爱@3", {}),
    "hsk3 of both": ("hsk3", "zh", BOTH_HSK, "爱@1", {}),
    # The easiest level first.
    "jlpt": ("jlpt", "ja", JLPT,
        "会う:あう@N5 いい@N5 よい@N5 さん@N5 学校:がっこう@N4 行く:いく@N3 水:みず@N2 お水@N2",
        {8: "level common is beyond"}),
}  # fmt: skip


def shown(rows: list[LevelRow]) -> str:
    return " ".join(f"{row.word}{':' if row.forms else ''}{','.join(row.forms)}@{row.level}" for row in rows)


@pytest.mark.parametrize("name", TABLES)
def test_a_table_is_read_as_it_is_published(name: str) -> None:
    family, language, table, expected, faults = TABLES[name]
    rows, left_out = imported(table, family, language)
    assert shown(rows) == expected
    found = {row.line: row.reason for row in left_out if row.line > 1}
    assert found.keys() == faults.keys()
    assert [reason for line, reason in faults.items() if not found[line].startswith(reason)] == []


def test_columns_may_be_named() -> None:
    rows, _ = imported(KELLY, "kelly", "sv", None, "swedish items for translation", "cefr levels")
    assert shown(rows) == "hus@A1 träd@B1"


def test_a_list_by_rank_has_levels_by_thousands_and_families(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(levels, "_NGSL_BAND", 1)
    rows, _ = imported("\ufeff" + NGSL, "ngsl", "en", {"be": ["is", "was", "be"], "go": ["went"]})
    assert rows == [LevelRow("the", "1"), LevelRow("be", "2", ("is", "was")), LevelRow("and", "3")]


def test_tables_of_excel_are_read() -> None:
    data = sheet(
        '<row><c r="A1" t="s"><v>0</v></c><c r="C1" t="s"><v>1</v></c></row>',
        '<row><c r="A2" t="s"><v>2</v></c><c r="B2"><v>7</v></c><c r="C2" t="inlineStr"><is><t>A1</t></is></c></row>',
        '<row r="9"><c t="b"><v>1</v></c><c r="C9" t="inlineStr"><is><t>A2</t></is></c></row>',
    )
    rows, left_out = imported(data, "cefr-j", "en")
    assert rows == [LevelRow("cat", "A1"), LevelRow("true", "A2")]
    assert [row.line for row in left_out] == [1]
    assert [entry.line for entry in read(data).entries] == [2, 9]


@pytest.mark.parametrize(
    ("family", "language", "table", "result"),
    [
        ("cefr-j", "en", "headword,pos\ncat,noun\n", "it has no levels"),
        ("levels", "de", "der Hund\ndie Katze\n", "it has no levels"),
        ("cefr-j", "en", "headword,CEFR\ncat,D1\n", "no word with a level of cefr-j: A1, A2, B1, B2"),
        ("kelly", "de", KELLY, r"is not for 'de', only for ar, el, .*: choose --family levels"),
    ],
)
def test_what_is_no_such_table_is_refused(family: str, language: str, table: str, result: str) -> None:
    with pytest.raises(DocumentError, match=result):
        imported(table, family, language)


LONGEST = "x" * 32_767


def sheet_of(text: str, *cells: str) -> bytes:
    """A sheet of one row, with one shared string."""
    return xlsx_of({"Sheet1": f"<row>{''.join(cells)}</row>"}, f"<si><t>{text}</t></si>")


@pytest.mark.parametrize(
    ("data", "limit"),
    [
        (sheet(*(f'<row><c r="ZZZ{row}"><v>1</v></c></row>' for row in range(100_000))), "2,000,000 cells"),
        (sheet("<row r='9999999999'><c><v>1</v></c></row>"), "2,000,000 cells"),
        (b",\n" * 700_000, "2,000,000 cells"),
        (sheet_of(LONGEST + "x", "<c t='s'><v>0</v></c>"), "32,767 characters in a cell"),
        (sheet_of(LONGEST, "<c t='s'><v>0</v></c>" * 2_049), "67,108,864 characters"),
        (sheet_of(" " * (64 * 2**20)), "64 MiB of text when unpacked"),
    ],
    ids=["far column", "far row", "csv", "long string", "shared text", "unpacked"],
)  # fmt: skip
def test_a_small_file_of_a_huge_table_is_refused_by_the_limit(data: bytes, limit: str) -> None:
    assert len(data) < 2_000_000
    with pytest.raises(DocumentError, match=f"more than {limit}"):
        read(data)


def test_a_table_at_the_limits_is_read() -> None:
    left_out = read(sheet_of(LONGEST, "<c t='s'><v>0</v></c>" * 2_048)).left_out
    assert [len(row.text) for row in left_out] == [len(LONGEST)]
    assert read(sheet('<row><c r="XFD1"><v>1</v></c></row>')).left_out[0].text == "1"
    assert len(read(b"a\n" * 1_000_000).left_out) == 999_999


@pytest.mark.parametrize("number", ["9" * 5_000, "2", "1e3", "²"])
def test_a_number_of_no_shared_string_is_a_damage(number: str) -> None:
    with pytest.raises(DocumentError, match="no XLSX, or a damaged one"):
        read(sheet_of("cat", "<c t='s'><v>0</v></c>", f"<c t='s'><v>{number}</v></c>"))


def test_cells_of_excel_are_read_as_they_are_typed() -> None:
    book = openpyxl.Workbook()
    assert book.active is not None
    for row in (("word", "level"), ("cat", 1), ("dog", 2.0), (True, 3), ("=1+1", 4), ("sun", None)):
        book.active.append(row)
    output = io.BytesIO()
    book.save(output)
    entries = read(output.getvalue()).entries
    assert [(entry.word, entry.levels) for entry in entries] == [
        ("cat", ("1",)), ("dog", ("2",)), ("true", ("3",)), ("sun", ()),
    ]  # fmt: skip


def test_a_text_in_many_pieces_is_read_in_one_pass() -> None:
    # Added to the text before, each piece would copy it: a terabyte in all.
    assert read(sheet_of("&amp;" * 2_000_000, "<c><v>1</v></c>")).left_out[0].text == "1"


def test_japanese_words_get_their_forms_and_the_grammars_words() -> None:
    listed = {"会う", "会わ", "会っ", "あう", "あわ", "あっ", "を", "た"}
    rows = with_japanese_forms([LevelRow("会う", "N5", ("あう",)), LevelRow("た", "N4")], listed)
    assert rows == [
        LevelRow("を", "N5"),
        LevelRow("会う", "N5", ("あう", "会わ", "会っ", "あわ", "あっ")),
        LevelRow("た", "N4"),
    ]
