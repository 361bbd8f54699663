"""A story has the same words in every kind of file; a file that cannot be read is refused in half a line."""

import io
import re
import struct
import sys
import time
import zipfile
from collections.abc import Callable, Sequence
from unittest.mock import Mock

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pypdf import PdfReader, PdfWriter

from tests.vocab.documents.books import (
    HOSTILE,
    STORY,
    cut_text,
    damaged_lzma,
    docx,
    docx_in_encoding,
    docx_of,
    epub,
    epub_of,
    html_page,
    in_encoding,
    odt,
    odt_of,
    packed_anew,
    parts_of,
    pdf,
    pdf_of_lines,
    srt,
    vtt,
    zipped,
)
from vocab.documents import text_of, without_markup
from vocab.errors import DocumentError
from vocab.lists.wordlists import load_word_list
from vocab.options import ListOptions
from vocab.text.checker import TextChecker

SCAN = "no text in it"
DAMAGED = "the file is damaged; save it anew, or as plain text"
TOO_MUCH = "it takes too much memory to read; save it anew, or as plain text"
BOMB = f"<p>{'a' * (64 * 2**20 + 1)}</p>"
ENTITIES = '<!DOCTYPE r [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]><r>&b;</r>'


def words_of(data: bytes) -> Sequence[tuple[str, int | None, str]]:
    checker = TextChecker(load_word_list("en", None), ListOptions(numbers=True), 1000)
    report = checker.check(text_of(data, "story"))
    return [(report.spelling(word), word.rank, word.reason) for word in report.words]


def refusal(data: bytes) -> str:
    """Why a file is not read; its text in brackets where it is."""
    try:
        return f"[{text_of(data, 'a')[:80]}]"
    except DocumentError as error:
        return str(error)


def test_a_story_has_the_same_words_in_every_kind_of_file() -> None:
    expected = words_of("\n".join(STORY).replace("\u00ad", "").encode())
    assert {"extraordinarily", "twenty-one", "mother-in-law"} <= {word for word, _, _ in expected}
    for make in (docx, epub, pdf, odt, html_page, srt, vtt, cut_text):
        assert words_of(make(STORY)) == expected, make
    pages = [page.extract_text() for page in PdfReader(io.BytesIO(pdf(STORY))).pages]
    assert any(page.endswith("-") for page in pages[:-1]), "a word is cut at the end of a page"
    assert sum(page.count("-\n") for page in pages) > 2


def test_plain_text_is_taken_as_it_is() -> None:
    assert text_of("\ufeffé — \u00ad[a](b)\r\n".encode(), "a.txt") == "é — \u00ad[a](b)\r\n"
    assert text_of("hé".encode("utf-16"), "a.txt") == "hé"


def test_what_word_has_besides_words_is_read_as_a_reader_sees_it() -> None:
    body = (
        "<w:p><w:r><w:t>one</w:t><w:tab/><w:t>two</w:t><w:br/><w:t>three</w:t><w:noBreakHyphen/><w:t>four</w:t></w:r>"
        "<w:del><w:r><w:delText>deleted</w:delText></w:r></w:del><w:moveFrom><w:r><w:t>moved</w:t></w:r></w:moveFrom>"
        "<w:r><w:instrText>PAGE</w:instrText></w:r>"
        '<x:AlternateContent xmlns:x="urn:x"><x:Choice><w:t>five</w:t></x:Choice><x:Fallback><w:t>again</w:t>'
        "</x:Fallback></x:AlternateContent></w:p>"
        "<w:tbl><w:tr><w:tc><w:p><w:r><w:t>cell</w:t></w:r></w:p></w:tc></w:tr></w:tbl>"
    )
    note = "<w:footnote><w:p><w:r><w:t>a note</w:t></w:r></w:p></w:footnote>"
    assert text_of(docx_of(body, footnotes=note), "a") == "one\ttwo\nthree-fourfive\ncell\na note\n"


def test_how_words_of_a_ruby_are_spoken_is_left_out() -> None:
    for data in (
        docx_of(
            "<w:p><w:r><w:ruby><w:rt><w:r><w:t>かん</w:t></w:r></w:rt><w:rubyBase><w:r><w:t>漢</w:t></w:r></w:rubyBase>"
            "</w:ruby></w:r><w:r><w:t>字</w:t></w:r></w:p>"
        ),
        odt_of(
            "<text:p><text:ruby><text:ruby-base>漢</text:ruby-base><text:ruby-text>かん</text:ruby-text></text:ruby>"
            "字</text:p>"
        ),
        epub_of({"a.xhtml": "<p><ruby>漢<rt>かん</rt></ruby>字</p>"}),
        "<!doctype html><p><ruby>漢<rp>(<rt>かん<rp>)</ruby>字".encode(),
        "WEBVTT\n\n00:01.000 --> 00:02.000\n<ruby>漢<rt>かん</rt></ruby>字".encode(),
    ):
        assert text_of(data, "a").strip() == "漢字", data[:40]


def test_what_writer_has_besides_words_is_read_as_a_reader_sees_it() -> None:
    body = (
        "<text:tracked-changes><text:p>deleted</text:p></text:tracked-changes>"
        '<text:p>one<text:tab/>two<text:line-break/>three<text:s text:c="4"/>four\n  five'
        "<office:annotation><text:p>a comment</text:p></office:annotation>"
        "<draw:frame><svg:title>a picture</svg:title><svg:desc>of a cat</svg:desc></draw:frame>"
        "<text:note><text:note-citation>1</text:note-citation><text:note-body><text:p>a note</text:p></text:note-body>"
        "</text:note> six</text:p><text:p>cell <text:title>Title</text:title></text:p>"
    )
    assert text_of(odt_of(body), "a") == "one\ttwo\nthree four\n  five six\ncell Title\na note\n"


def test_a_page_of_html_is_read_as_a_browser_shows_it() -> None:
    for page, expected in (
        ("<!DOCTYPE html><title>t</title><p>one<p>two", "one two"),
        ("<html><head><title>t</title><body>one <!-- two --> three", "one three"),
        ("<!doctype html><a title='a > b' href=x>one</a> 1 < 2 &amp; &eacute;", "one 1 < 2 & é"),
        (
            "<!doctype html><script>if (a < b) '<p>'</script>one<noscript>js</noscript><svg><title>t</title>x</svg>",
            "one",
        ),
        ("\ufeff\n<?xml version='1.0'?><html><p>one</p></html>", "one"),
        ("<!doctype html>one<!-- never closed <p>two", "one"),
        ("<!doctype html><select><option>one<option>two</select><table><tr><td>a<td>b", "one two a b"),
        ("<!doctype html>one<a href='two'", "one"),
    ):
        assert text_of(page.encode(), "a").split() == expected.split(), page
    # A part of a page is known by the name.
    assert text_of(b"<p>one</p><p>two", "a.HTM") == "\none\ntwo"
    assert text_of(b"<p>one</p>", "a.txt") == "<p>one</p>"
    for named in (b'<meta charset="windows-1252">', b'<meta http-equiv="x" content="text/html; charset=ISO-8859-1">'):
        assert text_of(b"<!doctype html>" + named + "<p>café’s".encode("cp1252"), "a").split() == ["café’s"]


def test_subtitles_are_read_without_times_and_tags() -> None:
    srt_text = (
        "1\r\n00:00:01,000 --> 00:00:02,000 X1:1\r\n{\\an8}<i>The cat sat</i>\r\non the mat.\r\n\r\n"
        "2\r\n00:00:03,000 --> 00:00:04,000\r\n- 42\r\n- 1 < 2 &amp; 3\r\n"
        "3\r\n00:00:05,000 --> 00:00:06,000\r\nIt was\r\n\r\n1984\r\n\r\n"
        "4\r\n00:00:07,000 --> 00:00:08,000\r\na good year.\r\n"
    )
    assert text_of(srt_text.encode(), "a.srt") == "The cat sat on the mat.\n- 42\n- 1 < 2 & 3\nIt was 1984 a good year."
    vtt_text = (
        "WEBVTT\nKind: captions\n\nSTYLE\n::cue { color: red }\n\nNOTE no word\nof it\n\nname of a cue\n"
        "00:01.000 --> 00:02.000 align:start\n<v Ann>Hello,<00:01.500> <c.big>you</c></v>\n\n"
        "00:03.000 --> 00:04.000\nYes"
    )
    assert text_of(vtt_text.encode(), "a") == "Hello, you\nYes"
    # Whatever has only the beginnings of them is a text.
    for text in ("WEBVTTs are files", "1\n2 --> 3\n", "00:00:01,000 --> 00:00:02,000\none"):
        assert text_of(text.encode(), "a") == text


def test_words_that_are_cut_at_the_line_ends_of_a_plain_text_are_joined() -> None:
    for text, expected in (
        ("all under-\nstanding, of it\nnow", "all understanding,\nof it\nnow"),
        ("ex-\ntraor-\ndinary cat\r\nnow", "extraordinary\ncat\r\nnow"),
        (
            "the mother-in-\n  law of a well-\nknown well-known cat",
            "the mother-in-law\nof a well-known\nwell-known cat",
        ),
        ("  one\n\ttwo-\nthree  four\n  five \n", "  one\n\ttwothree\nfour\n  five \n"),
        ("soft\u00ad\nware, hard\u2010\r\nware\r\nend", "software,\nhardware\nend"),
        ("Vor-\nund Nachteile", "Vor-\nund Nachteile"),
        ("in 1914-\n1918, from Stratford-\nUpon", "in 1914-\n1918, from Stratford-\nUpon"),
        ("a -\nb, c--\nd, e-\n\nf", "a -\nb, c--\nd, e-\n\nf"),
    ):
        assert text_of(text.encode(), "a.txt") == expected
        assert text_of(text.encode(), "a.md") == text


@given(text=st.text("ab-\u00ad \n\r", max_size=40))
def test_joining_lines_of_a_plain_text_loses_no_letter(text: str) -> None:
    def letters(of: str) -> str:
        return "".join(filter(str.isalpha, of))

    read = text_of(f"c{text}".encode(), "a.txt")
    assert letters(read) == f"c{letters(text)}"
    assert read == f"c{text}" or re.search("[abc][-\u00ad][ \t]*\r?\n", f"c{text}")


KINDS = {make.__name__: make(STORY) for make in (docx, epub, pdf, odt, html_page, srt, vtt, cut_text)}


@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data())
def test_a_damaged_file_of_any_kind_is_read_or_refused_in_half_a_line(kind: str, data: st.DataObject) -> None:
    file = bytearray(KINDS[kind])
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(0, len(file)))
        file[place : place + data.draw(st.integers(0, 9))] = data.draw(
            st.binary(max_size=9)
            | st.sampled_from([b"<", b"<!--", b"</p>", b"-->", b"\n\n", b"&#", b'="', b"<rt>", b"-\n"])
        )
    try:
        text = text_of(bytes(file), data.draw(st.sampled_from(["a", "a.html", "a.srt", "a.odt"])))
    except DocumentError as error:
        assert "\n" not in str(error) and len(str(error)) < 160
    else:
        assert text.strip()


@pytest.mark.parametrize("name", HOSTILE)
def test_a_file_that_is_made_to_do_harm_is_read_or_refused_in_seconds(name: str) -> None:
    begun = time.process_time()
    assert refusal(HOSTILE[name]())
    assert time.process_time() - begun < 8


def test_pages_of_a_book_are_read_as_a_reader_sees_them() -> None:
    ruby = "<p>o<b>n</b>e&nbsp;t&eacute;<script>x</script><style>y</style><ruby>r<rt>s</rt></ruby></p>"
    for page, expected in (
        ("<p>one<br/>two</p>three", "\none\ntwo\nthree"),
        (ruby, "\none\xa0tér\n"),
        ("<head><title>t</title></head><p>a\n   b</p>\n\n<div><p>c</p></div>", "\na b\nc\n"),
        ("<script/><p>a<![CDATA[ <b> ]]></p></rt>", "\na <b>\n"),
        ("e\u0301 ﬁn soft\u00adhyphen non\u2011breaking", "é fin softhyphen non-breaking"),
    ):
        assert text_of(epub_of({"a b.xhtml": page}), "a") == expected, page


def test_books_and_docx_files_may_have_other_encodings() -> None:
    for page in (
        "<?xml version='1.0' encoding='iso-8859-1'?><p>café</p>".encode("iso-8859-1"),
        "<p>café</p>".encode("utf-16"),
        "<p>café</p>".encode("utf-16-be"),
        "<p>café</p>".encode("utf-8-sig"),
        in_encoding("windows-1252", encode="cp1252"),
        in_encoding("GB2312", encode="gbk"),
        *map(in_encoding, ("no-such", "idna", "undefined", "punycode", "utf-16", "hex", "rot13")),
    ):
        assert text_of(epub_of({"a.xhtml": page}), "a") == "\ncafé\n", page
    for encoding, encode in (("iso-8859-1", "latin-1"), ("utf-16", "utf-16"), ("idna", "utf-8")):
        assert text_of(docx_in_encoding(encoding, encode), "a") == "café\n", encoding
    for name, written in (("a.txt", "Größe"), ("a.html", "<!doctype html>Gr&ouml;ße")):
        assert text_of(written.encode("cp1252"), name).strip() == "Größe"
    assert text_of("我们都喜欢看书。".encode("gb18030"), "a.txt") == "我们都喜欢看书。"


def test_the_lines_of_a_pdf_are_put_together_to_sentences_and_words() -> None:
    for lines, expected in (
        (["the cat sat on the", "mat. The dog", "barked."], "the cat sat on the mat. The dog barked."),
        (
            ["the cat sat on the mat.", "The dog barked at the cat"],
            "the cat sat on the mat.\nThe dog barked at the cat",
        ),
        (["A title", "", "the cat sat on the mat and slept"], "A title\nthe cat sat on the mat and slept"),
        (["the cat was under-", "standing all of it"], "the cat was understanding all of it"),
        (["the soft hy\u00ad", "phen of a cat"], "the soft hyphen of a cat"),
        (["the mother-in-", "law of the cat was"], "the mother-in-law of the cat was"),
        (["a well-known cat, and a well-", "known dog there"], "a well-known cat, and a well-known dog there"),
        (
            ["it was wellknown and well-known, well-", "known of old"],
            "it was wellknown and well-known, wellknown of old",
        ),
        (["from Stratford-", "Upon-Avon to London"], "from Stratford- Upon-Avon to London"),
        (["in the years 1914-", "1918 there was war"], "in the years 1914- 1918 there was war"),
    ):
        assert text_of(pdf_of_lines(lines), "a") == expected


def test_markdown_is_read_without_its_markup() -> None:
    for text, words in (
        ("# A title\n\n- one *two* __three__\n> four | five |\n", "A title one two three four five"),
        ("[a link](https://example.org/path_(x) 'title') and ![a picture](a.png)", "a link and a picture"),
        ("[text][id] and [id]\n\n[id]: https://example.org 'title'\n[^1]: a note", "text and id 1 a note"),
        ("see <https://example.org/x> or https://example.org/y, www.example.org.", "see or"),
        ("before `code` and ``more ` code`` after ` alone", "before and after alone"),
        ("```python\nimport os\n```\ntext\n~~~\ncode\n```\n~~~\nmore", "text more"),
        ("```\nnever closed", ""),
        ("````\n```\ncode\n````\ntext", "text"),
        ("- item\n  ```\n  code\n  ```\n  text", "item text"),
        ("```one line``` text", "text"),
        ("---\ntitle: x\n---\ntext\n---\nmore", "text more"),
        ("---\ntext without an end", "text without an end"),
        ("+++\ntitle = 1\n+++\ntext", "text"),
        ("one <b class='x'>two</b> <!-- three\nfour --> five<br>six", "one two five six"),
        ("a &amp; b &#233; c & d", "a b c d"),
        ("a < b and c > d", "a b and c d"),
    ):
        shown = "".join(char if char.isalnum() else " " for char in without_markup(text))
        assert shown.split() == words.split(), text
    assert text_of(b"`a` b", "x.md") == "    b"
    assert text_of(b"`a` b", "x.txt") == "`a` b"


@given(text=st.text() | st.text("`~[]()<>!-a&;:^# \n", max_size=60))
def test_what_stays_of_markdown_is_where_it_was(text: str) -> None:
    shown = without_markup(text)
    assert len(shown) == len(text)
    for before, after in zip(text, shown, strict=True):
        assert after in (before, " ")
        assert (before in "\n\r") == (after in "\n\r")


def test_a_long_text_of_one_kind_is_read_in_one_pass() -> None:
    begun = time.process_time()
    for piece in ("<!--", "`", "``a", "](", "][", "<a", "[a", "&a", "```\n", "www.", "(", "---\n"):
        assert len(without_markup(piece * 100_000)) == len(piece) * 100_000
    book = epub_of({"one.xhtml": f"<p>A cat{'<b> </b>' * 300_000}sat.</p>"})
    assert text_of(book, "a.epub").split() == ["A", "cat", "sat."]
    line = "a" * 100_000
    assert text_of(pdf_of_lines([line, "cat"]), "a") == f"{line} cat"
    # Whatever is tried again at every place takes many minutes, of each of them.
    assert time.process_time() - begun < 90


def test_no_message_of_a_reader_is_passed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    for error, message in ((RuntimeError("/usr/lib/secret.py"), DAMAGED), (RecursionError("too deep"), TOO_MUCH)):
        monkeypatch.setattr("vocab.documents.pdf.text_of_pdf", Mock(side_effect=error))
        assert refusal(pdf(STORY)) == message


def test_a_book_may_have_encrypted_fonts_and_a_pdf_an_owner() -> None:
    reference = '<e xmlns="urn:e"><CipherReference URI="{}"/></e>'
    assert text_of(epub_of({"a.xhtml": "text"}, encryption=reference.format("OEBPS/font.otf")), "a") == "text"
    assert "the book is encrypted" in refusal(
        epub_of({"a.xhtml": "text"}, encryption=reference.format("OEBPS/a.xhtml"))
    )
    assert "elephant" in text_of(pdf(STORY, password=""), "a")


def with_encrypted_part(data: bytes) -> bytes:
    """The zip file with the mark of encryption at every part."""
    changed = bytearray(data)
    for signature, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        place = data.find(signature)
        while place >= 0:
            changed[place + offset] |= 1
            place = data.find(signature, place + 1)
    return bytes(changed)


def with_damaged_part() -> bytes:
    data = bytearray(docx(STORY))
    place = data.find(b"word/document.xml") + len("word/document.xml") + 20
    data[place : place + 8] = bytes(8)
    return bytes(data)


def with_false_size() -> bytes:
    """The directory says that the part has ten bytes."""
    data = bytearray(docx_of(BOMB))
    place = data.rfind(b"PK\x01\x02", 0, data.rfind(b"word/document.xml"))
    data[place + 24 : place + 28] = struct.pack("<I", 10)
    assert zipfile.is_zipfile(io.BytesIO(data))
    return bytes(data)


def empty_pdf() -> bytes:
    writer, output = PdfWriter(), io.BytesIO()
    writer.add_blank_page(100, 100)
    writer.write(output)
    return output.getvalue()


def test_what_cannot_be_read_is_refused_in_half_a_line() -> None:
    faults: list[tuple[Callable[[], bytes], str]] = [
        (lambda: b"", "the file is empty"),
        (lambda: b" \n", SCAN),
        (lambda: b"\xff\xfex", "line 1: not UTF-8"),
        (lambda: b"ok\n\xc3\xa9t\xe9", "line 2: not UTF-8"),
        (lambda: b"{\\rtf1 text}", "an RTF file"),
        (lambda: b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(512), "with a password"),
        (lambda: b"PK\x03\x04" + bytes(99), DAMAGED),
        (lambda: docx(STORY)[:-200], DAMAGED),
        (lambda: docx(STORY).replace(b"word/document.xml", b"word/documenX.xml"), DAMAGED),
        (lambda: docx_of("<w:p>"), DAMAGED),
        (with_damaged_part, DAMAGED),
        (with_false_size, DAMAGED),
        (damaged_lzma, DAMAGED),
        (lambda: packed_anew(docx(STORY), zipfile.ZIP_BZIP2), DAMAGED),
        (lambda: docx_in_encoding("utf-32", "utf-32"), DAMAGED),
        (lambda: docx_in_encoding("utf-8", "latin-1"), DAMAGED),
        (lambda: docx_of(""), SCAN),
        (lambda: with_encrypted_part(docx(STORY)), "the file is encrypted"),
        (lambda: zipped({"[Content_Types].xml": "<T/>", "_rels/.rels": ENTITIES}), "declares entities"),
        (lambda: zipped({"[Content_Types].xml": "<T/>", "_rels/.rels": "<R/>"}), "an Office file, but no DOCX"),
        (lambda: zipped({"a.txt": "text"}), "neither a DOCX, an ODT nor an EPUB"),
        (lambda: odt(STORY)[:-200], DAMAGED),
        (lambda: odt_of("<text:p>"), DAMAGED),
        (lambda: odt_of(""), SCAN),
        (lambda: odt_of(BOMB), "MiB of text when unpacked"),
        (lambda: odt_of("", manifest="<m:encryption-data/>"), "the file is encrypted"),
        (lambda: packed_anew(odt(STORY), content=ENTITIES.encode()), "declares entities"),
        (lambda: b"<!doctype html>\xc3\xa9t\xe9", "line 1: not UTF-8"),
        (lambda: b"<!doctype html><title>one</title>", SCAN),
        (lambda: b"WEBVTT\n\nNOTE nothing is said\n", SCAN),
        (lambda: zipped({"META-INF/container.xml": "<c/>"}), "names no book"),
        (lambda: epub_of({}), SCAN),
        (lambda: epub_of({"a.xhtml": BOMB}), "MiB of text when unpacked"),
        (lambda: docx_of(BOMB), "MiB of text when unpacked"),
        (lambda: pdf(STORY)[:600], DAMAGED),
        (lambda: b"%PDF-1.7\n" + bytes(100), DAMAGED),
        (empty_pdf, SCAN),
        (lambda: pdf_of_lines(["  "]), SCAN),
        (lambda: pdf(STORY, password="secret"), "the file is encrypted"),
    ]
    wrong = []
    for number, (make, message) in enumerate(faults):
        result = refusal(make())
        if message not in result or "\n" in result or len(result) >= 120:
            wrong.append((number, message, result))
    assert not wrong


def test_bounds_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vocab.documents.zipped.MAX_PARTS", 4)
    assert refusal(zipped({str(number): "" for number in range(5)})) == "more than 4 files inside"
    monkeypatch.setattr("vocab.documents.MAX_FILE_BYTES", 2**20)
    assert refusal(bytes(2**20 + 1)) == "more than 1 MiB; send a part of it"
    monkeypatch.setattr("vocab.documents.pdf.MAX_PAGES", 2)
    assert "more than 2 pages" in refusal(pdf(STORY))


def test_without_the_library_for_pdf_files_an_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pypdf", None)
    assert "pip install 'wordbound[files]'" in refusal(pdf(STORY))
    assert "elephant" in text_of(docx(STORY), "a")


def test_a_chapter_that_the_spine_names_often_is_read_once() -> None:
    book = epub_of({"one.xhtml": "<p>A cat sat.</p>"})
    [package] = [data for name, data in parts_of(book).items() if name.endswith("book.opf")]
    often = package.replace(b"</spine>", b'<itemref idref="i0"/>' * 1_000 + b"</spine>")
    assert text_of(packed_anew(book, book=often), "a.epub").split() == ["A", "cat", "sat."]
