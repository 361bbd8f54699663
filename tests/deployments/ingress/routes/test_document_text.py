"""The text of a file over a real connection: what the command line reads of it, or why it cannot be read."""

from collections.abc import Callable, Sequence

import httpx
import pytest

from deployments.ingress.deployment import create_app
from deployments.limits import Limits
from deployments.settings import Settings
from tests.deployments.front import KEY, LIMITS, MODEL, Front, assert_error
from tests.deployments.stand_in import StandIn
from tests.vocab.documents.books import STORY, docx, epub, pdf, zipped
from vocab.documents import text_of

PATH = "/v1/documents/text"


def sent(front: Front, data: bytes, name: str = "story") -> httpx.Response:
    with front.client() as client:
        return client.post(PATH, params={"name": name}, content=data)


@pytest.mark.parametrize("make", [docx, epub, pdf])
def test_the_text_is_that_of_the_command_line(front: Front, make: Callable[[Sequence[str]], bytes]) -> None:
    data = make(STORY)
    answer = sent(front, data)
    assert answer.status_code == 200, answer.text
    assert answer.json() == {"text": text_of(data, "story")}


def test_a_name_tells_markdown_from_plain_text(front: Front) -> None:
    linked = "[Café](http://a.example)"
    assert "example" not in sent(front, linked.encode(), "-a.md").json()["text"]
    assert sent(front, linked.encode(), "a.txt").json() == {"text": linked}


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "the file is empty"),
        (zipped({"a": "b"}), "neither a DOCX nor an EPUB"),
        (pdf(STORY, password="secret"), "the file is encrypted"),
        (b"%PDF-1.7 nothing", "the file is damaged"),
        (b"\xe9t\xe9", "not a text in UTF-8"),
    ],
)
def test_a_file_that_cannot_be_read_is_refused_with_the_reason(front: Front, data: bytes, reason: str) -> None:
    assert assert_error(sent(front, data), 400)["message"].startswith(f"The file cannot be read: {reason}")


def test_a_file_has_its_limits_and_its_route_a_key(front: Front) -> None:
    assert_error(sent(front, b"x" * (LIMITS.max_file_bytes + 1)), 413)
    assert "bytes of text" in assert_error(sent(front, b"x " * LIMITS.max_check_bytes), 400)["message"]
    assert_error(sent(front, b"x", "n" * 256), 400, param="name")
    with front.client(key=None) as client:
        assert_error(client.post(PATH, content=b"x"), 401, code="invalid_api_key")


async def test_a_file_that_takes_too_long_is_given_up() -> None:
    # No process starts within a millisecond.
    settings = Settings(model_id=MODEL, secret_token=KEY, limits=Limits(max_file_s=0.001))
    transport = httpx.ASGITransport(create_app(settings, StandIn()))
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        answer = await client.post(PATH, content=b"x", headers={"Authorization": f"Bearer {KEY}"})
    assert "more than 0.001 s to read" in assert_error(answer, 400)["message"]
