"""Guard Serve's own proxy, which trusts headers that a client should not send, and holds headers and bodies without
bound.

Serve takes the request id, a deadline, "do not stop when I leave", a model and a session to route by from the client,
keeps a router entry for each model and session for ever, and tells its routes without a key. The proxy calls
``middlewares`` when ``RAY_SERVE_HTTP_PROXY_CALLBACK_IMPORT_PATH`` in the environment of the Ray node is
``deployments.proxy:middlewares``; the ingress does not start on a node without it.
"""

import os
from collections.abc import Mapping
from importlib.util import find_spec
from typing import Final

import uvicorn.config
from ray.serve._private import constants
from starlette.datastructures import MutableHeaders
from starlette.middleware import Middleware
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from deployments.errors import NotFoundError
from deployments.ingress.connections.idle_connections import TIMEOUT_S, IdleConnections
from deployments.ingress.connections.read_ahead import limit_client
from deployments.ingress.connections.send_ahead import CONFIRM_BYTES, CONFIRMS, Reader

CALLBACK_VARIABLE: Final = "RAY_SERVE_HTTP_PROXY_CALLBACK_IMPORT_PATH"
CALLBACK: Final = "deployments.proxy:middlewares"

_TRUSTED_BY_SERVE: Final = frozenset(
    name.lower().replace("_", "-").encode()
    for name in (
        "x-request-id",
        "x-request-timeout-seconds",
        "x-request-disconnect-disabled",
        "serve_multiplexed_model_id",
        "x-session-id",
        # An operator may have given it another name; private, and public by its variable.
        getattr(constants, "SERVE_SESSION_ID", "x-session-id"),
    )
)
_ROUTER_PREFIX: Final = b"x-serve-router-"

_ROUTES_OF_SERVE: Final = "/-/routes"


_LIMITED_HTTP: Final = "deployments.ingress.connections.header_limits:LimitedHttpToolsProtocol"


def middlewares() -> list[Middleware]:
    """Return what Serve puts around its application, and limit the headers that its server reads before that."""
    # Serve has no option for the server's class. Without httptools uvicorn takes h11, which stops at 64 KiB by itself.
    if find_spec("httptools") is not None:
        uvicorn.config.HTTP_PROTOCOLS["auto"] = _LIMITED_HTTP
    return [Middleware(ProxyGuard)]


def check_guarded(environment: Mapping[str, str] = os.environ) -> None:
    """Raise ``RuntimeError`` where this node's proxy would have no guard."""
    if environment.get(CALLBACK_VARIABLE) != CALLBACK:
        raise RuntimeError(
            f"Serve's proxy on this node is not guarded against its clients: set {CALLBACK_VARIABLE}={CALLBACK} on "
            "every node before Ray starts there (in the shell of `ray start`, or of `serve run` where that starts Ray)"
        )


def is_trusted_by_serve(name: bytes) -> bool:
    """Whether Serve acts on a header of that name, in any case, with dashes or underscores."""
    normal = name.lower().replace(b"_", b"-")
    return normal in _TRUSTED_BY_SERVE or normal.startswith(_ROUTER_PREFIX)


class ProxyGuard:
    """Drop the headers that Serve would trust, keep only the first request id of an answer, limit what Serve holds of
    either body, cut clients that neither send nor read, and refuse WebSockets."""

    def __init__(self, app: ASGIApp, *, idle_timeout_s: float = TIMEOUT_S) -> None:
        self._app = app
        self._idle_connections = IdleConnections(idle_timeout_s)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_with_one_id(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                if "x-request-id" in headers:
                    headers["x-request-id"] = headers["x-request-id"]
            await reader.send(message)

        if scope["type"] == "websocket":
            # There are none here, and Serve would look at their headers too.
            await send({"type": "websocket.close", "code": 1008, "reason": ""})
            return
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        self._idle_connections.watch(send)
        reader = Reader(limit_client(receive), send)
        if scope["path"] == _ROUTES_OF_SERVE:
            await _not_found(send)
        else:
            headers = [(name, value) for name, value in scope["headers"] if not is_trusted_by_serve(name)]
            scope = {**scope, "headers": headers, CONFIRMS: CONFIRM_BYTES}
            try:
                await self._app(scope, reader.receive, send_with_one_id)
            finally:
                reader.close()


async def _not_found(send: Send) -> None:
    body = NotFoundError("There is nothing at this path.").to_json()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": 404, "headers": headers})
    await send({"type": "http.response.body", "body": body})
