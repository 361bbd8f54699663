"""Room for the requests of all keys: places of those that are worked on, and bytes of answers that wait.

An engine waits for no client, and what a replica sent would lie in the ingress, each event an object of Ray's, however
long the answer is. So events are taken from there at once, and all that wait together have a bound. Whole answers, and
rows, have one of their own.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Final

from starlette.types import Scope

from deployments.errors import OverloadedError, TooManyRequestsError
from deployments.ingress.connections.reader import PART_BYTES
from deployments.settings.limits import Limits

SLOT: Final = "wordbound.place"
"""A key of the scope: frees the place of its request, and does nothing where that is free."""


class SharedBudget:
    """An amount (places or bytes) that all keys share, one key at most three quarters, so that others have some.

    Args:
        size: How much there is.
        full: What a request is answered where there is none left, with 503.
        own_full: And where its key has no more of it, with 429.
    """

    def __init__(self, size: int, full: str, own_full: str) -> None:
        self._num_free = size
        self._num_of_key = Counter[str]()
        self._max_of_key = size - size // 4
        self._full = full
        self._own_full = own_full

    @contextmanager
    def hold(self, num: int, owner: str) -> Iterator[None]:
        """Hold ``num`` of the room for a key while the context is open.

        Raises:
            OverloadedError: There is not so much left.
            TooManyRequestsError: The key has no more.
        """
        if num > self._num_free:
            raise OverloadedError(self._full)
        if self._num_of_key[owner] + num > self._max_of_key:
            raise TooManyRequestsError(self._own_full, "too_many_requests")
        self._num_free -= num
        self._num_of_key[owner] += num
        try:
            yield
        finally:
            self._num_free += num
            self._num_of_key[owner] -= num
            if not self._num_of_key[owner]:
                del self._num_of_key[owner]


def release_slot(scope: Scope) -> None:
    """Free a request's place: its answer waits for its client alone, or is bounded otherwise."""
    if SLOT in scope:
        scope[SLOT]()


MAX_WAITING_BYTES: Final = 32 * 2**20
"""Of all streams of one ingress. A whole answer of 1,024 tokens is 300 KB, ten times as much with logprobs."""

LARGEST_ANSWERS: Final = 4
"""So many whole answers of the largest size, rows too, may wait in one ingress; smaller ones are more."""

_DEFAULTS: Final = Limits()


class _Stream:
    def __init__(self) -> None:
        self.waiting = bytearray()
        self.has_news = asyncio.Event()
        self.is_given_up = False
        self.reading: asyncio.Task[None] | None = None


class Backlog:
    """Bounds the bytes of all answers of one ingress that wait for their clients.

    Where it is too much, the stream with the most is given up, and a whole answer is refused.
    """

    def __init__(self, limits: Limits = _DEFAULTS, *, max_bytes: int = MAX_WAITING_BYTES) -> None:
        self._num_free = max_bytes
        self._streams: set[_Stream] = set()
        self._answers = SharedBudget(
            LARGEST_ANSWERS * limits.max_answer_bytes,
            "Too many answers wait for clients that read slowly. Try again in a moment.",
            "Too many answers wait for clients of this key. Read those that have come, or close their connections.",
        )

    def hold(self, num_bytes: int, owner: str) -> AbstractContextManager[None]:
        """Count ``num_bytes`` of a whole answer for a key until it is sent; raises as ``SharedBudget.hold``."""
        return self._answers.hold(num_bytes, owner)

    async def read(self, events: AsyncGenerator[str]) -> AsyncGenerator[bytes]:
        """Yield a stream's events in UTF-8, those that came since the last yield together, ``PART_BYTES`` at most.

        Raises:
            OverloadedError: The stream was given up.
        """
        stream = _Stream()
        self._streams.add(stream)
        reading = stream.reading = asyncio.create_task(self._collect(events, stream))
        reading.add_done_callback(lambda _: stream.has_news.set())
        try:
            while stream.waiting or not reading.done():
                if not stream.waiting:
                    await stream.has_news.wait()
                    stream.has_news.clear()
                if body := self._take(stream, PART_BYTES):
                    yield body
            if stream.is_given_up:
                raise OverloadedError("The answer was read too slowly: the service cannot hold more of it.")
            reading.result()
        finally:
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)
            self._take(stream, len(stream.waiting))
            self._streams.remove(stream)

    async def _collect(self, events: AsyncGenerator[str], stream: _Stream) -> None:
        """Add events to a stream's buffer; while all exceed the bound, give up the largest stream."""
        async for event in events:
            encoded = event.encode()
            stream.waiting += encoded
            self._num_free -= len(encoded)
            stream.has_news.set()
            while self._num_free < 0:
                self._give_up(max(self._streams, key=lambda one: len(one.waiting)))

    def _give_up(self, stream: _Stream) -> None:
        self._take(stream, len(stream.waiting))
        stream.is_given_up = True
        if stream.reading is not None:
            stream.reading.cancel()

    def _take(self, stream: _Stream, num_bytes: int) -> bytes:
        """Take so many of a stream's waiting bytes, and free their room."""
        taken = bytes(stream.waiting[:num_bytes])
        del stream.waiting[:num_bytes]
        self._num_free += len(taken)
        return taken
