"""Clients of a running service, for its routes that OpenAI does not have: word lists, word tools, documents and rows.

``Client`` waits for each answer, ``AsyncClient`` is awaited. For chats, files and batches there is ``openai``.
"""

import asyncio
import functools
import json
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from itertools import count
from typing import Any, Final, Self, TypeVar

import httpx2

from wordbound.errors import AwayError, RefusedError, ServiceError
from wordbound.routes import Call, Routes

URL_VARIABLE: Final = "WORDBOUND_URL"
KEY_VARIABLE: Final = "WORDBOUND_API_KEY"
DEFAULT_URL: Final = "http://127.0.0.1:8000"

DEMO_KEY: Final = "changeme"
"""The well-known key of the demo, which is on this machine only: used there where no other is set."""

CONNECT_TIMEOUT_S: Final = 10.0
READ_TIMEOUT_S: Final = 660.0
"""Without a byte. The service ends an answer after 600 s (``max_answer_s``), with an error."""

MAX_WAIT_S: Final = 60.0
"""Before a request is sent again. Longer is a rate that is used up for now: who asked should know."""

_BUSY: Final = (429, 503)
_NOT_BY_CONTENT: Final = (401, 403, 405, 408, 409, 429)
"""Refusals of any request, whatever is in it."""

_BROKEN: Final = (httpx2.ReadError, httpx2.WriteError, httpx2.RemoteProtocolError)
"""Of a connection that was made: the server ends an idle one, or httpx2's pool does when another thread is about to use
it (https://github.com/encode/httpcore/issues/1110)."""

_LOOPBACK: Final = ("127.0.0.1", "localhost", "::1")
_END_OF_STREAM: Final = "data: [DONE]"

T = TypeVar("T")


class _Connection(Routes):
    """What both clients share: address, key, and what is done with an answer."""

    def __init__(self, base_url: str | None, api_key: str | None, timeout: float, max_retries: int) -> None:
        self.url = (base_url or os.environ.get(URL_VARIABLE) or DEFAULT_URL).strip().rstrip("/").removesuffix("/v1")
        try:
            url = httpx2.URL(self.url)
        except httpx2.InvalidURL:
            url = httpx2.URL()
        if url.scheme not in ("http", "https") or not url.host:
            raise ValueError(f"{URL_VARIABLE} must be an address such as {DEFAULT_URL}")
        is_here = url.host in _LOOPBACK
        key = api_key or os.environ.get(KEY_VARIABLE) or (DEMO_KEY if is_here else None)
        if key is None:
            raise ValueError(f"set {KEY_VARIABLE} to a key of the service at {self.url}")
        if not key.isascii() or not key.isprintable():
            raise ValueError(
                f"{KEY_VARIABLE} must be of plain letters, digits and marks, without blanks or line breaks"
            )
        self.max_retries = max_retries
        self._timeout_s = timeout
        self._options: dict[str, Any] = {
            "base_url": self.url,
            "headers": {"Authorization": f"Bearer {key}"},
            "timeout": httpx2.Timeout(timeout, connect=min(timeout, CONNECT_TIMEOUT_S)),
            # The environment's proxy does not reach this machine's own addresses.
            "trust_env": not is_here,
            "verify": _ssl_context(),
        }

    def _parse(self, call: Call[T], answer: httpx2.Response) -> T:
        """Read an answer; ServiceError where what answered is no wordbound service."""
        try:
            return call.read(answer)
        except (ValueError, KeyError):
            raise self._stranger() from None

    def _streamed(self, path: str, body: Mapping[str, Any]) -> Call[None]:
        return Call("POST", path, lambda _: None, {"json": {**body, "stream": True}}, is_safe=False)

    def _event(self, line: str) -> dict[str, Any] | None:
        """Parse a line of an event stream; None where it holds no event. ServiceError for an event of an error."""
        if not line.startswith("data:"):
            return None
        try:
            event = json.loads(line.removeprefix("data:"))
            message = _message(event["error"]) if "error" in event else None
        except (ValueError, KeyError, TypeError):
            raise self._stranger() from None
        if message is not None:
            raise ServiceError(f"the answer broke off: {message}")
        return dict(event)

    def _wait_s(self, answer: httpx2.Response, attempt: int) -> float:
        """Return the seconds after which a refused request is sent again; raise its error where it is not."""
        if answer.status_code in _BUSY and attempt < self.max_retries:
            header = answer.headers.get("Retry-After", "")
            # Anything else is a date, which the service never sends.
            wait_s = float(header) if header.isdecimal() else 1.0
            if wait_s <= MAX_WAIT_S:
                return wait_s
        raise self._error(answer)

    def _error(self, answer: httpx2.Response) -> ServiceError:
        status = answer.status_code
        try:
            fault = answer.json()["error"]
            message, code, param = _message(fault), fault.get("code"), fault.get("param")
        except (ValueError, KeyError, TypeError, AttributeError):
            # Of something else that has the port, or a gateway before the service.
            return self._stranger(status)
        kind = ServiceError
        if status == 401:
            message = f"the service at {self.url} does not know this key: set {KEY_VARIABLE}"
        elif status in _BUSY:
            kind, message = AwayError, f"the service at {self.url} is busy: {message}"
        elif status < 500 and status not in _NOT_BY_CONTENT:
            kind = RefusedError
        request_id = answer.headers.get("x-request-id")
        return kind(message, status=status, code=code, param=param, request_id=request_id)

    def _stranger(self, status: int | None = None) -> ServiceError:
        shown = f" (status {status})" if status is not None else ""
        message = f"what answers at {self.url} is no wordbound service{shown}: set {URL_VARIABLE}"
        return ServiceError(message, status=status)

    def _broken_off(self) -> ServiceError:
        return ServiceError(f"the answer of {self.url} broke off: try again")

    @contextmanager
    def _failures(self) -> Iterator[None]:
        """Turn what httpx2 raises inside into AwayError."""
        try:
            yield
        except (httpx2.ConnectError, httpx2.ConnectTimeout):
            message = f"no service answers at {self.url}: start one with `wordbound demo` or set {URL_VARIABLE}"
            raise AwayError(message) from None
        except httpx2.TimeoutException:
            message = f"the service at {self.url} did not answer within {self._timeout_s:g} s: give a larger timeout"
            raise AwayError(message) from None
        except (httpx2.RequestError, httpx2.InvalidURL) as error:
            reason = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
            raise AwayError(f"the service at {self.url} broke off ({reason}): try again") from None


class Client(_Connection):
    """A client that waits for each answer. Its methods are those of ``Routes``; threads may share it.

    A request that the service has no capacity for (429, 503) is sent again when its ``Retry-After`` says, if that is
    within a minute, and one that only reads also when its connection breaks before the answer begins.

    Args:
        base_url: The service's address, with or without ``/v1``; by default ``WORDBOUND_URL``, else this machine's.
        api_key: By default ``WORDBOUND_API_KEY``; for a service on this machine else the demo's.
        timeout: The longest wait for the next byte, in seconds.
        max_retries: How often a request is sent again.
        sleep: Waits before that; called with seconds.
        transport: A transport of httpx2's, for tests.

    Raises:
        ValueError: The address is none, or there is no key.
    """

    def __init__(
        self,
        base_url: str | None = None,
        api_key: str | None = None,
        *,
        timeout: float = READ_TIMEOUT_S,
        max_retries: int = 2,
        sleep: Callable[[float], object] = time.sleep,
        transport: httpx2.BaseTransport | None = None,
    ) -> None:
        super().__init__(base_url, api_key, timeout, max_retries)
        self._sleep = sleep
        self._http = httpx2.Client(**self._options, transport=transport)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def send(self, call: Call[T]) -> T:
        """Send a request, and return its answer."""
        with self.stream(call) as answer:
            answer.read()
        return self._parse(call, answer)

    def events(self, path: str, body: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        """Ask for a stream (``"stream": true``) and yield its events; ServiceError where it breaks off."""
        with self.stream(self._streamed(path, body)) as answer:
            for line in answer.iter_lines():
                if line == _END_OF_STREAM:
                    return
                if (event := self._event(line)) is not None:
                    yield event
        raise self._broken_off()

    @contextmanager
    def stream(self, call: Call[Any]) -> Iterator[httpx2.Response]:
        """Send a request, again as ``Client`` says; yield the answer, whose body is not read yet."""
        with self._failures():
            for attempt in count():
                request = self._http.build_request(call.method, call.path, **call.options)
                try:
                    answer = self._http.send(request, stream=True)
                except _BROKEN:
                    if call.is_safe and attempt < self.max_retries:
                        continue
                    raise
                try:
                    if answer.is_success:
                        yield answer
                        return
                    answer.read()
                finally:
                    answer.close()
                self._sleep(self._wait_s(answer, attempt))


class AsyncClient(_Connection):
    """As ``Client``, for programs with an event loop: its methods are awaited."""

    def __init__(
        self,
        base_url: str | None = None,
        api_key: str | None = None,
        *,
        timeout: float = READ_TIMEOUT_S,
        max_retries: int = 2,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
        transport: httpx2.AsyncBaseTransport | None = None,
    ) -> None:
        super().__init__(base_url, api_key, timeout, max_retries)
        self._sleep = sleep
        self._http = httpx2.AsyncClient(**self._options, transport=transport)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def send(self, call: Call[T]) -> T:
        """Send a request, and return its answer."""
        async with self.stream(call) as answer:
            await answer.aread()
        return self._parse(call, answer)

    async def events(self, path: str, body: Mapping[str, Any]) -> AsyncIterator[dict[str, Any]]:
        """Ask for a stream (``"stream": true``) and yield its events; ServiceError where it breaks off."""
        async with self.stream(self._streamed(path, body)) as answer:
            async for line in answer.aiter_lines():
                if line == _END_OF_STREAM:
                    return
                if (event := self._event(line)) is not None:
                    yield event
        raise self._broken_off()

    @asynccontextmanager
    async def stream(self, call: Call[Any]) -> AsyncIterator[httpx2.Response]:
        """Send a request, again as ``Client`` says; yield the answer, whose body is not read yet."""
        with self._failures():
            for attempt in count():
                request = self._http.build_request(call.method, call.path, **call.options)
                try:
                    answer = await self._http.send(request, stream=True)
                except _BROKEN:
                    if call.is_safe and attempt < self.max_retries:
                        continue
                    raise
                try:
                    if answer.is_success:
                        yield answer
                        return
                    await answer.aread()
                finally:
                    await answer.aclose()
                await self._sleep(self._wait_s(answer, attempt))


@functools.cache
def _ssl_context() -> Any:
    """Create the TLS settings of all clients: it takes 20 ms."""
    return httpx2.create_ssl_context()


def _message(fault: Any) -> str:
    message: str = fault["message"]
    return " ".join(message.split())
