"""How much of an engine batches may use at once. Counts sequences, and knows neither engine nor lines."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class Share:
    """A number of places, given out in the order in which they were asked for.

    Args:
        num_places: Sequences that may run at once.
    """

    def __init__(self, num_places: int) -> None:
        self._num_places = num_places
        self._num_free = num_places
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()

    @property
    def num_taken(self) -> int:
        return self._num_places - self._num_free

    @asynccontextmanager
    async def take(self, num_places: int) -> AsyncIterator[None]:
        """Holds so many places, or all of them where that is fewer."""
        wanted = min(num_places, self._num_places)
        await self._wait_for(wanted)
        try:
            yield
        finally:
            self._give_back(wanted)

    async def _wait_for(self, wanted: int) -> None:
        if not self._waiting and wanted <= self._num_free:
            self._num_free -= wanted
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((wanted, turn))
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._give_back(wanted)
            else:
                self._waiting.remove((wanted, turn))
                self._next()
            raise

    def _give_back(self, num_places: int) -> None:
        self._num_free += num_places
        self._next()

    def _next(self) -> None:
        while self._waiting and self._waiting[0][0] <= self._num_free:
            wanted, turn = self._waiting.popleft()
            self._num_free -= wanted
            turn.set_result(None)
