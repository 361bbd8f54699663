"""How much of headers a real server reads before it ends their connection."""

import gc
import json
import re
import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import anyio
import pytest
from starlette.types import Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

from deployments.ingress.connections.header_limits import MAX_PIPELINED, HeaderLimitProtocol
from deployments.settings.limits import MAX_HEADER_BYTES, MAX_HEADERS
from tests.deployments.front import running

CLOSE = b"Connection: close\r\n"
KEPT = b"GET /?q HTTP/1.1\r\nHost: a\r\n"
GET = KEPT + CLOSE
CHUNKED = b"POST / HTTP/1.1\r\nHost: a\r\n" + CLOSE + b"Transfer-Encoding: chunked\r\n\r\n4\r\nbody\r\n"
IN_KERNELS = 16 * 2**20
SLOW = b"/slow"
HELD = b"/held"


class Server:
    """Answers with what it got, and counts what was sent to it."""

    def __init__(self) -> None:
        self.num_requests = 0
        self.port = 0
        self.may_end = threading.Event()

    async def app(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.num_requests += 1
        body = b""
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                return
            body += message["body"]
            if not message["more_body"]:
                break
        result = json.dumps({"headers": len(scope["headers"]), "body": len(body)}).encode()
        headers = [(b"content-length", b"%d" % len(result))]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        if scope["raw_path"] == SLOW:
            await anyio.sleep(0.5)
        if scope["raw_path"] == HELD:
            await anyio.to_thread.run_sync(self.may_end.wait)
        await send({"type": "http.response.body", "body": result})

    def exchange(self, *pieces: bytes, max_bytes: int = 64 * 2**20) -> tuple[int, bytes]:
        """Send pieces, the last again and again; return how many bytes were taken, and the answers."""
        sent, received = 0, b""
        with socket.create_connection(("127.0.0.1", self.port), timeout=10) as connection:
            with suppress(ConnectionError):
                for piece in pieces:
                    connection.sendall(piece)
                    sent += len(piece)
                while len(pieces) > 1 and sent < max_bytes:
                    connection.sendall(pieces[-1])
                    sent += len(pieces[-1])
            with suppress(ConnectionError):
                while chunk := connection.recv(65536):
                    received += chunk
        return sent, received


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    made = Server()
    with running(made.app, HeaderLimitProtocol) as made.port:
        yield made


def assert_refused(answer: bytes, status: int, message: str) -> None:
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 %d " % status)
    assert b"connection: close" in head
    error: dict[str, Any] = json.loads(body)["error"]
    assert error["type"] == "invalid_request_error"
    assert message in error["message"]


def test_what_has_no_end_ends_its_connection(server: Server) -> None:
    for what, begun in {
        "a value": GET + b"X-Long: ",
        "a path": b"GET /",
        "a name": GET + b"X",
        "a chunk's extension": CHUNKED + b"1;",
        "a trailer": CHUNKED + b"0\r\nX: ",
        "of the second request": KEPT + b"\r\n" + GET + b"X: ",
    }.items():
        sent, answer = server.exchange(begun, b"x" * 100_000)
        assert sent <= IN_KERNELS, what
        # The client may still be sending, and then loses the answer.
        assert not answer or b"HTTP/1.1 431 " in answer, what


def test_the_largest_headers_are_let_through_and_one_byte_more_is_not(server: Server) -> None:
    def asked(num_bytes: int) -> bytes:
        fixed = len(b"/?qhostaconnectionclosex")
        return server.exchange(GET + b"X: " + b"x" * (num_bytes - fixed) + b"\r\n\r\n")[1]

    assert asked(MAX_HEADER_BYTES - 100).startswith(b"HTTP/1.1 200 ")
    before = server.num_requests
    assert_refused(asked(MAX_HEADER_BYTES + 1), 431, f"more than {MAX_HEADER_BYTES} bytes")
    assert server.num_requests == before


def test_there_are_only_so_many_headers_and_trailers(server: Server) -> None:
    for begun in (GET, CHUNKED + b"0\r\n"):
        num_left = MAX_HEADERS - begun.partition(b"\r\n\r\n")[0].count(b": ")
        _, answer = server.exchange(begun + b"x-api-key: a\r\n" * num_left + b"\r\n")
        assert answer.startswith(b"HTTP/1.1 200 ")
        _, answer = server.exchange(begun + b"x-api-key: a\r\n" * (num_left + 1) + b"\r\n")
        assert_refused(answer, 431, f"more than {MAX_HEADERS} headers")


def test_a_long_body_counts_for_nothing(server: Server) -> None:
    head = b"POST / HTTP/1.1\r\nContent-Length: %d\r\n" % (10 * MAX_HEADER_BYTES) + CLOSE + b"\r\n"
    _, answer = server.exchange(head + b"x" * 10 * MAX_HEADER_BYTES)
    assert json.loads(answer.partition(b"\r\n\r\n")[2]) == {"headers": 2, "body": 10 * MAX_HEADER_BYTES}
    _, answer = server.exchange(CHUNKED + b"1\r\nx\r\n" * 50_000 + b"0\r\n\r\n")
    assert json.loads(answer.partition(b"\r\n\r\n")[2])["body"] == 50_004


def test_requests_in_a_row_are_all_answered_in_their_order(server: Server) -> None:
    lengths = [number % 50 for number in range(1000)]
    posts = [
        b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % length + b"\r" * length for length in lengths
    ]
    _, answers = server.exchange(
        b"GET " + SLOW + b" HTTP/1.1\r\nHost: a\r\n\r\n" + b"".join(posts) + CHUNKED + b"0\r\n\r\n"
    )
    assert [int(found) for found in re.findall(rb'"body": (\d+)', answers)] == [0, *lengths, 4]


def test_few_requests_in_a_row_are_held_while_one_before_them_is_answered(server: Server) -> None:
    piece = (KEPT + b"X: " + b"x" * 1000 + b"\r\n\r\n") * 100
    received, num_sent = b"", 0
    server.may_end.clear()
    with socket.create_connection(("127.0.0.1", server.port), timeout=1) as connection:
        connection.sendall(b"GET " + HELD + b" HTTP/1.1\r\nHost: a\r\n\r\n")
        # Until the kernels take no more.
        with suppress(TimeoutError):
            while num_sent * len(piece) <= IN_KERNELS:
                connection.sendall(piece)
                num_sent += 1
        assert num_sent * len(piece) <= IN_KERNELS
        assert sum(type(one) is RequestResponseCycle for one in gc.get_objects()) <= 2 * MAX_PIPELINED + 2
        server.may_end.set()
        connection.settimeout(10)
        while received.count(b"HTTP/1.1 200 ") < 1 + 100 * num_sent:
            chunk = connection.recv(2**20)
            assert chunk
            received += chunk


def test_what_is_not_http_gets_an_error_in_the_services_form(server: Server) -> None:
    for request_line in (b"GET", b"\x16\x03\x01\x02", b"GET / HTTP/1.1\r\n: x"):
        assert_refused(server.exchange(request_line + b"\r\n\r\n")[1], 400, "not valid HTTP")


def test_an_answer_under_way_is_not_written_into(server: Server) -> None:
    with socket.create_connection(("127.0.0.1", server.port), timeout=10) as connection:
        connection.sendall(b"GET " + SLOW + b" HTTP/1.1\r\nHost: a\r\n\r\n")
        received = connection.recv(65536)
        connection.sendall(KEPT + b"X: " + b"x" * 2 * MAX_HEADER_BYTES)
        with suppress(ConnectionError):
            while chunk := connection.recv(65536):
                received += chunk
    assert received.startswith(b"HTTP/1.1 200 ")
    assert b"431" not in received
