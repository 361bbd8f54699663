"""Write a text as a DOCX to print: title, paragraphs, glossary."""

import io
import unicodedata
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Final, cast

from docx import Document
from docx.document import Document as DocxDocument
from docx.oxml import OxmlElement
from docx.oxml.ns import qn
from docx.shared import Mm, Pt, RGBColor
from docx.styles.style import ParagraphStyle
from docx.text.paragraph import Paragraph
from langcodes import Language

from deployments.protocol.documents import DocumentRequest, paragraphs
from vocab.lists.wordlists import WordList
from vocab.options import ListOptions
from vocab.text.checker import TextChecker

FONT_SIZE: Final = 12
"""In points, where a request names none."""

_GLOSSARY: Final = "Glossary"
_DASH: Final = " – "

_RIGHT_TO_LEFT: Final = frozenset({"Adlm", "Arab", "Hebr", "Mand", "Nkoo", "Rohg", "Samr", "Syrc", "Thaa"})
"""Scripts, by their codes of ISO 15924."""

_STYLES: Final = (("Normal", 1.0), ("Title", 1.8), ("Heading 1", 1.3))
"""Of python-docx's template, each with its size over that of the text."""

_AFTER_SIZE: Final = (
    *("w:highlight", "w:u", "w:effect", "w:bdr", "w:shd", "w:fitText", "w:vertAlign", "w:rtl", "w:cs", "w:em"),
    *("w:lang", "w:eastAsianLayout", "w:specVanish", "w:oMath"),
)
"""What the schema puts after ``w:szCs``."""

_MAX_PROPERTY_CHARS: Final = 255
"""python-docx's limit for the document's own title."""

_A4: Final = (Mm(210), Mm(297))
_LETTER_TERRITORIES: Final = ("CA", "US")


def write_docx(request: DocumentRequest) -> bytes:
    """Write a text as a DOCX to print, and return its bytes; takes about 0.1 ms for a paragraph."""
    sheet = Sheet(request.title, request.lang, request.font_size)
    texts = paragraphs(request.text)
    bold = deque(_first_uses_of_new_words("\n".join(texts), sheet.language.to_tag(), request.new_words or ()))
    done = 0
    for text in texts:
        inside = []
        while bold and bold[0][0] < done + len(text):
            start, end = bold.popleft()
            inside.append((start - done, end - done))
        sheet.add(_pieces(text, inside))
        done += len(text) + 1
    if request.glossary:
        sheet.add_heading((request.glossary_title or "").strip() or _GLOSSARY)
        for entry in request.glossary:
            note = (entry.note or "").strip()
            sheet.add([(entry.word, True), *([(_DASH + note, False)] if note else [])])
    return sheet.to_bytes()


class Sheet:
    """A DOCX to print: paragraphs of pieces of text, each bold or not, under a title."""

    def __init__(self, title: str | None, lang: str | None, font_size: int | None) -> None:
        self.language = Language.get(lang or "en").maximize()
        self._is_rtl = self.language.script in _RIGHT_TO_LEFT
        self._document = Document()
        title = (title or "").strip()
        _describe(self._document, title, self.language)
        for name, share in _STYLES:
            _set_size(self._document, name, round(share * (font_size or FONT_SIZE)))
        if title:
            self.add([(title, False)], "Title")

    def add_heading(self, text: str, *, on_new_page: bool = False) -> None:
        """Add a heading, with what follows it on the same page."""
        self.add([(text, False)], "Heading 1").paragraph_format.page_break_before = on_new_page

    def add(self, pieces: Iterable[tuple[str, bool]], style: str | None = None) -> Paragraph:
        """Add a paragraph."""
        paragraph: Paragraph = self._document.add_paragraph(style=style)
        if self._is_rtl:
            paragraph._p.get_or_add_pPr().append(OxmlElement("w:bidi"))
        for text, is_bold in pieces:
            run = paragraph.add_run(text)
            if is_bold:
                run.font.bold = run.font.cs_bold = True
            if _is_rtl(text, self._is_rtl):
                run.font.rtl = True
        return paragraph

    def to_bytes(self) -> bytes:
        file = io.BytesIO()
        self._document.save(file)
        return file.getvalue()


def _describe(document: DocxDocument, title: str, language: Language) -> None:
    """Set a document's properties, language and paper size."""
    # The template's own say that python-docx wrote it in 2013.
    now = datetime.now(UTC).replace(tzinfo=None)
    about = document.core_properties
    about.title, about.author, about.comments = title[:_MAX_PROPERTY_CHARS], "", ""
    about.created = about.modified = now
    tag = f"{language.language}-{language.territory}" if language.territory else str(language.language)
    about.language = tag
    [defaults] = document.styles.element.iter(qn("w:lang"))
    for script in ("w:val", "w:eastAsia", "w:bidi"):
        defaults.set(qn(script), tag)
    if language.territory not in _LETTER_TERRITORIES:
        document.sections[0].page_width, document.sections[0].page_height = _A4


def _set_size(document: DocxDocument, name: str, points: int) -> None:
    """Set the font size of a style, for all scripts, and its color to black."""
    style = cast("ParagraphStyle", document.styles[name])
    style.font.size, style.font.color.rgb = Pt(points), RGBColor(0, 0, 0)
    # Right-to-left text and that of India has a size of its own.
    properties = style.element.get_or_add_rPr()
    for other in properties.findall(qn("w:szCs")):
        properties.remove(other)
    size = OxmlElement("w:szCs")
    size.set(qn("w:val"), str(2 * points))
    properties.insert_element_before(size, *_AFTER_SIZE)


def _is_rtl(text: str, otherwise: bool) -> bool:
    """Return whether a text's first letter is right-to-left, else ``otherwise``; a note may be in another language."""
    for character in text:
        if (kind := unicodedata.bidirectional(character)) in ("L", "R", "AL"):
            return kind != "L"
    return otherwise


def _first_uses_of_new_words(text: str, lang: str, words: Sequence[str]) -> Iterator[tuple[int, int]]:
    if not words:
        return
    checker = TextChecker(WordList(lang, (), "inline"), ListOptions(possessive=True), 0, new_words=words)
    found: set[str] = set()
    for word in checker.check(text).words:
        if word.reason == "new" and word.key not in found:
            found.add(word.key)
            yield word.start, word.end


def _pieces(text: str, bold: Iterable[tuple[int, int]]) -> Iterator[tuple[str, bool]]:
    done = 0
    for start, end in bold:
        if done < start:
            yield text[done:start], False
        yield text[start:end], True
        done = end
    if done < len(text):
        yield text[done:], False
