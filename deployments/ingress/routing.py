"""Check a request's Host, headers, path and method, as pure ASGI.

Each check takes an ASGI scope and raises an ``ApiError``. Paths are compared as they were sent, before any decoding, so
that no second spelling reaches a handler.
"""

import ipaddress
import re
from collections.abc import Callable, Collection, Mapping
from contextlib import ExitStack
from typing import Any, Final, TypeAlias

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from deployments.errors import (
    BadRequestError,
    ForbiddenError,
    HeadersTooLargeError,
    MethodNotAllowedError,
    NotFoundError,
)
from deployments.ingress.connections.budgets import SLOT, SharedBudget
from deployments.settings.limits import Limits

ScopeCheck: TypeAlias = Callable[[Mapping[str, Any]], None]

Routes: TypeAlias = Mapping[bytes, tuple[str, ...]]
"""Path to methods. A path that ends in ``/`` stands for everything below it, whose handler compares exactly, except
``/`` itself; a ``*`` between slashes for one of our ids, or the name of a list."""

_ID: Final = rb"[A-Za-z0-9_-]{1,64}"

_HOST: Final = re.compile(rb"([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(:[0-9]{1,5})?")


class Gate:
    """Let a request through if a check of its scope raises nothing."""

    def __init__(self, app: ASGIApp, *, check: ScopeCheck) -> None:
        self._app = app
        self._check = check

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            self._check(scope)
        await self._app(scope, receive, send)


class MaxConcurrent:
    """Let at most ``num_requests`` into some paths at once; refuse others before their bodies are read.

    One key has three quarters of them at most. A place is free when the answer has been made, however slowly it is
    read: at its last piece, or where ``release_slot`` is called before.
    """

    def __init__(self, app: ASGIApp, *, paths: Collection[bytes], num_requests: int) -> None:
        self._app = app
        self._paths = frozenset(paths)
        self._places = SharedBudget(
            num_requests,
            "The service has no capacity for this request now. Try again in a moment.",
            f"This key has {num_requests - num_requests // 4} requests under way. Wait until one has ended.",
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or raw_path(scope) not in self._paths:
            await self._app(scope, receive, send)
            return
        with ExitStack() as place:
            place.enter_context(self._places.hold(1, scope["state"]["owner"]))
            scope[SLOT] = place.close

            async def send_made(message: Message) -> None:
                if message["type"] == "http.response.body" and not message.get("more_body", False):
                    place.close()
                await send(message)

            await self._app(scope, receive, send_made)


def check_host(scope: Mapping[str, Any]) -> None:
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


def known_key_check(cors_origins: Collection[str]) -> ScopeCheck:
    """Return a check for a service whose key everyone knows: refuse other names than loopback's, and foreign pages.

    A browser sends forms and uploads of any page without a preflight, and takes the service for the site of whoever
    has a name resolve to loopback.
    """

    def check(scope: Mapping[str, Any]) -> None:
        found = _host_of(scope)
        if not is_loopback(found[1].decode().lower().strip("[]")):
            raise ForbiddenError(
                "The demo's key is known to everyone, so this service answers at localhost, 127.0.0.1 and [::1] alone. "
                "For other names set SECRET_TOKEN to a key of your own.",
                code="host_not_allowed",
            )
        host = found[0].decode().lower()
        origins = {value.decode("latin-1") for name, value in scope["headers"] if name == b"origin"}
        if "*" not in cors_origins and not origins <= {f"http://{host}", f"https://{host}", *cors_origins}:
            raise ForbiddenError(
                "The demo's key is known to everyone, so this service takes nothing from web pages of other origins. "
                "Name those that may send requests in cors_origins (WORDBOUND_CORS_ORIGINS).",
                code="origin_not_allowed",
            )

    return check


def header_check(limits: Limits) -> ScopeCheck:
    """Return a check that refuses too many headers, or too many bytes of them."""

    def check(scope: Mapping[str, Any]) -> None:
        headers = scope["headers"]
        if len(headers) > limits.max_headers:
            raise HeadersTooLargeError(f"There are more than {limits.max_headers} headers.")
        if sum(len(name) + len(value) for name, value in headers) > limits.max_header_bytes:
            raise HeadersTooLargeError(f"The headers have more than {limits.max_header_bytes} bytes.")

    return check


def route_check(routes: Routes) -> ScopeCheck:
    """Return a check that refuses unknown paths (404) and other methods (405)."""

    def check(scope: Mapping[str, Any]) -> None:
        route = _route(routes, raw_path(scope))
        if route is None:
            raise NotFoundError("There is nothing at this path.")
        scope["state"]["route"] = route.decode()
        methods = routes[route]
        if scope["method"] not in methods:
            raise MethodNotAllowedError(methods)

    return check


def raw_path(scope: Mapping[str, Any]) -> bytes:
    """Return the path as it was sent, not decoded, without the query."""
    path: bytes = scope.get("raw_path") or scope["path"].encode()
    return path.partition(b"?")[0]


def _host_of(scope: Mapping[str, Any]) -> re.Match[bytes]:
    """Return the match of a request's Host, its name first; refuse a request without exactly one that is valid."""
    hosts = [value for name, value in scope["headers"] if name == b"host"]
    host = _HOST.fullmatch(hosts[0]) if len(hosts) == 1 else None
    if host is None:
        raise BadRequestError("The request needs exactly one Host header, with a host name and perhaps a port.")
    return host


def _route(routes: Routes, path: bytes) -> bytes | None:
    """Return the route that a path matches; None for an unknown path."""
    if path in routes and (path == b"/" or not path.endswith(b"/")):
        return path
    for pattern in routes:
        if b"*" in pattern:
            if re.fullmatch(re.escape(pattern).replace(rb"\*", _ID), path):
                return pattern
        elif pattern.endswith(b"/") and pattern != b"/" and path.startswith(pattern) and len(path) > len(pattern):
            return pattern
    return None
