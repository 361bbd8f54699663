"""Check a request's key and store the key's name as ``owner`` in the scope's state, as pure ASGI.

Runs outside routing, so that nothing can be learned without a key, not even which paths exist. Removes ``?token=`` from
the query before anything else, such as an access log, can read it.
"""

import hmac
from collections.abc import Collection, Iterator, Mapping
from urllib.parse import unquote_to_bytes

from starlette.types import ASGIApp, Receive, Scope, Send

from deployments.errors import UnauthorizedError
from deployments.ingress.layers.routing import raw_path
from deployments.keys import digest_of

_MESSAGE = (
    "A valid key is required. Send it as 'Authorization: Bearer <key>' or 'X-API-Key: <key>'"
    " (or as '?token=<key>', where the service allows that)."
)


class Authentication:
    """Raise ``UnauthorizedError`` for a request without a key, except for ``open_paths``.

    ``digests`` are those of the keys, by name. ``?token=`` is removed from the query in any case, and counts if
    ``allow_query_token``.
    """

    def __init__(
        self, app: ASGIApp, *, digests: Mapping[str, str], allow_query_token: bool, open_paths: Collection[bytes]
    ) -> None:
        self._app = app
        self._digests = dict(digests)
        self._allow_query_token = allow_query_token
        self._open_paths = frozenset(open_paths)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            query_tokens = _take_query_tokens(scope)
            keys = [*_keys_in_headers(scope), *(query_tokens if self._allow_query_token else [])]
            owner = self._owner(keys)
            if owner is not None:
                scope.setdefault("state", {})["owner"] = owner
            elif raw_path(scope) not in self._open_paths:
                raise UnauthorizedError(_MESSAGE)
        await self._app(scope, receive, send)

    def _owner(self, keys: list[bytes]) -> str | None:
        """Return the name of the first valid key; the time taken is the same whichever key matches."""
        given = [digest_of(key) for key in keys]
        names = [name for name, digest in self._digests.items() for key in given if hmac.compare_digest(key, digest)]
        return names[0] if names else None


def _keys_in_headers(scope: Scope) -> Iterator[bytes]:
    for name, value in scope["headers"]:
        if name == b"x-api-key":
            yield value.strip()
        elif name == b"authorization":
            scheme, _, key = value.strip().partition(b" ")
            if scheme.lower() == b"bearer":
                yield key.strip()


def _take_query_tokens(scope: Scope) -> list[bytes]:
    """Remove every ``token`` from the query of ``scope``, in place: the server logs the same dict afterwards."""
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
