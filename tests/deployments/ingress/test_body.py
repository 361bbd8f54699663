"""Rows 7, 8, 9 of the faults: bodies that are too long, too slow, compressed, empty or of another kind."""

import gzip
import json
import socket
import time
from typing import Any

import pytest

from tests.deployments.front import CHAT, LIMITS, Front, assert_error, chat_body, raw_request

TOO_LONG = LIMITS.max_body_bytes + 1


def post(front: Front, body: bytes, *headers: bytes) -> tuple[int, bytes]:
    head = raw_request(CHAT, b"Content-Type: application/json", *headers, method="POST")
    return front.send_raw(head + body)


@pytest.mark.fault(8)
def test_a_body_that_says_it_is_too_long_is_refused_before_it_is_read(front: Front) -> None:
    status, answer = post(front, b"", b"Content-Length: %d" % TOO_LONG)
    assert status == 413
    assert b"bytes" in answer
    assert post(front, b"", b"Content-Length: " + b"9" * 30)[0] in (400, 413)


JSON, BOMB = "application/json", gzip.compress(b" " * 10_000_000)
FORMS = ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x")
REFUSED: list[tuple[Any, str, str, int]] = [
    ([b" " * 2**16] * (TOO_LONG // 2**16 + 1), JSON, "", 413),
    *((BOMB, JSON, encoding, 415) for encoding in ("gzip", "br", "deflate", "gzip, identity")),
    *((b"{}", kind, "", 415) for kind in ("", *FORMS)),
    *((blank, JSON, "", 400) for blank in (b"", b" \r\n\t")),
]
"""A body, in chunks or whole, what it says it is, how it says it is compressed, and the status."""


@pytest.mark.fault(8, 9)
def test_a_body_that_is_too_long_compressed_of_another_kind_or_empty_is_refused(front: Front) -> None:
    with front.client() as client:
        for content, kind, encoding, status in REFUSED:
            headers = {"Content-Type": kind, "Content-Encoding": encoding}
            assert_error(client.post(CHAT, content=content, headers=headers), status)
        for kind in ("application/json; charset=utf-8", "Application/JSON"):
            headers = {"Content-Type": kind}
            assert client.post(CHAT, content=json.dumps(chat_body()), headers=headers).status_code == 200


@pytest.mark.fault(8)
def test_a_body_shorter_than_it_says_never_reaches_the_graph(front: Front) -> None:
    status, _ = post(front, b'{"model"', b"Content-Length: 1000")
    assert status in (0, 400, 408)
    assert not front.backend.calls


@pytest.mark.fault(8)
def test_a_body_longer_than_it_says_is_cut_there(front: Front) -> None:
    body = json.dumps(chat_body()).encode()
    status, _ = post(front, body + b"GET /nothing HTTP/1.1\r\n\r\n", b"Content-Length: %d" % len(body))
    assert status in (0, 200, 400)
    assert len(front.backend.calls) <= 1


@pytest.mark.fault(7)
def test_a_body_that_trickles_is_cut_off_at_its_deadline_and_others_are_served(front: Front) -> None:
    head = raw_request(CHAT, b"Content-Type: application/json", b"Content-Length: 1000", method="POST")
    with socket.create_connection(("127.0.0.1", front.port), timeout=60) as connection:
        connection.sendall(head)
        start = time.monotonic()
        connection.sendall(b"{")
        assert front.chat().status_code == 200
        answer = connection.recv(65536)
        assert answer.startswith(b"HTTP/1.1 408 ")
        assert LIMITS.max_body_s * 0.9 < time.monotonic() - start < LIMITS.max_body_s + 20
    assert len(front.backend.calls) == 1
