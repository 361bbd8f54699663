"""Files over a real connection: a text as a DOCX, read back by our own reader and by python-docx; and the text of a
file, which is what the command line reads of it, or why it cannot be read."""

import asyncio
import io
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import docx as word
import httpx2
import psutil
from docx.oxml.ns import qn
from docx.shared import Mm, Pt

from deployments.protocol.documents import DOCX
from deployments.settings.limits import MAX_CHECK_BYTES, Limits
from tests.deployments.front import KEY, KEY_SETTINGS, KEYS, LIMITS, Front, assert_error, client_of
from tests.deployments.ingress.test_refusals import DOCUMENTS
from tests.vocab.documents.books import (
    HOSTILE,
    STORY,
    cut_text,
    docx,
    epub,
    html_page,
    odt,
    pdf,
    slow_pdf,
    srt,
    vtt,
    zipped,
)
from vocab.documents import text_of

PATH = "/v1/documents/text"
READ = "/v1/vocabularies/read"
WOLF = "The Wolf came.\r\n\r\n \nA wolf’s wolf ran in front of\tme.\u2028It ran."


def made(front: Front, **fields: Any) -> httpx2.Response:
    answer = front.post(DOCUMENTS, {"text": WOLF, **fields})
    assert answer.status_code == 200, answer.text
    return answer


def opened(answer: httpx2.Response) -> Any:
    return word.Document(io.BytesIO(answer.content))


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


def sent(front: Front, data: bytes, name: str = "story") -> httpx2.Response:
    with front.client() as client:
        return client.post(PATH, params={"name": name}, content=data)


def test_the_text_is_that_of_the_command_line(front: Front) -> None:
    for make in (docx, epub, pdf, odt, html_page, srt, vtt, cut_text):
        data = make(STORY)
        answer = sent(front, data)
        assert answer.status_code == 200, answer.text
        assert answer.json() == {"text": text_of(data, "story")}
    # A name tells Markdown from plain text.
    linked = "[Café](http://a.example)"
    assert "example" not in sent(front, linked.encode(), "-a.md").json()["text"]
    assert sent(front, linked.encode(), "a.txt").json() == {"text": linked}


def test_a_file_that_cannot_be_read_is_refused_with_the_reason(front: Front) -> None:
    for data, reason in (
        (b"", "the file is empty"),
        (zipped({"a": "b"}), "neither a DOCX, an ODT nor an EPUB"),
        (pdf(STORY, password="secret"), "the file is encrypted"),
        (b"%PDF-1.7 nothing", "the file is damaged"),
        (b"\xc3\xa9t\xe9", "line 1: not UTF-8"),
    ):
        assert assert_error(sent(front, data), 400)["message"].startswith(f"The file cannot be read: {reason}")


def test_the_words_of_a_file_are_read_with_what_was_left_out(front: Front) -> None:
    table = 'Wort;Niveau\n"der Hund, -e";a1\nder Hund;A2\n12;A1\nKätzchen;A2\n'.encode("cp1252")
    with front.client() as client:
        answer = client.post(READ, params={"name": "words.csv", "lang": "de"}, content=table)
        assert answer.json() == {
            "object": "vocabulary.entries",
            "entries": [
                {"rank": 1, "word": "Hund", "level": "A1", "forms": ["Hunde"], "line": 2, "sheet": None},
                {"rank": 2, "word": "Kätzchen", "level": "A2", "forms": [], "line": 5, "sheet": None},
            ],
            "num_ranks": 2,
            "levels": ["A1", "A2"],
            "columns": {"word": "Wort", "level": "Niveau"},
            "shapes": ["articles", "endings"],
            "encoding": "windows-1252",
            "left_out": [
                {"line": 1, "text": "Wort  Niveau", "reason": "the names of the columns", "sheet": None},
                {"line": 3, "text": "der Hund", "reason": "as in line 2", "sheet": None},
                {"line": 4, "text": "12", "reason": "no letters", "sheet": None},
            ],
            "num_left_out": 3,
        }
        for data, reason in (
            (b"", "there is no word in it"),
            (b"PK\x03\x04", "the file is damaged"),
            (b"%PDF-", "a PDF"),
        ):
            message = assert_error(client.post(READ, content=data), 400)["message"]
            assert message.startswith(f"The file cannot be read: {reason}")
        assert_error(
            client.post(READ, params={"lang": "../de"}, content=b"x"), 400, param="lang", code="invalid_vocabulary"
        )
        assert_error(
            client.post(READ, params={"lang": "km"}, content=b"x"), 400, param="lang", code="invalid_vocabulary"
        )
        assert_error(client.post(READ, params={"name": "n" * 256}, content=b"x"), 400, param="name")
        assert_error(client.post(READ, content=b"x" * (LIMITS.max_file_bytes + 1)), 413)
        assert "more than 16 MiB" in assert_error(client.post(READ, content=b"x" * (16 * 2**20 + 1)), 400)["message"]
        for make in HOSTILE.values():
            assert client.post(READ, content=make()).status_code in (200, 400)
    with front.client(key=None) as client:
        assert_error(client.post(READ, content=b"x"), 401, code="invalid_api_key")


def test_a_file_has_its_limits_and_its_route_a_key(front: Front) -> None:
    assert_error(sent(front, b"x" * (LIMITS.max_file_bytes + 1)), 413)
    assert "bytes of text" in assert_error(sent(front, b"x " * MAX_CHECK_BYTES), 400)["message"]
    assert_error(sent(front, b"x", "n" * 256), 400, param="name")
    with front.client(key=None) as client:
        assert_error(client.post(PATH, content=b"x"), 401, code="invalid_api_key")


def test_no_error_of_a_reader_is_passed_on(front: Front) -> None:
    for name, make in HOSTILE.items():
        answer = sent(front, make())
        if answer.status_code != 200:
            message = "The file cannot be read: the file is damaged; save it anew, or as plain text."
            assert assert_error(answer, 400)["message"] == message, name


@asynccontextmanager
async def limited(**limits: float) -> AsyncIterator[Callable[..., Awaitable[httpx2.Response]]]:
    """An application with these limits, as a function that posts a file to it."""
    async with client_of(limits=Limits(**limits), keys=KEY_SETTINGS) as client:

        async def post(data: bytes, key: str = KEY) -> httpx2.Response:
            return await client.post(PATH, content=data, headers={"Authorization": f"Bearer {key}"})

        yield post


async def test_a_file_that_takes_too_long_is_given_up() -> None:
    # No process starts within a millisecond.
    async with limited(max_file_s=0.001) as post:
        assert "more than 0.001 s to read" in assert_error(await post(b"x"), 400)["message"]


async def test_a_key_that_has_used_up_its_processor_time_waits_and_others_do_not() -> None:
    async with limited(max_file_s=1, max_file_s_per_minute=1) as post:
        assert "more than 1 s to read" in assert_error(await post(slow_pdf()), 400)["message"]
        answer = await post(b"x")
        assert_error(answer, 429, code="too_many_requests")
        assert 1 <= int(answer.headers["Retry-After"]) <= 60
        assert (await post(b"x", KEYS["other"])).status_code in (200, 400)


async def test_a_key_has_one_process_at_a_time_and_no_variable_of_the_service() -> None:
    nums: set[int] = set()
    environments: set[str] = set()

    async def watch() -> None:
        while True:
            running = [child for child in psutil.Process().children() if "file_process" in shown(child, "cmdline")]
            nums.add(len(running))
            environments.update(shown(child, "environ") for child in running)
            await asyncio.sleep(0.01)

    watching = asyncio.create_task(watch())
    async with limited(max_file_s=1) as post:
        answers = await asyncio.gather(*(post(slow_pdf()) for _ in range(3)))
    watching.cancel()
    assert [answer.status_code for answer in answers] == [400, 400, 400]
    assert (nums, environments) == ({0, 1}, {""})


def shown(process: psutil.Process, name: str) -> str:
    try:
        return Path(f"/proc/{process.pid}/{name}").read_text(errors="replace")
    except OSError:
        return ""
