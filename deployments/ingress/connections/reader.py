"""Send an answer no faster than its client takes it, and give up one whose client takes too little.

The server behind ``send`` holds a client's bytes until it reads them, and lets ``send`` wait when they are many; of one
message it takes all. So a large answer goes in parts, and what waits is one part of each.
"""

import asyncio
import time
from typing import Final

from starlette.types import Message, Send

from deployments.settings.limits import Limits

PART_BYTES: Final = 64 * 1024
"""The server waits when it holds more than this of a connection."""


class ReadTooSlowly(Exception):  # noqa: N818 - not an error of anyone's
    """The client is behind the least rate: the rest of its answer is dropped."""


class Reader:
    """The client's side of one answer.

    A client that is waited for, all waits together, more than ``max_unread_s`` longer than what it takes needs at
    ``min_read_bytes_per_s`` is given up.
    """

    def __init__(self, send: Send, limits: Limits) -> None:
        self._send = send
        self._max_unread_s = limits.max_unread_s
        self._bytes_per_s = limits.min_read_bytes_per_s
        # How long this client may still be waited for.
        self._left_s = limits.max_unread_s

    async def send(self, message: Message) -> None:
        """Send a message in parts of at most ``PART_BYTES``.

        Raises:
            ReadTooSlowly: The client has been waited for too long.
        """
        body = message.get("body", b"")
        if len(body) <= PART_BYTES:
            await self._send_part(message, len(body))
            return
        for start in range(0, len(body), PART_BYTES):
            part = body[start : start + PART_BYTES]
            more = message.get("more_body", False) or start + PART_BYTES < len(body)
            await self._send_part({**message, "body": part, "more_body": more}, len(part))

    async def _send_part(self, message: Message, num_bytes: int) -> None:
        """Send a part while the client has time left; its bytes earn more time."""
        start = time.monotonic()
        try:
            async with asyncio.timeout(self._left_s):
                await self._send(message)
        except TimeoutError:
            # Whatever is sent after this is not waited for.
            self._left_s = 0.0
            raise ReadTooSlowly from None
        earned_s = num_bytes / self._bytes_per_s
        # What a client was fast before does not let it be slower now.
        self._left_s = min(self._left_s - (time.monotonic() - start) + earned_s, self._max_unread_s)
