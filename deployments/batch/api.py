"""The HTTP routes of files, batches and jobs, which call the batch deployment.

An error crosses as a value: Serve would log an exception as a failure of the replica.
"""

import logging
import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Final, Self, TypeAlias

from fastapi import Request, Response
from ray.serve.handle import DeploymentHandle
from starlette.datastructures import UploadFile
from starlette.responses import JSONResponse
from starlette.types import Receive, Scope, Send

from deployments.batch.uploads import Uploads
from deployments.contract import Caller
from deployments.errors import ApiError, BadRequestError, InternalError, error_of, to_api_error
from deployments.ingress.body import parse_json, read_json_body, read_query, whole_number
from deployments.ingress.connections.reader import PART_BYTES
from deployments.ingress.route import Handler, Routes
from deployments.ingress.stream import caller_of, unless_client_leaves
from deployments.protocol.answers import Batch, BatchPage, DeletedFile, File, FilePage, Job
from deployments.protocol.batches import (
    MAX_BATCHES_LISTED,
    MAX_FILES_LISTED,
    PARAMETERS,
    BatchRequest,
    read_expiry,
    read_parameters,
)
from deployments.protocol.openapi import BINARY, BYTES
from deployments.protocol.reader import ServedModel
from deployments.protocol.validation import Schema
from deployments.settings.limits import Limits
from deployments.settings.service import Settings

logger = logging.getLogger("ray.serve.wordbound")

PIECE_BYTES: Final = 2**20
"""Of an upload that is passed on. Costs as much memory twice on each side."""

_LARGEST_PIECE_BYTES: Final = 2**20
"""Of a file that is read, where its client takes a piece within ``_FAST_S``. Each is a call of the batch deployment."""

_FAST_S: Final = 1.0

_UPLOADS_AT_ONCE: Final = 4
"""Uploads of the largest size that one key may have on the disk at once, or more smaller ones."""

Route: TypeAlias = Callable[..., Callable[[Handler], Handler]]
"""``Routes.add``, of a key's part of the service."""

Read: TypeAlias = Callable[[int, int], Awaitable[bytes]]
"""Returns so many bytes from an offset on, or fewer where the file ends."""

_AFTER: Final = {"after": {"type": "string", "description": "The id of the last object that is already known."}}
_UPLOAD: Final = {
    "type": "object",
    "additionalProperties": False,
    "required": ["file", "purpose"],
    "properties": {
        "file": {"type": "string", "format": "binary", "description": "JSON Lines: a request each."},
        "purpose": {"const": "batch"},
        "expires_after[anchor]": {"const": "created_at"},
        "expires_after[seconds]": {"type": "integer", "minimum": 3600, "maximum": 2592000},
    },
}
_JOB_UPLOAD: Final = {
    "type": "object",
    "additionalProperties": False,
    "required": ["file"],
    "properties": {"file": {"type": "string", "format": "binary", "description": "A JSON list of chat requests."}},
}
_RESULTS: Final = {
    "type": "array",
    "items": {"anyOf": [{"$ref": "#/components/schemas/ChatCompletion"}, {"$ref": "#/components/schemas/Error"}]},
}


def _limit(most: int) -> Schema:
    return {"limit": {"type": "integer", "minimum": 1, "maximum": most}}


_FILES_QUERY: Final = {
    **_AFTER,
    **_limit(MAX_FILES_LISTED),
    "purpose": {"enum": ["batch", "batch_output"]},
    "order": {"enum": ["asc", "desc"]},
}

_ANCHOR: Final = "expires_after[anchor]"
_SECONDS: Final = "expires_after[seconds]"


class BatchClient:
    """Calls the operations of ``BatchService`` over a handle of its deployment."""

    def __init__(self, handle: DeploymentHandle) -> None:
        self._handle = handle

    async def call(self, caller: Caller, name: str, *args: Any) -> Any:
        """Call an operation for the caller's key, and return what it returned.

        Raises:
            ApiError: It was refused or failed, or there is no deployment now.
        """
        try:
            reply = await self._handle.call.remote(name, caller.owner, *args)
        except Exception as exception:
            error = to_api_error(exception, caller.request_id)
            if isinstance(error, InternalError):
                logger.exception("%s of %s: the batch deployment failed", caller.request_id, caller.owner)
            raise error from exception
        if isinstance(reply, ApiError):
            raise error_of(reply, caller.request_id)
        return reply

    async def answer(self, request: Request, name: str, *args: Any) -> Response:
        """Call an operation for the request's key, and answer with what it returned."""
        return JSONResponse(await self.call(caller_of(request), name, *args))

    async def upload(self, caller: Caller, file: UploadFile) -> str:
        """Pass an uploaded file on in pieces; return the id by which ``create_file`` or ``create_job`` takes it."""
        upload_id: str = await self.call(caller, "begin_upload", file.size or 0)
        while piece := await file.read(PIECE_BYTES):
            await self.call(caller, "append", upload_id, piece)
        return upload_id


def add_batch_routes(routes: Routes, settings: Settings, batches: DeploymentHandle) -> None:
    """Add the routes of files, batches and jobs, which call the deployment behind ``batches``."""
    client, limits = BatchClient(batches), settings.batch.limits
    uploads = Uploads(
        limits.max_file_bytes,
        limits.max_upload_s,
        _UPLOADS_AT_ONCE * limits.max_file_bytes,
        lambda owner: settings.key(owner).max_uploads,
    )
    route = partial(routes.add, part="batches")
    _add_files(route, client, uploads)
    _add_batches(route, client, settings.limits)
    _add_jobs(route, client, uploads, settings)


def _add_files(route: Route, batches: BatchClient, uploads: Uploads) -> None:
    """Add the routes under ``/v1/files``."""

    @route("POST", "/v1/files", body={"multipart/form-data": _UPLOAD}, answer=File)
    async def create_file(request: Request) -> Response:
        """Upload a file of requests for a batch, a line each."""
        caller = caller_of(request)
        async with uploads.read(request, caller.owner, ("purpose", _ANCHOR, _SECONDS)) as upload:
            if "purpose" not in upload.fields:
                raise BadRequestError("You must provide 'purpose'.", "purpose")
            purpose, expires_after_s = upload.fields["purpose"], _expiry(upload.fields)
            upload_id = await batches.upload(caller, upload.file)
        return await batches.answer(request, "create_file", upload_id, upload.filename, purpose, expires_after_s)

    @route("GET", "/v1/files", answer=FilePage, query=_FILES_QUERY)
    async def list_files(request: Request) -> Response:
        """The key's files, a page at a time."""
        query = read_query(request, ("purpose", "after", "limit", "order"))
        args = (query.get("purpose"), query.get("after"), whole_number(query, "limit"), query.get("order", "desc"))
        return await batches.answer(request, "list_files", *args)

    @route("GET", "/v1/files/{file_id}", answer=File)
    async def get_file(request: Request, file_id: str) -> Response:
        """What is known of a file."""
        return await batches.answer(request, "get_file", file_id)

    @route("DELETE", "/v1/files/{file_id}", answer=DeletedFile)
    async def delete_file(request: Request, file_id: str) -> Response:
        """Delete a file."""
        return await batches.answer(request, "delete_file", file_id)

    @route("GET", "/v1/files/{file_id}/content", answer={BYTES: BINARY})
    async def get_content(request: Request, file_id: str) -> Response:
        """What a file holds."""
        return await _send_file(batches, request, file_id, "application/octet-stream")


def _add_batches(route: Route, batches: BatchClient, limits: Limits) -> None:
    """Add the routes under ``/v1/batches``."""

    @route("POST", "/v1/batches", body=BatchRequest, answer=Batch)
    async def create_batch(request: Request) -> Response:
        """Answer the lines of a file."""
        fields = parse_json(await read_json_body(request, limits))
        return await batches.answer(request, "create_batch", fields)

    @route("GET", "/v1/batches", answer=BatchPage, query={**_AFTER, **_limit(MAX_BATCHES_LISTED)})
    async def list_batches(request: Request) -> Response:
        """The key's batches, a page at a time."""
        query = read_query(request, ("after", "limit"))
        return await batches.answer(request, "list_batches", query.get("after"), whole_number(query, "limit"))

    @route("GET", "/v1/batches/{batch_id}", answer=Batch)
    async def get_batch(request: Request, batch_id: str) -> Response:
        """How far a batch is, and its files."""
        return await batches.answer(request, "get_batch", batch_id)

    @route("POST", "/v1/batches/{batch_id}/cancel", answer=Batch)
    async def cancel_batch(request: Request, batch_id: str) -> Response:
        """End a batch; what was answered stays."""
        return await batches.answer(request, "cancel_batch", batch_id)


def _add_jobs(route: Route, batches: BatchClient, uploads: Uploads, settings: Settings) -> None:
    """Add the routes under ``/v1/batch/jobs``."""
    served = ServedModel.of(settings)

    @route("POST", "/v1/batch/jobs", body={"multipart/form-data": _JOB_UPLOAD}, answer=Job, query=PARAMETERS)
    async def create_job(request: Request) -> Response:
        """Answer a JSON list of chats; members in the query replace those of each."""
        caller = caller_of(request)
        async with uploads.read(request, caller.owner) as upload:
            parameters = read_parameters(request.query_params.multi_items(), served=served)
            upload_id = await batches.upload(caller, upload.file)
        return await batches.answer(request, "create_job", upload_id, parameters)

    @route("GET", "/v1/batch/jobs/{job_id}", answer=Job)
    async def get_job(request: Request, job_id: str) -> Response:
        """How far a job is."""
        return await batches.answer(request, "get_job", job_id)

    @route("GET", "/v1/batch/jobs/{job_id}/results", answer={"application/json": _RESULTS})
    async def get_results(request: Request, job_id: str) -> Response:
        """The answers of a job, in the order of its requests; a 409 before it is completed."""
        file_id = await batches.call(caller_of(request), "job_results", job_id)
        return await _send_file(batches, request, file_id, "application/json")


async def _send_file(batches: BatchClient, request: Request, file_id: str, media_type: str) -> Response:
    """Return a response that streams one of the caller's files."""
    caller = caller_of(request)

    async def read(offset: int, num_bytes: int) -> bytes:
        piece: bytes = await batches.call(caller, "read_file", file_id, offset, num_bytes)
        return piece

    file = await batches.call(caller, "get_file", file_id)
    return await FileStream.begin(read, file["bytes"], media_type, caller.request_id)


def _expiry(fields: dict[str, str]) -> int | None:
    """Return the seconds of a form's ``expires_after``, which the ``openai`` package sends as parts; None without."""
    if _ANCHOR not in fields and _SECONDS not in fields:
        return None
    seconds: Any = fields.get(_SECONDS)
    if seconds is not None and seconds.isascii() and seconds.isdecimal() and len(seconds) <= 9:
        seconds = int(seconds)
    return read_expiry({"anchor": fields.get(_ANCHOR), "seconds": seconds})


class FileStream(Response):
    """A response that streams a file in pieces."""

    def __init__(self, read: Read, num_bytes: int, media_type: str, request_id: str) -> None:
        super().__init__(media_type=media_type, headers={"Content-Length": str(num_bytes)})
        self._read = read
        self._num_bytes = num_bytes
        self._request_id = request_id
        self._first = b""

    @classmethod
    async def begin(cls, read: Read, num_bytes: int, media_type: str, request_id: str) -> Self:
        """Read the first piece of a file, while an error can still be the response.

        Raises:
            ApiError: It cannot be read.
        """
        stream = cls(read, num_bytes, media_type, request_id)
        stream._first = await stream._piece(0, PART_BYTES)
        return stream

    async def __call__(self, _: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        await unless_client_leaves(receive, self._send_pieces(send))

    async def _send_pieces(self, send: Send) -> None:
        """Send the body piece by piece; each is read when the one before is sent, and larger if that was soon."""
        piece, self._first = self._first, b""
        sent, largest = 0, PART_BYTES
        while True:
            sent += len(piece)
            start = time.monotonic()
            await send({"type": "http.response.body", "body": piece, "more_body": sent < self._num_bytes})
            if sent == self._num_bytes:
                return
            piece = b""
            is_fast = time.monotonic() - start < _FAST_S
            largest = min(2 * largest, _LARGEST_PIECE_BYTES) if is_fast else PART_BYTES
            piece = await self._piece(sent, largest)

    async def _piece(self, offset: int, num_bytes: int) -> bytes:
        """Read the next piece of the file; raise where it is shorter than it must be."""
        piece = await self._read(offset, num_bytes)
        if len(piece) != min(num_bytes, self._num_bytes - offset):
            raise InternalError(self._request_id)
        return piece
