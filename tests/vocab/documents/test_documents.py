"""A story has the same words in every kind of file; a file that cannot be read is refused in half a line."""

import io
import struct
import sys
import time
import zipfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from unittest.mock import Mock

import pytest
from pypdf import PdfWriter

from tests.vocab.documents.books import (
    HOSTILE,
    STORY,
    damaged_lzma,
    docx,
    docx_in_encoding,
    docx_of,
    epub,
    epub_of,
    in_encoding,
    packed_anew,
    parts_of,
    pdf,
    zipped,
)
from vocab import documents
from vocab.documents import text_of
from vocab.documents import zipped as zipped_module
from vocab.errors import DocumentError
from vocab.lists.wordlists import load_word_list
from vocab.options import ListOptions
from vocab.text.checker import TextChecker

SCAN = "no text in it"
DAMAGED = "the file is damaged"


def words_of(data: bytes, name: str = "story") -> Sequence[tuple[str, int | None, str]]:
    checker = TextChecker(load_word_list("en", None), ListOptions(numbers=True), 1000)
    report = checker.check(text_of(data, name))
    return [(report.spelling(word), word.rank, word.reason) for word in report.words]


@pytest.mark.parametrize("make", [docx, epub, pdf])
def test_a_story_has_the_same_words_in_every_kind_of_file(make: Callable[[Sequence[str]], bytes]) -> None:
    plain = "\n".join(STORY).replace("\u00ad", "").encode()
    expected = words_of(plain)
    assert tuple(word for word, _, _ in expected if word in ("extraordinarily", "twenty-one", "mother-in-law")) == (
        "extraordinarily",
        "twenty-one",
        "mother-in-law",
    )
    assert words_of(make(STORY)) == expected


def test_the_pdf_of_the_story_cuts_words_at_the_ends_of_lines_and_pages() -> None:
    from pypdf import PdfReader

    pages = [page.extract_text() for page in PdfReader(io.BytesIO(pdf(STORY))).pages]
    assert len(pages) > 2
    assert any(page.endswith("-") for page in pages)
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


@pytest.mark.parametrize(
    ("page", "expected"),
    [
        ("<p>one<br/>two</p>three", "\none\ntwo\nthree"),
        (
            "<p>o<b>n</b>e&nbsp;t&eacute;<script>x</script><style>y</style><ruby>r<rt>s</rt></ruby></p>",
            "\none\xa0tér\n",
        ),
        ("<head><title>t</title></head><p>a\n   b</p>\n\n<div><p>c</p></div>", "\na b\nc\n"),
        ("<script/><p>a<![CDATA[ <b> ]]></p></rt>", "\na <b>\n"),
        ("e\u0301 ﬁn soft\u00adhyphen non\u2011breaking", "é fin softhyphen non-breaking"),
    ],
)
def test_pages_of_a_book_are_read_as_a_reader_sees_them(page: str, expected: str) -> None:
    assert text_of(epub_of({"a b.xhtml": page}), "a") == expected


@pytest.mark.parametrize(
    "page",
    [
        "<?xml version='1.0' encoding='iso-8859-1'?><p>café</p>".encode("iso-8859-1"),
        "<p>café</p>".encode("utf-16"),
        "<p>café</p>".encode("utf-16-be"),
        "<p>café</p>".encode("utf-8-sig"),
        in_encoding("windows-1252", encode="cp1252"),
        in_encoding("GB2312", encode="gbk"),
        *map(in_encoding, ("no-such", "idna", "undefined", "punycode", "utf-16", "hex", "rot13")),
    ],
)
def test_pages_may_have_other_encodings(page: bytes) -> None:
    assert text_of(epub_of({"a.xhtml": page}), "a") == "\ncafé\n"


@pytest.mark.parametrize(("encoding", "encode"), [("iso-8859-1", "latin-1"), ("utf-16", "utf-16"), ("idna", "utf-8")])
def test_a_docx_may_have_other_encodings(encoding: str, encode: str) -> None:
    assert text_of(docx_in_encoding(encoding, encode), "a") == "café\n"


@pytest.mark.parametrize("make", HOSTILE.values(), ids=HOSTILE)
def test_readers_raise_no_other_error(make: Callable[[], bytes]) -> None:
    with suppress(DocumentError):
        text_of(make(), "a")


@pytest.mark.parametrize(
    ("error", "result"),
    [
        (RuntimeError("/usr/lib/secret.py"), "the file is damaged; save it anew, or as plain text"),
        (RecursionError("too deep"), "it takes too much memory to read; save it anew, or as plain text"),
    ],
)
def test_no_message_of_a_reader_is_passed_on(monkeypatch: pytest.MonkeyPatch, error: Exception, result: str) -> None:
    monkeypatch.setattr("vocab.documents.pdf.text_of_pdf", Mock(side_effect=error))
    with pytest.raises(DocumentError) as error_info:
        text_of(pdf(STORY), "a")
    assert str(error_info.value) == result


def test_a_book_may_have_encrypted_fonts() -> None:
    reference = '<e xmlns="urn:e"><CipherReference URI="{}"/></e>'
    assert text_of(epub_of({"a.xhtml": "text"}, encryption=reference.format("OEBPS/font.otf")), "a") == "text"
    with pytest.raises(DocumentError, match="the book is encrypted"):
        text_of(epub_of({"a.xhtml": "text"}, encryption=reference.format("OEBPS/a.xhtml")), "a")


def test_a_pdf_that_only_its_owner_may_change_is_read() -> None:
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


def empty_pdf() -> bytes:
    writer, output = PdfWriter(), io.BytesIO()
    writer.add_blank_page(100, 100)
    writer.write(output)
    return output.getvalue()


ENTITIES = '<!DOCTYPE r [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]><r>&b;</r>'
BOMB = "<p>" + "a" * (zipped_module.MAX_XML_BYTES + 1) + "</p>"


@pytest.mark.parametrize(
    ("make", "result"),
    [
        (lambda: b"", "the file is empty"),
        (lambda: b" \n", SCAN),
        (lambda: b"\xff\xfex", "not a text in UTF-8"),
        (lambda: b"caf\xe9", "not a text in UTF-8"),
        (lambda: b"{\\rtf1 text}", "an RTF file"),
        (lambda: b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(512), "with a password"),
        (lambda: b"PK\x03\x04" + bytes(99), DAMAGED),
        (lambda: docx(STORY)[:-200], DAMAGED),
        (lambda: docx(STORY).replace(b"word/document.xml", b"word/documenX.xml"), DAMAGED),
        (lambda: docx_of("<w:p>"), DAMAGED),
        (damaged_lzma, DAMAGED),
        (lambda: packed_anew(docx(STORY), zipfile.ZIP_BZIP2), DAMAGED),
        (lambda: docx_in_encoding("utf-32", "utf-32"), DAMAGED),
        (lambda: docx_in_encoding("utf-8", "latin-1"), DAMAGED),
        (lambda: docx_of(""), SCAN),
        (lambda: with_encrypted_part(docx(STORY)), "the file is encrypted"),
        (lambda: zipped({"[Content_Types].xml": "<T/>", "_rels/.rels": ENTITIES}), "declares entities"),
        (lambda: zipped({"[Content_Types].xml": "<T/>", "_rels/.rels": "<R/>"}), "an Office file, but no DOCX"),
        (lambda: zipped({"a.txt": "text"}), "neither a DOCX nor an EPUB"),
        (lambda: zipped({"META-INF/container.xml": "<c/>"}), "names no book"),
        (lambda: epub_of({}), SCAN),
        (lambda: epub_of({"a.xhtml": BOMB}), "MiB of text when unpacked"),
        (lambda: docx_of(BOMB), "MiB of text when unpacked"),
        (lambda: pdf(STORY)[:600], DAMAGED),
        (lambda: b"%PDF-1.7\n" + bytes(100), DAMAGED),
        (empty_pdf, SCAN),
        (lambda: pdf(STORY, password="secret"), "the file is encrypted"),
    ],
)
def test_what_cannot_be_read_is_refused_in_half_a_line(make: Callable[[], bytes], result: str) -> None:
    with pytest.raises(DocumentError) as error_info:
        text_of(make(), "a")
    assert result in str(error_info.value)
    assert "\n" not in str(error_info.value)
    assert len(str(error_info.value)) < 120


def test_a_damaged_part_is_refused() -> None:
    data = bytearray(docx(STORY))
    place = data.find(b"word/document.xml") + len("word/document.xml") + 20
    data[place : place + 8] = bytes(8)
    with pytest.raises(DocumentError, match=DAMAGED):
        text_of(bytes(data), "a")


def test_bounds_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zipped_module, "MAX_PARTS", 4)
    with pytest.raises(DocumentError, match="more than 4 files inside"):
        text_of(zipped({str(number): "" for number in range(5)}), "a")
    monkeypatch.setattr(documents, "MAX_FILE_BYTES", 2**20)
    with pytest.raises(DocumentError, match="more than 1 MiB; send a part of it"):
        text_of(bytes(2**20 + 1), "a")


def test_long_pdf_files_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vocab.documents.pdf.MAX_PAGES", 2)
    with pytest.raises(DocumentError, match="more than 2 pages"):
        text_of(pdf(STORY), "a")


def test_without_the_library_for_pdf_files_an_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pypdf", None)
    with pytest.raises(DocumentError, match=r"pip install 'wordbound\[files\]'"):
        text_of(pdf(STORY), "a")
    assert "elephant" in text_of(docx(STORY), "a")


def test_the_sizes_that_a_zip_file_claims_are_not_believed() -> None:
    data = bytearray(docx_of(BOMB))
    # Says that the part has ten bytes.
    place = data.rfind(b"PK\x01\x02", 0, data.rfind(b"word/document.xml"))
    data[place + 24 : place + 28] = struct.pack("<I", 10)
    with pytest.raises(DocumentError):
        text_of(bytes(data), "a")
    assert zipfile.is_zipfile(io.BytesIO(data))


def test_a_chapter_that_the_spine_names_often_is_read_once() -> None:
    often = '<itemref idref="i0"/>' * 1_000
    book = epub_of({"one.xhtml": "<p>A cat sat.</p>"})
    [package] = [data for name, data in parts_of(book).items() if name.endswith("book.opf")]
    data = packed_anew(book, book=package.replace(b"</spine>", often.encode() + b"</spine>"))
    assert text_of(data, "a.epub").split() == ["A", "cat", "sat."]


def test_a_line_of_blanks_is_read_in_one_pass() -> None:
    data = epub_of({"one.xhtml": f"<p>A cat{'<b> </b>' * 300_000}sat.</p>"})
    begun = time.process_time()
    assert text_of(data, "a.epub").split() == ["A", "cat", "sat."]
    # From each blank on, it was ten minutes.
    assert time.process_time() - begun < 60
