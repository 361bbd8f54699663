"""Call the batch deployment from the HTTP front.

An error crosses as a value: Serve would log an exception as a failure of the replica.
"""

import logging
from collections.abc import Awaitable, Mapping
from typing import Any, Final, TypeAlias

from ray.serve.handle import DeploymentHandle
from starlette.datastructures import UploadFile

from deployments.contract import Caller
from deployments.errors import ApiError, InternalError, error_of, to_api_error

logger = logging.getLogger("ray.serve.wordbound")

PIECE_BYTES: Final = 2**20
"""Of an upload that is passed on. Costs as much memory twice on each side."""

Reply: TypeAlias = Any
"""What an operation returned, or the ``ApiError`` that it raised."""

Object: TypeAlias = dict[str, Any]
"""What is sent as JSON; see ``objects``."""


class BatchClient:
    """The operations of ``BatchService`` over a handle of its deployment. Each raises ``ApiError`` only."""

    def __init__(self, handle: DeploymentHandle) -> None:
        self._handle = handle

    async def upload(self, caller: Caller, file: UploadFile) -> str:
        """Pass an uploaded file on in pieces; return the id by which ``create_file`` or ``create_job`` takes it."""
        begun = self._handle.begin_upload.remote(caller.owner, file.size or 0)
        upload_id: str = await _value(caller, begun)
        while piece := await file.read(PIECE_BYTES):
            await _value(caller, self._handle.append.remote(caller.owner, upload_id, piece))
        return upload_id

    async def create_file(
        self, caller: Caller, upload_id: str, filename: str, purpose: str, expires_after_s: int | None
    ) -> Object:
        args = (caller.owner, upload_id, filename, purpose, expires_after_s)
        return await _object(caller, self._handle.create_file.remote(*args))

    async def list_files(
        self, caller: Caller, purpose: str | None, after: str | None, limit: int | None, order: str
    ) -> Object:
        return await _object(caller, self._handle.list_files.remote(caller.owner, purpose, after, limit, order))

    async def get_file(self, caller: Caller, file_id: str) -> Object:
        return await _object(caller, self._handle.get_file.remote(caller.owner, file_id))

    async def read_file(self, caller: Caller, file_id: str, offset: int, num_bytes: int) -> bytes:
        data: bytes = await _value(caller, self._handle.read_file.remote(caller.owner, file_id, offset, num_bytes))
        return data

    async def delete_file(self, caller: Caller, file_id: str) -> Object:
        return await _object(caller, self._handle.delete_file.remote(caller.owner, file_id))

    async def create_batch(self, caller: Caller, fields: Any) -> Object:
        return await _object(caller, self._handle.create_batch.remote(caller.owner, fields))

    async def list_batches(self, caller: Caller, after: str | None, limit: int | None) -> Object:
        return await _object(caller, self._handle.list_batches.remote(caller.owner, after, limit))

    async def get_batch(self, caller: Caller, batch_id: str) -> Object:
        return await _object(caller, self._handle.get_batch.remote(caller.owner, batch_id))

    async def cancel_batch(self, caller: Caller, batch_id: str) -> Object:
        return await _object(caller, self._handle.cancel_batch.remote(caller.owner, batch_id))

    async def create_job(self, caller: Caller, upload_id: str, parameters: Mapping[str, Any]) -> Object:
        return await _object(caller, self._handle.create_job.remote(caller.owner, upload_id, parameters))

    async def get_job(self, caller: Caller, job_id: str) -> Object:
        return await _object(caller, self._handle.get_job.remote(caller.owner, job_id))

    async def job_results(self, caller: Caller, job_id: str) -> str:
        """Return the id of the file that holds a job's results."""
        file_id: str = await _value(caller, self._handle.job_results.remote(caller.owner, job_id))
        return file_id


async def _object(caller: Caller, response: Awaitable[Reply]) -> Object:
    """Wait for a reply of the batch deployment; return the JSON object in it, or raise its error."""
    made: Object = await _value(caller, response)
    return made


async def _value(caller: Caller, response: Awaitable[Reply]) -> Any:
    """Wait for a reply of the batch deployment; return the value in it, or raise its error."""
    try:
        reply = await response
    except Exception as exception:
        error = to_api_error(exception, caller.request_id)
        if isinstance(error, InternalError):
            logger.exception("%s of %s: the batch deployment failed", caller.request_id, caller.owner)
        raise error from exception
    if isinstance(reply, ApiError):
        raise error_of(reply, caller.request_id)
    return reply
