"""Turn what a replica yields into the HTTP answer, whole or as server-sent events; stop when the client leaves.

Nothing is sent before the first item, which decides the status. The replica's iterator is closed in every case.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Coroutine, Iterator, Mapping
from contextlib import aclosing, contextmanager, suppress
from typing import Any, Final, TypeVar

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import Receive, Scope, Send
from typing_extensions import override

from deployments.contract import Answer, Caller
from deployments.errors import ApiError, InternalError, error_of, to_api_error
from deployments.ingress.connections.budgets import Backlog, release_slot
from deployments.ingress.connections.reader import ReadTooSlowly
from deployments.metrics import REFUSALS

logger = logging.getLogger("ray.serve.wordbound")

_END_OF_STREAM: Final = b"data: [DONE]"

_END_S: Final = 0.1

T = TypeVar("T")


class ClientLeft(Exception):  # noqa: N818 - not an error of anyone's
    """The client closed its connection before its answer was complete."""


HEADERS: Final = "headers"
"""A key of the scope's state: headers for the answer of a request, whether it is an error or not."""


def owner_of(scope: Scope) -> str:
    """Return the name of a request's key, for a log line; ``-`` before it is known."""
    owner: str = scope.get("state", {}).get("owner", "-")
    return owner


def caller_of(request: Request) -> Caller:
    """Return whose request it is, and its id."""
    return Caller(request.state.owner, request.state.request_id)


@contextmanager
def api_errors(request: Request, list_param: str = "vocab_lang") -> Iterator[None]:
    """Map exceptions raised inside to the errors that the client gets; ``list_param`` is the field that named the list.

    Here and not further out: Serve adds a handler of its own for some of them to the application.
    """
    try:
        yield
    except (ApiError, ClientLeft):
        raise
    except Exception as error:
        raise to_api_error(error, request.state.request_id, list_param) from error


async def unless_client_leaves(receive: Receive, work: Coroutine[Any, Any, T]) -> T:
    """Await ``work``; cancel it as soon as the client disconnects. The request's body must have been read.

    Raises:
        ClientLeft: The client has left, and ``work`` has ended.
    """
    task = asyncio.create_task(work)
    departure = asyncio.create_task(_departure(receive))
    try:
        await asyncio.wait({task, departure}, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise ClientLeft
        return task.result()
    finally:
        task.cancel()
        departure.cancel()
        await asyncio.gather(task, departure, return_exceptions=True)


async def _departure(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def respond(request: Request, answer: AsyncGenerator[Answer], *, is_stream: bool, backlog: Backlog) -> Response:
    """Turn a replica's answer into a whole response or an event stream, once its first item is there.

    What waits for the client is counted in ``backlog``.

    Raises:
        ApiError: The first item is an error, or not what was asked for.
        ClientLeft: The client left while waiting.
    """
    request_id: str = request.state.request_id
    try:
        first = await unless_client_leaves(request.receive, _first(answer, is_stream=is_stream))
        if is_stream and isinstance(first, str):
            return EventStream(first, answer, request_id, backlog)
        if is_stream or not isinstance(first, dict):
            raise error_of(first, request_id)
    except BaseException:
        await answer.aclose()
        raise
    await answer.aclose()
    return WholeAnswer(JSONResponse(first).body, "application/json", backlog)


class WholeAnswer(Response):
    """A response whose body counts towards what waits in ``backlog`` until it has been sent.

    Calling it raises ``OverloadedError`` or ``TooManyRequestsError``, before anything is sent, where that is too much.
    """

    def __init__(
        self,
        body: bytes | memoryview,
        media_type: str,
        backlog: Backlog,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(body, media_type=media_type, headers=headers)
        self._backlog = backlog

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self._backlog.hold(len(self.body), owner_of(scope)):
            await super().__call__(scope, receive, send)


class PieceStream(Response):
    """A body in pieces until its end or until the client leaves; what makes them is held or bounded without a place.

    One that fails is cut off, which its length or its form shows.
    """

    def __init__(
        self, first: Any, rest: AsyncGenerator[Any], request_id: str, media_type: str, headers: Mapping[str, str]
    ) -> None:
        super().__init__(media_type=media_type, headers=headers)
        if "Content-Length" not in headers:
            del self.headers["content-length"]
        self._first = first
        self._rest = rest
        self._request_id = request_id

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async with aclosing(self._rest):
            await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
            await unless_client_leaves(receive, self._send_pieces(scope, send))

    async def _send_pieces(self, scope: Scope, send: Send) -> None:
        """Send the pieces; the next one is made when one has been sent."""
        release_slot(scope)
        try:
            await send({"type": "http.response.body", "body": self._first, "more_body": True})
            async for piece in self._rest:
                await send({"type": "http.response.body", "body": piece, "more_body": True})
        except ReadTooSlowly:
            raise
        except Exception as exception:
            error = to_api_error(exception, self._request_id)
            logger.warning("%s of %s broke off: %s", self._request_id, owner_of(scope), error.message)
            raise
        await send({"type": "http.response.body", "body": b"", "more_body": False})


class EventStream(PieceStream):
    """Server-sent events until the answer ends or fails, or the client leaves.

    An answer that fails, or ends without ``[DONE]``, gets one error event as its last.
    """

    def __init__(self, first: str, rest: AsyncGenerator[Answer], request_id: str, backlog: Backlog) -> None:
        headers = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}
        super().__init__(first, rest, request_id, "text/event-stream", headers)
        self._backlog = backlog

    @override
    async def _send_pieces(self, scope: Scope, send: Send) -> None:
        """Send the events; end with an error event where the stream fails or lacks ``[DONE]``."""
        last = b""
        try:
            async with aclosing(self._backlog.read(self._events(scope))) as bodies:
                async for body in bodies:
                    await send({"type": "http.response.body", "body": body, "more_body": True})
                    last = body
            if not last.rstrip().endswith(_END_OF_STREAM):
                raise InternalError(self._request_id)
        except ReadTooSlowly:
            raise
        except Exception as exception:
            error = to_api_error(exception, self._request_id)
            owner = owner_of(scope)
            REFUSALS.inc(tags={"code": error.code or error.type})
            logger.warning("%s of %s broke off: %s", self._request_id, owner, error.message, exc_info=exception)
            await send({"type": "http.response.body", "body": _event(error), "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _events(self, scope: Scope) -> AsyncGenerator[str]:
        """Yield the events, raise an error item, and free the request's place after the last."""
        yield self._first
        async for item in self._rest:
            if not isinstance(item, str):
                raise error_of(item, self._request_id)
            yield item
        # All is made, and what is left of it is in the backlog.
        release_slot(scope)


async def _first(answer: AsyncGenerator[Answer], *, is_stream: bool) -> Answer | None:
    first = await anext(answer, None)
    if not is_stream and isinstance(first, dict):
        # It is all there. To read its end costs less than to cancel the call, if it comes soon.
        with suppress(Exception):
            async with asyncio.timeout(_END_S):
                await anext(answer, None)
    return first


def _event(error: ApiError) -> bytes:
    return b"data: " + error.to_json() + b"\n\n"
