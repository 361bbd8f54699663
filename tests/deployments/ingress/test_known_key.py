"""Row 75 of the faults: web pages, and names that resolve to loopback, against a service whose key everyone knows."""

from itertools import product
from typing import Any

import httpx

from deployments.ingress.app import create_app
from deployments.settings.keys import Key, digest_of
from deployments.settings.service import DEMO_TOKEN, Settings
from tests.deployments.front import CHAT, MODEL, Exchange, assert_error, chat_body, client_of
from tests.deployments.stand_in import StandIn

PAGE = "https://app.example.com"
REAL = "a-key-of-an-operator"
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


def demo(key: str = DEMO_TOKEN, *, origins: tuple[str, ...] = (), **settings: Any) -> httpx.AsyncClient:
    client = client_of(key=key, secret_token=key, demo=True, cors_origins=origins, **settings)
    client.base_url = "http://127.0.0.1:8000"
    return client


async def test_this_machines_own_names_are_answered() -> None:
    async with demo() as client:
        for host in LOCAL:
            for origin in ({}, {"Origin": f"http://{host.lower()}"}):
                answer = await client.post(CHAT, json=chat_body(), headers={"Host": host, **origin})
                assert answer.status_code == 200, answer.text


async def test_any_other_name_is_refused_everywhere_with_the_setting_to_change() -> None:
    async with demo(origins=("*",)) as client:
        for host, path in product(OTHERS, ("/health", "/v1/models", f"/v1/models?token={DEMO_TOKEN}", "/nothing")):
            error = assert_error(await client.get(path, headers={"Host": host}), 403, code="host_not_allowed")
            assert "SECRET_TOKEN" in error["message"]


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


async def test_nothing_of_the_body_is_read() -> None:
    app = create_app(Settings(model_id=MODEL, secret_token=DEMO_TOKEN, demo=True), StandIn())
    for headers in ({"host": "evil.test"}, {"origin": "null"}):
        exchange = Exchange(app, CHAT, chat_body(), DEMO_TOKEN, **headers)
        assert await exchange.read() == 403
        assert exchange.num_asked == 0


async def test_a_page_that_the_settings_name_may_ask() -> None:
    for origins in ((PAGE,), ("*",)):
        async with demo(origins=origins) as client:
            answer = await client.post(CHAT, json=chat_body(), headers={"Origin": PAGE})
            assert (answer.status_code, answer.headers["access-control-allow-origin"] in (PAGE, "*")) == (200, True)
            other = await client.post(CHAT, json=chat_body(), headers={"Origin": "https://other.example.com"})
            assert other.status_code == (200 if origins == ("*",) else 403)


async def test_with_a_key_of_ones_own_any_name_and_page_may_ask_as_behind_a_gateway() -> None:
    async with demo(REAL) as client:
        headers = {"Host": "words.example.com", "Origin": "https://words.example.com"}
        assert (await client.post(CHAT, json=chat_body(), headers=headers)).status_code == 200
        assert_error(await client.post(CHAT, headers={**headers, "X-API-Key": DEMO_TOKEN}), 401, code="invalid_api_key")


async def test_the_known_key_beside_others_is_as_known() -> None:
    keys = {"guest": Key(sha256=digest_of(DEMO_TOKEN.encode()))}
    async with demo(REAL, keys=keys) as client:
        assert_error(await client.get("/v1/models", headers={"Host": "evil.test"}), 403, code="host_not_allowed")
