"""Web pages of other origins, which may ask where the settings name them; and row 75 of the faults: pages, and names
that resolve to loopback, against a service whose key everyone knows."""

from itertools import product
from typing import Any

import httpx2
import pytest

from deployments.settings.keys import Key, digest_of
from deployments.settings.service import DEMO_TOKEN
from tests.deployments.front import CHAT, KEY, Exchange, app_of, assert_error, chat_body, client_of

PAGE = "https://app.example.com"
PREFLIGHT = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization,x-stainless-os"}
ALLOWED = "access-control-allow-origin"


def client_of_page(*origins: str) -> httpx2.AsyncClient:
    client = client_of(cors_origins=origins)
    client.headers["Origin"] = PAGE
    return client


async def test_a_page_that_is_not_allowed_may_not_ask_and_reads_nothing() -> None:
    for origins, status in (((), 401), (("https://other.example.com",), 400)):
        async with client_of_page(*origins) as client:
            preflight = await client.options(CHAT, headers=PREFLIGHT)
            answer = await client.get("/v1/models", headers={"X-API-Key": KEY})
        assert (preflight.status_code, answer.status_code) == (status, 200)
        assert ALLOWED not in {*preflight.headers, *answer.headers}


async def test_a_page_that_is_allowed_may_ask_before_it_has_a_key() -> None:
    for origins in ((PAGE,), ("http://localhost:3000", PAGE), ("*",)):
        async with client_of_page(*origins) as client:
            answer = await client.options(CHAT, headers=PREFLIGHT)
            assert_error(await client.options(CHAT), 401, code="invalid_api_key")
        assert answer.status_code == 200
        assert answer.headers[ALLOWED] == (PAGE if "*" not in origins else "*")
        assert "POST" in answer.headers["access-control-allow-methods"]
        assert answer.headers["access-control-allow-headers"] == PREFLIGHT["Access-Control-Request-Headers"]
        # Keys are in headers, and a page must not send a browser's own credentials.
        assert "access-control-allow-credentials" not in answer.headers


async def test_such_a_page_reads_answers_errors_streams_and_the_id_of_each() -> None:
    async with client_of_page(PAGE) as client:
        key = {"X-API-Key": KEY}
        bodies = (chat_body(), chat_body(stream=True), chat_body(n=0), chat_body("please fail"))
        answers = [await client.post(CHAT, headers=key, json=body) for body in bodies]
        answers.append(await client.post(CHAT, json=chat_body()))
        answers.append(await client.get("/nothing", headers=key))
        answers.append(await client.post("/v1/logprobs", headers=key, json={"prompt": "a"}))
    assert [answer.status_code for answer in answers] == [200, 200, 400, 500, 401, 404, 200]
    for answer in answers:
        assert answer.headers[ALLOWED] == PAGE
        assert answer.headers["vary"] == "Origin"
        exposed = set(answer.headers["access-control-expose-headers"].lower().split(", "))
        # And what describes rows.
        assert {"x-request-id", "x-wordbound-shape", "x-wordbound-dtype", "x-wordbound-prompt-tokens"} <= exposed
        assert answer.headers["x-request-id"].startswith("req-")


LOCAL = [
    "localhost", "localhost:8000", "LocalHost:8000", "127.0.0.1:8000", "127.0.0.1", "[::1]:8000", "[::1]",
    "127.8.8.8",
]  # fmt: skip
OTHERS = [
    "evil.test", "evil.test:8000", "localhost.evil.test", "127.0.0.1.nip.io:8000", "localhost.", "app.localhost",
    "0.0.0.0:8000", "192.168.1.7", "[::]:8000", "[fe80::1]",
]  # fmt: skip
FOREIGN = [
    "null", "", PAGE, "http://127.0.0.1:3000", "http://127.0.0.1", "http://localhost:8000",
    "http://127.0.0.1:8000.evil.test", "HTTP://127.0.0.1:8000", "file://", "chrome-extension://abcdef",
]  # fmt: skip


def demo(key: str = DEMO_TOKEN, *, origins: tuple[str, ...] = (), **settings: Any) -> httpx2.AsyncClient:
    client = client_of(key=key, secret_token=key, demo=True, cors_origins=origins, **settings)
    client.base_url = "http://127.0.0.1:8000"
    return client


async def test_this_machines_own_names_and_the_pages_that_the_settings_name_are_answered() -> None:
    async with demo() as client:
        for host in LOCAL:
            for origin in ({}, {"Origin": f"http://{host.lower()}"}):
                answer = await client.post(CHAT, json=chat_body(), headers={"Host": host, **origin})
                assert answer.status_code == 200, answer.text
    for origins, other in (((PAGE,), 403), (("*",), 200)):
        async with demo(origins=origins) as client:
            answers = [
                await client.post(CHAT, json=chat_body(), headers={"Origin": origin})
                for origin in (PAGE, "https://other.example.com")
            ]
        assert [answer.status_code for answer in answers] == [200, other]
        assert answers[0].headers[ALLOWED] == origins[0]


async def test_any_other_name_is_refused_everywhere_with_the_setting_to_change() -> None:
    async with demo(origins=("*",)) as client:
        for host, path in product(OTHERS, ("/health", "/v1/models", f"/v1/models?token={DEMO_TOKEN}", "/nothing")):
            error = assert_error(await client.get(path, headers={"Host": host}), 403, code="host_not_allowed")
            assert "SECRET_TOKEN" in error["message"]


@pytest.mark.fault(75)
async def test_a_page_of_another_origin_is_refused_with_the_setting_that_names_it() -> None:
    async with demo() as client:
        for origin in FOREIGN:
            for path in (CHAT, f"{CHAT}?token={DEMO_TOKEN}", "/v1/documents/text"):
                answer = await client.post(path, json=chat_body(), headers={"Origin": origin})
                assert "cors_origins" in assert_error(answer, 403, code="origin_not_allowed")["message"]
            preflight = {"Origin": origin, "Access-Control-Request-Method": "POST"}
            assert (await client.options(CHAT, headers=preflight)).status_code == 403, origin
            both = [("Origin", "http://127.0.0.1:8000"), ("Origin", origin)]
            assert (await client.get("/v1/models", headers=both)).status_code == 403, origin


@pytest.mark.fault(75)
async def test_nothing_of_the_body_is_read() -> None:
    app = app_of(secret_token=DEMO_TOKEN, demo=True)
    for headers in ({"host": "evil.test"}, {"origin": "null"}):
        exchange = Exchange(app, CHAT, chat_body(), DEMO_TOKEN, **headers)
        assert await exchange.read() == 403
        assert exchange.num_asked == 0


async def test_with_a_key_of_ones_own_any_name_and_page_may_ask_unless_the_known_key_opens_too() -> None:
    headers = {"Host": "words.example.com", "Origin": "https://words.example.com"}
    async with demo(KEY) as client:
        assert (await client.post(CHAT, json=chat_body(), headers=headers)).status_code == 200
        assert_error(await client.post(CHAT, headers={**headers, "X-API-Key": DEMO_TOKEN}), 401, code="invalid_api_key")
    async with demo(KEY, keys={"guest": Key(sha256=digest_of(DEMO_TOKEN.encode()))}) as client:
        assert_error(await client.get("/v1/models", headers=headers), 403, code="host_not_allowed")
