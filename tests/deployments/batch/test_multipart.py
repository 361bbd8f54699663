"""What may be uploaded, and how much of it is held."""

import asyncio
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.requests import Request
from starlette.types import Message

from deployments.batch.multipart import MAX_FILENAME_CHARS, Upload, Uploads
from deployments.disconnect import ClientLeft
from deployments.errors import (
    ApiError,
    BadRequestError,
    OverloadedError,
    PayloadTooLargeError,
    RequestTimeoutError,
    UnsupportedMediaTypeError,
)

BOUNDARY = "b0undary"
FORM = f"multipart/form-data; boundary={BOUNDARY}"
MAX_FILE_BYTES = 100_000
SLACK = 64 * 1024


def part(content: bytes = b"x", disposition: str = 'name="file"; filename="a.jsonl"', *headers: str) -> bytes:
    lines = [f"--{BOUNDARY}", f"Content-Disposition: form-data; {disposition}", *headers, "", ""]
    return "\r\n".join(lines).encode() + content + b"\r\n"


def form(*parts: bytes) -> bytes:
    return b"".join(parts) + f"--{BOUNDARY}--\r\n".encode()


class Client:
    """Sends a body in pieces, and counts those that were taken; ``last`` comes after them."""

    def __init__(self, pieces: Iterable[bytes], last: str = "http.request", **headers: str) -> None:
        self._messages = [{"type": "http.request", "body": piece, "more_body": True} for piece in pieces]
        self._last: Message = {"type": last, "body": b"", "more_body": False}
        self.num_taken = 0
        fields = {"content-type": FORM, **{name.replace("_", "-"): value for name, value in headers.items()}}
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


async def read(body: bytes | Sequence[bytes], fields: Sequence[str] = (), **headers: str) -> Upload:
    uploads = make_uploads()
    client = Client([body] if isinstance(body, bytes) else body, **headers)
    try:
        async with uploads.read(client.request, fields) as upload:
            return upload
    finally:
        assert uploads._held_bytes == 0


@pytest.mark.parametrize("piece_bytes", [1, 2, 3, 7, 10_000])
async def test_a_file_comes_out_as_it_went_in_however_it_is_cut(piece_bytes: int) -> None:
    content = f"a\r\n--{BOUNDARY[:-1]}\r\n\r\n--\r\n--{BOUNDARY}x\r\n\n\r".encode()
    body = form(part(b"batch", 'name="purpose"'), part(content))
    upload = await read([body[at : at + piece_bytes] for at in range(0, len(body), piece_bytes)], ("purpose",))
    assert upload == Upload("a.jsonl", content, {"purpose": "batch"})


async def test_a_file_without_a_name_is_a_file() -> None:
    assert (await read(form(part(b"[]", 'name="file"')))).filename == "file"


@pytest.mark.parametrize(
    ("sent", "kept"),
    [
        ("größe.jsonl", "größe.jsonl"),
        ("../../etc/passwd", "../../etc/passwd"),
        ("C:\\\\a\\\\b.jsonl", "b.jsonl"),
        ("a\tb\x00c\u202e.jsonl", "a\ufffdb\ufffdc\ufffd.jsonl"),
        ("x" * 300, "x" * (MAX_FILENAME_CHARS - 1) + "…"),
        ("", "file"),
    ],
)
async def test_the_name_of_a_file_is_a_line_that_can_be_shown(sent: str, kept: str) -> None:
    filename = (await read(form(part(disposition=f'name="file"; filename="{sent}"')))).filename
    assert filename == kept
    assert len(filename) <= MAX_FILENAME_CHARS


@pytest.mark.parametrize(
    "content_type",
    ["", "application/json", "multipart/mixed; boundary=a", "multipart/form-datax; boundary=a", "a" * 999],
)
async def test_what_says_it_is_no_form_is_refused(content_type: str) -> None:
    with pytest.raises(UnsupportedMediaTypeError):
        await read(form(part()), content_type=content_type)


async def test_a_compressed_form_is_refused() -> None:
    with pytest.raises(UnsupportedMediaTypeError, match="compressed"):
        await read(form(part()), content_encoding="gzip")


@pytest.mark.parametrize(
    ("body", "cause"),
    [
        (b"", "too early"),
        (b"x", "no valid"),
        (part(), "too early"),
        (f"--{BOUNDARY}".encode(), "too early"),
        (f"--{BOUNDARY}--\r\n".encode(), "provide a file"),
        (form(part(disposition='name="purpose"')), "provide a file"),
        (form(part(disposition='name="extra"')), "Unknown part"),
        (form(part(disposition='filename="a"')), "Unknown part"),
        (form(f"--{BOUNDARY}\r\n\r\nx\r\n".encode()), "Unknown part"),
        (form(part(disposition='name="' + "e" * 3000 + '"')), "Unknown part"),
        (form(part(), part()), "twice"),
        (form(part(b"x" * 1025, 'name="purpose"')), "at most 1024"),
        (form(part(b"x", 'name="file"', *(["A: b"] * 20))), "no valid"),
        (form(part(b"x", 'name="file"', "A: " + "b" * 5000)), "no valid"),
        (form(part(b"x", 'name="file"', "A" * 5000 + ": b")), "no valid"),
        (form(part(b"x", 'name="file"', "no header")), "no valid"),
    ],
)
async def test_a_bad_form_is_refused(body: bytes, cause: str) -> None:
    with pytest.raises(BadRequestError) as caught:
        await read(body, ("purpose",))
    assert cause in caught.value.message
    assert len(caught.value.to_json()) < 1000


@pytest.mark.parametrize("boundary", ["", '""', "a" * 300])
async def test_a_boundary_that_is_none_is_refused(boundary: str) -> None:
    with pytest.raises(BadRequestError, match="boundary"):
        await read(form(part()), content_type=f"multipart/form-data; boundary={boundary}")


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


@given(st.lists(st.binary(max_size=30) | st.sampled_from([part(), form(), b"\r\n--", b"\r\n\r\n", b"--"]), max_size=8))
async def test_whatever_is_sent_is_a_form_or_an_error_of_the_callers(pieces: list[bytes]) -> None:
    with suppress(ApiError):
        await read(pieces, ("purpose",))


@given(st.binary(max_size=200), st.text(st.characters(codec="utf-8"), max_size=20), st.integers(1, 50))
async def test_what_a_real_client_sends_is_read(content: bytes, field: str, piece_bytes: int) -> None:
    files: dict[str, Any] = {"file": ("a.jsonl", content), "purpose": (None, field)}
    request = httpx.Request("POST", "http://localhost", files=files)
    body = request.read()
    pieces = [body[at : at + piece_bytes] for at in range(0, len(body), piece_bytes)]
    upload = await read(pieces, ("purpose",), content_type=request.headers["content-type"])
    assert upload == Upload("a.jsonl", content, {"purpose": field})
