"""Read the body of a request within its limits, and its query, in which no parameter is unknown or there twice."""

import asyncio
from collections.abc import Callable, Collection
from typing import Any, Final, TypeVar

from starlette.requests import Request

from deployments.errors import (
    BadRequestError,
    PayloadTooLargeError,
    RequestTimeoutError,
    UnsupportedMediaTypeError,
    printable,
)
from deployments.ingress.stream import ClientLeft
from deployments.protocol.strict_json import JsonError, loads
from deployments.settings.limits import Limits

_LONG_BODY_BYTES: Final = 64 * 1024
"""Longer bodies are read in a thread. Up to here it takes 2 ms, for a list of 50,000 words 25 ms, in which no other
stream on this loop would move."""

T = TypeVar("T")


async def read_checked(request: Request, limits: Limits, read: Callable[[Any], T], max_bytes: int | None = None) -> T:
    """Read and parse a JSON body, and return what the checker ``read`` makes of it.

    Raises what ``read_json_body`` and ``parse_json`` raise.
    """
    body = await read_json_body(request, limits, max_bytes)

    def parse() -> T:
        return read(parse_json(body))

    return parse() if len(body) < _LONG_BODY_BYTES else await asyncio.to_thread(parse)


async def read_json_body(request: Request, limits: Limits, max_bytes: int | None = None) -> bytes:
    """Read the unparsed body of a JSON request; at most ``max_bytes``, by default those of any body.

    Raises:
        UnsupportedMediaTypeError: It is compressed, or says it is something else.
        PayloadTooLargeError: It is, or says it is, larger than allowed.
        RequestTimeoutError: It took too long to arrive.
        BadRequestError: It is empty.
        ClientLeft: The client left before the end of it.
    """
    check_not_compressed(request)
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        raise UnsupportedMediaTypeError("The body must be JSON, with 'Content-Type: application/json'.")
    body = await read_body(request, max_bytes or limits.max_body_bytes, limits.max_body_s)
    if not body.strip():
        raise BadRequestError("The body is empty; it must be a JSON object.")
    return body


async def read_body(request: Request, max_bytes: int, max_s: float) -> bytes:
    """Read the body of a request of any content type, within ``max_bytes`` and ``max_s``.

    Raises:
        UnsupportedMediaTypeError: It is compressed.
        PayloadTooLargeError: It is, or says it is, larger than allowed.
        RequestTimeoutError: It took too long to arrive.
        ClientLeft: The client left before the end of it.
    """
    check_not_compressed(request)
    if says_more_than(request, max_bytes):
        raise _too_large(max_bytes)
    try:
        async with asyncio.timeout(max_s):
            return await _read(request, max_bytes)
    except TimeoutError:
        raise RequestTimeoutError(f"The body did not arrive within {max_s:g} s.") from None


def parse_json(body: bytes) -> Any:
    """Parse a body as strict JSON.

    Raises:
        BadRequestError: It is not strict JSON, or nested too deeply.
    """
    try:
        return loads(body)
    except JsonError as error:
        raise BadRequestError(f"The body is not valid JSON: {error}.") from None


def check_not_compressed(request: Request) -> None:
    """Raise ``UnsupportedMediaTypeError`` for a compressed body, whose size is not known in advance."""
    if request.headers.get("content-encoding", "identity").strip().lower() not in ("", "identity"):
        raise UnsupportedMediaTypeError("A compressed body is not supported. Leave 'Content-Encoding' out.")


def says_more_than(request: Request, num_bytes: int) -> bool:
    """Return whether ``Content-Length`` exceeds ``num_bytes``; a body without one may be longer all the same."""
    length = request.headers.get("content-length", "0")
    return length.isdecimal() and int(length[:20]) > num_bytes


async def _read(request: Request, max_bytes: int) -> bytes:
    """Join the chunks of a body; raise where they exceed ``max_bytes`` or the client leaves."""
    chunks: list[bytes] = []
    num_bytes = 0
    while True:
        message = await request.receive()
        if message["type"] == "http.disconnect":
            raise ClientLeft
        chunk = message.get("body", b"")
        num_bytes += len(chunk)
        if num_bytes > max_bytes:
            raise _too_large(max_bytes)
        chunks.append(chunk)
        if not message.get("more_body", False):
            return b"".join(chunks)


def _too_large(max_bytes: int) -> PayloadTooLargeError:
    return PayloadTooLargeError(f"The body has more than {max_bytes} bytes.")


def read_query(request: Request, names: Collection[str]) -> dict[str, str]:
    """Return a request's query parameters, of which only ``names`` may be there, once each.

    Raises:
        BadRequestError: One has another name, or is given twice.
    """
    query: dict[str, str] = {}
    for name, value in request.query_params.multi_items():
        shown = printable(name)
        if name not in names:
            raise BadRequestError(f"Unknown parameter: '{shown}'. There are {', '.join(names)}.", shown)
        if name in query:
            raise BadRequestError(f"'{shown}' is given twice. Leave one out.", shown)
        query[name] = value
    return query


def whole_number(query: dict[str, str], name: str) -> int | None:
    """Parse a query parameter as a whole number; None where it is missing.

    Raises:
        BadRequestError: It is no whole number.
    """
    text = query.get(name)
    if text is None:
        return None
    if not (text.isascii() and text.isdecimal() and len(text) <= 9):
        raise BadRequestError(f"'{name}' must be a whole number.", name)
    return int(text)
