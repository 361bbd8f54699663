"""Bound what Serve holds of an answer that its client has not taken, and cut a client that takes nothing.

Serve 2.60 has no flow control on the way back: an ingress sends as fast as it can, and all of it lies in the ingress,
in Ray's object store and in the proxy: a file of 200 MB for as long as a client reads it. With ``Reader`` in the proxy,
which confirms what the client took among the messages that the ingress receives, and ``limit_sending`` in
the ingress, which waits for that, about ``SEND_AHEAD_BYTES`` are under way.
"""

import asyncio
import logging
import pickle
from typing import Any, Final

from ray.serve._private.http_util import ASGIReceiveProxy
from starlette.types import Message, Receive, Scope, Send

from deployments.limits import Limits

logger = logging.getLogger("ray.serve.wordbound")

SEND_AHEAD_BYTES: Final = 1024 * 1024
"""Of one answer; one message more may be sent when fewer are under way."""

PART_BYTES: Final = 64 * 1024
"""The proxy gives its server so much at a time, which pauses when it holds more."""

CONFIRMS: Final = "wordbound.confirms"
"""A key of the scope: the proxy in front confirms what was taken."""

_CONFIRMED: Final = "wordbound.confirmed"
"""The type of a message from the proxy, with ``num_bytes``."""

_READ_TIMEOUT: Final = "wordbound.read_timeout_s"
"""A key of the first message of an answer, for the proxy, which knows no settings."""


class Reader:
    """The client's side of one exchange, in the proxy, whose server's these ``receive`` and ``send`` are.

    ``timeout_s`` is how long it may leave ``PART_BYTES`` of an answer unread that does not say so itself.
    """

    def __init__(
        self, receive: Receive, send: Send, *, timeout_s: float = Limits.model_fields["max_unread_s"].default
    ) -> None:
        self._receive = receive
        self._send = send
        self._timeout_s = timeout_s
        self._unconfirmed_bytes = 0
        self._next: asyncio.Task[Message] | None = None
        self._has_news = asyncio.Event()

    async def receive(self) -> Message:
        """Return what the client sent next, or a confirmation of what it took."""
        if self._next is None:
            self._next = asyncio.create_task(_awaited(self._receive))
            self._next.add_done_callback(lambda _: self._has_news.set())
        await self._has_news.wait()
        self._has_news.clear()
        if self._next.done():
            done, self._next = self._next, None
            self._tell()
            return done.result()
        num_bytes, self._unconfirmed_bytes = self._unconfirmed_bytes, 0
        return {"type": _CONFIRMED, "num_bytes": num_bytes}

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._timeout_s = message.pop(_READ_TIMEOUT, self._timeout_s)
        body = message.get("body", b"")
        if len(body) <= PART_BYTES:
            await self._send_part(message)
        else:
            for start in range(0, len(body), PART_BYTES):
                end = start + PART_BYTES
                more = message.get("more_body", False) or end < len(body)
                await self._send_part({**message, "body": body[start:end], "more_body": more})
        self._unconfirmed_bytes += len(body)
        self._tell()

    def close(self) -> None:
        if self._next is not None:
            self._next.cancel()

    def _tell(self) -> None:
        # Seldom: a confirmation costs a call from the ingress to the proxy.
        if self._unconfirmed_bytes >= SEND_AHEAD_BYTES // 2:
            self._has_news.set()

    async def _send_part(self, message: Message) -> None:
        try:
            async with asyncio.timeout(self._timeout_s):
                await self._send(message)
        except TimeoutError:
            cut(self._send)


def cut(send: Send) -> None:
    """End the connection of uvicorn's ``send`` at once; what lies unread in the process is dropped.

    Raises:
        ConnectionAbortedError: It is another server's ``send``.
    """
    # Not public. Closing, as uvicorn does after an exception, would first wait for the client to read.
    transport = getattr(getattr(send, "__self__", None), "transport", None)
    if transport is None:
        raise ConnectionAbortedError("the client does not read its answer")
    transport.abort()


def limit_sending(scope: Scope, receive: Receive, send: Send, *, timeout_s: float) -> Send:
    """Return ``send``, which waits while the client of Serve's proxy has not taken ``SEND_AHEAD_BYTES``.

    The proxy cuts a client that leaves ``PART_BYTES`` unread for ``timeout_s``.
    """
    proxy: Any = receive
    fetch = getattr(proxy, "_receive_asgi_messages", None)
    if not (isinstance(proxy, ASGIReceiveProxy) and fetch is not None and scope.get(CONFIRMS)):
        return send
    unread_bytes = 0
    has_room = asyncio.Event()
    has_room.set()

    async def fetch_with_confirmations(metadata: Any) -> bytes:
        nonlocal unread_bytes
        pickled: bytes = await fetch(metadata)
        if _CONFIRMED.encode() not in pickled:
            return pickled
        others = []
        # Serve's own proxy wrote it, for Serve to unpickle.
        for message in pickle.loads(pickled):  # noqa: S301
            if message["type"] == _CONFIRMED:
                unread_bytes -= message["num_bytes"]
            else:
                others.append(message)
        if unread_bytes < SEND_AHEAD_BYTES:
            has_room.set()
        return pickle.dumps(others)

    async def limited(message: Message) -> None:
        nonlocal unread_bytes
        if message["type"] == "http.response.start":
            message = {**message, _READ_TIMEOUT: timeout_s}
        await has_room.wait()
        unread_bytes += len(message.get("body", b""))
        if unread_bytes >= SEND_AHEAD_BYTES:
            has_room.clear()
        await send(message)

    proxy._receive_asgi_messages = fetch_with_confirmations
    return limited


async def _awaited(receive: Receive) -> Message:
    return await receive()
