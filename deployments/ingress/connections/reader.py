"""Send an answer no faster than its client takes it, and give up one whose client takes too little.

The server behind ``send`` holds a client's bytes until it reads them, and lets ``send`` wait when they are many; of one
message it takes all. So a large answer goes in parts, and what waits is one part of each.
"""

import asyncio
from typing import Any, Final

from starlette.types import Message, Send

from deployments.settings.limits import Limits

PART_BYTES: Final = 64 * 1024
"""The server waits when it holds more than this of a connection."""


class ReadTooSlowly(Exception):  # noqa: N818 - not an error of anyone's
    """The client is behind the least rate: the rest of its answer is dropped."""


class Reader:
    """The client's side of one answer; ``close`` it when that is over.

    A client that is waited for, all waits together, more than ``max_unread_s`` longer than what it takes needs at
    ``min_read_bytes_per_s`` is given up. One timer looks after all parts, for most are taken at once.
    """

    def __init__(self, send: Send, limits: Limits) -> None:
        self._send = send
        self._max_unread_s = limits.max_unread_s
        self._bytes_per_s = limits.min_read_bytes_per_s
        # How long this client may still be waited for.
        self._left_s = limits.max_unread_s
        # The task that waits for the client, and until when it may.
        self._waiting: asyncio.Task[Any] | None = None
        self._until = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._is_given_up = False

    async def send(self, message: Message) -> None:
        """Send a message in parts of at most ``PART_BYTES``.

        Raises:
            ReadTooSlowly: The client has been waited for too long.
        """
        if self._is_given_up:
            raise ReadTooSlowly
        body = message.get("body", b"")
        if len(body) <= PART_BYTES:
            await self._send_part(message, len(body))
            return
        for start in range(0, len(body), PART_BYTES):
            part = body[start : start + PART_BYTES]
            more = message.get("more_body", False) or start + PART_BYTES < len(body)
            await self._send_part({**message, "body": part, "more_body": more}, len(part))

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    async def _send_part(self, message: Message, num_bytes: int) -> None:
        """Send a part while the client has time left; its bytes earn more time."""
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        start = loop.time()
        self._waiting, self._until = task, start + self._left_s
        if self._timer is None:
            self._timer = loop.call_at(self._until, self._look)
        try:
            await self._send(message)
        except asyncio.CancelledError:
            if self._is_given_up and task is not None and task.uncancel() == 0:
                raise ReadTooSlowly from None
            raise
        finally:
            self._waiting = None
        earned_s = num_bytes / self._bytes_per_s
        # What a client was fast before does not let it be slower now.
        self._left_s = min(self._left_s - (loop.time() - start) + earned_s, self._max_unread_s)

    def _look(self) -> None:
        """Give up a client that is waited for too long, or look again when the wait under way is."""
        self._timer = None
        if self._waiting is None:
            return
        loop = asyncio.get_running_loop()
        if loop.time() < self._until:
            self._timer = loop.call_at(self._until, self._look)
        else:
            self._is_given_up = True
            self._waiting.cancel()
