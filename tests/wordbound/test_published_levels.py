"""Published tables become files of levels. The words are made up; the columns are those of the lists."""

from pathlib import Path

import pytest

from tests.vocab.documents.books import zipped
from vocab.errors import DocumentError, InvalidWordListError
from vocab.lists.levels import FAMILIES, LevelRow
from wordbound import published_levels
from wordbound.published_levels import level_rows, read_table, with_japanese_forms, word_families

BY_NAME = {family.name: family for family in FAMILIES}

CEFR_J = (
    "headword,pos,CEFR,CoreInventory 1\nbook,verb,B1,\ncat,noun,A1,x\nbook,noun,A2,\na.m./am,adverb,A1\nodd,noun,D9\n"
)
NGSL = "Lemma,SFI Rank,SFI\nthe,1,88.7\nbe,2,86.5\nand,3,86.0\n"
KELLY = "ID\tWPM\tCEFR levels\tSwedish items for translation\n1\t5\tA1\thus\n2\t3\tB1\tträd\n"


def saved(tmp_path: Path, data: str | bytes) -> Path:
    path = tmp_path / "table"
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    return path


def sheet(*rows: str) -> bytes:
    return zipped(
        {
            "xl/sharedStrings.xml": '<sst xmlns="urn:s"><si><t>headword</t></si><si><r><t>le</t></r><r><t>vel</t></r>'
            "</si><si><t>cat</t><rPh><t>kat</t></rPh></si></sst>",
            "xl/worksheets/sheet1.xml": f'<worksheet xmlns="urn:s"><sheetData>{"".join(rows)}</sheetData></worksheet>',
        }
    )


def test_a_word_has_its_lowest_level_and_a_cell_may_have_several(tmp_path: Path) -> None:
    assert level_rows(read_table(saved(tmp_path, CEFR_J)), BY_NAME["cefr-j"], {}) == [
        LevelRow("cat", "A1"), LevelRow("a.m.", "A1"), LevelRow("am", "A1"), LevelRow("book", "A2"),
    ]  # fmt: skip


def test_a_list_by_rank_has_levels_by_thousands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(published_levels, "_NGSL_BAND", 1)
    forms = word_families([["be", "is ", "was", "", "be"], ["go", "went"]])
    assert level_rows(read_table(saved(tmp_path, "\ufeff" + NGSL)), BY_NAME["ngsl"], forms) == [
        LevelRow("the", "1"), LevelRow("be", "2", ("is", "was")), LevelRow("and", "3"),
    ]  # fmt: skip


def test_columns_may_have_other_names(tmp_path: Path) -> None:
    table = read_table(saved(tmp_path, KELLY))
    column = "swedish items for translation"
    assert level_rows(table, BY_NAME["kelly"], {}, column) == [LevelRow("hus", "A1"), LevelRow("träd", "B1")]
    with pytest.raises(DocumentError, match=r"no column headword or .* there are ID, WPM"):
        level_rows(table, BY_NAME["kelly"], {})


def test_a_list_without_levels_is_one(tmp_path: Path) -> None:
    assert level_rows(read_table(saved(tmp_path, "Word\ngo\n")), BY_NAME["new-dolch"], {}) == [LevelRow("go")]


def test_tables_of_excel_are_read(tmp_path: Path) -> None:
    data = sheet(
        '<row><c r="A1" t="s"><v>0</v></c><c r="C1" t="s"><v>1</v></c></row>',
        '<row><c r="A2" t="s"><v>2</v></c><c r="B2"><v>7</v></c><c r="C2" t="inlineStr"><is><t>A1</t></is></c></row>',
        '<row><c t="s"><v>99</v></c></row>',
    )
    table = read_table(saved(tmp_path, data))
    assert [list(row) for row in table] == [["headword", "", "level"], ["cat", "7", "A1"], [""]]
    assert level_rows(table, BY_NAME["cefr-j"], {}) == [LevelRow("cat", "A1")]


@pytest.mark.parametrize(
    ("data", "result"),
    [
        (b"", "an empty table"),
        (b"headword,CEFR\ncaf\xe9,A1\n", "not UTF-8"),
        (b"headword,pos\ncat,noun\n", "no column cefr or"),
        (b"headword,CEFR\ncat,D1\n", "no word with a level of cefr-j: A1, A2, B1, B2"),
        (zipped({"a": "b"}), "no XLSX"),
        (b"PK\x03\x04" + bytes(40), "the file is damaged"),
        (b"a" * (16 * 2**20 + 1), "more than 16 MiB"),
    ],
)
def test_what_is_no_such_table_is_refused(tmp_path: Path, data: bytes, result: str) -> None:
    with pytest.raises(DocumentError, match=result):
        level_rows(read_table(saved(tmp_path, data)), BY_NAME["cefr-j"], {})


LONGEST = "x" * 32_767


def sheet_of(text: str, *cells: str) -> bytes:
    """A sheet of one row, with one shared string."""
    return zipped(
        {
            "xl/sharedStrings.xml": f"<s:sst xmlns:s='urn:s'><s:si><s:t>{text}</s:t></s:si></s:sst>",
            "xl/worksheets/sheet1.xml": f"<s:w xmlns:s='urn:s'><s:row>{''.join(cells)}</s:row></s:w>",
        }
    )


@pytest.mark.parametrize(
    ("data", "limit"),
    [
        (sheet(*(f'<row><c r="ZZZ{row}"><v>1</v></c></row>' for row in range(100_000))), "2,000,000 cells"),
        (sheet("<row/>" * 2_000_001), "2,000,000 cells"),
        (b",\n" * 700_000, "2,000,000 cells"),
        (sheet_of(LONGEST + "x", "<s:c t='s'><s:v>0</s:v></s:c>"), "32,767 characters in a cell"),
        (sheet_of("", f"<s:c>{'<s:v>x</s:v>' * 32_768}</s:c>"), "32,767 characters in a cell"),
        (sheet_of(LONGEST, "<s:c t='s'><s:v>0</s:v></s:c>" * 2_049), "67,108,864 characters"),
        (sheet_of(" " * (64 * 2**20)), "64 MiB of text when unpacked"),
    ],
    ids=["far column", "rows", "csv", "long string", "many values", "shared text", "unpacked"],
)  # fmt: skip
def test_a_small_file_of_a_huge_table_is_refused_by_the_limit(tmp_path: Path, data: bytes, limit: str) -> None:
    assert len(data) < 2_000_000
    with pytest.raises(DocumentError, match=f"more than {limit}"):
        read_table(saved(tmp_path, data))


def test_a_table_at_the_limits_is_read(tmp_path: Path) -> None:
    [row] = read_table(saved(tmp_path, sheet_of(LONGEST, "<s:c t='s'><s:v>0</s:v></s:c>" * 2_048)))
    assert row == [LONGEST] * 2_048
    [row] = read_table(saved(tmp_path, sheet('<row><c r="XFD1"><v>1</v></c></row>')))
    assert row[-1] == "1" and len(row) == 16_384
    assert len(read_table(saved(tmp_path, b"a\n" * 1_000_000))) == 1_000_000


@pytest.mark.parametrize("number", ["9" * 5_000, "٣", "-1", "1e3", "²", ""])
def test_a_number_of_no_shared_string_is_an_empty_cell(tmp_path: Path, number: str) -> None:
    data = sheet_of("cat", "<s:c t='s'><s:v>0</s:v></s:c>", f"<s:c t='s'><s:v>{number}</s:v></s:c>")
    assert read_table(saved(tmp_path, data)) == [["cat", ""]]


def test_a_text_in_many_pieces_is_read_in_one_pass(tmp_path: Path) -> None:
    # Added to the text before, each piece would copy it: a terabyte in all.
    data = sheet_of("&amp;" * 10_000_000, "<s:c><s:v>1</s:v></s:c>")
    assert read_table(saved(tmp_path, data)) == [["1"]]


def test_a_cell_that_cannot_be_a_word_is_told_by_its_row(tmp_path: Path) -> None:
    with pytest.raises(InvalidWordListError, match="row 3: invisible"):
        level_rows(read_table(saved(tmp_path, "headword,CEFR\ncat,A1\nd\u200bg,A1\n")), BY_NAME["cefr-j"], {})


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


def test_hsk_tables_have_levels_in_several_spellings(tmp_path: Path) -> None:
    table = read_table(saved(tmp_path, HSK2))
    rows = [("爱", "1"), ("学习", "1"), ("虽然", "2")]
    assert [row[:2] for row in level_rows(table, BY_NAME["hsk2"], {}, language="zh")] == rows
    traditional = level_rows(table, BY_NAME["hsk2"], {}, language="zh-Hant")
    assert [row.word for row in traditional] == ["愛", "學習", "雖然"]
    found = level_rows(read_table(saved(tmp_path, HSK3)), BY_NAME["hsk3"], {}, language="zh")
    assert [row[:2] for row in found] == [
        ("爸爸", "1"), ("爸", "1"), ("点儿", "1"), ("一点儿", "1"), ("本", "2"), ("点", "3"),
        ("有些", "6"), ("有一些", "6"), ("一一", "7-9"), ("阿", "7-9"), ("安", "7-9"),
    ]  # fmt: skip


def test_a_table_with_both_hsk_versions_gives_each(tmp_path: Path) -> None:
    table = read_table(saved(tmp_path, 'simplified,level\n爱,"new-1, old-3"\n'))
    assert level_rows(table, BY_NAME["hsk2"], {}, language="zh") == [LevelRow("爱", "3")]
    assert level_rows(table, BY_NAME["hsk3"], {}, language="zh") == [LevelRow("爱", "1")]


def test_jlpt_tables_name_the_easiest_level_first(tmp_path: Path) -> None:
    found = level_rows(read_table(saved(tmp_path, JLPT)), BY_NAME["jlpt"], {}, language="ja")
    assert [row[:2] for row in found] == [
        ("会う", "N5"), ("いい", "N5"), ("よい", "N5"), ("さん", "N5"), ("学校", "N4"), ("行く", "N3"), ("水", "N2"),
        ("お水", "N2"),
    ]  # fmt: skip
    assert {row.word: row.forms for row in found if row.forms} == {
        "会う": ("あう",), "学校": ("がっこう",), "行く": ("いく",), "水": ("みず",),
    }  # fmt: skip


def test_japanese_words_get_their_forms_and_the_grammars_words() -> None:
    listed = {"会う", "会わ", "会っ", "あう", "あわ", "あっ", "を", "た"}
    rows = with_japanese_forms([LevelRow("会う", "N5", ("あう",)), LevelRow("た", "N4")], listed)
    assert rows == [
        LevelRow("を", "N5"),
        LevelRow("会う", "N5", ("あう", "会わ", "会っ", "あわ", "あっ")),
        LevelRow("た", "N4"),
    ]
