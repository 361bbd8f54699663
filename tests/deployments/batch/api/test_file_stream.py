"""A file on its way to a client. Whole ones, and those that break off, are sent by a real server in ``test_routes``."""

import asyncio

import pytest
from ray.serve._private.common import RequestMetadata
from ray.serve._private.http_util import ASGIReceiveProxy
from starlette.types import Message, Scope

from deployments.batch.api.routes import FileStream
from deployments.errors import InternalError, NotFoundError
from deployments.ingress.connections.send_ahead import CONFIRM_BYTES, CONFIRMS, FEW_BYTES, MANY_BYTES, SendAhead
from deployments.ingress.stream import ClientLeft


class File:
    """As large as it is said to be, and read where it is asked for."""

    def __init__(self, num_bytes: int) -> None:
        self.num_bytes = num_bytes
        self.asked: list[int] = []

    async def read(self, offset: int, num_bytes: int) -> bytes:
        self.asked.append(offset)
        return b"x" * min(num_bytes, self.num_bytes - offset)


async def test_a_piece_is_read_when_the_one_before_has_gone() -> None:
    file = File(FEW_BYTES + 2 * MANY_BYTES)
    stream = await FileStream.begin(file.read, file.num_bytes, "text/plain", "req-1")
    num_sent = 0

    async def send(message: Message) -> None:
        nonlocal num_sent
        if message["type"] == "http.response.body":
            assert len(file.asked) == num_sent + 1
            num_sent += 1

    await stream({}, _stay, send)
    assert file.asked == [0, FEW_BYTES, FEW_BYTES + MANY_BYTES]


async def test_of_a_file_that_nobody_reads_one_small_piece_is_read() -> None:
    file = File(100 * MANY_BYTES)
    stream = await FileStream.begin(file.read, file.num_bytes, "text/plain", "req-1")
    scope: Scope = {CONFIRMS: CONFIRM_BYTES}
    num_sent = 0

    async def fetch(_: RequestMetadata) -> bytes:
        await asyncio.sleep(3600)
        return b""

    async def send(message: Message) -> None:
        nonlocal num_sent
        num_sent += len(message.get("body", b""))

    proxied = ASGIReceiveProxy({"type": "http"}, RequestMetadata(request_id="1", internal_request_id="1"), fetch)
    with SendAhead().limit(scope, proxied, send) as limited:
        sending = asyncio.create_task(stream(scope, proxied, limited))
        for _ in range(1000):
            await asyncio.sleep(0)
        assert (file.asked, num_sent) == ([0], FEW_BYTES)
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)


async def test_nothing_more_is_read_for_a_client_that_left() -> None:
    file = File(100 * MANY_BYTES)
    stream = await FileStream.begin(file.read, file.num_bytes, "text/plain", "req-1")
    left = asyncio.Event()

    async def receive() -> Message:
        await left.wait()
        return {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        if len(file.asked) == 3:
            left.set()
        await asyncio.sleep(0)

    with pytest.raises(ClientLeft):
        await stream({}, receive, send)
    assert len(file.asked) < 10


async def test_a_file_that_cannot_be_read_is_an_error_before_anything_is_sent() -> None:
    async def fail(_: int, __: int) -> bytes:
        raise NotFoundError("There is no such file.")

    with pytest.raises(NotFoundError):
        await FileStream.begin(fail, 5, "text/plain", "req-1")


async def test_a_file_that_is_shorter_than_it_was_said_to_be_is_our_fault() -> None:
    with pytest.raises(InternalError):
        await FileStream.begin(File(5).read, 6, "text/plain", "req-1")


async def _stay() -> Message:
    await asyncio.sleep(3600)
    return {}
