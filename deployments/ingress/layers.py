"""The layers that every request passes before its handler, as pure ASGI: id, errors and log; Host and key.

The id is the server's own; one sent by the client is ignored. The line of the log names the key by its name, which the
settings bound to letters, digits, _ and -; the key itself is in no line.
"""

import hmac
import ipaddress
import logging
import re
import time
import uuid
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import closing
from typing import Final, TypeAlias
from urllib.parse import unquote_to_bytes

from starlette.datastructures import MutableHeaders
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from deployments.errors import (
    BadRequestError,
    ForbiddenError,
    InternalError,
    UnauthorizedError,
    printable,
    to_api_error,
)
from deployments.ingress.connections.budgets import release_slot
from deployments.ingress.connections.reader import Reader, ReadTooSlowly
from deployments.ingress.route import raw_path
from deployments.ingress.stream import HEADERS, ClientLeft, owner_of
from deployments.metrics import FIRST_BYTE_SECONDS, REFUSALS, REQUEST_SECONDS, REQUESTS
from deployments.settings.keys import DEFAULT_OWNER, digest_of
from deployments.settings.limits import Limits

logger = logging.getLogger("ray.serve.wordbound")
"""Below Serve's own logger, which alone has a handler in a replica."""

CLIENT_CLOSED_REQUEST: Final = 499
"""nginx's number, for logs and metrics; the client that left never sees it."""


Check: TypeAlias = Callable[[Scope], Awaitable[None] | None]
"""Raises an ``ApiError`` for a request that must not go on; may note in its scope's state what it found."""


class Envelope:
    """Give every request exactly one answer, with an ``X-Request-Id``, sent as ``Reader`` does.

    One goes on to the application if no check raises, one after the other; its body has not been read.
    """

    def __init__(self, app: ASGIApp, *, limits: Limits, checks: Sequence[Check]) -> None:
        self._app = app
        self._limits = limits
        self._checks = checks

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008, "reason": ""})
        elif scope["type"] == "http":
            with closing(Reader(send, self._limits)) as reader:
                await _Exchange(scope, receive, reader.send).run(self._app, self._checks)
        else:
            await self._app(scope, receive, send)


class _Exchange:
    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._scope = scope
        self._receive = receive
        self._send = send
        self._status: int | None = None
        self._begun_s = 0.0
        self._started_at = time.monotonic()
        self.request_id = f"req-{uuid.uuid4().hex}"
        scope.setdefault("state", {})["request_id"] = self.request_id

    async def run(self, app: ASGIApp, checks: Sequence[Check]) -> None:
        """Run the checks and the application, answer what they raise, and log the request."""
        try:
            for check in checks:
                if (waiting := check(self._scope)) is not None:
                    await waiting
            await app(self._scope, self._receive, self._send_with_id)
        except ClientLeft:
            await self._answer(Response(status_code=CLIENT_CLOSED_REQUEST))
        except ReadTooSlowly:
            logger.info("%s of %s was read too slowly, and is cut", self.request_id, owner_of(self._scope))
        except Exception as exception:
            error = to_api_error(exception, self.request_id)
            if isinstance(error, InternalError):
                logger.exception("%s of %s failed", self.request_id, owner_of(self._scope))
            if self._status is not None:
                raise
            REFUSALS.inc(tags={"code": error.code or error.type})
            await self._answer(Response(error.to_json(), error.status, dict(error.headers), "application/json"))
        finally:
            release_slot(self._scope)
            self._record(time.monotonic() - self._started_at)

    async def _answer(self, response: Response) -> None:
        if self._status is None:
            await response(self._scope, self._receive, self._send_with_id)

    async def _send_with_id(self, message: Message) -> None:
        """Send a message; an answer's start gets the request id and the headers added so far."""
        if message["type"] == "http.response.start":
            self._status = message["status"]
            self._begun_s = time.monotonic() - self._started_at
            headers = MutableHeaders(scope=message)
            headers.update(self._scope["state"].get(HEADERS, {}))
            headers["X-Request-Id"] = self.request_id
        elif not message.get("more_body", False):
            # All is made, however slowly it is read.
            release_slot(self._scope)
        await self._send(message)

    def _record(self, seconds: float) -> None:
        owner, status = owner_of(self._scope), str(self._status or "-")
        method = printable(self._scope["method"], 16)
        path = printable(raw_path(self._scope).decode("ascii", "replace"))
        logger.info("%s %s %s %s %s %.0f ms", self.request_id, owner, method, path, status, 1000 * seconds)
        route = self._scope["state"].get("route", "other")
        REQUESTS.inc(tags={"route": route, "status": status, "key": owner})
        REQUEST_SECONDS.observe(seconds, {"route": route})
        # A client that left saw no answer begin.
        if self._status not in (None, CLIENT_CLOSED_REQUEST):
            FIRST_BYTE_SECONDS.observe(self._begun_s, {"route": route})


_HOST: Final = re.compile(rb"([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(:[0-9]{1,5})?")


def check_host(scope: Scope) -> None:
    """Refuse a request without exactly one valid Host header: URLs are built from it."""
    _host_of(scope)


def is_loopback(host: str) -> bool:
    """Return whether a host is ``localhost`` or a loopback address: no name whose meaning others choose."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def open_service_check(why: str, cors_origins: Collection[str]) -> Check:
    """Return a check for a service that anybody may ask: refuse other names than loopback's, and foreign pages.

    A browser sends forms and uploads of any page without a preflight, and takes the service for the site of whoever
    has a name resolve to loopback.
    """

    def check(scope: Scope) -> None:
        found = _host_of(scope)
        if not is_loopback(found[1].decode().lower().strip("[]")):
            raise ForbiddenError(
                f"{why}, so this service answers at localhost, 127.0.0.1 and [::1] alone. For other names set "
                "SECRET_TOKEN to a key of your own, which clients send.",
                code="host_not_allowed",
            )
        host = found[0].decode().lower()
        origins = {value.decode("latin-1") for name, value in scope["headers"] if name == b"origin"}
        if "*" not in cors_origins and not origins <= {f"http://{host}", f"https://{host}", *cors_origins}:
            raise ForbiddenError(
                f"{why}, so this service takes nothing from web pages of other origins. Name those that may send "
                "requests in cors_origins (WORDBOUND_CORS_ORIGINS).",
                code="origin_not_allowed",
            )

    return check


def _host_of(scope: Scope) -> re.Match[bytes]:
    """Return the match of a request's Host, its name first; refuse a request without exactly one that is valid."""
    hosts = [value for name, value in scope["headers"] if name == b"host"]
    host = _HOST.fullmatch(hosts[0]) if len(hosts) == 1 else None
    if host is None:
        raise BadRequestError("The request needs exactly one Host header, with a host name and perhaps a port.")
    return host


_NO_KEY: Final = (
    "A valid key is required. Send it as 'Authorization: Bearer <key>' or 'X-API-Key: <key>'"
    " (or as '?token=<key>', where the service allows that)."
)


def key_check(
    digests: Mapping[str, str],
    is_open: Callable[[bytes], bool],
    *,
    allow_query_token: bool,
    forbids: bool = False,
    keyless: bool = False,
) -> Check:
    """Return a check of a request's key, whose name it stores as ``owner``; without one only what ``is_open`` passes.

    Others are refused with 401, or 403 where it ``forbids``; ``keyless``, they are of the default key.

    It stands outside routing, so that nothing can be learned without a key, not even which paths exist. ``?token=`` is
    removed from the query, before an access log reads it, and counts if ``allow_query_token``. ``digests`` are those of
    the keys, by name.
    """

    def check(scope: Scope) -> None:
        query_tokens = _take_query_tokens(scope)
        given = list(map(digest_of, [*_keys_in_headers(scope), *(query_tokens if allow_query_token else [])]))
        # Takes the same time whichever key matches.
        names = [name for name, digest in digests.items() for key in given if hmac.compare_digest(key, digest)]
        if names or keyless:
            scope.setdefault("state", {})["owner"] = names[0] if names else DEFAULT_OWNER
        elif not is_open(raw_path(scope)):
            raise ForbiddenError(_NO_KEY, code=UnauthorizedError.code) if forbids else UnauthorizedError(_NO_KEY)

    return check


def _keys_in_headers(scope: Scope) -> Iterator[bytes]:
    for name, value in scope["headers"]:
        if name == b"x-api-key":
            yield value.strip()
        elif name == b"authorization":
            scheme, _, key = value.strip().partition(b" ")
            if scheme.lower() == b"bearer":
                yield key.strip()


def _take_query_tokens(scope: Scope) -> list[bytes]:
    """Remove every ``token`` from the query, and return them; in place, for the server logs this dict later."""
    tokens, others = [], []
    for pair in scope.get("query_string", b"").split(b"&"):
        name, _, value = pair.replace(b"+", b" ").partition(b"=")
        if unquote_to_bytes(name) == b"token":
            tokens.append(unquote_to_bytes(value))
        else:
            others.append(pair)
    if tokens:
        scope["query_string"] = b"&".join(others)
    return tokens
