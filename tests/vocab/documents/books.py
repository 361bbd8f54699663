"""Files of each kind, made of the same paragraphs."""

import io
import zipfile
from collections.abc import Callable, Mapping, Sequence
from html import escape
from pathlib import PurePath
from typing import cast

from fpdf import FPDF
from pypdf import PdfWriter
from pypdf.generic import ArrayObject, DecodedStreamObject, DictionaryObject, NameObject, NumberObject

WORD = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
SPREADSHEET = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
SOFT = "\u00ad"

# A bar shows where a word may be cut, which in the files is a soft one. The quotation marks are those that the fonts
# of every PDF reader have.
STORY = tuple(
    paragraph.replace("|", SOFT)
    for paragraph in (
        "The Elephant and the Well-Known Cat",
        "Once upon a time there was an elephant who could not remem|ber any|thing at all, not even his own name, which "
        'was "Anna\'s Elephant"; and that was awk|ward.',
        '"Who are you?" asked the cat. She was a well-known cat, clever and ex|tra|or|di|nar|i|ly im|pa|tient. The '
        "ele|phant didn't know, and xyzzy & <co> did not either.",
        "In 1984 they met a giraffe in front of the café: twenty-one teeth, a moth|er-in-law, and no un|der|stand|ing "
        "what|so|ever of the sit|u|a|tion. They laughed and laughed until the sun went down.",
    )
)


def zipped(parts: Mapping[str, str | bytes], compression: int = zipfile.ZIP_DEFLATED) -> bytes:
    output = io.BytesIO()
    with zipfile.ZipFile(output, "w", compression) as archive:
        for name, data in parts.items():
            archive.writestr(name, data)
    return output.getvalue()


def parts_of(data: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def packed_anew(data: bytes, compression: int = zipfile.ZIP_DEFLATED, **changed: bytes) -> bytes:
    """A zip file with another compression, and other parts by the stems of their names."""
    parts = {name: changed.get(PurePath(name).stem, part) for name, part in parts_of(data).items()}
    return zipped(parts, compression)


def in_encoding(encoding: str, xml: str = "<p>café</p>", *, encode: str = "utf-8") -> bytes:
    """XML that says it has this encoding."""
    return f'<?xml version="1.0" encoding="{encoding}"?>{xml}'.encode(encode)


def docx_of(body: str, **parts: str) -> bytes:
    """A file of Word's with this XML in its body, and parts such as footnotes."""
    relation = f'<Relationship Id="r1" Type="{OFFICE}/officeDocument" Target="word/document.xml"/>'
    return zipped(
        {
            "[Content_Types].xml": "<Types/>",
            "_rels/.rels": f'<Relationships xmlns="http://x/relationships">{relation}</Relationships>',
            "word/document.xml": f'<w:document xmlns:w="{WORD}"><w:body>{body}</w:body></w:document>',
            **{f"word/{name}.xml": f'<w:notes xmlns:w="{WORD}">{xml}</w:notes>' for name, xml in parts.items()},
        }
    )


def docx_in_encoding(encoding: str, encode: str = "utf-8") -> bytes:
    body = f'<w:document xmlns:w="{WORD}"><w:body><w:p><w:r><w:t>café</w:t></w:r></w:p></w:body></w:document>'
    return packed_anew(docx_of(""), document=in_encoding(encoding, body, encode=encode))


def docx(paragraphs: Sequence[str]) -> bytes:
    return docx_of("".join(f"<w:p>{_runs(paragraph)}</w:p>" for paragraph in paragraphs))


def _runs(paragraph: str) -> str:
    # Word cuts words into runs wherever something was edited.
    halves = paragraph[: len(paragraph) // 2], paragraph[len(paragraph) // 2 :]
    return "".join(
        f'<w:r><w:t xml:space="preserve">{escape(half).replace(SOFT, "</w:t><w:softHyphen/><w:t>")}</w:t></w:r>'
        for half in halves
    )


def odt_of(body: str, mimetype: str = "application/vnd.oasis.opendocument.text", **parts: str) -> bytes:
    """A file of LibreOffice's with this XML in its body."""
    names = {"office": "office", "text": "text", "svg": "svg-compatible", "draw": "drawing"}
    spaces = " ".join(f'xmlns:{name}="urn:oasis:names:tc:opendocument:xmlns:{of}:1.0"' for name, of in names.items())
    content = f"<office:document-content {spaces}><office:body><office:text>{body}</office:text></office:body>"
    return zipped(
        {
            "mimetype": mimetype,
            "content.xml": f"{content}</office:document-content>",
            **{f"META-INF/{name}.xml": xml for name, xml in parts.items()},
        }
    )


def odt(paragraphs: Sequence[str]) -> bytes:
    title, *rest = (escape(paragraph) for paragraph in paragraphs)
    body = "".join(f"<text:p>{text.replace(' ', '<text:s/>', 2)}</text:p>" for text in rest)
    return odt_of(f'<text:h text:outline-level="1">{title}</text:h>{body}')


def xlsx_of(sheets: Mapping[str, str], strings: str = "") -> bytes:
    """A workbook of sheets with this XML in their rows, whose parts are named in another order than they come."""
    kind = "application/vnd.openxmlformats-officedocument.spreadsheetml"
    numbers = dict(zip(sheets, range(len(sheets), 0, -1), strict=True))
    types = "".join(
        f'<Override PartName="/xl/{name}.xml" ContentType="{kind}.{of}+xml"/>'
        for name, of in (("workbook", "sheet.main"), ("sharedStrings", "sharedStrings"), ("styles", "styles"))
    )
    named = "".join(f'<sheet name="{name}" sheetId="{at}" r:id="r{at}"/>' for name, at in numbers.items())
    targets = "".join(
        f'<Relationship Id="r{at}" Type="{OFFICE}/worksheet" Target="worksheets/sheet{at}.xml"/>'
        for at in sorted(numbers.values())
    )
    relations = "http://schemas.openxmlformats.org/package/2006"
    return zipped(
        {
            "[Content_Types].xml": f'<Types xmlns="{relations}/content-types">{types}</Types>',
            "xl/workbook.xml": f'<workbook xmlns="{SPREADSHEET}" xmlns:r="{OFFICE}"><sheets>{named}</sheets>'
            "</workbook>",
            "xl/_rels/workbook.xml.rels": f'<Relationships xmlns="{relations}/relationships">{targets}</Relationships>',
            "xl/sharedStrings.xml": f'<sst xmlns="{SPREADSHEET}">{strings}</sst>',
            "xl/styles.xml": f'<styleSheet xmlns="{SPREADSHEET}"/>',
            **{
                f"xl/worksheets/sheet{numbers[name]}.xml": f'<worksheet xmlns="{SPREADSHEET}"><sheetData>{rows}'
                "</sheetData></worksheet>"
                for name, rows in sheets.items()
            },
        }
    )


def rows_xml(rows: Sequence[Sequence[str]]) -> str:
    cells = (["<c t='inlineStr'><is><t>" + escape(cell) + "</t></is></c>" for cell in row] for row in rows)
    return "".join(f"<row r='{number}'>{''.join(row)}</row>" for number, row in enumerate(cells, 1))


def html_page(paragraphs: Sequence[str]) -> bytes:
    """A page whose head and paragraphs have no end tags."""
    body = "".join("\n<p>" + escape(paragraph).replace(" ", "\n", 3) for paragraph in paragraphs)
    return f"<!DOCTYPE html>\n<html><head><title>No word of it</title><style>p {{}}</style><body>{body}".encode()


def _cues(paragraphs: Sequence[str], point: str, heading: str, *, has_numbers: bool) -> bytes:
    """Subtitles of six words each, on two lines."""
    blocks = [heading] if heading else []
    for paragraph in paragraphs:
        words = escape(paragraph, quote=False).split()
        for number, start in enumerate(range(0, len(words), 6), 1):
            cue = "\n".join((f"<i>{' '.join(words[start : start + 3])}</i>", " ".join(words[start + 3 : start + 6])))
            times = f"00:00:01{point}000 --> 00:00:02{point}500"
            blocks.append("\n".join(([str(number)] if has_numbers else []) + [times, cue.strip()]))
    return ("\n\n".join(blocks) + "\n").encode()


def srt(paragraphs: Sequence[str]) -> bytes:
    return _cues(paragraphs, ",", "", has_numbers=True)


def vtt(paragraphs: Sequence[str]) -> bytes:
    return _cues(paragraphs, ".", "WEBVTT - a title\n\nNOTE of nobody\n\nSTYLE\n::cue {}", has_numbers=False)


def cut_text(paragraphs: Sequence[str]) -> bytes:
    """Plain text whose words are cut at line ends."""
    return "\n\n".join(paragraph.replace(SOFT, "-\n", 2).replace(SOFT, "") for paragraph in paragraphs).encode()


def epub_of(chapters: Mapping[str, str | bytes], **parts: str) -> bytes:
    """A book of these files, in this order, behind a table of contents."""
    items = "".join(f'<item id="i{number}" href="{name}"/>' for number, name in enumerate(chapters))
    spine = "".join(f'<itemref idref="i{number}"/>' for number in range(len(chapters)))
    return zipped(
        {
            "mimetype": "application/epub+zip",
            "META-INF/container.xml": '<container xmlns="urn:c"><rootfiles><rootfile full-path="OEBPS/book.opf"/>'
            "</rootfiles></container>",
            "OEBPS/book.opf": '<package xmlns="urn:p"><manifest><item id="toc" href="toc.xhtml" properties="nav"/>'
            f'{items}</manifest><spine><itemref idref="toc"/>{spine}</spine></package>',
            "OEBPS/toc.xhtml": "<p>contents</p>",
            **{f"OEBPS/{name}": chapter for name, chapter in chapters.items()},
            **{f"META-INF/{name}.xml": xml for name, xml in parts.items()},
        }
    )


def epub(paragraphs: Sequence[str]) -> bytes:
    title, *rest = paragraphs
    # Lines end anywhere in the source.
    body = "".join("<p>" + escape(paragraph).replace(" ", "\n", 3) + "</p>" for paragraph in rest)
    page = "<?xml version='1.0' encoding='utf-8'?><html><head><title>No word of the book</title></head><body>{}</body>"
    return epub_of({"one.xhtml": page.format(f"<h1>{escape(title)}</h1>"), "two.xhtml": page.format(body)})


def pdf(paragraphs: Sequence[str], *, password: str | None = None, height_mm: float = 60) -> bytes:
    """Pages of a narrow column, where words are cut at line ends and sentences at page ends."""
    document = FPDF(format=(75, height_mm))
    document.set_margin(8)
    document.set_auto_page_break(True, 8)
    if password is not None:
        document.set_encryption(owner_password="owner", user_password=password)
    document.add_page()
    document.set_font("helvetica", size=11)
    for paragraph in paragraphs:
        document.multi_cell(0, text=paragraph, align="L")
        document.ln(9)
    return bytes(document.output())


def pdf_of_lines(lines: Sequence[str]) -> bytes:
    """A page of these lines, however long they are."""
    document = FPDF(format=(400, 200))
    document.add_page()
    document.set_font("helvetica", size=8)
    for line in lines:
        document.cell(0, text=line, new_x="LMARGIN", new_y="NEXT")
    return bytes(document.output())


def damaged_lzma() -> bytes:
    """A DOCX whose parts are packed as LZMA, and have settings that there are not."""
    data = bytearray(packed_anew(docx(STORY), zipfile.ZIP_LZMA))
    place = data.find(b"word/document.xml") + len("word/document.xml")
    # Behind the version and the length of the settings.
    data[place + 4] = 0xFF
    return bytes(data)


def slow_pdf(num_pages: int = 9_000) -> bytes:
    """One page, which the table of pages names thousands of times: a minute of a processor."""
    writer, output, text = PdfWriter(), io.BytesIO(), DecodedStreamObject()
    page = writer.add_blank_page(300, 300)
    text.set_data(b"BT /F1 10 Tf " + b"(word) Tj " * 1_000 + b"ET")
    page[NameObject("/Contents")] = writer._add_object(text.flate_encode())
    font = DictionaryObject({NameObject("/Type"): NameObject("/Font"), NameObject("/Subtype"): NameObject("/Type1")})
    font[NameObject("/BaseFont")] = NameObject("/Helvetica")
    page[NameObject("/Resources")] = DictionaryObject(
        {NameObject("/Font"): DictionaryObject({NameObject("/F1"): writer._add_object(font)})}
    )
    pages = cast("DictionaryObject", writer._root_object["/Pages"].get_object())
    pages[NameObject("/Kids")] = ArrayObject([page.indirect_reference] * num_pages)
    pages[NameObject("/Count")] = NumberObject(num_pages)
    writer.write(output)
    return output.getvalue()


HOSTILE: Mapping[str, Callable[[], bytes]] = {
    "a book in IDNA": lambda: epub_of({"a.xhtml": in_encoding("idna")}),
    "a book in no encoding": lambda: epub_of({"a.xhtml": in_encoding("undefined")}),
    "a book in punycode": lambda: epub_of({"a.xhtml": in_encoding("punycode", f"<p>a-{'b' * 1_000_000}</p>")}),
    "a book in a mark that no parser takes": lambda: epub_of({"a.xhtml": "one" + "<![" * 1_000}),
    "a DOCX in an encoding that is none": lambda: docx_in_encoding("no-such"),
    "a DOCX in UTF-32": lambda: docx_in_encoding("utf-32", "utf-32"),
    "a DOCX in bytes": lambda: docx_in_encoding("hex", "utf-16-be"),
    "a DOCX in LZMA": damaged_lzma,
    "a page of tags that do not end": lambda: b"<!doctype html>one" + b"<a " * 300_000,
    "a page of marks that do not end": lambda: b"<!doctype html>one" + b"<!-- <![CDATA[ </a &# <?" * 30_000,
    "a page in a number that is too long": lambda: b"<!doctype html>one &#" + b"1" * 100_000,
    "a page that is very deep": lambda: b"<!doctype html>one" + b"<svg><rt>" * 200_000,
    "an ODT of many blanks": lambda: odt_of('<text:p>one<text:s text:c="999999999"/></text:p>' * 100),
    "an ODT that is very deep": lambda: odt_of(
        f"<text:p>{'<text:span>' * 100_000}one{'</text:span>' * 100_000}</text:p>"
    ),
    "subtitles of numbers": lambda: b"1\n00:00:01,000 --> 00:00:02,000\none\n" + b"1\n" * 300_000,
    "subtitles of marks": lambda: b"WEBVTT\n\n00:01.000 --> 00:02.000\none " + b"<a {\\a <rt>" * 100_000,
    "a text of words that are all cut": lambda: b"a-\n" * 300_000,
}
"""Files for which their readers raised errors, or took minutes, by what they are."""
