"""A semaphore over the sequences of an engine, or over threads, whose callers take turns, with a bounded queue.

A place is a sequence of an engine, or a thread. vLLM's own queue has no bound in time, and counts a request with 16
beams once.
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


class SemaphoreFullError(Exception):
    """There is no room, and none will be for ``retry_after_s`` whole seconds, as far as is known."""

    def __init__(self, retry_after_s: int) -> None:
        super().__init__(f"no room for {retry_after_s} s")
        self.retry_after_s = retry_after_s


class _Waiting(NamedTuple):
    """A request that waits: its sequences, how many its key may have, whether it has had a turn before, and the future
    that ends its wait."""

    wanted: int
    max_of_key: int
    has_begun: bool
    turn: asyncio.Future[None]


class FairSemaphore:
    """A semaphore over sequences. Keys take turns, with their oldest request each. Used from one event loop.

    Where too many requests wait, the last of the key with the most of them is refused.

    Args:
        size: Sequences that may run at once.
        max_waiting: Requests that may wait; None for any number.
        max_wait_s: How long one may wait; None for ever.
        share_of_key: The part of the sequences that a key may hold, unless ``take`` says how many.
    """

    def __init__(
        self,
        size: int,
        max_waiting: int | None = None,
        max_wait_s: float | None = None,
        *,
        share_of_key: float = 1.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._size = size
        self._max_waiting = max_waiting
        self._max_wait_s = max_wait_s
        self._max_of_key = max(int(size * share_of_key), 1)
        self._clock = clock
        self._num_free = size
        # Those that have their turn, and since when.
        self._running: dict[_Waiting, float] = {}
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

    def most_of(self, max_of_key: int | None) -> int:
        """Return how many sequences a key may hold: ``max_of_key``, or its default part of all."""
        return min(max_of_key or self._max_of_key, self._size)

    @asynccontextmanager
    async def take(
        self, num_sequences: int, owner: str, max_of_key: int | None = None, *, has_begun: bool = False
    ) -> AsyncIterator[None]:
        """Wait for a turn, then hold ``num_sequences`` for a key, or all that it may have if fewer.

        With ``has_begun`` it is a later turn of a request that has had one: it waits for as long as it takes.

        Raises:
            SemaphoreFullError: Too many requests wait, or this one has waited too long, or probably would.
        """
        most = self.most_of(max_of_key)
        wanted = min(num_sequences, most)
        request = _Waiting(wanted, most, has_begun, asyncio.get_running_loop().create_future())
        await self._wait_for(request, owner)
        self._running[request] = self._clock()
        try:
            yield
        finally:
            self._took.append(self._clock() - self._running.pop(request))
            self._give_back(wanted, owner)

    async def wait_for_turn(self, owner: str, max_of_key: int | None = None) -> None:
        """Wait until a key's request may begin, and hold no sequence.

        It then takes its turns one by one (``has_begun``).

        Raises:
            SemaphoreFullError: As of ``take``.
        """
        most = self.most_of(max_of_key)
        await self._wait_for(_Waiting(1, most, False, asyncio.get_running_loop().create_future()), owner)
        self._give_back(1, owner)

    async def _wait_for(self, request: _Waiting, owner: str) -> None:
        """Queue a request and wait for its turn; undo both if it is cancelled or has waited too long."""
        self._waiting.setdefault(owner, deque()).append(request)
        self._start_waiting()
        if request.turn.done():
            return
        if not request.has_begun:
            self._refuse_too_many(request, owner)
        max_wait_s = None if request.has_begun else self._max_wait_s
        try:
            async with asyncio.timeout(max_wait_s):
                await request.turn
        except (asyncio.CancelledError, TimeoutError) as error:
            if request.turn.cancelled() or not request.turn.done():
                self._remove(request, owner)
                self._start_waiting()
            elif request.turn.exception() is None:
                self._give_back(request.wanted, owner)
            if isinstance(error, TimeoutError):
                raise SemaphoreFullError(self._retry_after_s(request.wanted)) from None
            raise

    def _refuse_too_many(self, newest: _Waiting, owner: str) -> None:
        """Refuse the newest request if it would wait too long; if too many wait, the last of the key with the most.

        Those that have begun are not refused.
        """
        if self._max_wait_s is not None and self._wait_s(self._num_until(owner)) > _MARGIN * self._max_wait_s:
            # At once, and not after the wait: the client may find room elsewhere.
            self._remove(newest, owner)
            raise SemaphoreFullError(self._retry_after_s(newest.wanted))
        new = {name: [one for one in requests if not one.has_begun] for name, requests in self._waiting.items()}
        if self._max_waiting is None or sum(map(len, new.values())) <= self._max_waiting:
            return
        name = max(new, key=lambda name: (len(new[name]), name == owner))
        request = new[name][-1]
        self._remove(request, name)
        if not request.turn.cancelled():
            request.turn.set_exception(SemaphoreFullError(self._retry_after_s(request.wanted)))

    def _remove(self, request: _Waiting, owner: str) -> None:
        """Remove a request from the queue, if it is there.

        ``_start_waiting`` may have found it cancelled before its own task runs again.
        """
        with suppress(KeyError, ValueError):
            self._waiting[owner].remove(request)
            if not self._waiting[owner]:
                del self._waiting[owner]

    def _num_until(self, owner: str) -> int:
        """Return how many sequences begin up to and with a key's last request, as the keys take turns."""
        num_own = len(self._waiting[owner])
        turns = (request for requests in self._waiting.values() for request in islice(requests, num_own))
        return sum(request.wanted for request in turns)

    def _wait_s(self, num_sequences: int) -> float:
        """Estimate the seconds until ``num_sequences`` have begun, if each request needs as long as the last ones.

        Those that run are expected to need as long again as they have run: where none has ended yet, nothing else is
        known. What is held together is given back together.
        """
        mean = sum(self._took) / len(self._took) if self._took else 0.0
        if not self._running:
            return mean * num_sequences / self._size
        now = self._clock()
        mean = max(mean, sum(now - start for start in self._running.values()) / len(self._running))
        num_endings = max(num_sequences * len(self._running) / max(self.num_taken, 1), 1)
        return mean / len(self._running) * num_endings

    def _retry_after_s(self, num_sequences: int) -> int:
        """Estimate in how many whole seconds ``num_sequences`` would begin after those that wait."""
        return min(max(math.ceil(self._wait_s(self.num_waiting + num_sequences)), 1), _MAX_RETRY_S)

    def _give_back(self, num_sequences: int, owner: str) -> None:
        self._num_free += num_sequences
        self._taken[owner] -= num_sequences
        self._start_waiting()

    def _start_waiting(self) -> None:
        """Let waiting requests begin; a wide one whose turn it is holds the others back until there is room for it."""
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
        """Return the first waiting key whose oldest request fits into what the key may hold."""
        for owner, requests in self._waiting.items():
            if self._taken[owner] + requests[0].wanted <= requests[0].max_of_key:
                return owner
        return None
