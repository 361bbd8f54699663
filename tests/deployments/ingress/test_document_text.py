"""The text of a file over a real connection: what the command line reads of it, or why it cannot be read."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import psutil

from deployments.settings.limits import MAX_CHECK_BYTES, Limits
from tests.deployments.front import KEY, KEY_SETTINGS, KEYS, LIMITS, Front, assert_error, client_of
from tests.vocab.documents.books import HOSTILE, STORY, docx, epub, pdf, slow_pdf, zipped
from vocab.documents import text_of

PATH = "/v1/documents/text"


def sent(front: Front, data: bytes, name: str = "story") -> httpx.Response:
    with front.client() as client:
        return client.post(PATH, params={"name": name}, content=data)


def test_the_text_is_that_of_the_command_line(front: Front) -> None:
    for make in (docx, epub, pdf):
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
        (zipped({"a": "b"}), "neither a DOCX nor an EPUB"),
        (pdf(STORY, password="secret"), "the file is encrypted"),
        (b"%PDF-1.7 nothing", "the file is damaged"),
        (b"\xe9t\xe9", "not a text in UTF-8"),
    ):
        assert assert_error(sent(front, data), 400)["message"].startswith(f"The file cannot be read: {reason}")


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
async def limited(**limits: float) -> AsyncIterator[Callable[..., Awaitable[httpx.Response]]]:
    """An application with these limits, as a function that posts a file to it."""
    async with client_of(limits=Limits(**limits), keys=KEY_SETTINGS) as client:

        async def post(data: bytes, key: str = KEY) -> httpx.Response:
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
            running = [child for child in psutil.Process().children() if "vocab.documents" in shown(child, "cmdline")]
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
