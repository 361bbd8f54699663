"""Rows that were under way when an engine died: how often, and room for each of them to be tried alone.

Whoever dies with an engine cannot say so afterwards, so what begins is noted before, and struck out when it ends. Knows
nothing of engines or of what rows hold.
"""

import asyncio
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager


class Attempts:
    """How often each row was begun and did not end."""

    def __init__(self) -> None:
        self._begun: dict[str, int] = {}

    def begin_new(self, rows: Collection[str]) -> dict[str, int]:
        """Notes those that never began before; gives the others, with how often they were begun in vain."""
        suspects = {row: self._begun[row] for row in rows if row in self._begun}
        for row in rows:
            self._begun.setdefault(row, 1)
        return suspects

    def begin(self, row: str) -> None:
        """Notes one more attempt."""
        self._begun[row] = self._begun.get(row, 0) + 1

    def end(self, rows: Collection[str]) -> None:
        for row in rows:
            self._begun.pop(row, None)


class Gate:
    """Lets rows run together, or one alone; whoever wants to be alone waits for those inside, and holds back others."""

    def __init__(self) -> None:
        self._num_together = 0
        self._num_waiting_alone = 0
        self._is_alone = False
        self._changed = asyncio.Condition()

    @asynccontextmanager
    async def together(self) -> AsyncIterator[None]:
        async with self._changed:
            await self._changed.wait_for(lambda: not self._is_alone and not self._num_waiting_alone)
            self._num_together += 1
        try:
            yield
        finally:
            async with self._changed:
                self._num_together -= 1
                self._changed.notify_all()

    @asynccontextmanager
    async def alone(self) -> AsyncIterator[None]:
        async with self._changed:
            self._num_waiting_alone += 1
            try:
                await self._changed.wait_for(lambda: not self._is_alone and not self._num_together)
                self._is_alone = True
            finally:
                self._num_waiting_alone -= 1
                self._changed.notify_all()
        try:
            yield
        finally:
            async with self._changed:
                self._is_alone = False
                self._changed.notify_all()
