"""Reads an uploaded file and the fields beside it, within limits, and never holds more of them than is allowed.

What arrives in all uploads at once is bounded too. Knows the form of a multipart body, and not what a file or a field
means.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Final

from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header
from starlette.requests import Request

from deployments.disconnect import ClientLeft
from deployments.errors import (
    BadRequestError,
    OverloadedError,
    PayloadTooLargeError,
    RequestTimeoutError,
    UnsupportedMediaTypeError,
    printable,
)

MAX_FIELD_BYTES: Final = 1024
MAX_FILENAME_CHARS: Final = 255

_SLACK_BYTES: Final = 64 * 1024
"""Of a body, besides its file: boundaries, headers, fields."""

_MAX_PART_HEADERS: Final = 16
_MAX_PART_HEADER_BYTES: Final = 4096

_FILE: Final = "file"


@dataclass
class Upload:
    """What was uploaded.

    Attributes:
        filename: Printable, at most ``MAX_FILENAME_CHARS`` long.
        fields: The parts that are no file.
    """

    filename: str
    content: bytes
    fields: dict[str, str]


class Uploads:
    """Takes uploads of at most ``max_file_bytes``, each within ``max_s`` seconds.

    Args:
        max_held_bytes: What all uploads at once may hold; one that would exceed it is refused.
    """

    def __init__(self, max_file_bytes: int, max_s: float, max_held_bytes: int) -> None:
        self._max_file_bytes = max_file_bytes
        self._max_s = max_s
        self._max_held_bytes = max_held_bytes
        self._held_bytes = 0

    @asynccontextmanager
    async def read(self, request: Request, fields: Collection[str] = ()) -> AsyncIterator[Upload]:
        """The upload of a request that may have these fields beside its file; it counts as held until the end.

        Raises:
            UnsupportedMediaTypeError: It is compressed, or no multipart form.
            PayloadTooLargeError: It is, or says it is, larger than allowed.
            RequestTimeoutError: It took too long to arrive.
            BadRequestError: It has no file, or not the form that it should have.
            OverloadedError: Others are being uploaded.
            ClientLeft: The client left before the end of it.
        """
        form = _Form(_boundary(request), self._max_file_bytes, fields)
        self._check_length(request)
        held = _Held(self._hold)
        try:
            try:
                async with asyncio.timeout(self._max_s):
                    await self._receive(request, form, held)
            except TimeoutError:
                raise RequestTimeoutError(f"The file did not arrive within {self._max_s:g} s.") from None
            yield form.upload()
        finally:
            held.release()

    async def _receive(self, request: Request, form: "_Form", held: "_Held") -> None:
        """Reads to the end even after a fault: a client that is still sending would not see the answer."""
        fault: BadRequestError | None = None
        num_bytes = 0
        while True:
            message = await request.receive()
            if message["type"] == "http.disconnect":
                raise ClientLeft
            chunk = message.get("body", b"")
            num_bytes += len(chunk)
            if num_bytes > self._max_file_bytes + _SLACK_BYTES:
                raise self._too_large()
            if fault is None:
                held.add(len(chunk))
                try:
                    form.add(chunk)
                except BadRequestError as error:
                    fault = error
                    held.release()
            if not message.get("more_body", False):
                break
        if fault is not None:
            raise fault
        if form.num_file_bytes > self._max_file_bytes:
            raise self._too_large()

    def _check_length(self, request: Request) -> None:
        length = request.headers.get("content-length", "0")
        if length.isdecimal() and int(length[:20]) > self._max_file_bytes + _SLACK_BYTES:
            raise self._too_large()

    def _hold(self, num_bytes: int) -> None:
        if self._held_bytes + num_bytes > self._max_held_bytes:
            raise OverloadedError("Other files are being uploaded. Try again in a moment.")
        self._held_bytes += num_bytes

    def _too_large(self) -> PayloadTooLargeError:
        return PayloadTooLargeError(f"The file has more than {self._max_file_bytes} bytes.", _FILE)


class _Held:
    """How much of what all may hold one upload does."""

    def __init__(self, hold: Callable[[int], None]) -> None:
        self._hold = hold
        self._num_bytes = 0

    def add(self, num_bytes: int) -> None:
        self._hold(num_bytes)
        self._num_bytes += num_bytes

    def release(self) -> None:
        self._hold(-self._num_bytes)
        self._num_bytes = 0


@dataclass
class _Part:
    """One part of the form, while it arrives."""

    disposition: bytes = b""
    name: str = ""
    filename: str = ""
    content: bytearray = field(default_factory=bytearray)


class _Form:
    """The parts of a form; the methods whose names begin with ``_on`` are called by the parser."""

    def __init__(self, boundary: bytes, max_file_bytes: int, fields: Collection[str]) -> None:
        self._known = frozenset({_FILE, *fields})
        self._max_file_bytes = max_file_bytes
        self._parts: dict[str, _Part] = {}
        self._part = _Part()
        self._header = bytearray()
        self._value = bytearray()
        self._is_complete = False
        try:
            self._parser = MultipartParser(
                boundary,
                {
                    "on_part_begin": self._on_part_begin,
                    "on_header_field": self._on_header_field,
                    "on_header_value": self._on_header_value,
                    "on_header_end": self._on_header_end,
                    "on_headers_finished": self._on_headers_finished,
                    "on_part_data": self._on_part_data,
                    "on_part_end": self._on_part_end,
                    "on_end": self._on_end,
                },
                max_header_count=_MAX_PART_HEADERS,
                max_header_size=_MAX_PART_HEADER_BYTES,
            )
        except FormParserError:
            raise BadRequestError("The boundary of the form is too long.") from None

    @property
    def num_file_bytes(self) -> int:
        return len(self._parts[_FILE].content) if _FILE in self._parts else 0

    def add(self, chunk: bytes) -> None:
        try:
            self._parser.write(chunk)
        except FormParserError:
            raise BadRequestError("The body is no valid multipart form.") from None

    def upload(self) -> Upload:
        if not self._is_complete:
            raise BadRequestError("The body is no valid multipart form: it ends too early.")
        if _FILE not in self._parts:
            raise BadRequestError("You must provide a file, as the part 'file' of the form.", _FILE)
        file = self._parts.pop(_FILE)
        fields = {name: part.content.decode("utf-8", "replace") for name, part in self._parts.items()}
        return Upload(printable(file.filename, MAX_FILENAME_CHARS - 1) or _FILE, bytes(file.content), fields)

    def _on_part_begin(self) -> None:
        self._part = _Part()

    def _on_header_field(self, data: bytes, start: int, end: int) -> None:
        self._header += data[start:end]

    def _on_header_value(self, data: bytes, start: int, end: int) -> None:
        self._value += data[start:end]

    def _on_header_end(self) -> None:
        if self._header.lower() == b"content-disposition":
            self._part.disposition = bytes(self._value)
        self._header.clear()
        self._value.clear()

    def _on_headers_finished(self) -> None:
        _, options = parse_options_header(self._part.disposition)
        part = self._part
        part.name, part.filename = _text(options.get(b"name", b"")), _text(options.get(b"filename", b""))
        shown = printable(part.name)
        if part.name not in self._known:
            raise BadRequestError(
                f"Unknown part of the form: '{shown}'. It has {', '.join(sorted(self._known))}.", shown
            )
        if part.name in self._parts:
            raise BadRequestError(f"The form has '{shown}' twice. Leave one out.", shown)
        self._parts[part.name] = part

    def _on_part_data(self, data: bytes, start: int, end: int) -> None:
        part = self._part
        part.content += memoryview(data)[start:end]
        if part.name != _FILE and len(part.content) > MAX_FIELD_BYTES:
            raise BadRequestError(f"'{part.name}' must have at most {MAX_FIELD_BYTES} bytes.", part.name)

    def _on_part_end(self) -> None:
        self._part = _Part()

    def _on_end(self) -> None:
        self._is_complete = True


def _boundary(request: Request) -> bytes:
    if request.headers.get("content-encoding", "identity").strip().lower() not in ("", "identity"):
        raise UnsupportedMediaTypeError("A compressed body is not supported. Leave 'Content-Encoding' out.")
    kind, options = parse_options_header(request.headers.get("content-type", ""))
    if kind.strip() != b"multipart/form-data":
        raise UnsupportedMediaTypeError("The body must be a form, with 'Content-Type: multipart/form-data'.")
    if not options.get(b"boundary"):
        raise BadRequestError("The 'Content-Type' of the form has no boundary.")
    return options[b"boundary"]


def _text(name: bytes) -> str:
    with suppress(UnicodeDecodeError):
        return name.decode()
    return name.decode("latin-1")
