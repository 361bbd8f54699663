"""Row 24 of the faults: request ids, and one log line for each request."""

import logging

import pytest
from starlette.types import Message

from deployments.ingress.app import create_app
from deployments.settings.service import Settings
from tests.deployments.front import CHAT, KEY, KEYS, MODEL, Front, chat_body, raw_request, wait_until
from tests.deployments.stand_in import StandIn

LOGGER = "ray.serve.wordbound"


def logged(caplog: pytest.LogCaptureFixture, request_id: str) -> str:
    """The one line of a request; it is written when the answer has been sent."""

    def lines() -> list[str]:
        messages = [record.getMessage() for record in caplog.records if record.name == LOGGER]
        return [message for message in messages if request_id in message]

    wait_until(lambda: bool(lines()))
    (line,) = lines()
    return line


def test_the_server_makes_its_own_request_id(front: Front) -> None:
    sent, ids = ["mine", "mine", "x" * 10_240, "a\tb", ""], list[str]()
    with front.client() as client:
        for own in sent:
            [request_id] = client.get("/v1/models", headers={"X-Request-Id": own}).headers.get_list("x-request-id")
            ids.append(request_id)
    assert all(one.startswith("req-") for one in ids)
    assert len(set(ids)) == len(sent)
    # The replica gets the same.
    response = front.chat(request_id="mine")
    assert response.headers["x-request-id"] == front.backend.calls[0].caller.request_id


def test_every_request_is_one_log_line_that_names_its_id_and_its_keys_owner_and_never_the_key(
    front: Front, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "ray.serve")
    for response in (front.chat(), front.chat(b"{"), front.get("/nothing"), front.chat(stream=True)):
        line = logged(caplog, response.headers["x-request-id"])
        assert line.startswith("req-")
        assert f" {response.status_code} " in line
    for key, owner in ((KEY, "default"), (KEYS["other"], "other"), ("no-key-of-ours", "-"), (None, "-")):
        with front.client(key) as client:
            for path in ("/v1/models", "/nothing", "/health"):
                line = logged(caplog, client.get(path).headers["x-request-id"])
                assert line.split()[1:4] == [owner, "GET", path]
        assert key is None or key not in caplog.text


def test_what_breaks_is_logged_with_its_cause_and_the_owner_of_the_key(
    front: Front, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, LOGGER)
    with front.client(KEYS["other"]) as client:
        failed = client.post(CHAT, json=chat_body("please fail"))
        record = next(record for record in caplog.records if record.exc_info)
        assert failed.headers["x-request-id"] in record.getMessage()
        assert "secret" in caplog.text
        client.post(CHAT, json=chat_body("please fail later", stream=True))
    lines = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    assert ["failed" in line or "broke off" in line for line in lines] == [True, True]
    assert all(" of other " in line for line in lines)


def test_a_log_line_is_one_short_line_whatever_the_path(front: Front, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, LOGGER)
    _, answer = front.send_raw(raw_request("/v1/models/%0d%0aINJECTED" + "x" * 10_000))
    raw_id = answer.lower().partition(b"x-request-id: ")[2].partition(b"\r\n")[0].decode()
    for request_id in (raw_id, front.chat(model="a\r\nINJECTED" + "x" * 10_000).headers["x-request-id"]):
        line = logged(caplog, request_id)
        assert len(line) < 200
        assert line.isprintable()


async def test_a_websocket_is_closed() -> None:
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    async def receive() -> Message:
        return {"type": "websocket.connect"}

    await create_app(Settings(model_id=MODEL, secret_token=KEY), StandIn())({"type": "websocket"}, receive, send)
    assert [message["type"] for message in sent] == ["websocket.close"]
