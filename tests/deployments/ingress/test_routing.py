"""Rows 5 and 9 of the faults: paths and methods; and the places of requests."""

import asyncio
import json
from typing import Any

import httpx2
import pytest

from deployments.ingress.app import create_app
from deployments.ingress.vocabularies import CHECKS_AT_ONCE
from deployments.settings.keys import Key, digest_of
from deployments.settings.service import Settings
from tests.deployments.front import (
    CHAT,
    COMPLETIONS,
    KEY,
    KEY_SETTINGS,
    KEYS,
    MODEL,
    Exchange,
    Front,
    assert_error,
    chat_body,
    client_of,
    completion_body,
    raw_request,
)
from tests.deployments.ingress.test_refusals import CHECK, GOOD, LOGPROBS
from tests.deployments.stand_in import StandIn

SMALL: dict[str, Any] = {
    "keys": {**KEY_SETTINGS, "third": Key(sha256=digest_of(b"third-key"))},
    "max_sequences": 2,
    "max_queued_requests": 2,
}
"""Of a service that takes four requests at once."""

UNKNOWN_TARGETS = [
    "/", "//v1/models", "/v1//models", "/v1/../metrics", "/v1/./models", "/%2e%2e/v1/models", "/v1/%6dodels",
    "/%68ealth", "/V1/models", "/v1/Models", "/v1/models;a", "/health/", "/health/x", "/v1/chat/completions/",
    "/v1/chat", "/invocations", "/pause", "/metrics", "/docs/", "/docs/index.html", "/docs/NOTICE", "/redoc",
    "/v1/embeddings", "/v1/models%2F", "/favicon.ico", "/v1/vocabularies/../en/words", "/v1/vocabularies/en.txt/words",
    "/v1/vocabularies/en", "/v1/models/", "/v1/models/../models", "/v1/models/%0a", "/v1/models/%2e%2e/x",
]  # fmt: skip


@pytest.mark.fault(5)
def test_a_path_that_is_not_listed_is_unauthorized_without_the_key_and_not_found_with_it(front: Front) -> None:
    for target in UNKNOWN_TARGETS:
        assert front.send_raw(raw_request(target, key=None))[0] == 401, target
        status, answer = front.send_raw(raw_request(target))
        assert status == 404, target
        assert json.loads(answer.partition(b"\r\n\r\n")[2])["error"]["type"] == "invalid_request_error"


@pytest.mark.fault(9)
def test_a_wrong_method_is_refused_and_the_right_one_named(front: Front) -> None:
    for method, path, allowed in (
        ("GET", CHAT, "POST"),
        ("PUT", CHAT, "POST"),
        ("POST", "/v1/models", "GET"),
        ("DELETE", f"/v1/models/{MODEL}", "GET"),
        ("POST", "/health", "GET"),
        ("OPTIONS", CHAT, "POST"),
        ("PATCH", "/v1/models", "GET"),
    ):
        with front.client() as client:
            response = client.request(method, path)
        assert_error(response, 405)
        assert response.headers["allow"] == allowed
    # An answer to HEAD has no body.
    status, answer = front.send_raw(raw_request("/v1/models", method="HEAD"))
    assert status == 405
    assert answer.endswith(b"\r\n\r\n")


async def test_a_place_is_free_when_the_answer_has_been_made_and_before_it_is_read() -> None:
    """More answers are made than a key has places, while nobody reads them; those of rows free theirs at the start."""
    app, exchanges = create_app(Settings(model_id=MODEL, secret_token=KEY, **SMALL), StandIn()), list[Exchange]()
    for path in [CHAT, LOGPROBS] * 3 + [CHECK] * (CHECKS_AT_ONCE * 3 // 4 + 1):
        exchanges.append(Exchange(app, path, GOOD[path]))
        assert await asyncio.wait_for(exchanges[-1].status, 30) == 200
    assert not any(one.task.done() for one in exchanges)
    assert {await one.read() for one in exchanges} == {200}


async def test_no_more_requests_to_some_paths_at_once_than_configured() -> None:
    """A key has three quarters of them, and who finds none is told to come back."""
    backend = StandIn()
    async with client_of(backend, **SMALL) as client:

        def ask(key: str, path: str = CHAT, text: str = "please stall") -> asyncio.Task[httpx2.Response]:
            body = chat_body(text) if path == CHAT else completion_body(text)
            return asyncio.create_task(client.post(path, headers={"X-API-Key": key}, json=body))

        async def has_calls(number: int) -> None:
            while len(backend.calls) < number:  # noqa: ASYNC110 - the stand-in tells nobody
                await asyncio.sleep(0.01)

        stalled = [ask(KEY) for _ in range(3)]
        await has_calls(3)
        assert_error(await ask(KEY), 429, code="too_many_requests")
        stalled.append(ask(KEYS["other"], COMPLETIONS))
        await has_calls(4)
        refused = await ask("third-key")
        assert_error(refused, 503, code="overloaded")
        assert refused.headers["retry-after"]
        assert (await client.get("/health")).status_code == 200
        for task in stalled:
            task.cancel()
        await asyncio.gather(*stalled, return_exceptions=True)
        assert (await ask(KEY, text="Hello")).status_code == 200
