"""Rows 1, 2, 3 of the faults: the key."""

import logging

import pytest
from starlette.types import ASGIApp, Receive, Scope, Send

from tests.deployments.front import CHAT, KEY, KEYS, Front, assert_error, chat_body, client_of, raw_request

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


def test_a_request_without_a_key_is_unauthorized(front: Front) -> None:
    with front.client(key=None) as client:
        for headers in UNKEYED:
            response = client.get("/v1/models", headers=headers)
            assert_error(response, 401, code="invalid_api_key")
            assert response.headers["www-authenticate"] == "Bearer"


def test_every_wrong_key_gets_the_same_answer(front: Front) -> None:
    with front.client(key=None) as client:
        without = client.get("/v1/models")
        for key in WRONG_KEYS:
            for headers in ({b"Authorization": b"Bearer " + key}, {b"X-API-Key": key}):
                response = client.get("/v1/models", headers=headers)
                assert_error(response, 401, code="invalid_api_key")
                assert response.content == without.content


def test_a_wrong_key_of_a_megabyte_is_refused(front: Front) -> None:
    status, _ = front.send_raw(raw_request("/v1/models", b"Authorization: Bearer " + b"k" * 2**20, key=None))
    assert status in (400, 401, 431)


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
