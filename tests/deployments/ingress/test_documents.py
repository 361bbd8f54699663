"""A text as a DOCX, over a real connection, read back by our own reader and by python-docx."""

import io
from typing import Any
from urllib.parse import unquote

import docx
import httpx
import pytest
from docx.oxml.ns import qn
from docx.shared import Mm, Pt

from deployments.protocol.documents import DOCX, MAX_PARAGRAPHS
from deployments.settings.limits import MAX_CHANGED_WORDS, MAX_DOCUMENT_CHARS
from tests.deployments.front import Front, assert_error
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


@pytest.mark.parametrize(
    ("lang", "tag", "width", "is_rtl"),
    [
        ("en", "en-US", 215.9, False),
        ("en-GB", "en-GB", 210, False),
        ("pt-br", "pt-BR", 210, False),
        ("ar", "ar-EG", 210, True),
        ("fa", "fa-IR", 210, True),
        ("he", "he-IL", 210, True),
        ("ur", "ur-PK", 210, True),
    ],
)
def test_a_language_has_its_direction_its_tag_and_its_paper(
    front: Front, lang: str, tag: str, width: float, is_rtl: bool
) -> None:
    document = opened(made(front, title="כותרת", text="שלום עולם.\nשלום.", lang=lang, new_words=["שלום"]))
    for paragraph in document.paragraphs:
        assert (paragraph._p.find(f".//{qn('w:bidi')}") is not None) is is_rtl
        assert all(run.font.rtl for run in paragraph.runs)
    [result] = document.styles.element.iter(qn("w:lang"))
    assert {result.get(qn(f"w:{script}")) for script in ("val", "bidi")} == {tag}
    assert abs(document.sections[0].page_width - Mm(width)) < Mm(1)
    assert [run.font.cs_bold for run in document.paragraphs[1].runs] == [True, None]


def test_a_note_in_another_language_keeps_its_direction(front: Front) -> None:
    document = opened(made(front, text="שלום", lang="he", glossary=[{"word": "שלום", "note": "peace"}]))
    assert [bool(run.font.rtl) for run in document.paragraphs[-1].runs] == [True, False]


@pytest.mark.parametrize(
    ("title", "name"),
    [
        (None, "text.docx"),
        ("The Wolf", "The Wolf.docx"),
        ('../a\\b"c\r\n:*?<>|. ', "a b c.docx"),
        ("El niño", "El niño.docx"),
        ("a\u202egpj.exe", "a gpj.exe.docx"),
        ("e" * 300, "e" * 80 + ".docx"),
    ],
)
def test_a_browser_saves_the_file_under_its_title(front: Front, title: str | None, name: str) -> None:
    headers = made(front, title=title).headers
    assert headers["content-type"] == DOCX
    kind, _, named = headers["content-disposition"].partition("; ")
    assert kind == "attachment"
    assert unquote(named.rpartition("=")[2].removeprefix("UTF-8''")).strip('"') == name


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"text": None}, "text"),
        ({"text": ""}, "text"),
        ({"text": " \n\u2028"}, "text"),
        ({"text": "a\u0001b"}, "text"),
        ({"text": "a\uffffb"}, "text"),
        ({"text": "x" * (MAX_DOCUMENT_CHARS + 1)}, "text"),
        ({"text": "x\n" * (MAX_PARAGRAPHS + 1)}, "text"),
        ({"title": "a\u001b"}, "title"),
        ({"title": "x" * 501}, "title"),
        ({"glossary": [{"word": "a"}, {"note": "b"}]}, "glossary[1].word"),
        ({"glossary": [{"word": "\ufffe"}]}, "glossary[0].word"),
        ({"glossary": [{"word": "a"}] * (MAX_CHANGED_WORDS + 1)}, "glossary"),
        ({"font_size": 7}, "font_size"),
        ({"font_size": 49}, "font_size"),
        ({"lang": "klingon!"}, "lang"),
        ({"new_words": ["a\u200bb"]}, "new_words[0]"),
        ({"colour": "red"}, "colour"),
    ],
)
def test_what_is_wrong_is_refused_by_its_name(front: Front, fields: dict[str, Any], param: str) -> None:
    assert_error(front.post(DOCUMENTS, {"text": "a", **fields}), 400, param=param)


def test_an_error_says_which_character_is_in_the_way_and_where(front: Front) -> None:
    error = assert_error(front.post(DOCUMENTS, {"text": "page\fbreak\u0007"}), 400, param="text")
    assert error["message"] == ("'text' must be without U+0007 (at 10), which a document cannot hold: leave it out.")


def test_a_document_needs_a_key(front: Front) -> None:
    with front.client(key=None) as client:
        assert_error(client.post(DOCUMENTS, json={"text": "a"}), 401, code="invalid_api_key")


def test_any_characters_of_a_text_come_back(front: Front) -> None:
    text = "".join(chr(code) for code in range(0x20, 0x3000) if chr(code).isprintable()).strip() + "😀"
    [paragraph] = opened(made(front, text=text)).paragraphs
    assert paragraph.text == text
