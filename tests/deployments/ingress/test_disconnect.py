import asyncio

import pytest
from starlette.types import Message

from deployments.ingress.answers import ClientLeft, unless_client_leaves


class Client:
    """A client that leaves when told to."""

    def __init__(self) -> None:
        self.left = asyncio.Event()

    async def receive(self) -> Message:
        await self.left.wait()
        return {"type": "http.disconnect"}


async def test_work_is_done_while_the_client_stays() -> None:
    assert await unless_client_leaves(Client().receive, asyncio.sleep(0, "done")) == "done"


async def test_an_error_of_the_work_is_passed_on() -> None:
    async def fail() -> None:
        raise KeyError("x")

    with pytest.raises(KeyError):
        await unless_client_leaves(Client().receive, fail())


async def test_work_has_ended_when_it_is_said_that_the_client_left() -> None:
    client = Client()
    has_ended = False

    async def work() -> None:
        nonlocal has_ended
        try:
            client.left.set()
            await asyncio.sleep(3600)
        finally:
            await asyncio.sleep(0)
            has_ended = True

    with pytest.raises(ClientLeft):
        await unless_client_leaves(client.receive, work())
    assert has_ended


async def test_work_stops_when_its_caller_is_cancelled() -> None:
    has_ended = False

    async def work() -> None:
        nonlocal has_ended
        try:
            await asyncio.sleep(3600)
        finally:
            has_ended = True

    task = asyncio.create_task(unless_client_leaves(Client().receive, work()))
    await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert has_ended
