"""What Serve holds of an answer that nobody reads, with Serve's own classes or a real server between the two ends."""

import asyncio
import pickle
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest
import uvicorn
from ray.serve._private.common import RequestMetadata
from ray.serve._private.http_util import ASGIReceiveProxy, MessageQueue
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from deployments.ingress.connections.proxy_callback import ProxyGuard
from deployments.ingress.connections.read_ahead import READ_AHEAD_BYTES, limit_fetching
from deployments.ingress.connections.send_ahead import (
    ABSORBED_BYTES,
    CONFIRM_BYTES,
    CONFIRMS,
    FAST_S,
    FEW_BYTES,
    MANY_BYTES,
    PART_BYTES,
    SHARED_BYTES,
    Reader,
    SendAhead,
    SharedBytes,
    Window,
    cut,
)

CHUNK = 64 * 1024
NUM_CHUNKS = 200
METADATA = RequestMetadata(request_id="1", internal_request_id="1")
START: Message = {"type": "http.response.start", "status": 200, "headers": []}
CONFIRMING: Scope = {CONFIRMS: CONFIRM_BYTES}
GET = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"


class Client:
    """Takes what ``reads`` lets through, and sends nothing."""

    def __init__(self) -> None:
        self.reads = asyncio.Event()
        self.taken = bytearray()
        self.left = asyncio.Event()

    async def receive(self) -> Message:
        await self.left.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        await self.reads.wait()
        self.taken += message.get("body", b"")


class Exchange:
    """An answer on its way from an ingress to a client, through what stands for Serve between them."""

    def __init__(self, client: Client, scope: Scope, *, num_chunks: int = NUM_CHUNKS, chunk_bytes: int = CHUNK) -> None:
        self.num_sent = 0
        self.has_ended = False
        self._chunks = [bytes([number % 256]) * chunk_bytes for number in range(num_chunks)]
        self.body = b"".join(self._chunks)
        self._to_proxy, self._to_ingress = MessageQueue(), MessageQueue()
        self._reader = Reader(client.receive, client.send, max_unread_s=30)
        self._scope = dict(scope)
        self._proxied = ASGIReceiveProxy({"type": "http"}, METADATA, self._fetch)
        self.receive = limit_fetching(self._proxied)
        self.tasks = [
            asyncio.create_task(work) for work in (self._proxied.fetch_until_disconnect(), self._fill(), self._answer())
        ]
        self.passing_on = asyncio.create_task(self._pass_on())

    async def _fetch(self, _: RequestMetadata) -> bytes:
        await self._to_ingress.wait_for_message()
        return pickle.dumps(self._to_ingress.get_messages_nowait())

    async def _fill(self) -> None:
        while (message := await self._reader.receive())["type"] != "http.disconnect":
            await self._to_ingress(message)
        await self._to_ingress(message)

    async def _answer(self) -> None:
        with SendAhead().limit(self._scope, self._proxied, self._to_proxy) as send:
            await send(dict(START))
            for number, chunk in enumerate(self._chunks, 1):
                await send({"type": "http.response.body", "body": chunk, "more_body": number < len(self._chunks)})
                self.num_sent = number
        self.has_ended = True

    async def _pass_on(self) -> None:
        more = True
        while more:
            message = await self._to_proxy.get_one_message()
            await self._reader.send(message)
            more = message["type"] == "http.response.start" or message["more_body"]


@asynccontextmanager
async def exchange(client: Client, scope: Scope | None = None, **sizes: int) -> AsyncIterator[Exchange]:
    made = Exchange(client, CONFIRMING if scope is None else scope, **sizes)
    try:
        yield made
    finally:
        made._reader.close()
        for task in (*made.tasks, made.passing_on):
            task.cancel()
        await asyncio.gather(*made.tasks, made.passing_on, return_exceptions=True)


async def settle() -> None:
    for _ in range(5 * NUM_CHUNKS):
        await asyncio.sleep(0)


async def test_an_answer_that_nobody_reads_stays_with_its_maker() -> None:
    # A long one in one message does not go out whole.
    for num_chunks, chunk_bytes in ((NUM_CHUNKS, CHUNK), (1, 20 * FEW_BYTES)):
        client = Client()
        async with exchange(client, num_chunks=num_chunks, chunk_bytes=chunk_bytes) as made:
            await settle()
            assert made.num_sent * chunk_bytes <= FEW_BYTES
            assert not made.has_ended
            client.reads.set()
            await asyncio.wait_for(made.passing_on, 20)
            assert client.taken == made.body


async def test_the_whole_answer_arrives_in_order_and_nothing_else_reaches_the_ingress() -> None:
    for num_chunks, chunk_bytes in ((3, 20 * FEW_BYTES), (1, 0), (50, 1), (33, CHUNK + 1), (1, FEW_BYTES + 1)):
        client = Client()
        client.reads.set()
        async with exchange(client, num_chunks=num_chunks, chunk_bytes=chunk_bytes) as made, asyncio.timeout(20):
            await made.passing_on
            assert client.taken == made.body
            client.left.set()
            assert await made.receive() == {"type": "http.disconnect"}


async def test_any_number_of_confirmations_comes_through() -> None:
    """Each is some bytes that are fetched, and no part of a body that anybody would read."""
    num_left = READ_AHEAD_BYTES // 50

    async def fetch(_: RequestMetadata) -> bytes:
        nonlocal num_left
        num_left -= 1
        await asyncio.sleep(0)
        confirmation = {"type": "wordbound.confirmed", "num_bytes": 0}
        return pickle.dumps([confirmation if num_left else {"type": "http.disconnect"}])

    proxied = ASGIReceiveProxy({"type": "http"}, METADATA, fetch)
    with SendAhead().limit(dict(CONFIRMING), proxied, Client().send):
        receive = limit_fetching(proxied)
        fetching = asyncio.create_task(proxied.fetch_until_disconnect())
        async with asyncio.timeout(60):
            assert await receive() == {"type": "http.disconnect"}
        await fetching


class TestWindow:
    now = 0.0

    def window(self, shared: SharedBytes | None = None) -> Window:
        return Window(shared or SharedBytes(), clock=lambda: self.now)

    def take(self, window: Window, num_windows: int = 1, *, within_s: float = 0.0) -> None:
        for _ in range(num_windows):
            self.now += within_s
            window.take(window.num_bytes)

    def read_fast(self, window: Window) -> None:
        window.take(ABSORBED_BYTES)
        # What buffers take is no reading.
        assert window.num_bytes == FEW_BYTES
        self.take(window, 20)

    def test_more_of_an_answer_is_under_way_while_its_client_reads_fast(self) -> None:
        window = self.window()
        self.read_fast(window)
        assert window.num_bytes == MANY_BYTES
        self.take(window, 20, within_s=FAST_S)
        assert window.num_bytes == FEW_BYTES

    def test_an_answer_may_begin_with_more_as_far_as_others_leave_it(self) -> None:
        shared = SharedBytes(3 * FEW_BYTES)
        one, other = self.window(shared), self.window(shared)
        one.widen(MANY_BYTES)
        assert (one.num_bytes, shared.num_free) == (4 * FEW_BYTES, 0)
        other.widen(2 * FEW_BYTES)
        assert other.num_bytes == FEW_BYTES
        one.close()
        other.widen(1)
        assert other.num_bytes == FEW_BYTES
        other.widen(2 * FEW_BYTES)
        assert (other.num_bytes, shared.num_free) == (2 * FEW_BYTES, 2 * FEW_BYTES)
        self.take(other, 20, within_s=FAST_S)
        assert shared.num_free == 3 * FEW_BYTES

    def test_all_together_have_a_bound_and_what_one_gives_back_another_gets(self) -> None:
        shared = SharedBytes()
        windows = [self.window(shared) for _ in range(200)]
        for window in windows:
            self.read_fast(window)
        assert sum(window.num_bytes for window in windows) == SHARED_BYTES + 200 * FEW_BYTES
        shared = SharedBytes(MANY_BYTES)
        first, second = self.window(shared), self.window(shared)
        self.read_fast(first)
        self.read_fast(second)
        assert second.num_bytes < MANY_BYTES
        first.close()
        self.take(second, 20)
        assert second.num_bytes == MANY_BYTES


async def test_behind_a_proxy_that_does_not_confirm_so_an_answer_goes_out_at_once() -> None:
    scopes: list[Scope] = [{}, {"wordbound.confirms": True}, {CONFIRMS: 2 * CONFIRM_BYTES}]
    for scope in scopes:
        async with exchange(Client(), scope) as made:
            await settle()
            assert made.num_sent == NUM_CHUNKS


class Server:
    """A real server with the guard of Serve's proxy, and a connection to it that has a small window."""

    def __init__(self, port: int) -> None:
        self._port = port
        self.connections: list[socket.socket] = []

    async def connect(self, request: bytes) -> socket.socket:
        connection = socket.socket()
        self.connections.append(connection)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.setblocking(False)
        loop = asyncio.get_running_loop()
        await loop.sock_connect(connection, ("127.0.0.1", self._port))
        await loop.sock_sendall(connection, request)
        return connection


@asynccontextmanager
async def serving(guarded: ASGIApp, http: Any) -> AsyncIterator[Server]:
    server = uvicorn.Server(
        uvicorn.Config(guarded, port=0, http=http, ws="none", lifespan="off", log_config=None, timeout_keep_alive=1)
    )
    task = asyncio.create_task(server.serve())
    await wait_until(lambda: server.started)
    serving = Server(server.servers[0].sockets[0].getsockname()[1])
    try:
        yield serving
    finally:
        for connection in serving.connections:
            connection.close()
        server.should_exit = True
        await task


async def wait_until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not condition():  # noqa: ASYNC110 - a server's own attributes
            await asyncio.sleep(0.01)


PARSERS = pytest.mark.parametrize("http", ["httptools", "h11"])


@PARSERS
async def test_a_client_that_does_not_read_is_cut_and_the_answer_ends(http: str) -> None:
    num_sent, has_left = 0, asyncio.Event()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        nonlocal num_sent
        watch = asyncio.create_task(receive_until_disconnect(receive, has_left))
        await send({**START, "wordbound.read_limits": (0.3, 64 * 1024)})
        while not has_left.is_set():
            await send({"type": "http.response.body", "body": b"x" * CHUNK, "more_body": True})
            num_sent += 1
            # To a client that has left, nothing waits.
            await asyncio.sleep(0)
        await watch

    async with serving(ProxyGuard(app), http) as server:
        connection = await server.connect(GET)
        await wait_until(has_left.is_set)
        # The kernel too takes little, and drops it with the connection.
        assert num_sent * CHUNK <= ABSORBED_BYTES
        with pytest.raises(ConnectionResetError):
            while await asyncio.get_running_loop().sock_recv(connection, 2**20):
                pass


@PARSERS
async def test_a_client_that_reads_less_than_the_least_rate_is_cut_however_regularly(http: str) -> None:
    has_left = asyncio.Event()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        watch = asyncio.create_task(receive_until_disconnect(receive, has_left))
        await send({**START, "wordbound.read_limits": (0.5, 200 * PART_BYTES)})
        while not has_left.is_set():
            await send({"type": "http.response.body", "body": b"x" * CHUNK, "more_body": True})
            await asyncio.sleep(0)
        await watch

    async with serving(ProxyGuard(app), http) as server:
        connection, loop = await server.connect(GET), asyncio.get_running_loop()
        # A part each 0.1 s is no wait of 0.5 s, and a twentieth of the rate.
        with suppress(ConnectionResetError):
            for _ in range(200):
                num_bytes = 0
                while num_bytes < PART_BYTES and (piece := await loop.sock_recv(connection, PART_BYTES - num_bytes)):
                    num_bytes += len(piece)
                await asyncio.sleep(0.1)
        await wait_until(has_left.is_set)


async def receive_until_disconnect(receive: Receive, has_left: asyncio.Event) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    has_left.set()


@PARSERS
async def test_a_client_that_goes_on_reading_gets_all_of_a_long_answer(http: str) -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        headers = [(b"content-length", b"%d" % (100 * CHUNK)), (b"connection", b"close")]
        await send({**START, "headers": headers, "wordbound.read_limits": (20.0, 64 * 1024)})
        await send({"type": "http.response.body", "body": b"x" * 100 * CHUNK})

    async with serving(ProxyGuard(app), http) as server:
        connection = await server.connect(GET)
        received = 0
        async with asyncio.timeout(60):
            while piece := await asyncio.get_running_loop().sock_recv(connection, PART_BYTES):
                received += len(piece.rpartition(b"\r\n\r\n")[2])
        assert received == 100 * CHUNK


@PARSERS
async def test_a_client_that_does_not_take_the_end_of_an_answer_is_cut(http: str) -> None:
    protocols: set[Any] = set()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await send({**START, "headers": [(b"connection", b"close")], "wordbound.read_limits": (10.0, 64 * 1024)})
        # Until the kernel takes no more; then the end.
        for _ in range(1000):
            try:
                async with asyncio.timeout(0.3):
                    await send({"type": "http.response.body", "body": b"x" * CHUNK, "more_body": True})
            except TimeoutError:
                break
        flow.resume_writing()
        await send({"type": "http.response.body", "body": b"x"})

    flow: Any = None

    async def remembering(scope: Scope, receive: Receive, send: Send) -> None:
        nonlocal flow
        cycle: Any = send.__self__  # type: ignore[attr-defined]
        flow = cycle.flow
        protocols.update(cycle.transport.get_protocol().connections)
        await guarded(scope, receive, send)

    guarded = ProxyGuard(app, idle_timeout_s=0.4)
    async with serving(remembering, http) as server:
        await server.connect(GET)
        await wait_until(lambda: bool(protocols))
        [protocol] = protocols
        await wait_until(lambda: protocol not in protocol.connections)


@PARSERS
async def test_a_connection_without_a_whole_request_is_cut(http: str) -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await send(dict(START))
        await send({"type": "http.response.body", "body": b"ok"})

    async with serving(ProxyGuard(app, idle_timeout_s=0.4), http) as server:
        for begun in (b"", b"GET / HTTP/1.1\r\nHost: local", GET + b"GET / HTTP/1.1\r\nHo"):
            connection = await server.connect(begun)
            await server.connect(GET)
            async with asyncio.timeout(20):
                with suppress(ConnectionResetError):
                    while await asyncio.get_running_loop().sock_recv(connection, 2**20):
                        pass
    # A connection of another server ends by an error.
    with pytest.raises(ConnectionAbortedError):
        cut(Client().send)
