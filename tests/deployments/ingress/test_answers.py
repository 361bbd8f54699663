"""Rows 36 and 38 of the faults, at the front: answers whole and streamed, that fail, and that nobody waits for."""

import json
import socket
from typing import Any

import pytest

from tests.deployments.front import CHAT, Front, assert_error, chat_body, raw_request, wait_until
from tests.deployments.ingress.test_refusals import LOGPROBS, TOOLS, wishing
from tests.deployments.stand_in import WORDS


def events(text: str) -> list[Any]:
    assert text.endswith("\n\n")
    lines = text.removesuffix("\n\n").split("\n\n")
    assert all(line.startswith("data: ") for line in lines)
    return [line if line == "data: [DONE]" else json.loads(line.removeprefix("data: ")) for line in lines]


def test_an_answer_is_one_json_object_and_a_stream_is_events_that_end_in_done(front: Front) -> None:
    response = front.chat()
    assert response.status_code == 200
    assert response.headers["content-type"] == "application/json"
    assert response.json()["choices"][0]["message"]["content"] == "".join(WORDS)
    response = front.chat(stream=True)
    assert response.status_code == 200
    assert response.headers["content-type"].startswith("text/event-stream")
    assert response.headers["cache-control"] == "no-cache"
    *chunks, done = events(response.text)
    assert "".join(chunk["choices"][0]["delta"]["content"] for chunk in chunks) == "".join(WORDS)
    assert done == "data: [DONE]"


def test_a_stream_arrives_while_it_is_made(front: Front) -> None:
    with front.client() as client:
        with client.stream("POST", CHAT, json=chat_body("please stall later", stream=True)) as response:
            assert WORDS[0].strip() in next(response.iter_text())
        wait_until(lambda: front.backend.calls[0].is_closed)


@pytest.mark.fault(38)
@pytest.mark.parametrize("stream", [False, True])
def test_an_error_before_the_first_word_has_its_own_status(front: Front, stream: bool) -> None:
    refused = front.chat(text="please refuse", stream=stream)
    assert assert_error(refused, 400, code="context_length_exceeded")["message"] == "Too long."
    failed = front.chat(text="please fail", stream=stream)
    error = assert_error(failed, 500, code="internal_error")
    assert failed.headers["x-request-id"] in error["message"]
    assert "secret" not in failed.text
    busy = front.chat(text="please be busy", stream=stream)
    assert_error(busy, 503, code="overloaded")
    assert busy.headers["retry-after"] == "1"
    assert_error(front.chat(text="please say nothing", stream=stream), 500, code="internal_error")
    assert all(call.is_closed for call in front.backend.calls)


@pytest.mark.fault(38)
@pytest.mark.parametrize(
    ("wish", "kind"),
    [
        ("please fail later", "server_error"),
        ("please refuse later", "invalid_request_error"),
        ("please break off", "server_error"),
    ],
)
def test_a_stream_that_breaks_off_ends_in_one_error_and_is_never_done(front: Front, wish: str, kind: str) -> None:
    response = front.chat(text=wish, stream=True)
    assert response.status_code == 200
    first, *_, last = events(response.text)
    assert "choices" in first
    assert last["error"]["type"] == kind
    assert response.text.count('"error"') == 1
    assert "[DONE]" not in response.text
    assert "secret" not in response.text


def assert_work_stops_when_the_client_leaves(front: Front, path: str, fields: dict[str, Any]) -> None:
    calls, body = front.backend.calls, json.dumps(fields).encode()
    calls.clear()
    head = raw_request(path, b"Content-Type: application/json", b"Content-Length: %d" % len(body), method="POST")
    with socket.create_connection(("127.0.0.1", front.port), timeout=10) as connection:
        connection.sendall(head + body)
        wait_until(lambda: bool(calls))
        assert not calls[0].is_closed
    wait_until(lambda: calls[0].is_closed)


@pytest.mark.fault(36)
def test_work_stops_when_the_client_leaves(front: Front) -> None:
    for wish, stream in (("please stall", False), ("please stall", True), ("please stall later", True)):
        assert_work_stops_when_the_client_leaves(front, CHAT, chat_body(wish, stream=stream))
    for path in (LOGPROBS, *TOOLS):
        assert_work_stops_when_the_client_leaves(front, path, wishing(path, "please stall"))
