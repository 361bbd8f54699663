"""Bound what waits of answers whose clients read more slowly than they are made.

An engine waits for nobody, and what a replica sent would lie in the ingress, each event an object of Ray's, however
long the answer is. So events are taken from there at once, and all that wait together have a bound. Whole answers, and
rows, have one of their own.
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import AbstractContextManager
from typing import Final

from deployments.errors import OverloadedError
from deployments.ingress.connections.room import Room
from deployments.limits import Limits

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
    """What waits of all answers of one ingress. Where it is too much, the stream with the most is given up, and a whole
    answer is refused."""

    def __init__(self, limits: Limits = _DEFAULTS, *, max_bytes: int = MAX_WAITING_BYTES) -> None:
        self._num_free = max_bytes
        self._streams: set[_Stream] = set()
        self._answers = Room(
            LARGEST_ANSWERS * limits.max_answer_bytes,
            "Too many answers wait for clients that read slowly. Try again in a moment.",
            "Too many answers wait for clients of this key. Read those that have come, or close their connections.",
        )

    def hold(self, num_bytes: int, owner: str) -> AbstractContextManager[None]:
        """Hold so many of a whole answer for a key until it has been sent; raises what ``Room.hold`` raises."""
        return self._answers.hold(num_bytes, owner)

    async def read(self, events: AsyncGenerator[str]) -> AsyncGenerator[bytes]:
        """Yield what ``events`` yields, in UTF-8; events that came since the last time are one.

        Raises:
            OverloadedError: The stream was given up.
        """
        stream = _Stream()
        self._streams.add(stream)
        reading = stream.reading = asyncio.create_task(self._collect(events, stream))
        reading.add_done_callback(lambda _: stream.has_news.set())
        try:
            while stream.waiting or not reading.done():
                await stream.has_news.wait()
                stream.has_news.clear()
                if body := self._take(stream):
                    yield body
            if stream.is_given_up:
                raise OverloadedError("The answer was read too slowly: the service cannot hold more of it.")
            reading.result()
        finally:
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)
            self._take(stream)
            self._streams.remove(stream)

    async def _collect(self, events: AsyncGenerator[str], stream: _Stream) -> None:
        async for event in events:
            encoded = event.encode()
            stream.waiting += encoded
            self._num_free -= len(encoded)
            stream.has_news.set()
            while self._num_free < 0:
                self._give_up(max(self._streams, key=lambda one: len(one.waiting)))

    def _give_up(self, stream: _Stream) -> None:
        self._take(stream)
        stream.is_given_up = True
        if stream.reading is not None:
            stream.reading.cancel()

    def _take(self, stream: _Stream) -> bytes:
        taken = bytes(stream.waiting)
        stream.waiting = bytearray()
        self._num_free += len(taken)
        return taken
