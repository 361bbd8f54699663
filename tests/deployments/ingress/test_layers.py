"""Rows 1 to 4, 6 and 24 of the faults: the key, Host, headers, request ids, and one log line for each request."""

import logging

import pytest
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tests.deployments.front import (
    CHAT,
    KEY,
    KEYS,
    Front,
    app_of,
    assert_error,
    chat_body,
    client_of,
    raw_request,
    wait_until,
)

LOGGER = "ray.serve.wordbound"
UNKEYED = [
    {},
    {"Authorization": ""},
    {"Authorization": "Bearer"},
    {"Authorization": KEY},
    {"Authorization": f"Basic {KEY}"},
    {"Authorization": f"Bearer {KEY} {KEY}"},
    {"X-API-Key": ""},
]
OF_OURS = [KEY[:-1], f"{KEY}x", "default", KEY.upper(), "ключ"]
WRONG_KEYS = [*(key.encode() for key in OF_OURS), b"x", b"\xff\xfe", b"k" * 9000]


@pytest.mark.fault(1)
def test_a_request_without_a_key_is_unauthorized(front: Front) -> None:
    with front.client(key=None) as client:
        for headers in UNKEYED:
            response = client.get("/v1/models", headers=headers)
            assert_error(response, 401, code="invalid_api_key")
            assert response.headers["www-authenticate"] == "Bearer"


@pytest.mark.fault(2)
def test_every_wrong_key_gets_the_same_answer(front: Front) -> None:
    with front.client(key=None) as client:
        without = client.get("/v1/models")
        for key in WRONG_KEYS:
            for headers in ({b"Authorization": b"Bearer " + key}, {b"X-API-Key": key}):
                response = client.get("/v1/models", headers=headers)
                assert_error(response, 401, code="invalid_api_key")
                assert response.content == without.content


@pytest.mark.fault(2)
def test_a_wrong_key_of_a_megabyte_is_refused(front: Front) -> None:
    status, _ = front.send_raw(raw_request("/v1/models", b"Authorization: Bearer " + b"k" * 2**20, key=None))
    assert status in (400, 401)


def test_the_key_opens_in_each_header_and_health_needs_none(front: Front) -> None:
    with front.client(key=None) as client:
        for headers in ({"Authorization": f"Bearer {KEY}"}, {"authorization": f"bearer  {KEY}"}, {"X-API-Key": KEY}):
            assert client.get("/v1/models", headers=headers).status_code == 200
        assert [client.get(path).status_code for path in ("/health", "/ready")] == [200, 200]


def test_the_key_opens_in_the_query_and_is_logged_nowhere(front: Front, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    with front.client(key=None) as client:
        assert client.get("/v1/models", params={"token": KEY, "a": "b"}).status_code == 200
        assert client.get(f"/v1/models?%74oken={KEY}").status_code == 200
        assert client.post(CHAT, params={"token": KEY}, json=chat_body()).status_code == 200
        assert_error(client.get("/v1/nothing", params={"token": KEY}), 404)
        assert_error(client.get("/v1/models", params={"token": KEY + "x"}), 401, code="invalid_api_key")
    written = [record for record in caplog.records if not record.name.startswith("http")]
    assert any(record.name == "uvicorn.access" for record in written)
    assert not any(KEY in record.getMessage() for record in written)
    # Nor is one of a header, which no answer repeats.
    with front.client(key=None) as client:
        response = client.get("/v1/models", headers={"X-API-Key": "a-wrong-key"})
    assert "a-wrong-key" not in response.text
    assert not any("a-wrong-key" in record.getMessage() for record in caplog.records)


@pytest.mark.fault(3)
async def test_a_key_in_the_query_is_refused_where_the_setting_says_so_and_taken_out_all_the_same() -> None:
    queries = list[bytes]()

    def noted(app: ASGIApp) -> ASGIApp:
        async def note(scope: Scope, receive: Receive, send: Send) -> None:
            await app(scope, receive, send)
            queries.append(scope["query_string"])

        return note

    async with client_of(allow_query_token=False, around=noted) as client:
        assert_error(await client.get(f"/v1/models?a=1&token={KEY}&b=2"), 401, code="invalid_api_key")
        assert (await client.get(f"/health?token={KEY}")).status_code == 200
    assert queries == [b"a=1&b=2", b""]


def test_the_first_valid_key_of_a_request_names_its_owner(front: Front) -> None:
    other = KEYS["other"]
    for header, query, owner in ((other, "", "other"), ("wrong", other, "other"), (KEY, other, "default")):
        with front.client(key=None) as client:
            headers, params = {"X-API-Key": header}, {"token": query}
            assert client.post(CHAT, params=params, headers=headers, json=chat_body()).status_code == 200
        assert front.backend.calls[-1].caller.owner == owner


BAD_HOSTS = [b"a/b", b"a?b", b"a#b", b"u@a", b"a\\b", b"a b", b"", b"a:b", b"a:1:2", b"[::1", b"a,b", "é".encode()]
GOOD_HOSTS = [b"localhost", b"127.0.0.1:8000", b"example.org", b"[::1]:8000", b"my_service.internal:80"]


@pytest.mark.fault(4)
def test_a_host_that_is_none_is_refused(front: Front) -> None:
    for host in BAD_HOSTS:
        for target in ("/v1/models", "/health"):
            assert front.send_raw(raw_request(target, b"Host: " + host))[0] == 400, (host, target)


@pytest.mark.fault(4)
def test_two_hosts_are_refused(front: Front) -> None:
    status, _ = front.send_raw(raw_request("/v1/models", b"Host: localhost", b"Host: localhost"))
    assert status == 400


def test_a_host_with_or_without_a_port_is_served(front: Front) -> None:
    for host in GOOD_HOSTS:
        assert front.send_raw(raw_request("/v1/models", b"Host: " + host))[0] == 200, host


def logged(caplog: pytest.LogCaptureFixture, request_id: str) -> str:
    """The one line of a request; it is written when the answer has been sent."""

    def lines() -> list[str]:
        messages = [record.getMessage() for record in caplog.records if record.name == LOGGER]
        return [message for message in messages if request_id in message]

    wait_until(lambda: bool(lines()))
    (line,) = lines()
    return line


@pytest.mark.fault(24)
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


@pytest.mark.fault(23)
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

    await app_of()({"type": "websocket"}, receive, send)
    assert [message["type"] for message in sent] == ["websocket.close"]
