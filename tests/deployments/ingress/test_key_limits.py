"""What a key may do: its part of the service, its requests and its tokens."""

import itertools
import re
from collections.abc import AsyncIterator
from functools import partial
from typing import Any

import httpx2
import pytest
from starlette.routing import Route

from deployments.batch.api import add_batch_routes
from deployments.ingress.app import create_app
from deployments.settings.keys import Key, digest_of
from deployments.settings.limits import MAX_NEXT_ROWS, MAX_REWRITE_TOKENS
from deployments.settings.service import Settings
from tests.deployments.batch.direct import DirectBatches
from tests.deployments.front import CHAT, COMPLETIONS, KEY, LIMITS, MODEL, assert_error, chat_body, client_of
from tests.deployments.ingress.test_refusals import EXERCISES, GOOD, LOGPROBS, NEXT, REWRITE, SCORES, SWAP
from tests.deployments.stand_in import StandIn

TEXT = "x" * 388
"""Its message takes 420 characters as JSON: 105 tokens, as they are estimated."""
KEYS = {
    "default": Key(),
    "few": Key(sha256=digest_of(b"few"), requests_per_minute=3),
    "cheap": Key(sha256=digest_of(b"cheap"), tokens_per_minute=1000),
    "bulk": Key(sha256=digest_of(b"bulk"), use="batches"),
}


@pytest.fixture
async def client() -> AsyncIterator[httpx2.AsyncClient]:
    async with client_of(keys=KEYS) as client:
        yield client


async def chat(client: httpx2.AsyncClient, key: str, **fields: Any) -> httpx2.Response:
    return await client.post(CHAT, headers={"X-API-Key": key}, json=chat_body(**fields))


async def get(client: httpx2.AsyncClient, path: str, key: str) -> httpx2.Response:
    return await client.get(path, headers={"X-API-Key": key})


def rates_of(response: httpx2.Response) -> dict[str, str]:
    return {name: value for name, value in response.headers.items() if name.startswith("x-ratelimit-")}


async def test_requests_beyond_the_rate_are_refused_and_told_when_to_come_back(client: httpx2.AsyncClient) -> None:
    answers = [await get(client, "/v1/models", "few"), await chat(client, "few", n=-1), await chat(client, "few")]
    assert [answer.status_code for answer in answers] == [200, 400, 200]
    assert [rates_of(answer)["x-ratelimit-remaining-requests"] for answer in answers] == ["2", "1", "0"]
    refused = await chat(client, "few")
    assert refused.status_code == 429
    error = refused.json()["error"]
    assert (error["type"], error["code"]) == ("requests", "rate_limit_exceeded")
    assert 1 <= int(refused.headers["retry-after"]) <= 60
    assert rates_of(refused) == {
        "x-ratelimit-limit-requests": "3",
        "x-ratelimit-remaining-requests": "0",
        "x-ratelimit-reset-requests": f"{refused.headers['retry-after']}s",
    }
    # Another key, and what needs none.
    other = await chat(client, KEY)
    assert (other.status_code, rates_of(other)) == (200, {})
    assert (await client.get("/health")).status_code == 200


async def test_tokens_are_those_that_a_chat_may_take(client: httpx2.AsyncClient) -> None:
    first = await chat(client, "cheap", text=TEXT, max_tokens=400)
    assert first.status_code == 200
    assert rates_of(first)["x-ratelimit-remaining-tokens"] == str(1000 - 400 - 105)
    refused = await chat(client, "cheap", text=TEXT, max_tokens=200, n=2)
    assert refused.status_code == 429
    assert refused.json()["error"]["type"] == "tokens"
    assert rates_of(refused)["x-ratelimit-remaining-tokens"] == "495"
    assert (await chat(client, "cheap", text=TEXT, max_tokens=300)).status_code == 200


async def test_what_each_route_may_take_is_charged_to_the_tokens_of_its_key() -> None:
    rate, text = 10**9, "x" * 398
    """The text has 400 characters as JSON: 100 tokens, as they are estimated."""
    place, wide = {"start": 0, "end": 1}, {"num_items": 5, "kinds": ["order", "gap_fill"]}
    costs: list[tuple[str, dict[str, Any], int]] = [
        (COMPLETIONS, {"prompt": text, "max_tokens": 30}, 100 + 30),
        (COMPLETIONS, {"prompt": [text, text], "max_tokens": 30}, 2 * 130),
        (COMPLETIONS, {"prompt": [1, 2, 3], "max_tokens": 30}, 3 + 30),
        (COMPLETIONS, {"prompt": [[1, 2], [3]], "max_tokens": 30}, 3 + 2 * 30),
        (LOGPROBS, {"prompt": [[1, 2], [3, 4, 5]]}, 5),
        (SCORES, {"prompt": [1, 2], "token_ids": [3]}, 3),
        (NEXT, {"text": "a" * 400}, 100 + MAX_NEXT_ROWS),
        (SWAP, {"text": "a" + " " * 9998 + "a", **place}, 22_500 + MAX_NEXT_ROWS),
        (REWRITE, {"text": "a" * 100}, 5_000),
        (REWRITE, {"text": "a" + " " * 19_998 + "a"}, MAX_REWRITE_TOKENS),
        (EXERCISES, {"text": "a", **wide}, 20_000),
    ]
    rich = {"rich": Key(sha256=digest_of(b"rich"), tokens_per_minute=rate)}
    for path, fields, cost in costs:
        async with client_of(key="rich", keys=rich) as client:
            answer = await client.post(path, json={**GOOD[path], **fields})
        assert answer.status_code == 200, answer.text
        assert rate - int(rates_of(answer)["x-ratelimit-remaining-tokens"]) == cost, path


async def test_a_request_that_the_rate_never_allows_names_what_to_make_smaller(client: httpx2.AsyncClient) -> None:
    for path, fields, param in (
        (CHAT, {"max_tokens": 100, "best_of": 10, "vocab": {"lang": "en"}}, "max_tokens"),
        (LOGPROBS, {"prompt": [list(range(1000)), [3]]}, "prompt"),
        (NEXT, {"text": "a" * 4000}, "text"),
    ):
        too_much = await client.post(path, headers={"X-API-Key": "cheap"}, json={**GOOD[path], **fields})
        assert_error(too_much, 400, param=param)


PARTS: dict[str | None, set[str]] = {
    "chat": {
        *("/v1/chat/completions", "/v1/completions", "/generate", "/tokenize", "/detokenize"),
        *("/v1/logprobs", "/v1/token_logprobs", "/v1/tokens"),
        *(f"/v1/vocabularies/{tool}" for tool in ("next", "swap", "rewrite", "exercises")),
        *("/v1/documents", "/v1/documents/worksheet", "/v1/documents/text"),
    },
    "batches": {
        *("/v1/files", "/v1/files/{file_id}", "/v1/files/{file_id}/content"),
        *("/v1/batches", "/v1/batches/{batch_id}", "/v1/batches/{batch_id}/cancel"),
        *("/v1/batch/jobs", "/v1/batch/jobs/{job_id}", "/v1/batch/jobs/{job_id}/results"),
    },
    # Of any key.
    None: {
        *("/health", "/ready", "/v1/models", "/v1/models/{name:path}"),
        *("/v1/vocabularies", "/v1/vocabularies/{list_id}/words", "/v1/vocabularies/check"),
        "/v1/vocabularies/read",
        *("/v1/load_lora_adapter", "/v1/unload_lora_adapter"),
        *("/openapi.json", "/docs", "/docs/swagger-ui.css", "/docs/swagger-ui-bundle.js"),
    },
}
"""The part of the service that each route belongs to: a new route needs a line here."""


async def test_every_route_is_for_its_part_of_the_service_alone() -> None:
    keys = {name: Key(sha256=digest_of(name.encode()), use=name, operator=True) for name in ("chat", "batches")}
    settings = Settings(model_id=MODEL, secret_token=KEY, keys=keys, limits=LIMITS)
    app = create_app(settings, StandIn(), [partial(add_batch_routes, settings=settings, batches=DirectBatches())])
    routes = {route.path: route.methods for route in app.routes if isinstance(route, Route)}
    assert routes.keys() == set.union(*PARTS.values())
    refused: dict[str, dict[str, set[str]]] = {"chat": {}, "batches": {}}
    transport = httpx2.ASGITransport(app)
    async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as client:
        for path, methods in routes.items():
            asked = re.sub(r"{[a-z_]+(:path)?}", "x", path)
            for key, method in itertools.product(keys, (methods or set()) - {"HEAD"}):
                answer = await client.request(method, asked, headers={"X-API-Key": key}, json={})
                # The route is really there.
                assert answer.status_code != 405, (method, asked)
                if answer.status_code == 403:
                    error = assert_error(answer, 403, code="insufficient_permissions")
                    assert error["message"] == f"This key is for {key} alone. Use another for this path."
                    refused[key].setdefault(path, set()).add(method)
    assert refused["chat"] == {path: routes[path] for path in PARTS["batches"]}
    assert refused["batches"] == {path: routes[path] for path in PARTS["chat"]}
