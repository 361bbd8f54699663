"""Bound what Serve holds of an answer that its client has not taken, and cut a client that takes nothing.

Serve 2.60 has no flow control on the way back: an ingress sends as fast as it can, and all of it lies in the ingress,
in Ray's object store and in the proxy: a file of 200 MB for as long as a client reads it. With ``Reader`` in the proxy,
which confirms what the client took among the messages that the ingress receives, and ``SendAhead`` in the ingress,
which waits for that, little is under way: ``FEW_BYTES`` of an answer at first, and more if its client reads fast.
"""

import asyncio
import logging
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final

from starlette.types import Message, Receive, Scope, Send
from typing_extensions import override

from deployments.ingress.connections.idle_connections import abort, transport_of
from deployments.ray_private import ASGIReceiveProxy
from deployments.settings.limits import Limits

logger = logging.getLogger("ray.serve.wordbound")

FEW_BYTES: Final = 64 * 1024
"""Of each answer."""

MANY_BYTES: Final = 2**20
"""Of an answer that is read fast. What is under way may become one message to the proxy, of which there are copies."""

SHARED_BYTES: Final = 24 * 2**20
"""What all answers of one ingress may have beyond ``FEW_BYTES`` each, so that clients that read fast and then stop hold
no more than it. Costs three times as much: in the ingress, in Ray's object store and in the proxy."""

ABSORBED_BYTES: Final = 512 * 1024
"""Of an answer that nobody reads, the kernels and the proxy's server take up to so much, and take it fast."""

FAST_S: Final = 1.0
"""More is allowed of an answer while what is allowed is taken within so long."""

PART_BYTES: Final = 64 * 1024
"""The proxy gives its server so much at a time, which pauses when it holds more."""

UNSENT_BYTES: Final = 128 * 1024
"""Of an answer in the kernel, beside what is on the line. By itself it takes 4 MB, all of most answers, and a client
that reads nothing is not seen."""

CONFIRM_BYTES: Final = FEW_BYTES // 4
"""What was taken is confirmed when it is so much; seldom, as it costs a call from the ingress to the proxy."""

CONFIRMS: Final = "wordbound.confirm_bytes"
"""A key of the scope: the proxy in front confirms what was taken, each so many bytes."""

_CONFIRMED: Final = "wordbound.confirmed"
"""The type of a message from the proxy, with ``num_bytes``."""

_READ_LIMITS: Final = "wordbound.read_limits"
"""A key of the first message of an answer, for the proxy, which knows no settings: ``max_unread_s`` and
``min_read_bytes_per_s``."""

_WINDOW: Final = "wordbound.window"
"""A key of the scope in the ingress."""

_DEFAULTS: Final = Limits()


class Reader:
    """The client's side of one exchange, in the proxy: confirms what the client took, and cuts a slow one.

    ``receive`` and ``send`` are those of the proxy's server.

    A client that is waited for, all waits together, more than ``max_unread_s`` longer than what it takes needs at
    ``bytes_per_s`` is cut; an answer may say other numbers itself.
    """

    def __init__(
        self,
        receive: Receive,
        send: Send,
        *,
        max_unread_s: float = _DEFAULTS.max_unread_s,
        bytes_per_s: float = _DEFAULTS.min_read_bytes_per_s,
    ) -> None:
        self._receive = receive
        self._send = send
        self._max_unread_s = max_unread_s
        self._bytes_per_s = bytes_per_s
        # How long this client may still be waited for.
        self._left_s = max_unread_s
        self._unconfirmed_bytes = 0
        self._next: asyncio.Task[Message] | None = None
        self._has_news = asyncio.Event()
        _limit_kernel_buffer(send)

    async def receive(self) -> Message:
        """Return the client's next message, or a confirmation for the ingress of the bytes that it took."""
        if self._next is None:
            self._next = asyncio.create_task(_receive_next(self._receive))
            self._next.add_done_callback(lambda _: self._has_news.set())
        await self._has_news.wait()
        self._has_news.clear()
        if self._next.done():
            done, self._next = self._next, None
            self._notify()
            return done.result()
        num_bytes, self._unconfirmed_bytes = self._unconfirmed_bytes, 0
        return {"type": _CONFIRMED, "num_bytes": num_bytes}

    async def send(self, message: Message) -> None:
        """Send a message to the client, in parts of at most ``PART_BYTES``, and count its bytes."""
        if message["type"] == "http.response.start":
            self._max_unread_s, self._bytes_per_s = message.pop(_READ_LIMITS, (self._max_unread_s, self._bytes_per_s))
            self._left_s = self._max_unread_s
        body = message.get("body", b"")
        if len(body) <= PART_BYTES:
            await self._send_part(message)
        else:
            for start in range(0, len(body), PART_BYTES):
                end = start + PART_BYTES
                more = message.get("more_body", False) or end < len(body)
                await self._send_part({**message, "body": body[start:end], "more_body": more})
        self._unconfirmed_bytes += len(body)
        self._notify()

    def close(self) -> None:
        """Stop waiting for the client's next message."""
        if self._next is not None:
            self._next.cancel()

    def _notify(self) -> None:
        """Wake ``receive`` once the client took enough bytes to confirm."""
        if self._unconfirmed_bytes >= CONFIRM_BYTES:
            self._has_news.set()

    async def _send_part(self, message: Message) -> None:
        """Send a part while the client has time left, else cut it; its bytes earn more time."""
        start = time.monotonic()
        try:
            async with asyncio.timeout(self._left_s):
                await self._send(message)
        except TimeoutError:
            cut(self._send)
        earned_s = len(message.get("body", b"")) / self._bytes_per_s
        # What a client was fast before does not let it be slower now.
        self._left_s = min(self._left_s - (time.monotonic() - start) + earned_s, self._max_unread_s)


def _limit_kernel_buffer(send: Send) -> None:
    """Let the kernel buffer at most ``UNSENT_BYTES`` of a connection's answer that it cannot send yet."""
    transport = transport_of(send)
    if transport is not None:
        with suppress(OSError):
            transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, UNSENT_BYTES)


def cut(send: Send) -> None:
    """End the connection of uvicorn's ``send`` at once; what lies unread in the process is dropped.

    Raises:
        ConnectionAbortedError: It is another server's ``send``.
    """
    # Closing, as uvicorn does after an exception, would first wait for the client to read.
    transport = transport_of(send)
    if transport is None:
        raise ConnectionAbortedError("the client does not read its answer")
    abort(transport)


class Window:
    """How many bytes of one answer may be under way; ``shared`` has what all answers of a process have besides."""

    def __init__(self, shared: "SharedBytes", *, clock: Callable[[], float] = time.monotonic) -> None:
        self.num_bytes = FEW_BYTES
        self.unread_bytes = 0
        self._shared = shared
        self._taken_bytes = -ABSORBED_BYTES
        self._clock = clock
        self._since = clock()
        self._has_news = asyncio.Event()

    def take(self, num_bytes: int) -> None:
        """Count bytes that the client took; double the window if it was fast, halve it if not."""
        self.unread_bytes -= num_bytes
        self._taken_bytes += num_bytes
        if self._taken_bytes >= self.num_bytes:
            is_fast = self._clock() - self._since < FAST_S
            self._resize(min(2 * self.num_bytes, MANY_BYTES) if is_fast else max(self.num_bytes // 2, FEW_BYTES))
            self._taken_bytes, self._since = 0, self._clock()
        self._has_news.set()

    async def wait_for_room(self, num_bytes: int) -> None:
        """Wait until the unread bytes are less than a quarter of ``num_bytes``."""
        while self.unread_bytes >= num_bytes // 4:
            self._has_news.clear()
            await self._has_news.wait()

    def widen(self, num_bytes: int) -> None:
        """Allow ``num_bytes`` under way from the start, as far as other answers leave them."""
        self._resize(min(max(num_bytes, self.num_bytes), MANY_BYTES))

    def close(self) -> None:
        """Shrink to ``FEW_BYTES``, and give the rest back to other answers."""
        self._resize(FEW_BYTES)

    def _resize(self, num_bytes: int) -> None:
        """Set the window's size, as far as the shared bytes allow."""
        more = min(num_bytes - self.num_bytes, self._shared.num_free)
        self._shared.num_free -= more
        self.num_bytes += more


class SharedBytes:
    def __init__(self, num_bytes: int = SHARED_BYTES) -> None:
        self.num_free = num_bytes


def widen_window(scope: Scope, num_bytes: int) -> None:
    """Let ``num_bytes`` of an answer be under way from its start, for it lies in Ray's object store anyway.

    Each wait for the client costs two calls between the ingress and the proxy.
    """
    window: Window | None = scope.get(_WINDOW)
    if window is not None:
        window.widen(num_bytes)


async def next_piece_bytes(scope: Scope) -> int:
    """Return the size of the answer's next piece; wait until it is due, if only ``FEW_BYTES`` may be under way."""
    window: Window | None = scope.get(_WINDOW)
    if window is None:
        return MANY_BYTES
    if window.num_bytes == FEW_BYTES:
        await window.wait_for_room(FEW_BYTES)
    return window.num_bytes


class SendAhead:
    """Limits what is under way of the answers of one ingress; ``limits`` says which slow clients are cut."""

    def __init__(self, limits: Limits = _DEFAULTS) -> None:
        self._read_limits = limits.max_unread_s, limits.min_read_bytes_per_s
        self._shared = SharedBytes()

    @contextmanager
    def limit(self, scope: Scope, receive: Receive, send: Send) -> Iterator[Send]:
        """Yield a ``send`` that splits messages larger than the window, and waits for the proxy's client.

        At the end of the answer ``FEW_BYTES`` may still be under way.
        """
        proxy: Any = receive
        # The queue is not public. Without it all stays right, and costs the memory.
        can_confirm = isinstance(proxy, ASGIReceiveProxy) and hasattr(proxy, "_queue")
        if not can_confirm or scope.get(CONFIRMS) != CONFIRM_BYTES:
            yield send
            return
        window = scope[_WINDOW] = Window(self._shared)
        _Queue.replace(proxy, window.take)

        async def send_limited(message: Message) -> None:
            """Send a message in parts, each once the client has taken enough of those before."""
            if message["type"] == "http.response.start":
                message = {**message, _READ_LIMITS: self._read_limits}
            for part in _parts(message, window):
                # What is under way at the end is not counted any more.
                await window.wait_for_room(window.num_bytes if part.get("more_body", False) else FEW_BYTES)
                window.unread_bytes += len(part.get("body", b""))
                await send(part)

        try:
            yield send_limited
        finally:
            window.close()


class _Queue(asyncio.Queue[Any]):
    """The queue of messages that Serve fetched from the proxy; takes the confirmations out."""

    def __init__(self, confirm: Callable[[int], None]) -> None:
        super().__init__()
        self._confirm = confirm

    @classmethod
    def replace(cls, proxy: Any, confirm: Callable[[int], None]) -> None:
        """Replace the queue of Serve's ``receive`` by one of these, with the messages it holds already."""
        before: asyncio.Queue[Any] | None = proxy._queue
        proxy._queue = cls(confirm)
        while before is not None and not before.empty():
            proxy._queue.put_nowait(before.get_nowait())

    @override
    def put_nowait(self, item: Any) -> None:
        if isinstance(item, dict) and item["type"] == _CONFIRMED:
            self._confirm(item["num_bytes"])
        else:
            super().put_nowait(item)


def _parts(message: Message, window: Window) -> Iterator[Message]:
    """Split a message into parts that fit the window; the last of an answer has at most ``FEW_BYTES``."""
    body, start = message.get("body", b""), 0
    has_more = message.get("more_body", False)
    while len(body) - start > (window.num_bytes if has_more else FEW_BYTES):
        end = min(start + window.num_bytes, len(body) if has_more else len(body) - FEW_BYTES)
        yield {**message, "body": body[start:end], "more_body": True}
        start = end
    yield {**message, "body": body[start:]} if start else message


async def _receive_next(receive: Receive) -> Message:
    return await receive()
