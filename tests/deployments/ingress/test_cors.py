"""Web pages of other origins: which may ask from a browser, and what they may read."""

import httpx

from tests.deployments.front import CHAT, KEY, assert_error, chat_body, client_of

PAGE = "https://app.example.com"
PREFLIGHT = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization,x-stainless-os"}
ALLOWED = "access-control-allow-origin"


def client_of_page(*origins: str) -> httpx.AsyncClient:
    client = client_of(cors_origins=origins)
    client.headers["Origin"] = PAGE
    return client


async def test_by_default_no_page_may_ask() -> None:
    async with client_of_page() as client:
        assert_error(await client.options(CHAT, headers=PREFLIGHT), 401, code="invalid_api_key")
        answer = await client.get("/health")
        assert not [name for name in answer.headers if name.startswith("access-control-")]


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
        answers = [
            await client.post(CHAT, headers=key, json=chat_body()),
            await client.post(CHAT, headers=key, json=chat_body(stream=True)),
            await client.post(CHAT, headers=key, json=chat_body(n=0)),
            await client.post(CHAT, headers=key, json=chat_body("please fail")),
            await client.post(CHAT, json=chat_body()),
            await client.get("/nothing", headers=key),
            await client.post("/v1/logprobs", headers=key, json={"prompt": "a"}),
        ]
    assert [answer.status_code for answer in answers] == [200, 200, 400, 500, 401, 404, 200]
    for answer in answers:
        assert answer.headers[ALLOWED] == PAGE
        assert answer.headers["vary"] == "Origin"
        exposed = set(answer.headers["access-control-expose-headers"].lower().split(", "))
        # And what describes rows.
        assert {"x-request-id", "x-wordbound-shape", "x-wordbound-dtype", "x-wordbound-prompt-tokens"} <= exposed
        assert answer.headers["x-request-id"].startswith("req-")
    assert_error(answers[2], 400, param="n")


async def test_another_page_is_refused_and_reads_nothing() -> None:
    async with client_of_page("https://other.example.com") as client:
        refused = await client.options(CHAT, headers=PREFLIGHT)
        assert refused.status_code == 400
        answer = await client.get("/v1/models", headers={"X-API-Key": KEY})
        assert answer.status_code == 200
        assert ALLOWED not in {*refused.headers, *answer.headers}
