"""How much may be uploaded, how long it may take, and how much is held."""

import asyncio
from collections.abc import Iterable

import pytest
from starlette.requests import Request
from starlette.types import Message

from deployments.batch.api.multipart import Upload
from deployments.batch.api.uploads import Uploads
from deployments.errors import (
    BadRequestError,
    OverloadedError,
    PayloadTooLargeError,
    RequestTimeoutError,
    UnsupportedMediaTypeError,
)
from deployments.ingress.disconnect import ClientLeft
from tests.deployments.batch.forms import CONTENT_TYPE, form, part

MAX_FILE_BYTES = 100_000
SLACK = 64 * 1024


class Client:
    """Sends a body in pieces, and counts those that were taken; ``last`` comes after them."""

    def __init__(self, pieces: Iterable[bytes], last: str = "http.request", **headers: str) -> None:
        self._messages = [{"type": "http.request", "body": piece, "more_body": True} for piece in pieces]
        self._last: Message = {"type": last, "body": b"", "more_body": False}
        self.num_taken = 0
        fields = {"content-type": CONTENT_TYPE, **{name.replace("_", "-"): value for name, value in headers.items()}}
        raw = [(name.encode(), value.encode()) for name, value in fields.items()]
        self.request = Request({"type": "http", "method": "POST", "headers": raw}, self._receive)

    async def _receive(self) -> Message:
        self.num_taken += 1
        if self.num_taken <= len(self._messages):
            return self._messages[self.num_taken - 1]
        if self._last["type"] == "never":
            await asyncio.sleep(3600)
        return self._last


def make_uploads(max_s: float = 5.0, max_held_bytes: int = 10**9) -> Uploads:
    return Uploads(MAX_FILE_BYTES, max_s, max_held_bytes)


async def read(body: bytes, **headers: str) -> Upload:
    async with make_uploads().read(Client([body], **headers).request) as upload:
        return upload


async def test_a_compressed_form_is_refused() -> None:
    with pytest.raises(UnsupportedMediaTypeError, match="compressed"):
        await read(form(part()), content_encoding="gzip")


async def test_a_client_may_finish_sending_what_is_refused() -> None:
    """Or it would see a broken connection, and not the answer."""
    client = Client([form(part(disposition='name="extra"')), *[b"x" * 1000] * 50])
    with pytest.raises(BadRequestError):
        async with make_uploads().read(client.request):
            pass
    assert client.num_taken == 52


async def test_a_file_of_the_largest_size_is_taken_and_one_byte_more_is_not() -> None:
    assert len((await read(form(part(b"x" * MAX_FILE_BYTES)))).content) == MAX_FILE_BYTES
    with pytest.raises(PayloadTooLargeError):
        await read(form(part(b"x" * (MAX_FILE_BYTES + 1))))


async def test_a_body_that_says_it_is_too_large_is_not_read() -> None:
    client = Client([b"x"], content_length=str(MAX_FILE_BYTES + SLACK + 1))
    with pytest.raises(PayloadTooLargeError):
        async with make_uploads().read(client.request):
            pass
    assert client.num_taken == 0


async def test_a_body_that_does_not_end_is_read_no_further_than_its_limit() -> None:
    client = Client([part()] + [b"x" * 1000] * 1000)
    with pytest.raises(PayloadTooLargeError):
        async with make_uploads().read(client.request):
            pass
    assert client.num_taken <= (MAX_FILE_BYTES + SLACK) // 1000 + 2


async def test_a_client_that_stops_sending_is_told() -> None:
    uploads = make_uploads(max_s=0.05)
    with pytest.raises(RequestTimeoutError, match=r"0\.05 s"):
        async with uploads.read(Client([part()], last="never").request):
            pass
    assert uploads._held_bytes == 0


async def test_a_client_that_left_has_left() -> None:
    uploads = make_uploads()
    with pytest.raises(ClientLeft):
        async with uploads.read(Client([part()], last="http.disconnect").request):
            pass
    assert uploads._held_bytes == 0


async def test_uploads_together_hold_no_more_than_they_may() -> None:
    body = form(part(b"x" * 50_000))
    uploads = make_uploads(max_held_bytes=2 * len(body))
    async with uploads.read(Client([body]).request), uploads.read(Client([body]).request):
        with pytest.raises(OverloadedError):
            async with uploads.read(Client([body]).request):
                pass
    async with uploads.read(Client([body]).request) as upload:
        assert len(upload.content) == 50_000
    assert uploads._held_bytes == 0
