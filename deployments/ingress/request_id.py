"""The outermost layer, as pure ASGI: give each request its id, answer every exception, write one log line.

The id is the server's own; one sent by the client is ignored. The line names the key by its name, which the settings
bound to letters, digits, _ and -; the key itself is in no line.
"""

import logging
import time
import uuid
from collections.abc import Mapping
from typing import Final

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from deployments.errors import ApiError, InternalError, printable, to_api_error
from deployments.ingress.answers import ClientLeft, owner_of
from deployments.ingress.connections.read_ahead import limit_fetching
from deployments.ingress.connections.send_ahead import SendAhead
from deployments.ingress.routing import raw_path
from deployments.metrics import FIRST_BYTE_SECONDS, REFUSALS, REQUEST_SECONDS, REQUESTS
from deployments.settings.limits import Limits

logger = logging.getLogger("ray.serve.wordbound")
"""Below Serve's own logger, which alone has a handler in a replica."""

CLIENT_CLOSED_REQUEST = 499
"""nginx's number, for logs and metrics; the client that left never sees it."""


_HEADERS: Final = "headers"


def add_headers(scope: Scope, headers: Mapping[str, str]) -> None:
    """Add headers to the answer of a request, whether it is an error or not."""
    scope["state"].setdefault(_HEADERS, {}).update(headers)


class Envelope:
    """Give every request exactly one answer, with an ``X-Request-Id``, sent as ``SendAhead`` does."""

    def __init__(self, app: ASGIApp, *, limits: Limits) -> None:
        self._app = app
        self._send_ahead = SendAhead(limits)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008, "reason": ""})
        elif scope["type"] == "http":
            with self._send_ahead.limit(scope, receive, send) as limited:
                await _Exchange(scope, limited).run(self._app, limit_fetching(receive))
        else:
            await self._app(scope, receive, send)


class _Exchange:
    def __init__(self, scope: Scope, send: Send) -> None:
        self._scope = scope
        self._send = send
        self._status: int | None = None
        self._begun_s = 0.0
        self._started_at = time.monotonic()
        self.request_id = f"req-{uuid.uuid4().hex}"
        scope.setdefault("state", {})["request_id"] = self.request_id

    async def run(self, app: ASGIApp, receive: Receive) -> None:
        """Run the application, answer what it raises, and log the request."""
        try:
            await app(self._scope, receive, self._send_with_id)
        except ClientLeft:
            await self._answer(CLIENT_CLOSED_REQUEST, b"", ())
        except Exception as exception:
            error = to_api_error(exception, self.request_id)
            if isinstance(error, InternalError):
                logger.exception("%s of %s failed", self.request_id, owner_of(self._scope))
            if self._status is not None:
                raise
            await self._answer_error(error)
        finally:
            self._log()
            self._measure()

    async def _answer_error(self, error: ApiError) -> None:
        REFUSALS.inc(tags={"code": error.code or error.type})
        await self._answer(error.status, error.to_json(), (("Content-Type", "application/json"), *error.headers))

    async def _answer(self, status: int, body: bytes, headers: tuple[tuple[str, str], ...]) -> None:
        """Send a whole answer, unless one has begun."""
        if self._status is not None:
            return
        fields = (*headers, ("Content-Length", str(len(body))))
        raw = [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in fields]
        await self._send_with_id({"type": "http.response.start", "status": status, "headers": raw})
        await self._send_with_id(
            {"type": "http.response.body", "body": body if self._scope["method"] != "HEAD" else b""}
        )

    async def _send_with_id(self, message: Message) -> None:
        """Send a message; an answer's start gets the request id and the headers added so far."""
        if message["type"] == "http.response.start":
            self._status = message["status"]
            self._begun_s = time.monotonic() - self._started_at
            headers = MutableHeaders(scope=message)
            headers.update(self._scope["state"].get(_HEADERS, {}))
            headers["X-Request-Id"] = self.request_id
        await self._send(message)

    def _log(self) -> None:
        """Log one line: request id, key, method, path, status and milliseconds."""
        logger.info(
            "%s %s %s %s %s %.0f ms",
            self.request_id,
            owner_of(self._scope),
            printable(self._scope["method"], 16),
            printable(raw_path(self._scope).decode("ascii", "replace")),
            self._status or "-",
            1000 * (time.monotonic() - self._started_at),
        )

    def _measure(self) -> None:
        """Count the request, and its times, by its route."""
        route = self._scope["state"].get("route", "other")
        status = str(self._status or "-")
        REQUESTS.inc(tags={"route": route, "status": status, "key": owner_of(self._scope)})
        REQUEST_SECONDS.observe(time.monotonic() - self._started_at, {"route": route})
        # A client that left saw no answer begin.
        if self._status not in (None, CLIENT_CLOSED_REQUEST):
            FIRST_BYTE_SECONDS.observe(self._begun_s, {"route": route})
