"""What the replica puts around an answer."""

import asyncio
from collections.abc import AsyncGenerator

import pytest

from deployments.contract import Answer
from deployments.replica.deployment import within


class Script:
    """An answer that yields some items and then stalls."""

    def __init__(self, *items: Answer, stalls: bool) -> None:
        self._items = items
        self._stalls = stalls
        self.is_closed = False

    async def answer(self) -> AsyncGenerator[Answer]:
        try:
            for item in self._items:
                yield item
            if self._stalls:
                await asyncio.sleep(3600)
        finally:
            self.is_closed = True


async def test_an_answer_in_time_passes_unchanged() -> None:
    script = Script("one", "two", stalls=False)
    assert [item async for item in within(9, script.answer())] == ["one", "two"]
    assert script.is_closed


async def test_an_answer_that_takes_too_long_is_ended() -> None:
    script, seen = Script("one", stalls=True), []
    with pytest.raises(TimeoutError):
        async for item in within(0.05, script.answer()):
            seen.append(item)  # noqa: PERF401 - what came before the error counts
    assert seen == ["one"]
    assert script.is_closed


async def test_one_that_is_left_is_closed() -> None:
    script = Script("one", stalls=True)
    items = within(9, script.answer())
    assert await anext(items) == "one"
    await items.aclose()
    assert script.is_closed
