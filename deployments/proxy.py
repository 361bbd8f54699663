"""Serve's callback for its HTTP servers, ``deployments.proxy:middlewares``: drops what Serve would take from a client.

Serve takes the request id, a deadline, "do not stop when I leave", a trace, a model and a session to route by from the
client, keeps a router entry for each model and session for ever, and shows its routes without a key. It calls
``middlewares`` for its own proxy and for an ingress that listens itself; the ingress does not start without it.
"""

import hmac
import os
import socket
import uuid
from contextlib import suppress
from typing import Any, Final

from starlette.datastructures import MutableHeaders
from starlette.middleware import Middleware
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from deployments.errors import ApiError, ForbiddenError, NotFoundError
from deployments.process_setup import DIRECT_VARIABLE, KEY_HEADER, KEY_VARIABLE, run_ready_hook

_TRUSTED_BY_SERVE: Final = frozenset(
    name.lower().replace("_", "-").encode()
    for name in (
        "x-request-id",
        "x-request-timeout-seconds",
        "x-request-disconnect-disabled",
        "serve_multiplexed_model_id",
        "x-session-id",
        # An operator may have given it another name.
        os.environ.get("RAY_SERVE_SESSION_ID_HEADER_KEY", "x-session-id"),
        "traceparent",
        "tracestate",
        KEY_HEADER,
    )
)
_ROUTER_PREFIX: Final = b"x-serve-router-"

_ROUTES_OF_SERVE: Final = "/-/routes"

_LEAVE_IT_TO_THE_APPLICATION: Final = (b"x-request-disconnect-disabled", b"?1")
"""Serve would read ahead, without bound, to learn that a client left. The ingress reads a body as it needs it, and sees
for itself who leaves."""

_UNSENT_BYTES: Final = 64 * 1024
"""By itself the kernel takes 4 MB, which is all of most answers, and a client that reads nothing is not seen."""


def middlewares() -> list[Middleware]:
    """Return the guard of Serve's HTTP servers."""
    return [Middleware(Guard)]


def is_trusted_by_serve(name: bytes) -> bool:
    """Return whether Serve, or the guard, acts on a header of that name, in any case, with dashes or underscores."""
    normal = name.lower().replace(b"_", b"-")
    return normal in _TRUSTED_BY_SERVE or normal.startswith(_ROUTER_PREFIX)


class Guard:
    """Drop the headers that Serve would trust, keep only the first request id of an answer, and refuse WebSockets.

    Where there is a front (``deployments/front.py``), what does not come from it is refused.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._key = os.environ.get(KEY_VARIABLE, "").encode()
        self._is_ingress = os.environ.get(DIRECT_VARIABLE) == "1"
        # An ingress calls the hook itself.
        self._is_ready = self._is_ingress

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            # There are none here, and Serve would look at their headers too.
            await send({"type": "websocket.close", "code": 1008, "reason": ""})
            return
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        if not self._is_ready:
            self._is_ready = True
            run_ready_hook()
        if self._key and not self._is_from_front(scope):
            await _answer(ForbiddenError("Requests come by the service's own address alone."))(scope, receive, send)
        # Serve has no application for the target of ``OPTIONS *`` at any time.
        elif scope["path"] == _ROUTES_OF_SERVE or not scope["path"].startswith("/"):
            await _answer(NotFoundError("There is nothing at this path."))(scope, receive, send)
        else:
            headers = [(name, value) for name, value in scope["headers"] if not is_trusted_by_serve(name)]
            if self._is_ingress:
                headers.append(_LEAVE_IT_TO_THE_APPLICATION)
                _limit_kernel_buffer(send)
            await self._app({**scope, "headers": headers}, receive, _with_one_request_id(send))

    def _is_from_front(self, scope: Scope) -> bool:
        keys = [value for name, value in scope["headers"] if name == KEY_HEADER.encode()]
        return len(keys) == 1 and hmac.compare_digest(keys[0], self._key)


def _limit_kernel_buffer(send: Send) -> None:
    """Let the kernel buffer at most ``_UNSENT_BYTES`` of a connection's answer that it cannot send yet."""
    # Not public in uvicorn. Without it all stays right, and costs the memory.
    transport: Any = getattr(getattr(send, "__self__", None), "transport", None)
    if transport is not None:
        with suppress(OSError):
            transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, _UNSENT_BYTES)


def _with_one_request_id(send: Send) -> Send:
    async def send_with_one(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            if "x-request-id" in headers:
                headers["x-request-id"] = headers["x-request-id"]
        await send(message)

    return send_with_one


def _answer(error: ApiError) -> Response:
    # A request id, as every answer has one; it is in no log.
    headers = {"X-Request-Id": f"req-{uuid.uuid4().hex}", **dict(error.headers)}
    return Response(error.to_json(), error.status, headers, "application/json")
