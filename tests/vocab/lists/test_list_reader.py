"""Files as people have them become entries, and every line of them is taken or left out with a reason.

The words are made up of a few; the shapes are those of published lists, spreadsheets and programs.
"""

import re
import sys
from contextlib import suppress
from itertools import groupby
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.vocab.documents.books import parts_of, rows_xml, xlsx_of, zipped
from vocab.errors import DocumentError, InvalidWordListError
from vocab.lists.list_reader import ReadList, read_list
from vocab.lists.wordlists import WordList, load_word_list


def xlsx(**sheets: list[list[str]]) -> bytes:
    return xlsx_of({name: rows_xml(rows) for name, rows in sheets.items()})


def shown(read: ReadList) -> str:
    """Words of one rank with = between them, forms after a colon, levels after @."""
    ranks = [list(group) for _, group in groupby(read.entries, key=lambda entry: entry.rank)]
    assert [entries[0].rank for entries in ranks] == list(range(1, len(ranks) + 1))
    return " | ".join(
        "=".join(entry.word + (f":{','.join(entry.forms)}" if entry.forms else "") for entry in entries)
        + (f" @{'+'.join(entries[0].levels)}" if entries[0].levels else "")
        for entries in ranks
    )


NAMES = "the names of the columns"

FILES: dict[str, tuple[str | bytes, str, str, dict[int, str]]] = {
    # Name: content, language, entries, and the lines left out.
    "plain.txt": ("the\nwell-known\nin front of\nc++\n3\n", "", "the | well-known | in front of | c++ | 3", {}),
    "odd entries.txt": ("lie1\nbank (money)\na, an\nthe\nto go\n", "en",
                        "lie1 | bank (money) | a, an | the | to go", {}),
    "comments.txt": ("# mine\nthe\n\n# more\ncat\nthe\n", "", "the | cat", {6: "as in line 2"}),
    "blank line first.txt": ("\n\nthe\ncat\n", "", "the | cat", {}),
    "carriage returns.txt": ("the\rcat\rdog\r", "", "the | cat | dog", {}),
    "apostrophes.txt": ("don’t\nit`s\nl´eau\nsem‐i\nＡＢＣ\n", "", "don't | it's | l'eau | sem-i | ABC", {}),
    "counts.txt": ("the 22038615\nof 13151942\nand 12997637\n", "", "the | of | and", {}),
    "counts first.txt": ("  22038615 the\n  13151942 of\n  12997637 in front of\n", "", "the | of | in front of", {}),
    "counts of uniq.txt": ("the\t12\nof\t7\n", "", "the | of", {}),
    "numbered.txt": ("1. the\n2. of\n3. in front of\n", "", "the | of | in front of", {}),
    "numbered otherwise.txt": ("(1) the\n(2) of\n(3) and\n(4) and\n", "", "the | of | and", {4: "as in line 3"}),
    "numbered with counts.txt": ("1 the 900\n2 of 800\n3 and 70\n", "", "the | of | and", {}),
    "numbers in words.txt": ("mp3\nco2\nthe\nroute 66\n", "", "mp3 | co2 | the | route 66", {}),
    "bullets.txt": ("- the\n- of\n- well-known\n", "", "the | of | well-known", {}),
    "dots.txt": ("• the\n• of\n• and\n", "", "the | of | and", {}),
    "quotes.txt": ('"the"\n"of"\n"in front of"\n', "", "the | of | in front of", {}),
    "curly quotes.txt": ("“the”,\n“of”,\n“and”\n", "", "the | of | and", {}),
    "title.txt": ("My words, unit 3\n\nthe\ncat\n", "", "the | cat", {1: "a title"}),
    "title of one.txt": ("Word\nthe\ncat\n", "", "the | cat", {1: "a title"}),
    "no title.txt": ("word\nlist\nunit\n", "", "word | list | unit", {}),
    "one line.txt": ("the, cat, in front of\n", "", "the | cat | in front of", {}),
    "one line of zh.txt": ("你好、学生、是\n", "zh", "你好 | 学生 | 是", {}),
    "classes.txt": ("abandon v. B2\nability n. A2\na, an indefinite article A1\nbank (money) n. A1\n"
                    "about prep., adv. A1\n",
                    "en", "abandon @B2 | ability @A2 | a=an @A1 | bank @A1 | about @A1", {}),
    "classes alone.txt": ("abandon v.\nability n.\nable adj.\nthe\n", "en", "abandon | ability | able | the", {}),
    # Tables.
    "freq.csv": ("word,freq\nthe,22038615\nof,7\n", "", "the | of", {1: NAMES}),
    "freq.txt": ("word,freq\nthe,22038615\nof,7\n", "", "the | of", {1: NAMES}),
    "other names.csv": ("mot;nombre\nle;9\nchat;3\n", "fr", "le | chat", {1: NAMES}),
    "unknown names.csv": ("vort;nombro\nla;9\nkato;3\n", "eo", "la | kato", {1: NAMES}),
    "no names.csv": ("the,9\nof,3\n7,3\n", "", "the | of", {3: "no letters"}),
    "separator.csv": ("sep=;\nthe;9\nof;3\n", "", "the | of", {}),
    "semicolons.csv": ("Wort;Level\nHund;A1\nund;A1\n", "de", "Hund @A1 | und @A1", {1: NAMES}),
    "quoted.csv": ('"word","note"\n"the","a ""b"", c"\n"of","two\nlines"\n"and",""\n', "",
                   "the | of | and", {1: NAMES}),
    "one column.csv": ("word\nthe\ncat\n", "", "the | cat", {1: NAMES}),
    "titles above.csv": ("My list,,\n,,\nUnit,word,freq\n1,the,4\n1,,5\n", "", "the @1",
                         {1: "a title", 3: NAMES, 5: "no word"}),
    "title above two.csv": ("Class 5b,\nWord,Level\nthe,A1\ncat,A2\n", "en", "the @A1 | cat @A2",
                            {1: "a title", 2: NAMES}),
    "formulas.csv": ("word\n'-ness\n''-s\n'tis\n\"in front, behind\"\n", "",
                     "-ness | '-s | 'tis | in front=behind", {1: NAMES}),
    "pipes.txt": ("| word | freq |\n|---|---|\n| the | 3 |\n| of | 2 |\n", "", "the | of",
                  {1: NAMES, 2: "a line across"}),
    "levels.csv": ("word,level,forms\ngo,A1,goes;went\ncat,a1-A2,\ndog,C1,dogs\n", "en",
                   "go:goes,went @A1 | cat @a1-A2 | dog:dogs @C1", {1: NAMES}),
    "families.csv": ("be,am,is,was\nthe\ncat,cats\ngo,goes,went\nhouse,houses\n", "en",
                     "be:am,is,was | the | cat:cats | go:goes,went | house:houses", {}),
    "anki.txt": ("#separator:tab\n#html:true\n#tags column:3\nHund\t<b>dog</b>\tx\nKatze&nbsp;\tcat\t\n", "de",
                 "Hund | Katze", {}),
    "anki columns.txt": ("#separator:Semicolon\n#columns:Meaning;Front;Tags\ndog;Hund;a\ncat;Katze;\n", "de",
                         "Hund @a | Katze", {}),
    "anki of zh.txt": ("nǐ hǎo\t你好\thello\nxué shēng\t学生\tpupil\n", "zh", "你好 | 学生", {}),
    # Cells.
    "cells.csv": ('headword,CEFR\nlie1,a1\nlie2,A2\nbank (money),B1\n"a, an",A1\nbe (am/is/are),A1\nto go,A1\n'
                  "a.m./am,A1\nco2,B1\ncolo(u)r,B2\nbat (animal/sport),B2\n24/7,C1\n", "en",
                  "lie @a1+A2 | bank @B1 | a=an @A1 | be:am,is,are @A1 | go @A1 | a.m.=am @A1 | co2 @B1 | "
                  "color:colour @B2 | bat @B2", {1: NAMES, 3: "as in line 2", 12: "no letters"}),
    "superscripts.csv": ("word,level\nlie¹,A1\nlie²,A1\n하다01,A1\n하다02,A1\n", "", "lie @A1 | 하다 @A1",
                         {1: NAMES, 3: "as in line 2", 5: "as in line 4"}),
    "goethe.txt": ("der Hund, -e\nder Apfel, ¨-\ndas Haus, -¨er\ndie Frau, –en\ndas Auto, -s\ndie Eltern (Pl.)\n"
                   "die Lehrerin, -nen\ngehen, ging, ist gegangen\nab|fahren, fährt ab, fuhr ab, ist abgefahren\n"
                   "(sich) waschen\nder/die Angestellte, -n\ndas Museum, -en\ndie Leute, Pl.\nder, die, das\n", "de",
                   "Hund:Hunde | Apfel:Äpfel | Haus:Häuser | Frau:Frauen | Auto:Autos | Eltern | "
                   "Lehrerin:Lehrerinnen | gehen:ging,gegangen | abfahren:fährt ab,fuhr ab,abgefahren | waschen | "
                   "Angestellte:Angestellten | Museum:Museen | Leute | der=die=das", {}),
    "trailing articles.csv": ("Wort,Niveau\n\"Hund, der, -e\",A1\nSchüler(in),A1\nLehrer/in,A2\n", "de",
                              "Hund:Hunde @A1 | Schüler:Schülerin @A1 | Lehrer:Lehrerin @A2", {1: NAMES}),
    "spanish.txt": ("la casa\nel amigo, -a\nbueno/a\nel/la artista\nprofesor, -a\ninglés, -esa\nel inglés, -a\n", "es",
                    "casa | amigo:amiga | bueno:buena | artista | profesor:profesora | inglés:inglesa",
                    {7: "as in line 6"}),
    "french.txt": ("le chat\nl'homme\nla fille\nheureux, -euse\nactif, -ive\npetit, -e\nbon, -ne\n(se) laver\n"
                   "l'acteur, -trice\n", "fr",
                   "chat | homme | fille | heureux:heureuse | actif:active | petit:petite | bon:bonne | laver | "
                   "acteur:actrice", {}),
    "articles of no language.txt": ("la casa\nel perro\nel libro\nla mesa\nlos padres\nir\n", "",
                                    "casa | perro | libro | mesa | padres | ir", {}),
    "swedish.csv": ("ord;nivå\nen flicka -n -or;1\natt gå;1\nett hus;2\n", "sv", "flicka:flickan,flickor | gå | hus",
                    {1: NAMES}),
    "russian.csv": ("слово;уровень\nбольшой, -ая, -ое;А1\nкнига, -и;A1\n", "ru",
                    "большой:большая,большое @А1 | книга:книги @A1", {1: NAMES}),
    "principal parts.csv": ('verb,word\n1,"go, went, gone"\n2,"gehen - ging - gegangen"\n3,"take (took, taken)"\n',
                            "en",
                            "go:went,gone | gehen=ging=gegangen | take:took,taken", {1: NAMES}),
    # Encodings.
    "utf-16.txt": ("Hund\nKätzchen\n".encode("utf-16"), "", "Hund | Kätzchen", {}),
    "utf-16 without mark.txt": ("Hund\r\nKätzchen\r\n".encode("utf-16-be"), "", "Hund | Kätzchen", {}),
    "utf-16 of zh.txt": ("你好\n学生\n".encode("utf-16-le"), "zh", "你好 | 学生", {}),
    "cp1252.csv": ("Wort;Niveau\nKätzchen;A1\nÄpfel;A1\n„so“;A2\n".encode("cp1252"), "",
                   "Kätzchen @A1 | Äpfel @A1 | „so“ @A2", {1: NAMES}),
    "gb18030.txt": ("你好\n学生\n我们\n是的\n老师\n在\n".encode("gb18030"), "",
                    "你好 | 学生 | 我们 | 是的 | 老师 | 在", {}),
    "cp1251 of ru.txt": ("дом\nкошка\n".encode("cp1251"), "ru", "дом | кошка", {}),
    "shift-jis of ja.txt": ("会う\nいい\n".encode("cp932"), "ja", "会う | いい", {}),
    # Workbooks.
    "class.xlsx": (xlsx(A1=[["Wort", "x"], ["Hund", "1"]], About=[["Made by us"], ["2026"]], A2=[["Wort"], ["Katze"]]),
                   "de", "Hund @A1 | Katze @A2", {1: NAMES, 2: "the sheet has no column of words"}),
    "one sheet.xlsx": (xlsx(Tabelle1=[["the", "9"], ["of", "7"]]), "", "the | of", {}),
    "hsk.csv": ("simplified,pinyin,level\n爸爸｜爸,bàba,HSK 1\n（一）点儿,diǎnr,1\n本（量）,běn,2\n点1,diǎn,3\n", "zh",
                "爸爸=爸 @HSK 1 | 点儿=一点儿 @1 | 本 @2 | 点 @3", {1: NAMES}),
    "jlpt.csv": ("expression,reading,tags\n会う,あう,JLPT JLPT_5\nいい/よい,,N5\n～さん,,N5\n水、お水,みず,N4\n", "ja",
                 "会う:あう @JLPT JLPT_5 | いい=よい @N5 | さん @N5 | 水:みず=お水 @N4", {1: NAMES}),
    "invisible.txt": ("the\nd\u200bg\ncat\n", "", "the | cat", {2: "invisible format character"}),
}  # fmt: skip


@pytest.mark.parametrize("name", FILES)
def test_each_line_of_a_file_is_an_entry_or_left_out_with_a_reason(name: str) -> None:
    content, language, expected, left_out = FILES[name]
    data = content if isinstance(content, bytes) else content.encode()
    read = read_list(data, name, language)
    assert shown(read) == expected
    reasons: dict[int, str] = {}
    for row in read.left_out:
        reasons.setdefault(row.line, row.reason)
    assert reasons.keys() == left_out.keys()
    assert [reason for line, reason in left_out.items() if not reasons[line].startswith(reason)] == []


def test_a_plain_list_of_words_keeps_its_digest(tmp_path: Path) -> None:
    words = ["the", "of", "lie1", "a,b", "mp3", "don't", "Haus", "ñandú", "3", "(x)", "[y]", "日本", "well-known"]
    (tmp_path / "mine.txt").write_text("\n".join([*words, "in front of"]), encoding="utf-8")
    expected = WordList("mine", (*words, "in front of"), "file")
    assert load_word_list("mine", tmp_path).digest == expected.digest


def test_words_of_a_row_share_a_rank_in_a_list_file(tmp_path: Path) -> None:
    (tmp_path / "en_course.txt").write_text('word,n\n"a, an",1\nbe (am/is/are),2\ncat,3\n', encoding="utf-8")
    found = load_word_list("en_course", tmp_path)
    assert list(found.ranked()) == [(1, "a"), (1, "an"), (2, "be"), (2, "am"), (2, "is"), (2, "are"), (3, "cat")]
    (tmp_path / "en_bad.txt").write_text("word,n\nthe,1\nd\u200bg,2\n", encoding="utf-8")
    with pytest.raises(InvalidWordListError, match=r"^en_bad\.txt, line 3: invisible"):
        load_word_list("en_bad", tmp_path)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"\xd0\xcf\x11\xe0" + bytes(40), "an old Excel, or one with a password"),
        (b"%PDF-1.7", "a PDF"),
        (b"{\\rtf1 x}", "an RTF file"),
        (zipped({"a": "b"}), "no XLSX"),
        (b"PK\x03\x04" + bytes(40), "the file is damaged"),
        (b"a" * (16 * 2**20 + 1), "more than 16 MiB"),
        ("дом\nкошка\n".encode("cp1251"), "line 1: not UTF-8"),
        ("한국어\n사람\n".encode("euc-kr"), "line 1: not UTF-8"),
        ("é\nç\n".encode() + b"\xe9\n", "line 3: not UTF-8"),
        (b"the\ncaf\xc3\n", "line 2: not UTF-8"),
        (b"word,b\n" + b"x" * 200_000 + b",1\n", "line 2: no table: field larger"),
    ],
)
def test_what_cannot_be_read_is_refused_with_the_reason(data: bytes, reason: str) -> None:
    with pytest.raises(DocumentError, match=reason):
        read_list(data)


def test_a_column_that_was_asked_for_is_read_or_missed() -> None:
    data = b"n,mine,its\n1,the,A1\n2,cat,A2\n"
    assert shown(read_list(data, "x.csv", "", "Mine", "its")) == "the @A1 | cat @A2"
    with pytest.raises(DocumentError, match="no column other; there are n, mine, its"):
        read_list(data, "x.csv", "", "mine", "other")


@pytest.mark.parametrize(
    ("levels", "expected"),
    [
        ("unit 1,unit 1,unit 2", "unit 1 unit 2"),
        ("hard,easy", "hard easy"),
        # They come in pieces: then by their own order, if they have one.
        ("B1,a1,B1,A1-A2", "A1 B1"),
        ("N1,N5,N1", "N5 N1"),
        ("unit 10,unit 9,unit 10", "unit 9 unit 10"),
        ("hard,easy,hard", "hard easy"),
        ("А1,В2", "A1 B2"),
    ],
)
def test_levels_have_the_order_of_the_file_where_each_has_its_place(levels: str, expected: str) -> None:
    rows = "".join(f"w{chr(97 + place)},{level}\n" for place, level in enumerate(levels.split(",")))
    assert " ".join(read_list(f"word,level\n{rows}".encode(), "x.csv").levels) == expected


ODD_CELLS = """the|der Hund, -e|lie1|lie2|a, an|be (am/is/are)|to go|A1|a1-A2|C1|12|3.5||word|level|CEFR|ab/fahren|¨-|
-n -or|(|()|/|,|"|#|爸爸｜爸|（一）点|～"""
CELLS = st.one_of(st.sampled_from([cell.strip() for cell in ODD_CELLS.split("|")]), st.text(max_size=12))
TABLES = st.lists(st.lists(CELLS, min_size=1, max_size=4), max_size=12)


@settings(deadline=None)
@given(
    TABLES, st.sampled_from("\t;,|\n "), st.sampled_from(["", "x.csv"]), st.sampled_from(["", "de", "en", "zh", "fr"])
)
def test_any_table_is_accounted_for_or_refused(table: list[list[str]], mark: str, name: str, language: str) -> None:
    text = "\n".join(mark.join(re.sub(r'[\r\n"]', "", cell) for cell in row) for row in table)
    try:
        data = text.encode()
        read = read_list(data, name, language)
    except (DocumentError, UnicodeEncodeError):
        return
    accounted = {entry.line for entry in read.entries} | {row.line for row in read.left_out}
    lines = {number for number, line in enumerate(text.split("\n"), 1) if line.replace("|", "").strip() or mark != "|"}
    blank = {
        number for number, line in enumerate(text.split("\n"), 1) if not re.sub(rf"[\s{re.escape(mark)}]", "", line)
    }
    comments = {number for number, line in enumerate(text.split("\n"), 1) if line.lstrip("\ufeff \t").startswith("#")}
    assert lines - accounted - blank - comments <= {1}  # "sep=;"


@settings(deadline=None)
@given(st.binary(max_size=200), st.sampled_from(["", "de", "zh", "ru"]))
def test_any_bytes_are_read_or_refused(data: bytes, language: str) -> None:
    with suppress(DocumentError):
        read_list(data, "x", language)


DAMAGED = {
    "xlsx": xlsx(A1=[["Wort", "x"], ["Hund", "1"]], A2=[["Wort"], ["Katze"]]),
    "csv": b"Wort;x\nHund;A1\nK\xe4se;\n",
}


@pytest.mark.parametrize("kind", DAMAGED)
@given(data=st.data())
def test_a_damaged_list_is_read_or_refused_in_half_a_line(kind: str, data: st.DataObject) -> None:
    file = bytearray(DAMAGED[kind])
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(0, len(file)))
        file[place : place + data.draw(st.integers(0, 9))] = data.draw(st.binary(max_size=9))
    assert_read_or_refused(bytes(file))


@given(data=st.data())
def test_a_part_of_a_workbook_may_be_damaged(data: st.DataObject) -> None:
    parts = {name: bytearray(part) for name, part in parts_of(DAMAGED["xlsx"]).items()}
    file = parts[data.draw(st.sampled_from(sorted(parts)))]
    marks = st.sampled_from([b"<", b"<c r='ZZ9'/>", b"<row/>", b"<v>1</v>", b"</row>", b"&#", b'="', b"99999999999"])
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(0, len(file)))
        file[place : place + data.draw(st.integers(0, 9))] = data.draw(st.binary(max_size=9) | marks)
    assert_read_or_refused(zipped({name: bytes(part) for name, part in parts.items()}))


def assert_read_or_refused(data: bytes) -> None:
    try:
        read_list(data, "x.csv", "de")
    except DocumentError as error:
        assert "\n" not in str(error) and len(str(error)) < 160


def test_without_the_library_for_xlsx_files_an_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    with pytest.raises(DocumentError, match=r"pip install 'wordbound\[files\]'"):
        read_list(DAMAGED["xlsx"])
    assert read_list(DAMAGED["csv"]).entries


def test_the_answer_is_bounded() -> None:
    answer = read_list(b"the\n" + b"the\n" * 10_001).as_json()
    assert (len(answer["entries"]), answer["num_left_out"], len(answer["left_out"])) == (1, 10_001, 10_000)
    with pytest.raises(DocumentError, match="more than 100,000 words"):
        read_list("".join(f"w{number}x\n" for number in range(100_001)).encode()).as_json()
    with pytest.raises(DocumentError, match="there is no word in it; line 1: the sheet has no column"):
        read_list(b"1,2\n3,4\n", "x.csv").as_json()
