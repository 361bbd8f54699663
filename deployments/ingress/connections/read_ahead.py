"""Bound what Serve reads of a body before it is asked for.

Serve 2.60 has no flow control between its proxy and a replica: the proxy takes a body from the client as fast as it
comes, and the replica fetches all of it from the proxy. So an upload lies in memory twice, however it is read. With
``limit_client`` in the proxy and ``limit_fetching`` in the ingress, each holds about ``READ_AHEAD_BYTES``, and the
client waits.
"""

import asyncio
import logging
import weakref
from typing import Any, Final

from starlette.types import Message, Receive

from deployments.ray_private import ASGIReceiveProxy

logger = logging.getLogger("ray.serve.wordbound")

READ_AHEAD_BYTES: Final = 1024 * 1024
"""Of one request, in each of the two processes; the proxy's server reads 64 KiB at a time."""


class _Counted(dict[str, Any]):
    """A message whose end of life is noticed; it arrives elsewhere as a plain dict."""

    def __reduce__(self) -> tuple[type, tuple[dict[str, Any]]]:
        return dict, (dict(self),)


def limit_client(receive: Receive) -> Receive:
    """Wrap the proxy's ``receive``, to wait while Serve holds over ``READ_AHEAD_BYTES`` of a body."""
    held_bytes = last_bytes = 0
    has_room = asyncio.Event()
    has_room.set()

    def update(num_bytes: int) -> None:
        """Change the count of held bytes, and let the client send or wait by it."""
        nonlocal held_bytes
        held_bytes += num_bytes
        # Serve keeps the last message while it waits for the next.
        if held_bytes - last_bytes > READ_AHEAD_BYTES:
            has_room.clear()
        else:
            has_room.set()

    async def receive_limited() -> Message:
        """Receive a message once there is room; count it until Serve drops it."""
        nonlocal last_bytes
        await has_room.wait()
        message = _Counted(await receive())
        last_bytes = len(message.get("body", b""))
        update(last_bytes)
        # Serve drops a message once it has sent it to the replica.
        weakref.finalize(message, update, -last_bytes).atexit = False
        return message

    return receive_limited


def limit_fetching(receive: Receive) -> Receive:
    """Wrap the ingress's ``receive``, to fetch no more while over ``READ_AHEAD_BYTES`` are unread.

    One that is not Serve's is returned as it is.
    """
    proxy: Any = receive
    if not isinstance(proxy, ASGIReceiveProxy):
        return receive
    # Not public. Without it all stays right, and costs the memory.
    fetch = getattr(proxy, "_receive_asgi_messages", None)
    if fetch is None:
        logger.warning("this Ray reads a body ahead in an unknown way: an upload may be held in memory")
        return receive
    unread_bytes = 0
    has_room = asyncio.Event()
    has_room.set()

    async def fetch_with_room(metadata: Any) -> bytes:
        """Fetch messages from the proxy once there is room, and count their bytes."""
        nonlocal unread_bytes
        if proxy.queue.empty():
            # What was fetched was no message of the body.
            unread_bytes = 0
            has_room.set()
        await has_room.wait()
        messages: bytes = await fetch(metadata)
        unread_bytes += len(messages)
        if unread_bytes > READ_AHEAD_BYTES:
            has_room.clear()
        return messages

    async def receive_counted() -> Message:
        """Receive a fetched message, and make its room free again."""
        nonlocal unread_bytes
        message: Message = await proxy()
        # Pickled, a message is a little longer than its body.
        unread_bytes = 0 if proxy.queue.empty() else unread_bytes - len(message.get("body", b""))
        if unread_bytes <= READ_AHEAD_BYTES:
            has_room.set()
        return message

    proxy._receive_asgi_messages = fetch_with_room
    return receive_counted
