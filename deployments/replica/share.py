"""A share of an engine: so many sequences at once, and a bounded queue for them.

vLLM's own queue has no bound in time, and counts a request with 16 beams once.
"""

import asyncio
import math
import time
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final

_MAX_RETRY_S: Final = 60
_HISTORY: Final = 32
"""Requests whose mean time is expected of the next."""


class ShareFullError(Exception):
    """There is no room, and none will be for ``retry_after_s`` whole seconds, as far as is known."""

    def __init__(self, retry_after_s: int) -> None:
        super().__init__(f"no room for {retry_after_s} s")
        self.retry_after_s = retry_after_s


class Share:
    """A semaphore over sequences, first come first served. Used from one event loop.

    Args:
        size: Sequences that may run at once.
        max_waiting: Requests that may wait; None for any number.
        max_wait_s: How long one may wait; None for ever.
    """

    def __init__(
        self,
        size: int,
        max_waiting: int | None = None,
        max_wait_s: float | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._size = size
        self._max_waiting = max_waiting
        self._max_wait_s = max_wait_s
        self._clock = clock
        self._num_free = size
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()
        # What the last requests took: sequences times seconds.
        self._work: deque[float] = deque(maxlen=_HISTORY)

    @property
    def num_taken(self) -> int:
        return self._size - self._num_free

    @asynccontextmanager
    async def take(self, num_sequences: int) -> AsyncIterator[None]:
        """Hold so many sequences, or all where there are fewer.

        Raises:
            ShareFullError: Too many requests wait, or this one has waited too long.
        """
        wanted = min(num_sequences, self._size)
        await self._wait_for(wanted)
        start = self._clock()
        try:
            yield
        finally:
            self._work.append(wanted * (self._clock() - start))
            self._give_back(wanted)

    async def _wait_for(self, wanted: int) -> None:
        if not self._waiting and wanted <= self._num_free:
            self._num_free -= wanted
            return
        if self._max_waiting is not None and len(self._waiting) >= self._max_waiting:
            raise ShareFullError(self._retry_after_s())
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((wanted, turn))
        try:
            async with asyncio.timeout(self._max_wait_s):
                await turn
        except (asyncio.CancelledError, TimeoutError) as error:
            if turn.done() and not turn.cancelled():
                self._give_back(wanted)
            else:
                self._waiting.remove((wanted, turn))
                self._next()
            if isinstance(error, TimeoutError):
                raise ShareFullError(self._retry_after_s()) from None
            raise

    def _retry_after_s(self) -> int:
        """Return after how many seconds those that wait have begun, if they take as long as the last ones did."""
        mean = sum(self._work) / len(self._work) if self._work else 0.0
        return min(max(math.ceil(mean * (len(self._waiting) + 1) / self._size), 1), _MAX_RETRY_S)

    def _give_back(self, num_sequences: int) -> None:
        self._num_free += num_sequences
        self._next()

    def _next(self) -> None:
        while self._waiting and self._waiting[0][0] <= self._num_free:
            wanted, turn = self._waiting.popleft()
            self._num_free -= wanted
            turn.set_result(None)
