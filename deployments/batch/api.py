"""The HTTP routes of files, batches and jobs, which call the batch deployment.

An error crosses as a value: Serve would log an exception as a failure of the replica.
"""

import logging
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from functools import partial
from typing import Any, Final, TypeAlias

from fastapi import Request, Response
from ray.serve.handle import DeploymentHandle
from starlette.datastructures import UploadFile
from starlette.responses import JSONResponse

from deployments.batch.uploads import Uploads
from deployments.contract import Caller
from deployments.errors import ApiError, BadRequestError, InternalError, error_of, to_api_error
from deployments.ingress.body import parse_json, read_json_body, read_query, whole_number
from deployments.ingress.connections.reader import PART_BYTES
from deployments.ingress.route import Handler, Routes
from deployments.ingress.stream import PieceStream, caller_of
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
"""Of an upload that is passed on, and at most of a file that is read. Each is a call of the batch deployment, and costs
as much memory twice on each side."""

_FAST_S: Final = 1.0
"""A client that takes a piece of a file within this gets larger ones."""

Route: TypeAlias = Callable[..., Callable[[Handler], Handler]]
"""``Routes.add``, of a key's part of the service."""

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
    client = BatchClient(batches)
    uploads = Uploads(settings.batch.limits, lambda owner: settings.key(owner).max_uploads)
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
    """Return a response that streams one of the caller's files, once its first piece is there."""
    caller = caller_of(request)
    file = await batches.call(caller, "get_file", file_id)
    pieces = file_pieces(partial(batches.call, caller, "read_file", file_id), file["bytes"], caller.request_id)
    headers = {"Content-Length": str(file["bytes"])}
    return PieceStream(await anext(pieces), pieces, caller.request_id, media_type, headers)


async def file_pieces(
    read: Callable[[int, int], Awaitable[bytes]], num_bytes: int, request_id: str
) -> AsyncGenerator[bytes]:
    """Yield a file piece by piece; each is read when the one before was taken, and larger if that was soon.

    ``read`` returns so many bytes from an offset on, or fewer where the file ends.

    Raises:
        ApiError: It cannot be read, or is shorter than ``num_bytes``.
    """
    num_read, largest = 0, PART_BYTES
    while True:
        piece = await read(num_read, largest)
        if len(piece) != min(largest, num_bytes - num_read):
            raise InternalError(request_id)
        num_read += len(piece)
        start = time.monotonic()
        yield piece
        if num_read == num_bytes:
            return
        is_fast = time.monotonic() - start < _FAST_S
        largest = min(2 * largest, PIECE_BYTES) if is_fast else PART_BYTES


def _expiry(fields: dict[str, str]) -> int | None:
    """Return the seconds of a form's ``expires_after``, which the ``openai`` package sends as parts; None without."""
    if _ANCHOR not in fields and _SECONDS not in fields:
        return None
    seconds: Any = fields.get(_SECONDS)
    if seconds is not None and seconds.isascii() and seconds.isdecimal() and len(seconds) <= 9:
        seconds = int(seconds)
    return read_expiry({"anchor": fields.get(_ANCHOR), "seconds": seconds})
