"""Clients that read slowly, against the running application."""

import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import Any
from urllib.parse import urlsplit

import httpx2
import pytest

from tests.e2e.service import KEY, KEYS, MODEL, Service

pytestmark = pytest.mark.e2e


def connect(service: Service) -> socket.socket:
    return socket.create_connection(("127.0.0.1", urlsplit(service.url).port or 80), timeout=60)


def ask(service: Service, path: str, body: dict[str, Any], key: str = KEY) -> httpx2.Response:
    return httpx2.post(f"{service.url}{path}", json={"model": MODEL, **body}, headers={"X-API-Key": key}, timeout=60)


def test_a_target_that_is_no_path_is_not_found(service: Service) -> None:
    with connect(service) as connection:
        connection.sendall(b"OPTIONS * HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        answer = b"".join(iter(lambda: connection.recv(65536), b""))
    assert answer.startswith(b"HTTP/1.1 404 "), answer


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
        seen: list[Any] = [pool.submit(reader.seconds_until_cut, 150.0) for reader in readers]
        print(f"{path}: {[reader.status for reader in readers]}")
        yield seen
        print(f"{path}: read for {[round(one.result()) for one in seen]} s")
        # 30 s, and what the kernels and HAProxy had of the answer: 0.6 MB.
        assert all(one.result() < 130 for one in seen)


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
            found = httpx2.post(
                f"{service.url}/v1/vocabularies/check", json=vocab, headers={"X-API-Key": key}, timeout=30
            )
            assert found.status_code == 200, found.text
        assert not any(one.done() for one in seen)
