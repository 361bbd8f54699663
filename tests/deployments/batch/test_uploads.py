"""Which forms are taken, how much may be uploaded, how long it may take, and how much is held."""

import asyncio
from collections.abc import Iterable, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.requests import Request
from starlette.types import Message

from deployments.batch.uploads import Uploads
from deployments.errors import (
    BadRequestError,
    PayloadTooLargeError,
    RequestTimeoutError,
    TooManyRequestsError,
    UnsupportedMediaTypeError,
)
from deployments.ingress.stream import ClientLeft
from deployments.settings.limits import BatchLimits

BOUNDARY = "b0undary"
CONTENT_TYPE = f"multipart/form-data; boundary={BOUNDARY}"
MAX_FILE_BYTES = 100_000
SLACK = 64 * 1024
ME = "me"


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
        fields = {"content-type": CONTENT_TYPE, **{name.replace("_", "-"): value for name, value in headers.items()}}
        raw = [(name.encode(), value.encode("latin-1")) for name, value in fields.items()]
        self.request = Request({"type": "http", "method": "POST", "headers": raw}, self._receive)

    async def _receive(self) -> Message:
        self.num_taken += 1
        if self.num_taken <= len(self._messages):
            return self._messages[self.num_taken - 1]
        if self._last["type"] == "never":
            await asyncio.sleep(3600)
        return self._last


@dataclass
class Taken:
    """What was uploaded, read to its end."""

    filename: str
    content: bytes
    fields: dict[str, str]


def make_uploads(max_s: float = 5.0) -> Uploads:
    limits = BatchLimits(max_file_bytes=MAX_FILE_BYTES, max_upload_s=max_s)
    return Uploads(limits, {ME: 32, "other": 1}.__getitem__)


async def read(body: bytes | Sequence[bytes], fields: Sequence[str] = (), **headers: str) -> Taken:
    client = Client([body] if isinstance(body, bytes) else body, **headers)
    async with make_uploads().read(client.request, ME, fields) as upload:
        return Taken(upload.filename, await upload.file.read(), upload.fields)


def pieces_of(body: bytes, piece_bytes: int) -> list[bytes]:
    return [body[at : at + piece_bytes] for at in range(0, len(body), piece_bytes)]


async def test_a_file_comes_out_as_it_went_in_however_it_is_cut() -> None:
    content = f"a\r\n--{BOUNDARY[:-1]}\r\n\r\n--\r\n--{BOUNDARY}x\r\n\n\r".encode()
    body = form(part(b"batch", 'name="purpose"'), part(content))
    for piece_bytes in (1, 2, 3, 7, 10_000):
        upload = await read(pieces_of(body, piece_bytes), ("purpose",))
        assert upload == Taken("a.jsonl", content, {"purpose": "batch"})


async def test_the_name_of_a_file_is_a_line_that_can_be_shown() -> None:
    for sent, kept in [
        ("größe.jsonl", "größe.jsonl"),
        ("../../etc/passwd", "../../etc/passwd"),
        ("C:\\\\a\\\\b.jsonl", "b.jsonl"),
        ("a\tb\x00c\u202e.jsonl", "a\ufffdb\ufffdc\ufffd.jsonl"),
        ("x" * 300, "x" * 254 + "…"),
        ("", "file"),
    ]:
        assert (await read(form(part(disposition=f'name="file"; filename="{sent}"')))).filename == kept


async def test_what_says_it_is_no_form_or_compressed_is_refused() -> None:
    for kind in ("", "application/json", "multipart/mixed; boundary=a", "multipart/form-datax; boundary=a", "a" * 999):
        with pytest.raises(UnsupportedMediaTypeError):
            await read(form(part()), content_type=kind)
    with pytest.raises(UnsupportedMediaTypeError, match="compressed"):
        await read(form(part()), content_encoding="gzip")


BAD_FORMS = [
    (b"", "too early"),
    (b"x", "no valid"),
    (part(), "too early"),
    (form(part())[:-10], "too early"),
    (f"--{BOUNDARY}--\r\n".encode(), "provide a file"),
    (form(part(disposition='name="purpose"')), "provide a file"),
    (form(part(disposition='name="file"')), "provide a file"),
    (form(part(disposition='name="extra"; filename="a"')), "Unknown part"),
    (form(part(disposition='name="' + "e" * 3000 + '"')), "Unknown part"),
    (form(part(disposition='filename="a"')), '"name" must be provided'),
    (form(part(), part()), "twice"),
    (form(part(), part(), part()), "Too many files"),
    (form(*[part(disposition='name="purpose"')] * 9), "Too many fields"),
    (form(part(), part(b"x" * 1025, 'name="purpose"')), "at most 1024"),
    (form(part(), part(b"x", 'name="purpose"; filename="p"')), "at most 1024"),
    (form(part(b"x" * 99_000, 'name="purpose"')), "no valid"),
    (form(part(b"x", 'name="file"', "A: " + "b" * 5000)), "no valid"),
    (form(part(b"x", 'name="file"', "no header")), "no valid"),
]


async def test_a_bad_form_is_refused() -> None:
    wrong = []
    for body, cause in BAD_FORMS:
        with pytest.raises(BadRequestError) as caught:
            await read(body, ("purpose",))
        if cause not in caught.value.message or len(caught.value.to_json()) >= 1000:
            wrong.append((body[:60], caught.value.to_json()))
    assert wrong == []


async def test_a_boundary_that_is_none_is_refused_and_no_charset_is_a_fault_of_the_services() -> None:
    for parameters in ("", "; boundary=" + "a" * 300, "; boundary=ü", f"; charset=idna; {BOUNDARY}"):
        with pytest.raises(BadRequestError, match="no valid multipart form"):
            await read(form(part()), content_type=f"multipart/form-data{parameters}")
    for charset in ("idna", "punycode", "undefined", "hex", "nosuch", "utf-16"):
        with suppress(BadRequestError):
            await read(form(part(disposition='name="fil\xe9"')), content_type=f"{CONTENT_TYPE}; charset={charset}")


@given(st.lists(st.binary(max_size=30) | st.sampled_from([part(), form(), b"\r\n--", b"\r\n\r\n", b"--"]), max_size=8))
async def test_whatever_is_sent_is_a_form_or_an_error_of_the_callers(pieces: list[bytes]) -> None:
    with suppress(BadRequestError):
        await read(pieces, ("purpose",))


async def refuse(error: type[Exception], uploads: Uploads, client: Client) -> Exception:
    with pytest.raises(error) as caught:
        async with uploads.read(client.request, ME):
            pass
    return caught.value


async def test_a_client_may_finish_sending_what_is_refused() -> None:
    """Or it would see a broken connection, and not the answer."""
    for bad in (part(disposition='name="extra"'), part(b"x", 'name="file"', "no header")):
        client = Client([form(bad), *[b"x" * 1000] * 50])
        await refuse(BadRequestError, make_uploads(), client)
        assert client.num_taken == 52


async def test_a_file_has_a_largest_size_and_what_is_larger_is_not_read_to_its_end() -> None:
    assert len((await read(form(part(b"x" * MAX_FILE_BYTES)))).content) == MAX_FILE_BYTES
    pieces = [part()] + [b"x" * 1000] * 1000
    for client, most_taken in (
        (Client([form(part(b"x" * (MAX_FILE_BYTES + 1)))]), 2),
        (Client([b"x"], content_length=str(MAX_FILE_BYTES + SLACK + 1)), 0),
        (Client(pieces), (MAX_FILE_BYTES + SLACK) // 1000 + 2),
        (Client(pieces, content_length="10"), (MAX_FILE_BYTES + SLACK) // 1000 + 2),
    ):
        await refuse(PayloadTooLargeError, make_uploads(), client)
        assert client.num_taken <= most_taken


async def test_a_client_that_stops_sending_is_told_and_holds_nothing_and_one_that_left_neither() -> None:
    begun, body = part(b"x" * 90_000), form(part(b"x" * 90_000))
    uploads = make_uploads(max_s=0.05)
    for _ in range(4):
        assert "0.05 s" in str(await refuse(RequestTimeoutError, uploads, Client([begun], last="never")))
        await refuse(ClientLeft, uploads, Client([begun], last="http.disconnect"))
    async with uploads.read(Client([body]).request, ME) as upload:
        assert upload.file.size == 90_000


async def test_uploads_of_one_key_hold_no_more_than_they_may_and_others_are_unaffected() -> None:
    body = form(part(b"x" * 99_000))
    uploads = make_uploads()
    async with AsyncExitStack() as held:
        for _ in range(4):
            await held.enter_async_context(uploads.read(Client([body]).request, ME))
        await refuse(TooManyRequestsError, uploads, Client([body]))
        async with uploads.read(Client([body]).request, "other") as upload:
            assert upload.file.size == 99_000
    async with uploads.read(Client([body]).request, ME) as upload:
        assert upload.file.size == 99_000


@pytest.mark.fault(64)
async def test_stalled_uploads_of_one_key_are_few_and_leave_room_for_others() -> None:
    """Each holds a place in the ingress, and all places taken are a 503 for everyone."""
    uploads = make_uploads()

    async def stall() -> None:
        async with uploads.read(Client([part()], last="never").request, ME):
            pass

    stalled = [asyncio.create_task(stall()) for _ in range(1000)]
    _, waiting = await asyncio.wait(stalled, timeout=0.5)
    assert len(waiting) == 32
    refused = {type(task.exception()) for task in stalled if task.done()}
    assert refused == {TooManyRequestsError}
    async with uploads.read(Client([form(part())]).request, "other") as upload:
        assert upload.filename == "a.jsonl"
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    async with uploads.read(Client([form(part())]).request, ME) as upload:
        assert upload.filename == "a.jsonl"
