"""Lets a request through if it carries the service's key, as pure ASGI.

Stands outside routing, so that without the key nothing can be learned, not even which paths exist. The key never gets
further than this module: ``?token=`` is taken out of the query before anything else, an access log too, can read it.
"""

import hashlib
import hmac
from collections.abc import Collection, Iterator
from urllib.parse import unquote_to_bytes

from pydantic import SecretStr
from starlette.types import ASGIApp, Receive, Scope, Send

from deployments.errors import UnauthorizedError
from deployments.transport import raw_path

_MESSAGE = (
    "A valid key is required. Send it as 'Authorization: Bearer <key>' or 'X-API-Key: <key>'"
    " (or as '?token=<key>', where the service allows that)."
)


class Authentication:
    """Raises ``UnauthorizedError`` for a request without the key.

    Args:
        app: What the key gives access to.
        secret_token: The key.
        allow_query_token: Whether the key may come as ``?token=``. It is removed from the query in any case.
        open_paths: Paths that need no key.
    """

    def __init__(
        self, app: ASGIApp, *, secret_token: SecretStr, allow_query_token: bool, open_paths: Collection[bytes]
    ) -> None:
        self._app = app
        self._digest = _digest(secret_token.get_secret_value().encode())
        self._allow_query_token = allow_query_token
        self._open_paths = frozenset(open_paths)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            query_tokens = _take_query_tokens(scope)
            keys = [*_keys_in_headers(scope), *(query_tokens if self._allow_query_token else [])]
            if not self._is_valid(keys) and raw_path(scope) not in self._open_paths:
                raise UnauthorizedError(_MESSAGE)
        await self._app(scope, receive, send)

    def _is_valid(self, keys: list[bytes]) -> bool:
        """Compares every key, and digests of one length, so that the time taken says nothing about the right one."""
        matches = [hmac.compare_digest(_digest(key), self._digest) for key in keys]
        return any(matches)


def _digest(key: bytes) -> bytes:
    return hashlib.sha256(key).digest()


def _keys_in_headers(scope: Scope) -> Iterator[bytes]:
    for name, value in scope["headers"]:
        if name == b"x-api-key":
            yield value.strip()
        elif name == b"authorization":
            scheme, _, key = value.strip().partition(b" ")
            if scheme.lower() == b"bearer":
                yield key.strip()


def _take_query_tokens(scope: Scope) -> list[bytes]:
    """Removes every ``token`` from the query of ``scope``, in place: the server logs the same dict when it is done."""
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
