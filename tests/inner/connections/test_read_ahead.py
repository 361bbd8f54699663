"""What is read of a body before it is asked for, with Serve's own classes between the two ends."""

import asyncio
import gc
import pickle
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from ray.serve._private.common import RequestMetadata
from ray.serve._private.http_util import ASGIReceiveProxy, MessageQueue
from starlette.types import Message, Receive

from deployments.ingress.connections.read_ahead import READ_AHEAD_BYTES, limit_client, limit_fetching

CHUNK = 64 * 1024
NUM_CHUNKS = 200
METADATA = RequestMetadata(request_id="1", internal_request_id="1")


class Client:
    """Sends a body as fast as it is taken, then leaves."""

    def __init__(self, num_chunks: int = NUM_CHUNKS, chunk_bytes: int = CHUNK) -> None:
        self.num_chunks = num_chunks
        self.chunk_bytes = chunk_bytes
        self.num_sent = 0

    async def receive(self) -> Message:
        await asyncio.sleep(0)
        if self.num_sent == self.num_chunks:
            return {"type": "http.disconnect"}
        self.num_sent += 1
        body = bytes([self.num_sent % 256]) * self.chunk_bytes
        return {"type": "http.request", "body": body, "more_body": self.num_sent < self.num_chunks}


async def fill(receive: Receive, queue: MessageQueue) -> None:
    """Do what Serve's proxy does for a request."""
    while True:
        message = await receive()
        await queue(message)
        if message["type"] == "http.disconnect":
            return


async def settle() -> None:
    for _ in range(20 * NUM_CHUNKS):
        await asyncio.sleep(0)
    gc.collect()


@asynccontextmanager
async def through_serve(
    client: Client, fetch_more: Callable[[Any], Awaitable[bytes]] | None = None
) -> AsyncIterator[Any]:
    """Yield the replica's end of a request whose body comes through the proxy."""
    queue = MessageQueue()

    async def fetch(_: RequestMetadata) -> bytes:
        await queue.wait_for_message()
        return pickle.dumps(queue.get_messages_nowait())

    receive = ASGIReceiveProxy({"type": "http"}, METADATA, fetch_more or fetch)
    tasks = [asyncio.create_task(fill(limit_client(client.receive), queue))]
    limited = limit_fetching(receive)
    tasks.append(asyncio.create_task(receive.fetch_until_disconnect()))
    try:
        yield limited
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def test_a_body_that_nobody_reads_is_left_with_the_client() -> None:
    client = Client()
    async with through_serve(client) as receive:
        await settle()
        # In the proxy, in the ingress, and in one answer on its way.
        assert client.num_sent * CHUNK <= 3 * READ_AHEAD_BYTES + 3 * CHUNK
        before = client.num_sent
        for _ in range(2 * READ_AHEAD_BYTES // CHUNK):
            await receive()
        await settle()
        assert client.num_sent > before


async def test_the_whole_body_arrives_in_order_and_then_that_the_client_left() -> None:
    for num_chunks, chunk_bytes in ((NUM_CHUNKS, CHUNK), (3, 3 * READ_AHEAD_BYTES), (1, 0), (50, 1)):
        async with through_serve(Client(num_chunks, chunk_bytes)) as receive, asyncio.timeout(20):
            for number in range(1, num_chunks + 1):
                message = await receive()
                assert type(message) is dict
                assert message["body"] == bytes([number % 256]) * chunk_bytes
                assert message["more_body"] == (number < num_chunks)
            assert (await receive())["type"] == "http.disconnect"
            assert (await receive())["type"] == "http.disconnect"


async def test_an_error_of_the_proxy_is_raised_where_the_body_is_read() -> None:
    async def fail(_: RequestMetadata) -> bytes:
        raise RuntimeError("the proxy died")

    async with through_serve(Client(), fail) as receive:
        with pytest.raises(RuntimeError, match="the proxy died"):
            await receive()


async def test_another_server_and_a_ray_whose_fetching_is_unknown_are_left_alone() -> None:
    unknown = ASGIReceiveProxy({"type": "http"}, METADATA, Client().receive)
    del unknown._receive_asgi_messages
    for receive in (Client().receive, unknown):
        assert limit_fetching(receive) is receive
