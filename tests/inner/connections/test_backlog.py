"""What waits of streams whose clients read slowly."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing

import pytest

from deployments.errors import OverloadedError
from deployments.ingress.connections.budgets import Backlog


class Source:
    """Makes events of ten bytes, as many as it is let."""

    def __init__(self, num_events: int, *, fails: bool = False) -> None:
        self.num_events = num_events
        self.num_made = 0
        self.is_closed = False
        self._fails = fails

    async def events(self) -> AsyncGenerator[str]:
        try:
            while self.num_made < self.num_events:
                self.num_made += 1
                yield f"{self.num_made:08}\n\n"
                await asyncio.sleep(0)
            if self._fails:
                raise KeyError("broken")
        finally:
            self.is_closed = True

    def text(self) -> bytes:
        return b"".join(b"%08d\n\n" % number for number in range(1, self.num_events + 1))


async def settle() -> None:
    for _ in range(2000):
        await asyncio.sleep(0)


async def rest_of(bodies: AsyncGenerator[bytes]) -> bytes:
    return b"".join([body async for body in bodies])


async def test_events_come_in_order_and_those_that_waited_are_one() -> None:
    source = Source(100)
    async with aclosing(Backlog().read(source.events())) as bodies:
        first = await anext(bodies)
        assert first == source.text()[:10]
        await settle()
        assert source.num_made == 100
        assert await anext(bodies) == source.text()[10:]
        assert [body async for body in bodies] == []
    # One that is read in time may have any length.
    source = Source(1000)
    async with aclosing(Backlog(max_bytes=100).read(source.events())) as bodies:
        assert await rest_of(bodies) == source.text()
    # An error comes after the events before it.
    source = Source(3, fails=True)
    async with aclosing(Backlog().read(source.events())) as bodies:
        await anext(bodies)
        await settle()
        assert await anext(bodies) == source.text()[10:]
        with pytest.raises(KeyError, match="broken"):
            await anext(bodies)


@pytest.mark.fault(37)
async def test_where_too_much_waits_the_stream_with_the_most_is_given_up() -> None:
    backlog = Backlog(max_bytes=1000)
    slow, slower = Source(40), Source(10**9)
    async with aclosing(backlog.read(slow.events())) as some, aclosing(backlog.read(slower.events())) as most:
        assert await anext(some) + await anext(most) == 2 * slow.text()[:10]
        await settle()
        assert slower.is_closed
        assert slower.num_made < 100
        with pytest.raises(OverloadedError, match="too slowly"):
            await anext(most)
        assert await rest_of(some) == slow.text()[10:]


async def test_a_stream_that_nobody_wants_any_more_leaves_nothing() -> None:
    backlog = Backlog(max_bytes=1000)
    for _ in range(10):
        left = Source(90)
        async with aclosing(backlog.read(left.events())) as bodies:
            await anext(bodies)
            await settle()
        assert left.is_closed
    whole = Source(90)
    async with aclosing(backlog.read(whole.events())) as bodies:
        await anext(bodies)
        await settle()
        assert await rest_of(bodies) == whole.text()[10:]
