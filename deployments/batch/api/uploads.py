"""Reads uploads within their limits: how large, how long, and how much of all of them is held at once.

Never holds more than is allowed. What is in a form is not looked at here.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import asynccontextmanager
from typing import Final

from starlette.requests import Request

from deployments.batch.api.multipart import FILE, Form, Upload
from deployments.errors import (
    BadRequestError,
    OverloadedError,
    PayloadTooLargeError,
    RequestTimeoutError,
)
from deployments.ingress.body import check_not_compressed, says_more_than
from deployments.ingress.disconnect import ClientLeft

_SLACK_BYTES: Final = 64 * 1024
"""Of a body, besides its file: boundaries, headers, fields."""


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
        self._check_headers(request)
        form = Form(request.headers.get("content-type", ""), fields)
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

    async def _receive(self, request: Request, form: Form, held: "_Held") -> None:
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

    def _check_headers(self, request: Request) -> None:
        check_not_compressed(request)
        if says_more_than(request, self._max_file_bytes + _SLACK_BYTES):
            raise self._too_large()

    def _hold(self, num_bytes: int) -> None:
        if self._held_bytes + num_bytes > self._max_held_bytes:
            raise OverloadedError("Other files are being uploaded. Try again in a moment.")
        self._held_bytes += num_bytes

    def _too_large(self) -> PayloadTooLargeError:
        return PayloadTooLargeError(f"The file has more than {self._max_file_bytes} bytes.", FILE)


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
