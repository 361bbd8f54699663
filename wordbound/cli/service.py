"""A client of a running service, for commands: one connection, errors that say what to change, and waiting in turn.

``WORDBOUND_URL`` and ``WORDBOUND_API_KEY`` say where the service is and who asks.
"""

import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, Self
from urllib.parse import urlsplit

import httpx

from wordbound.cli.commands import AwayError, InputError, ServiceError

URL_VARIABLE: Final = "WORDBOUND_URL"
KEY_VARIABLE: Final = "WORDBOUND_API_KEY"
DEFAULT_URL: Final = "http://127.0.0.1:8000"

DEMO_KEY: Final = "changeme"
"""The well-known key of the demo, which is on this machine only: used there where no other is set."""

CONNECT_TIMEOUT_S: Final = 10.0
READ_TIMEOUT_S: Final = 660.0
"""Without a byte. The service ends an answer after 600 s (``max_answer_s``), with an error."""

MAX_TRIES: Final = 5
MAX_WAIT_S: Final = 30.0
"""Of one wait that the service asked for; 5 tries are two minutes at most."""

_BUSY: Final = (429, 503)
_REFUSED: Final = (401, 403, 404, 405, 408, 409, *_BUSY)
"""Not by what the input holds."""

_LOOPBACK: Final = ("127.0.0.1", "localhost", "::1")


class Service:
    """A client of the service at ``url``, with the API key ``key``.

    Args:
        url: Its address, with or without ``/v1`` after it.
        key: By default ``WORDBOUND_API_KEY``; on this machine the demo's.
        sleep: Waits; called with seconds.
    """

    def __init__(self, url: str, key: str | None = None, *, sleep: Callable[[float], None] = time.sleep) -> None:
        self.url = url.strip().rstrip("/").removesuffix("/v1")
        parts = urlsplit(self.url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise InputError(f"{URL_VARIABLE} must be an address such as {DEFAULT_URL}")
        given = key or os.environ.get(KEY_VARIABLE) or (DEMO_KEY if parts.hostname in _LOOPBACK else None)
        if given is None:
            raise InputError(f"set {KEY_VARIABLE} to a key of the service at {self.url}")
        if not given.isascii() or not given.isprintable():
            raise InputError(
                f"{KEY_VARIABLE} must be of plain letters, digits and marks, without blanks or line breaks"
            )
        self._sleep = sleep
        self._client = httpx.Client(
            base_url=self.url,
            headers={"Authorization": f"Bearer {given}"},
            timeout=httpx.Timeout(READ_TIMEOUT_S, connect=CONNECT_TIMEOUT_S),
            # The environment's proxy does not reach this machine's own addresses.
            trust_env=parts.hostname not in _LOOPBACK,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    def get(self, path: str, **params: str) -> dict[str, Any]:
        """Send a GET request and return the JSON answer; raises as ``post``."""
        return self._whole("GET", path, params=params)

    def post(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Send a POST request with a body in JSON and return the JSON answer.

        Raises:
            ServiceError: It refuses; AwayError where it cannot be reached, or has no capacity.
            InputError: It says that the request is wrong.
        """
        return self._whole("POST", path, json=body)

    def post_for_file(self, path: str, body: Mapping[str, Any]) -> bytes:
        """Send a POST request with a body in JSON and return the file that answers it; raises as ``post``."""
        with self._answer("POST", path, json=body) as answer:
            return answer.read()

    def upload(self, path: Path, report: Callable[[int], None]) -> dict[str, Any]:
        """Upload a file of batch requests; ``report`` is called with the bytes sent so far. Raises as ``post``."""
        with path.open("rb") as file:
            reader = _ReportingFile(file, report)
            files = {"file": (path.name, reader, "application/jsonl")}
            return self._whole("POST", "/v1/files", before=reader.rewind, files=files, data={"purpose": "batch"})

    def download(self, file_id: str, path: Path) -> None:
        """Download a file of the service to ``path``, whole or not at all. Raises as ``post``."""
        part = path.with_name(f".{path.name}.part")
        try:
            with self._answer("GET", f"/v1/files/{file_id}/content") as answer, part.open("wb") as file:
                for piece in answer.iter_bytes():
                    file.write(piece)
            part.replace(path)
        finally:
            part.unlink(missing_ok=True)

    def events(self, path: str, body: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        """Send a POST request and yield the JSON events of its stream, without the end mark.

        Raises as ``post``, also where the stream breaks off.
        """
        with self._answer("POST", path, json={**body, "stream": True}) as answer:
            for line in answer.iter_lines():
                if not line.startswith("data:"):
                    continue
                data = line.removeprefix("data:").strip()
                if data == "[DONE]":
                    return
                event = self._parse(data)
                if "error" in event:
                    raise ServiceError(f"the answer broke off: {_message(event)}")
                yield event
        raise ServiceError(f"the answer of {self.url} broke off: try again")

    def _whole(self, method: str, path: str, **options: Any) -> dict[str, Any]:
        """Send a request and return its whole answer, parsed as JSON."""
        with self._answer(method, path, **options) as answer:
            return self._parse(answer.read().decode("utf-8", "replace"))

    @contextmanager
    def _answer(
        self, method: str, path: str, *, before: Callable[[], object] = lambda: None, **options: Any
    ) -> Iterator[httpx.Response]:
        """Send a request, again where the service is busy, and yield the successful response."""
        for number in range(1, MAX_TRIES + 1):
            before()
            try:
                with self._client.stream(method, path, **options) as answer:
                    if answer.is_success:
                        yield answer
                        return
                    answer.read()
            except (httpx.ConnectError, httpx.ConnectTimeout):
                raise AwayError(
                    f"no service answers at {self.url}: start one with `wordbound demo` or set {URL_VARIABLE}"
                ) from None
            except httpx.TimeoutException:
                raise AwayError(f"the service at {self.url} did not answer in time: try again") from None
            except (httpx.TransportError, httpx.InvalidURL, httpx.DecodingError) as error:
                raise AwayError(f"the service at {self.url} broke off: {error or type(error).__name__}") from None
            if answer.status_code not in _BUSY or number == MAX_TRIES:
                raise self._error(answer)
            wait_s = _retry_after_s(answer)
            if sys.stderr.isatty():
                print(f"the service is busy; asking again in {wait_s:.0f} s", file=sys.stderr)
            self._sleep(wait_s)

    def _error(self, answer: httpx.Response) -> ServiceError | InputError:
        """Convert an error response into a ServiceError, AwayError or, for a wrong request, InputError."""
        status = answer.status_code
        try:
            message = _message(answer.json())
        except (ValueError, KeyError, TypeError):
            # Of something else that has the port, or a gateway before the service.
            return ServiceError(
                f"what answers at {self.url} is no wordbound service (status {status}): set {URL_VARIABLE}"
            )
        if status == 401:
            return ServiceError(f"the service at {self.url} does not know this key: set {KEY_VARIABLE}")
        if status in _BUSY:
            return AwayError(f"the service at {self.url} is busy: {message}")
        return ServiceError(message) if status in _REFUSED or status >= 500 else InputError(message)

    def _parse(self, text: str) -> dict[str, Any]:
        """Parse a JSON object; ServiceError where what answered is no wordbound service."""
        try:
            parsed = json.loads(text)
        except ValueError:
            parsed = None
        if not isinstance(parsed, dict):
            raise ServiceError(f"what answers at {self.url} is no wordbound service: set {URL_VARIABLE}")
        return parsed


class _ReportingFile:
    """A file that reports, at each read, how much of it was read."""

    def __init__(self, file: Any, report: Callable[[int], None]) -> None:
        self._file = file
        self._report = report

    def rewind(self) -> None:
        self._file.seek(0)

    def read(self, size: int = -1) -> bytes:
        data: bytes = self._file.read(size)
        self._report(self._file.tell())
        return data

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


def _retry_after_s(answer: httpx.Response) -> float:
    """Return the seconds that a busy service asks to wait, at most ``MAX_WAIT_S``."""
    try:
        asked = float(answer.headers.get("Retry-After", "1"))
    except ValueError:
        # A date, which the service never sends.
        asked = 1.0
    return min(max(asked, 0.0), MAX_WAIT_S)


def _message(answer: Any) -> str:
    """Return the message of an error answer in one line."""
    message: str = answer["error"]["message"]
    return " ".join(message.split())
