"""Guard Serve's own proxy, which trusts headers that a client should not send, and holds headers and bodies without
bound.

Serve takes the request id, a deadline, "do not stop when I leave", a model and a session to route by from the client,
keeps a router entry for each model and session for ever, and shows its routes without a key. While the application is
started, replaced or ended, it answers in its own words or not at all. The proxy calls
``middlewares`` when ``RAY_SERVE_HTTP_PROXY_CALLBACK_IMPORT_PATH`` in its environment is
``deployments.proxy:middlewares``; the ingress, which Serve's controller gives the same, does not start without it.
"""

import asyncio
import os
import uuid
from collections.abc import Awaitable, Mapping
from importlib.util import find_spec
from typing import Any, Final

import uvicorn.config
from starlette.datastructures import MutableHeaders
from starlette.middleware import Middleware
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from deployments.errors import ApiError, NotFoundError, OverloadedError
from deployments.ingress.connections.idle_connections import TIMEOUT_S, IdleConnections
from deployments.ingress.connections.read_ahead import limit_client
from deployments.ingress.connections.send_ahead import CONFIRM_BYTES, CONFIRMS, Reader
from deployments.process_setup import CALLBACK, CALLBACK_VARIABLE, run_ready_hook
from deployments.ray_private import SESSION_ID_HEADER, handles_of_proxy, has_no_replica, waits_in
from deployments.single_flight import Watch

_TRUSTED_BY_SERVE: Final = frozenset(
    name.lower().replace("_", "-").encode()
    for name in (
        "x-request-id",
        "x-request-timeout-seconds",
        "x-request-disconnect-disabled",
        "serve_multiplexed_model_id",
        "x-session-id",
        SESSION_ID_HEADER,
    )
)
_ROUTER_PREFIX: Final = b"x-serve-router-"

_ROUTES_OF_SERVE: Final = "/-/routes"

_NO_APPLICATION: Final = b"Ping http://.../-/routes for available routes."
"""In Serve's own answer where it has no application for a path. Ours has them all, from when it is ready until its end
begins."""

_START_S: Final = 10
"""When to come back where there is no application or no ingress."""


_LIMITED_HTTP: Final = "deployments.ingress.connections.header_limits:HeaderLimitProtocol"


def middlewares() -> list[Middleware]:
    """Return ``ProxyGuard`` for Serve's proxy, and have uvicorn limit the headers that it reads before that."""
    # Serve has no option for the server's class. Without httptools uvicorn takes h11, which stops at 64 KiB by itself.
    if find_spec("httptools") is not None:
        uvicorn.config.HTTP_PROTOCOLS["auto"] = _LIMITED_HTTP
    return [Middleware(ProxyGuard)]


def check_guarded(environment: Mapping[str, str] = os.environ) -> None:
    """Raise ``RuntimeError`` unless Serve's proxies are configured to load ``ProxyGuard``."""
    if environment.get(CALLBACK_VARIABLE) != CALLBACK:
        raise RuntimeError(
            "Serve's proxy is not guarded against its clients. The YAML file needs the controller_options of "
            f"serve_config.yaml, among them {CALLBACK_VARIABLE}: {CALLBACK}. Serve reads them when it starts; `serve "
            "shutdown` ends one that runs. Without a file, set the variable on every node before Ray starts"
        )


def is_trusted_by_serve(name: bytes) -> bool:
    """Return whether Serve acts on a header of that name, in any case, with dashes or underscores."""
    normal = name.lower().replace(b"_", b"-")
    return normal in _TRUSTED_BY_SERVE or normal.startswith(_ROUTER_PREFIX)


class ProxyGuard:
    """Drop the headers that Serve would trust, keep only the first request id of an answer, limit what Serve holds of
    either body, cut clients that neither send nor read, refuse WebSockets, and answer where no ingress does."""

    def __init__(self, app: ASGIApp, *, idle_timeout_s: float = TIMEOUT_S) -> None:
        self._app = app
        self._idle_connections = IdleConnections(idle_timeout_s)
        self._is_ready = False
        self._watch = Watch(lambda: bool(self._handles_without_ingress()))

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
        self._idle_connections.watch(send)
        reader = Reader(limit_client(receive), send)
        # Serve has no application for the target of ``OPTIONS *`` at any time.
        if scope["path"] == _ROUTES_OF_SERVE or not scope["path"].startswith("/"):
            await _send_error(NotFoundError("There is nothing at this path."), send)
        else:
            headers = [(name, value) for name, value in scope["headers"] if not is_trusted_by_serve(name)]
            # Serve's own name of the request.
            request_id = uuid.uuid4().hex
            headers.append((b"x-request-id", request_id.encode()))
            scope = {**scope, "headers": headers, CONFIRMS: CONFIRM_BYTES}
            answer = _Answer(reader.send)
            try:
                await self._answer(request_id, self._app(scope, reader.receive, answer.send))
                await answer.finish()
            finally:
                reader.close()

    async def _answer(self, request_id: str, answered: Awaitable[None]) -> None:
        """Wait until Serve's proxy has answered a request; while it waits for an ingress, only as long as there is one.

        Serve would let it wait until another ingress has started, for half a minute on a busy machine.
        """
        answering = asyncio.ensure_future(answered)
        try:
            while not answering.done():
                no_ingress = self._watch.add()
                await asyncio.wait({answering, no_ingress}, return_when=asyncio.FIRST_COMPLETED)
                no_ingress.cancel()
                # One that an ingress has already, such as one that is being ended, is left to it.
                if any(waits_in(handle, request_id) for handle in self._handles_without_ingress()):
                    return
            await answering
        finally:
            if answering.cancel():
                await asyncio.wait({answering})

    def _handles_without_ingress(self) -> list[Any]:
        return [handle for handle in handles_of_proxy(self._app) if has_no_replica(handle)]


class _Answer:
    """An answer on its way through the proxy: with one request id, and with our error in place of Serve's."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._has_begun = self._is_stream = self._has_ended = False
        # The beginning of what may be Serve's own.
        self._held: Message | None = None

    async def send(self, message: Message) -> None:
        """Pass a message on with one request id; replace Serve's plain-text 404 by our error."""
        if message["type"] == "http.response.start":
            self._has_begun = True
            headers = MutableHeaders(scope=message)
            self._is_stream = headers.get("content-type", "").startswith("text/event-stream")
            if "x-request-id" in headers:
                headers["x-request-id"] = headers["x-request-id"]
            if message["status"] == 404 and headers.get("content-type", "").startswith("text/plain"):
                self._held = message
                return
        elif self._held is not None:
            held, self._held = self._held, None
            if _NO_APPLICATION in message.get("body", b""):
                await _send_error(_no_ingress_error(), self._send)
                return
            await self._send(held)
        else:
            self._has_ended = not message.get("more_body", False)
        await self._send(message)

    async def finish(self) -> None:
        """Send an error where no answer came, and end a stream that has no end: their ingress died."""
        if not self._has_begun:
            await _send_error(_no_ingress_error(), self._send)
        elif self._is_stream and not self._has_ended:
            event = b"data: " + _no_ingress_error().to_json() + b"\n\n"
            await self._send({"type": "http.response.body", "body": event})


def _no_ingress_error() -> OverloadedError:
    return OverloadedError("The service is being started or ended. Try again in a moment.", _START_S)


async def _send_error(error: ApiError, send: Send) -> None:
    """Send an error as a whole HTTP answer, with a request id of its own."""
    body = error.to_json()
    fields = (
        ("Content-Type", "application/json"),
        ("Content-Length", str(len(body))),
        # As every answer has one; it is in no log.
        ("X-Request-Id", f"req-{uuid.uuid4().hex}"),
        *error.headers,
    )
    headers = [(name.lower().encode(), value.encode()) for name, value in fields]
    await send({"type": "http.response.start", "status": error.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
