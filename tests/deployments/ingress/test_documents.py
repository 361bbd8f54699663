"""A text as a DOCX, over a real connection, read back by our own reader and by python-docx."""

import io
from typing import Any
from urllib.parse import unquote

import docx
import httpx
from docx.oxml.ns import qn
from docx.shared import Mm, Pt

from deployments.protocol.documents import DOCX
from tests.deployments.front import Front
from vocab.documents import text_of

DOCUMENTS = "/v1/documents"
STORY = "The Wolf came.\r\n\r\n \nA wolf’s wolf ran in front of\tme.\u2028It ran."


def made(front: Front, **fields: Any) -> httpx.Response:
    answer = front.post(DOCUMENTS, {"text": STORY, **fields})
    assert answer.status_code == 200, answer.text
    return answer


def opened(answer: httpx.Response) -> Any:
    return docx.Document(io.BytesIO(answer.content))


def bold(document: Any) -> list[str]:
    return [run.text for paragraph in document.paragraphs for run in paragraph.runs if run.font.bold]


def test_a_document_has_the_title_the_lines_and_the_glossary(front: Front) -> None:
    glossary = [{"word": "wolf", "note": "a wild dog"}, {"word": "ran"}]
    answer = made(front, title=" The <Wolf> & I ", glossary=glossary, glossary_title="New words")
    assert text_of(answer.content, "a.docx").splitlines() == [
        "The <Wolf> & I",
        "The Wolf came.",
        "A wolf’s wolf ran in front of\tme.",
        "It ran.",
        "New words",
        "wolf – a wild dog",
        "ran",
    ]
    document = opened(answer)
    assert [paragraph.style.name for paragraph in document.paragraphs[:2]] == ["Title", "Normal"]
    assert document.paragraphs[4].style.name == "Heading 1"
    assert bold(document) == ["wolf", "ran"]
    assert (document.core_properties.title, document.core_properties.author) == ("The <Wolf> & I", "")
    assert document.styles["Normal"].font.size == Pt(12)
    assert "Glossary" in text_of(made(front, glossary=glossary).content, "a.docx")


def test_new_words_are_bold_where_they_first_come(front: Front) -> None:
    document = opened(made(front, new_words=["wolf", "in front of", "me", "bear"], font_size=20))
    assert bold(document) == ["Wolf", "in front of", "me"]
    assert "".join(paragraph.text for paragraph in document.paragraphs).count("wolf") == 2
    assert document.styles["Normal"].font.size == Pt(20)


def test_a_language_has_its_direction_its_tag_and_its_paper(front: Front) -> None:
    for lang, tag, width, is_rtl in (
        ("en", "en-US", 215.9, False),
        ("en-GB", "en-GB", 210, False),
        ("pt-br", "pt-BR", 210, False),
        ("ar", "ar-EG", 210, True),
        ("fa", "fa-IR", 210, True),
        ("he", "he-IL", 210, True),
        ("ur", "ur-PK", 210, True),
    ):
        document = opened(made(front, title="כותרת", text="שלום עולם.\nשלום.", lang=lang, new_words=["שלום"]))
        for paragraph in document.paragraphs:
            assert (paragraph._p.find(f".//{qn('w:bidi')}") is not None) is is_rtl, lang
            assert all(run.font.rtl for run in paragraph.runs)
        [result] = document.styles.element.iter(qn("w:lang"))
        assert {result.get(qn(f"w:{script}")) for script in ("val", "bidi")} == {tag}
        assert abs(document.sections[0].page_width - Mm(width)) < Mm(1)
        assert [run.font.cs_bold for run in document.paragraphs[1].runs] == [True, None]
    # A note in another language keeps its own direction.
    document = opened(made(front, text="שלום", lang="he", glossary=[{"word": "שלום", "note": "peace"}]))
    assert [bool(run.font.rtl) for run in document.paragraphs[-1].runs] == [True, False]


def test_a_browser_saves_the_file_under_its_title(front: Front) -> None:
    def saved_as(title: str | None) -> str:
        headers = made(front, title=title).headers
        assert headers["content-type"] == DOCX
        kind, _, named = headers["content-disposition"].partition("; ")
        assert kind == "attachment"
        return unquote(named.rpartition("=")[2].removeprefix("UTF-8''")).strip('"')

    expected = {
        None: "text.docx",
        "The Wolf": "The Wolf.docx",
        '../a\\b"c\r\n:*?<>|. ': "a b c.docx",
        "El niño": "El niño.docx",
        "a\u202egpj.exe": "a gpj.exe.docx",
        "e" * 300: "e" * 80 + ".docx",
    }
    assert {title: saved_as(title) for title in expected} == expected


def test_any_characters_of_a_text_come_back(front: Front) -> None:
    text = "".join(chr(code) for code in range(0x20, 0x3000) if chr(code).isprintable()).strip() + "😀"
    [paragraph] = opened(made(front, text=text)).paragraphs
    assert paragraph.text == text
