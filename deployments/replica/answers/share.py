"""A share of an engine: so many sequences at once, and a bounded queue for them.

vLLM's own queue has no bound in time, and counts a request with 16 beams once.
"""

import asyncio
import math
import time
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from itertools import islice
from typing import Final, NamedTuple

_MAX_RETRY_S: Final = 60
_HISTORY: Final = 32
"""Requests whose mean time in the engine is expected of the next."""
_MARGIN: Final = 0.5
"""Who is expected to wait longer than this share of the longest wait is refused at once. Expectations are rough, and
requests that began together end together: without it some waited to the end and were refused then."""


class ShareFullError(Exception):
    """There is no room, and none will be for ``retry_after_s`` whole seconds, as far as is known."""

    def __init__(self, retry_after_s: int) -> None:
        super().__init__(f"no room for {retry_after_s} s")
        self.retry_after_s = retry_after_s


class _Waiting(NamedTuple):
    """A request that waits: its sequences, how many its key may have, and the future that ends its wait."""

    wanted: int
    max_of_key: int
    turn: asyncio.Future[None]


class Share:
    """A semaphore over sequences. Keys take turns, with their oldest request each. Used from one event loop.

    Where too many requests wait, the last of the key with the most of them is refused.

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
        # By key; the first has the next turn.
        self._waiting: dict[str, deque[_Waiting]] = {}
        self._taken = Counter[str]()
        # What the last requests took, in seconds.
        self._took: deque[float] = deque(maxlen=_HISTORY)

    @property
    def size(self) -> int:
        return self._size

    @property
    def num_taken(self) -> int:
        return self._size - self._num_free

    @property
    def num_waiting(self) -> int:
        """Sequences of the requests that wait."""
        return sum(request.wanted for requests in self._waiting.values() for request in requests)

    @asynccontextmanager
    async def take(self, num_sequences: int, owner: str, max_of_key: int | None = None) -> AsyncIterator[None]:
        """Hold so many sequences for a key, or all that it may have where there are fewer.

        Raises:
            ShareFullError: Too many requests wait, or this one has waited too long, or probably would.
        """
        max_of_key = min(max_of_key or self._size, self._size)
        wanted = min(num_sequences, max_of_key)
        await self._wait_for(wanted, owner, max_of_key)
        start = self._clock()
        try:
            yield
        finally:
            self._took.append(self._clock() - start)
            self._give_back(wanted, owner)

    async def _wait_for(self, wanted: int, owner: str, max_of_key: int) -> None:
        request = _Waiting(wanted, max_of_key, asyncio.get_running_loop().create_future())
        self._waiting.setdefault(owner, deque()).append(request)
        self._next()
        if request.turn.done():
            return
        if self._max_wait_s is not None and self._wait_s(self._num_until(owner)) > _MARGIN * self._max_wait_s:
            # At once, and not after the wait: the client may find room elsewhere.
            self._remove(request, owner)
            raise ShareFullError(self._retry_after_s(wanted))
        if self._max_waiting is not None and self._num_requests() > self._max_waiting:
            self._refuse_one(owner)
        try:
            async with asyncio.timeout(self._max_wait_s):
                await request.turn
        except (asyncio.CancelledError, TimeoutError) as error:
            if request.turn.cancelled() or not request.turn.done():
                self._remove(request, owner)
                self._next()
            elif request.turn.exception() is None:
                self._give_back(wanted, owner)
            if isinstance(error, TimeoutError):
                raise ShareFullError(self._retry_after_s(wanted)) from None
            raise

    def _refuse_one(self, newest: str) -> None:
        """Refuse the last request of the key with the most; ``newest`` is the key of the one that has just come."""
        owner = max(self._waiting, key=lambda name: (len(self._waiting[name]), name == newest))
        request = self._waiting[owner][-1]
        self._remove(request, owner)
        if not request.turn.cancelled():
            request.turn.set_exception(ShareFullError(self._retry_after_s(request.wanted)))

    def _remove(self, request: _Waiting, owner: str) -> None:
        """Forget a request, which ``_next`` may have found cancelled before its own task runs again."""
        with suppress(KeyError, ValueError):
            self._waiting[owner].remove(request)
            if not self._waiting[owner]:
                del self._waiting[owner]

    def _num_requests(self) -> int:
        return sum(map(len, self._waiting.values()))

    def _num_until(self, owner: str) -> int:
        """Return how many sequences begin until the last request of a key has begun, as the keys take turns."""
        num_own = len(self._waiting[owner])
        turns = (request for requests in self._waiting.values() for request in islice(requests, num_own))
        return sum(request.wanted for request in turns)

    def _wait_s(self, num_sequences: int) -> float:
        """Return how long so many sequences take to begin, if each needs as long as the last requests did."""
        mean = sum(self._took) / len(self._took) if self._took else 0.0
        return mean * num_sequences / self._size

    def _retry_after_s(self, num_sequences: int) -> int:
        """Return after how many seconds so many would have begun behind those that wait."""
        return min(max(math.ceil(self._wait_s(self.num_waiting + num_sequences)), 1), _MAX_RETRY_S)

    def _give_back(self, num_sequences: int, owner: str) -> None:
        self._num_free += num_sequences
        self._taken[owner] -= num_sequences
        self._next()

    def _next(self) -> None:
        """Let requests begin; a wide one that has the next turn holds the others back until there is room for it."""
        while (owner := self._next_owner()) is not None:
            request = self._waiting[owner][0]
            if request.wanted > self._num_free:
                return
            requests = self._waiting.pop(owner)
            requests.popleft()
            if requests:
                self._waiting[owner] = requests
            if not request.turn.cancelled():
                self._num_free -= request.wanted
                self._taken[owner] += request.wanted
                request.turn.set_result(None)

    def _next_owner(self) -> str | None:
        for owner, requests in self._waiting.items():
            if self._taken[owner] + requests[0].wanted <= requests[0].max_of_key:
                return owner
        return None
