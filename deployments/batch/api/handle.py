"""Call the batch deployment from the HTTP front.

An error crosses as a value: Serve would log an exception as a failure of the replica.
"""

import logging
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

    async def upload(self, caller: Caller, file: UploadFile) -> str:
        """Pass an uploaded file on in pieces; return the id by which ``create_file`` or ``create_job`` takes it."""
        upload_id: str = await self.call(caller, "begin_upload", file.size or 0)
        while piece := await file.read(PIECE_BYTES):
            await self.call(caller, "append", upload_id, piece)
        return upload_id
