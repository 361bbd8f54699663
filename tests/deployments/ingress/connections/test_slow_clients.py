"""What clients that do not read their answers leave to others, in the whole application."""

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import numpy as np
from starlette.types import ASGIApp, Message

from deployments.contract import ReplicaRequest
from deployments.ingress.app import create_app
from deployments.ingress.vocabularies import CHECKS_AT_ONCE
from deployments.settings.limits import Limits
from deployments.settings.service import Settings
from tests.deployments.front import KEY, KEY_SETTINGS, KEYS, MODEL
from tests.deployments.stand_in import StandIn

CHECK = "/v1/vocabularies/check"
CHECKED = {"vocab": {"lang": "en", "n_words": 10}, "text": "a word"}
LOGPROBS = "/v1/logprobs"


class LargeRows(StandIn):
    """Says that its rows are as many bytes as a request may ask for."""

    async def answer(self, request: ReplicaRequest) -> AsyncGenerator[Any]:
        yield {"shape": [1, Limits().max_rows_bytes // 4], "vocab_size": 10, "prompt_tokens": 1}
        yield np.zeros((1, 10), np.float32)


class Exchange:
    """A request whose client takes the head of its answer, and the body when it ``reads``."""

    def __init__(self, app: ASGIApp, path: str, body: dict[str, Any], key: str) -> None:
        self.status = asyncio.get_running_loop().create_future()
        self.reads = asyncio.Event()
        headers = {"host": "a", "x-api-key": key, "content-type": "application/json"}
        scope = {
            "type": "http",
            "method": "POST",
            "path": path,
            "raw_path": path.encode(),
            "query_string": b"",
            "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
        }
        self._sent = [{"type": "http.request", "body": json.dumps(body).encode(), "more_body": False}]
        self.task = asyncio.ensure_future(app(scope, self._receive, self._send))

    async def _receive(self) -> Message:
        if not self._sent:
            await asyncio.sleep(3600)
        return self._sent.pop()

    async def _send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status.set_result(message["status"])
        else:
            await self.reads.wait()


@asynccontextmanager
async def slow_clients(app: ASGIApp, path: str, body: dict[str, Any], num: int) -> AsyncIterator[list[int]]:
    """Yield the statuses of requests of one key whose answers nobody reads before the end."""
    exchanges = [Exchange(app, path, body, KEY) for _ in range(num)]
    async with asyncio.timeout(60):
        yield [await one.status for one in exchanges]
        for one in exchanges:
            one.reads.set()
        await asyncio.gather(*(one.task for one in exchanges))


async def ask(app: ASGIApp, path: str, body: dict[str, Any], key: str) -> int:
    exchange = Exchange(app, path, body, key)
    exchange.reads.set()
    await exchange.task
    status: int = exchange.status.result()
    return status


def application(backend: StandIn) -> ASGIApp:
    return create_app(Settings(model_id=MODEL, secret_token=KEY, keys=KEY_SETTINGS), backend)


async def test_checks_whose_answers_nobody_reads_hold_no_place() -> None:
    app = application(StandIn())
    statuses = []
    for _ in range(2):
        # No more at once than may be worked on.
        async with (
            slow_clients(app, CHECK, CHECKED, CHECKS_AT_ONCE // 2) as some,
            slow_clients(app, CHECK, CHECKED, CHECKS_AT_ONCE // 2) as others,
        ):
            statuses += some + others
            assert [await ask(app, CHECK, CHECKED, key) for key in (KEY, KEYS["other"])] == [200, 200]
    assert statuses == 2 * CHECKS_AT_ONCE * [200]


async def test_rows_that_nobody_reads_leave_room_to_other_keys_and_none_to_their_own_until_they_are_read() -> None:
    app, body = application(LargeRows()), {"prompt": "a"}
    async with slow_clients(app, LOGPROBS, body, 4) as statuses:
        assert sorted(statuses) == [200, 200, 200, 429]
        assert await ask(app, LOGPROBS, body, KEYS["other"]) == 200
        assert await ask(app, LOGPROBS, body, KEY) == 429
    assert await ask(app, LOGPROBS, body, KEY) == 200
