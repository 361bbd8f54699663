"""Check a request's Host, origin and headers, as pure ASGI.

Each check takes an ASGI scope and raises an ``ApiError``.
"""

import ipaddress
import re
from collections.abc import Callable, Collection, Mapping
from typing import Any, Final, TypeAlias

from starlette.types import ASGIApp, Receive, Scope, Send

from deployments.errors import BadRequestError, ForbiddenError, HeadersTooLargeError
from deployments.settings.limits import MAX_HEADER_BYTES, MAX_HEADERS

ScopeCheck: TypeAlias = Callable[[Mapping[str, Any]], None]

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


def check_headers(scope: Mapping[str, Any]) -> None:
    """Refuse too many headers, or too many bytes of them."""
    headers = scope["headers"]
    if len(headers) > MAX_HEADERS:
        raise HeadersTooLargeError(f"There are more than {MAX_HEADERS} headers.")
    if sum(len(name) + len(value) for name, value in headers) > MAX_HEADER_BYTES:
        raise HeadersTooLargeError(f"The headers have more than {MAX_HEADER_BYTES} bytes.")


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
