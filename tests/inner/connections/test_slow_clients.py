"""What clients that do not read their answers leave to others, in the whole application."""

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import numpy as np
import pytest

from deployments.contract import ReplicaRequest
from deployments.settings.keys import Key, digest_of
from deployments.settings.limits import Limits
from tests.deployments.front import KEY, KEY_SETTINGS, KEYS, Exchange, app_of
from tests.deployments.stand_in import StandIn


class LargeRows(StandIn):
    """Says that its rows are as many bytes as a request may ask for."""

    async def answer(self, request: ReplicaRequest) -> AsyncGenerator[Any]:
        yield {"shape": [1, Limits().max_rows_bytes // 4], "prompt_tokens": 1}
        yield np.zeros((1, 10), np.float32)


@pytest.mark.fault(59)
async def test_rows_that_nobody_reads_leave_room_to_other_keys_and_none_to_their_own_until_they_are_read() -> None:
    keys = {**KEY_SETTINGS, "third": Key(sha256=digest_of(b"third-key"))}
    app = app_of(LargeRows(), keys=keys, limits=Limits())

    def ask(key: str = KEY) -> Exchange:
        return Exchange(app, "/v1/logprobs", {"prompt": "a"}, key)

    unread = [ask() for _ in range(4)]
    async with asyncio.timeout(60):
        assert sorted([await one.status for one in unread]) == [200, 200, 200, 429]
        assert [await ask(KEYS["other"]).read(), await ask().read()] == [200, 429]
        # Four answers are all that may wait.
        unread.append(ask(KEYS["other"]))
        assert [await unread[-1].status, await ask("third-key").read()] == [200, 503]
        for one in unread:
            await one.read()
        assert await ask().read() == 200
