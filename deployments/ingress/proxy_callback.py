"""Guard Serve's own proxy, which trusts headers that a client should not send, and reads bodies without bound.

Serve takes the request id, a deadline, and "do not stop when I leave" from the client, and tells its routes without a
key. The proxy calls ``middlewares`` when ``RAY_SERVE_HTTP_PROXY_CALLBACK_IMPORT_PATH`` in the environment of the Ray
node is ``deployments.proxy:middlewares``. Without it the front is safe but for these four, and uploads are held in
memory.
"""

from typing import Final

from starlette.datastructures import MutableHeaders
from starlette.middleware import Middleware
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from deployments.errors import NotFoundError
from deployments.ingress.read_ahead import limit_client

TRUSTED_BY_SERVE: Final = frozenset(
    {b"x-request-id", b"x-request-timeout-seconds", b"x-request-disconnect-disabled", b"x-session-id"}
)

_ROUTES_OF_SERVE: Final = "/-/routes"


def middlewares() -> list[Middleware]:
    return [Middleware(ProxyGuard)]


class ProxyGuard:
    """Drop the headers that Serve would trust, keep only the first request id of an answer, and limit read-ahead."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_with_one_id(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                if "x-request-id" in headers:
                    headers["x-request-id"] = headers["x-request-id"]
            await send(message)

        if scope["type"] != "http":
            await self._app(scope, receive, send)
        elif scope["path"] == _ROUTES_OF_SERVE:
            await _not_found(send)
        else:
            headers = [(name, value) for name, value in scope["headers"] if name not in TRUSTED_BY_SERVE]
            await self._app({**scope, "headers": headers}, limit_client(receive), send_with_one_id)


async def _not_found(send: Send) -> None:
    body = NotFoundError("There is nothing at this path.").to_json()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": 404, "headers": headers})
    await send({"type": "http.response.body", "body": body})
