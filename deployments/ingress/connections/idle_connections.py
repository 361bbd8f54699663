"""Cut connections whose client does not finish the headers of a request, or does not take the end of an answer.

Serve's server, uvicorn, has a deadline for a connection that is kept after an answer (``keep_alive_timeout_s`` of
``http_options``), and none for these: before the first request, amid headers, and while it closes.
"""

import asyncio
import socket
import struct
from contextlib import suppress
from typing import Any, Final

from starlette.types import Send

TIMEOUT_S: Final = 30.0
"""A browser opens connections before it needs them, and opens others where they are gone."""


class IdleConnections:
    """Aborts connections of one server that are idle for too long, from its first request on."""

    def __init__(self, timeout_s: float = TIMEOUT_S) -> None:
        self._timeout_s = timeout_s
        self._idle_since: dict[Any, float] = {}
        self._timer: asyncio.TimerHandle | None = None

    def watch(self, send: Send) -> None:
        """Start watching the connections of the uvicorn server of this ``send``, once; no other server's."""
        if self._timer is not None:
            return
        transport = transport_of(send)
        connections = getattr(transport and transport.get_protocol(), "connections", None)
        if connections is not None:
            self._abort_idle(connections)

    def _abort_idle(self, connections: set[Any]) -> None:
        """Abort connections idle for ``timeout_s``, and look again after a quarter of that."""
        loop = asyncio.get_running_loop()
        now = loop.time()
        self._idle_since = {one: self._idle_since.get(one, now) for one in connections if _is_idle(one)}
        for connection, since in self._idle_since.items():
            if now - since >= self._timeout_s:
                abort(connection.transport)
        self._timer = loop.call_later(self._timeout_s / 4, self._abort_idle, connections)


def _is_idle(connection: Any) -> bool:
    """Return whether a connection is closing, or between requests without a keep-alive deadline."""
    if not hasattr(connection, "cycle"):
        return False
    is_between_requests = connection.cycle is None or connection.cycle.response_complete
    has_deadline = getattr(connection, "timeout_keep_alive_task", None) is not None
    return connection.transport.is_closing() or (is_between_requests and not has_deadline)


def transport_of(send: Send) -> Any:
    """Return the transport of the connection whose ``send`` this is; None where the server is not uvicorn."""
    # Not public. Without it all stays right, and costs the memory.
    return getattr(getattr(send, "__self__", None), "transport", None)


def abort(transport: Any) -> None:
    """End a connection at once; what its client has not read is dropped, in the kernel too."""
    with suppress(OSError):
        # The kernel would go on sending it for as long as the client reads.
        transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    transport.abort()
