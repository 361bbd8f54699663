"""Read uploads within their limits: how large, how long, and how much of one key's at once.

Starlette's form parser spools the file to disk, so an upload costs little memory whatever its size.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Collection
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

from starlette.datastructures import FormData, UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.requests import ClientDisconnect, Request
from typing_extensions import override

from deployments.errors import (
    BadRequestError,
    PayloadTooLargeError,
    RequestTimeoutError,
    TooManyRequestsError,
    UnsupportedMediaTypeError,
    printable,
)
from deployments.ingress.body import check_not_compressed, says_more_than
from deployments.ingress.stream import ClientLeft
from deployments.settings.limits import BatchLimits

FILE: Final = "file"
MAX_FIELD_BYTES: Final = 1024
MAX_FILENAME_CHARS: Final = 255

_SLACK_BYTES: Final = 64 * 1024
"""Of a body, besides its file: boundaries, headers, fields."""

_HELD_FILES: Final = 4
"""Uploads of the largest size that one key may have on the disk at once, or more smaller ones."""


@dataclass
class Upload:
    """A file that was uploaded; ``filename`` is printable, and ``fields`` are the parts that are no file."""

    filename: str
    file: UploadFile
    fields: dict[str, str]


class Uploads:
    """Take uploads within ``limits``; those of one key are as many as ``max_uploads`` says, in ``_HELD_FILES``."""

    def __init__(self, limits: BatchLimits, max_uploads: Callable[[str], int]) -> None:
        self._max_file_bytes = limits.max_file_bytes
        self._max_s = limits.max_upload_s
        self._max_uploads = max_uploads
        self._held_bytes: Counter[str] = Counter()
        self._num_uploads: Counter[str] = Counter()

    @asynccontextmanager
    async def read(self, request: Request, owner: str, fields: Collection[str] = ()) -> AsyncIterator[Upload]:
        """Yield the upload of a request that may have these fields beside its file; it is deleted at the end.

        Raises:
            UnsupportedMediaTypeError: It is compressed, or no multipart form.
            PayloadTooLargeError: It is, or says it is, larger than allowed.
            RequestTimeoutError: It took too long to arrive.
            BadRequestError: It has no file, or not the form that it should have.
            TooManyRequestsError: The key uploads other files.
            ClientLeft: The client left before the end of it.
        """
        check_not_compressed(request)
        if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "multipart/form-data":
            raise UnsupportedMediaTypeError("The body must be a form, with 'Content-Type: multipart/form-data'.")
        if says_more_than(request, self._max_file_bytes + _SLACK_BYTES):
            raise self._too_large()
        if self._num_uploads[owner] >= self._max_uploads(owner):
            raise _too_many()
        num_bytes = 0

        async def body() -> AsyncGenerator[bytes]:
            """Yield the body's chunks, and refuse those past the limits."""
            nonlocal num_bytes
            async for chunk in request.stream():
                if num_bytes + len(chunk) > self._max_file_bytes + _SLACK_BYTES:
                    raise self._too_large()
                if self._held_bytes[owner] + len(chunk) > _HELD_FILES * self._max_file_bytes:
                    raise _too_many()
                num_bytes += len(chunk)
                self._held_bytes[owner] += len(chunk)
                yield chunk

        form = FormData()
        self._num_uploads[owner] += 1
        try:
            try:
                async with asyncio.timeout(self._max_s):
                    form = await _parse(request, body(), num_fields=len(fields))
            except TimeoutError:
                raise RequestTimeoutError(f"The file did not arrive within {self._max_s:g} s.") from None
            except ClientDisconnect:
                raise ClientLeft from None
            upload = _read_form(form, fields)
            if (upload.file.size or 0) > self._max_file_bytes:
                raise self._too_large()
            yield upload
        finally:
            await form.close()
            self._held_bytes[owner] -= num_bytes
            self._num_uploads[owner] -= 1

    def _too_large(self) -> PayloadTooLargeError:
        return PayloadTooLargeError(f"The file has more than {self._max_file_bytes} bytes.", FILE)


def _too_many() -> TooManyRequestsError:
    return TooManyRequestsError(
        "Other files of yours are being uploaded. Try again in a moment.", code="too_many_uploads"
    )


class _Parser(MultiPartParser):
    """Starlette's parser, which takes a form that breaks off for complete, and leaves its file open."""

    is_complete = False

    @override
    def on_end(self) -> None:
        self.is_complete = True


async def _parse(request: Request, body: AsyncGenerator[bytes], num_fields: int) -> FormData:
    """Parse a multipart form within its limits; refuse one that is malformed or breaks off."""

    async def whole_body() -> AsyncGenerator[bytes]:
        async for chunk in body:
            yield chunk
        if not parser.is_complete:
            raise MultiPartException("it ends too early.")

    # One file and one field more than there may be, so that the message can name it.
    limits = {"max_files": 2, "max_fields": num_fields + 1, "max_part_size": _SLACK_BYTES}
    parser = _Parser(request.headers, whole_body(), **limits)
    try:
        return await parser.parse()
    except (MultiPartException, UnicodeError) as error:
        # A client that is still sending would not see the answer.
        async for _ in body:
            pass
        cause = error.message if isinstance(error, MultiPartException) else "its charset is not known."
        raise BadRequestError(f"The body is no valid multipart form: {printable(cause, 200)}") from None


def _read_form(form: FormData, known: Collection[str]) -> Upload:
    """Take the file and the allowed text fields from a form, or refuse it."""
    fields: dict[str, str | UploadFile] = {}
    for name, value in form.multi_items():
        shown = printable(name)
        if name not in {FILE, *known}:
            raise BadRequestError(
                f"Unknown part of the form: '{shown}'. It has {', '.join(sorted({FILE, *known}))}.", shown
            )
        if name in fields:
            raise BadRequestError(f"The form has '{shown}' twice. Leave one out.", shown)
        fields[name] = value
    file = fields.pop(FILE, None)
    if not isinstance(file, UploadFile):
        raise BadRequestError("You must provide a file with a filename, as the part 'file' of the form.", FILE)
    texts = {}
    for name, value in fields.items():
        if not isinstance(value, str) or len(value.encode()) > MAX_FIELD_BYTES:
            raise BadRequestError(f"'{name}' must be text of at most {MAX_FIELD_BYTES} bytes.", name)
        texts[name] = value
    return Upload(printable(file.filename or "", MAX_FILENAME_CHARS - 1) or FILE, file, texts)
