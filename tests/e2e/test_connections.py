"""Connections that ask for more than they may, and clients that read slowly, against the running application."""

import resource
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from typing import Any
from urllib.parse import urlsplit

import httpx
import psutil
import pytest

from tests.e2e.processes import our_processes_named
from tests.e2e.service import KEY, KEYS, MODEL, Service

pytestmark = pytest.mark.e2e

MIB = 2**20
IN_KERNELS = 16 * MIB
"""Of what a client has sent, so much may lie in the buffers of a connection that the server has ended."""

MAX_GROWTH = 64 * MIB

START = b"POST /tokenize HTTP/1.1\r\nHost: localhost\r\nX-API-Key: %s\r\n" % KEY.encode()
CHUNKED = START + b"Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
BODY = b'{"prompt": "The sea"}'


def connect(service: Service) -> socket.socket:
    return socket.create_connection(("127.0.0.1", urlsplit(service.url).port or 80), timeout=60)


def send_until_refused(service: Service, first: bytes, piece: bytes, num_bytes: int) -> tuple[int, bytes]:
    """How many bytes were taken of the first, and of pieces after it, and what was answered."""
    sent, answer = 0, b""
    with connect(service) as connection:
        with suppress(OSError):
            connection.sendall(first)
            while sent < num_bytes:
                connection.sendall(piece)
                sent += len(piece)
            connection.sendall(b"\r\n\r\n")
        connection.settimeout(15)
        deadline = time.monotonic() + 15
        with suppress(OSError):
            while time.monotonic() < deadline and (chunk := connection.recv(65536)):
                answer += chunk
    return sent, answer


@contextmanager
def growth_of(name: str) -> Iterator[list[int]]:
    """By how much the memory of a process grows meanwhile, at most: one number, when it is over."""
    [pid] = our_processes_named(name)
    process = psutil.Process(pid)
    start = most = process.memory_info().rss
    has_ended, summary = threading.Event(), list[int]()

    def look() -> None:
        nonlocal most
        while not has_ended.wait(0.05):
            most = max(most, process.memory_info().rss)

    looking = threading.Thread(target=look)
    looking.start()
    try:
        yield summary
    finally:
        has_ended.set()
        looking.join()
        summary.append(most - start)


def ask(service: Service, path: str, body: dict[str, Any], key: str = KEY) -> httpx.Response:
    return httpx.post(f"{service.url}{path}", json={"model": MODEL, **body}, headers={"X-API-Key": key}, timeout=60)


@pytest.mark.parametrize(
    ("first", "piece", "num_bytes", "at_once"),
    [
        (START + b"X-Long: ", b"x" * MIB, 100 * MIB, 1),
        (START + b"X-Long: ", b"x" * MIB, 80 * MIB, 7),
        (START, b"x-api-key: a\r\n" * 50_000, 20 * MIB, 2),
        (CHUNKED + b"1;", b"x" * MIB, 20 * MIB, 1),
        (b"GET /", b"x" * MIB, 20 * MIB, 1),
    ],
    ids=["one header", "seven of them", "many lines", "a chunk's extension", "a path"],
)
def test_headers_without_end_end_the_connection(
    service: Service, first: bytes, piece: bytes, num_bytes: int, at_once: int
) -> None:
    with growth_of("ray::ProxyActor") as growth, ThreadPoolExecutor(at_once) as pool:
        sending = [pool.submit(send_until_refused, service, first, piece, num_bytes) for _ in range(at_once)]
        start = time.monotonic()
        assert ask(service, "/tokenize", {"prompt": "The sea"}, KEYS["other"]).status_code == 200
        waited = time.monotonic() - start
        found = [one.result() for one in sending]
    print(f"sent {[sent // 1024 for sent, _ in found]} KiB, growth {growth[0] / MIB:.0f} MiB, waited {waited:.2f} s")
    for sent, answer in found:
        assert sent <= IN_KERNELS
        assert answer == b"" or answer.startswith(b"HTTP/1.1 431 ")
    assert growth[0] <= MAX_GROWTH
    assert waited < 5


@pytest.mark.parametrize("trailers", [b"x: " + b"x" * MIB + b"\r\n", b"x: x\r\n" * 100_000])
def test_trailers_without_end_end_the_connection(service: Service, trailers: bytes) -> None:
    chunked = CHUNKED + b"%x\r\n%s\r\n0\r\n" % (len(BODY), BODY)
    _, answer = send_until_refused(service, chunked, trailers, 1)
    assert answer == b"" or answer.startswith(b"HTTP/1.1 431 "), answer[:100]


@pytest.mark.parametrize(
    ("number", "sent", "is_half_closed"),
    [(200, START + b"X-Long: " + b"x" * 60_000, False), (1000, b"", False), (500, START + b"Content-Le", True)],
    ids=["long headers", "idle", "half closed"],
)
def test_many_connections_without_a_request_cost_little(
    service: Service, number: int, sent: bytes, is_half_closed: bool
) -> None:
    most, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with growth_of("ray::ProxyActor") as growth, ExitStack() as stack:
        stack.callback(resource.setrlimit, resource.RLIMIT_NOFILE, (most, hard))
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(max(most, 4096), hard), hard))
        for _ in range(number):
            connection = stack.enter_context(connect(service))
            connection.sendall(sent)
            if is_half_closed:
                connection.shutdown(socket.SHUT_WR)
        assert ask(service, "/tokenize", {"prompt": "The sea"}, KEYS["other"]).status_code == 200
    assert growth[0] <= MAX_GROWTH


def test_a_target_that_is_no_path_is_not_found(service: Service) -> None:
    with connect(service) as connection:
        connection.sendall(b"OPTIONS * HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        answer = b"".join(iter(lambda: connection.recv(65536), b""))
    assert answer.startswith(b"HTTP/1.1 404 "), answer


def test_pipelined_requests_are_all_answered_in_little_memory(service: Service) -> None:
    number = 2000
    request = b"GET /health HTTP/1.1\r\nHost: localhost\r\n"
    answers = b""
    with growth_of("ray::ProxyActor") as growth, connect(service) as connection:
        connection.sendall((request + b"\r\n") * (number - 1) + request + b"Connection: close\r\n\r\n")
        while chunk := connection.recv(65536):
            answers += chunk
    assert answers.count(b"HTTP/1.1 200 ") == answers.count(b'{"status":"ok"}') == number
    assert growth[0] <= MAX_GROWTH


class SlowReader:
    """Asks with a key, and reads the answer at 7.5 KB a second, until it has ended or for ``max_s``."""

    def __init__(self, service: Service, path: str, body: bytes, key: str = KEY) -> None:
        self._connection = socket.socket()
        self._connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        self._connection.settimeout(120)
        self._connection.connect(("127.0.0.1", urlsplit(service.url).port))
        head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nX-API-Key: {key}\r\nConnection: close\r\n"
        head += "Content-Type: application/json\r\n"
        self._connection.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        self.status = int(self._connection.recv(1024).split(b" ", 2)[1])
        self.began_at = time.monotonic()

    def seconds_until_cut(self, max_s: float) -> float:
        with self._connection, suppress(OSError):
            while time.monotonic() - self.began_at < max_s and self._connection.recv(750):
                time.sleep(0.1)
        return time.monotonic() - self.began_at


@contextmanager
def slow_readers(service: Service, path: str, body: bytes, num: int) -> Iterator[list[Any]]:
    """Clients that have their answers' beginnings; what they saw, by connection, when all have ended."""
    with ThreadPoolExecutor(num) as pool:
        readers = list(pool.map(lambda _: SlowReader(service, path, body), range(num)))
        seen: list[Any] = [pool.submit(reader.seconds_until_cut, 60.0) for reader in readers]
        print(f"{path}: {[reader.status for reader in readers]}")
        yield seen
        print(f"{path}: read for {[round(one.result()) for one in seen]} s")
        assert all(one.result() < 40 for one in seen)


EIGHT_ROWS = {"prompt": [[1]] * 8}


def test_slow_readers_of_rows_leave_room(service: Service) -> None:
    body = b'{"prompt": [%s]}' % b",".join([b"[1]"] * 341)
    with slow_readers(service, "/v1/logprobs", body, 4):
        assert ask(service, "/v1/logprobs", EIGHT_ROWS, KEYS["other"]).status_code == 200
        own = ask(service, "/v1/logprobs", EIGHT_ROWS)
        print("its own:", own.status_code, own.headers.get("retry-after"), own.text[:200] if own.is_error else "")
        assert own.status_code in (200, 429)
    assert ask(service, "/v1/logprobs", EIGHT_ROWS).status_code == 200


def test_slow_readers_of_checks_leave_room(service: Service) -> None:
    body = b'{"vocab": {"lang": "en", "n_words": 10}, "text": "%s"}' % (b"unlisted " * 20_000)
    with slow_readers(service, "/v1/vocabularies/check", body, 7) as seen:
        for key in (KEYS["other"], KEY):
            vocab = {"vocab": {"lang": "en", "n_words": 10}, "text": "a word"}
            found = httpx.post(
                f"{service.url}/v1/vocabularies/check", json=vocab, headers={"X-API-Key": key}, timeout=30
            )
            assert found.status_code == 200, found.text
        assert not any(one.done() for one in seen)
