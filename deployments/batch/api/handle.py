"""Call the batch deployment from the HTTP front.

An error crosses as a value: Serve would log an exception as a failure of the replica.
"""

import logging
from typing import Any, Final, NamedTuple, TypeAlias

from ray.serve.handle import DeploymentHandle
from starlette.datastructures import UploadFile

from deployments.errors import InternalError, from_error_item, to_api_error

logger = logging.getLogger("ray.serve.wordbound")

PIECE_BYTES: Final = 2**20
"""Of an upload that is passed on. Costs as much memory twice on each side."""

Reply: TypeAlias = dict[str, Any]
"""``{"value": …}``, or ``{"error": {"status", "message", "param", "code"}}``."""


class Caller(NamedTuple):
    """The name of a request's key, and the request's id."""

    owner: str
    request_id: str


class BatchClient:
    """The operations of ``BatchService`` over a handle of its deployment. Each raises ``ApiError`` only."""

    def __init__(self, handle: DeploymentHandle) -> None:
        self._handle = handle

    async def upload(self, caller: Caller, file: UploadFile) -> str:
        """Pass an uploaded file on in pieces; return the id by which ``create_file`` or ``create_job`` takes it."""
        upload_id: str = await self.call(caller, "begin_upload", file.size or 0)
        while piece := await file.read(PIECE_BYTES):
            await self.call(caller, "append", upload_id, piece)
        return upload_id

    async def call(self, caller: Caller, operation: str, *args: Any) -> Any:
        """Run an operation of ``BatchService`` for the caller."""
        try:
            reply: Reply = await getattr(self._handle, operation).remote(caller.owner, *args)
        except Exception as exception:
            error = to_api_error(exception, caller.request_id)
            if isinstance(error, InternalError):
                logger.exception("%s: the batch deployment failed", caller.request_id)
            raise error from exception
        if "value" not in reply:
            raise from_error_item(reply, caller.request_id)
        return reply["value"]
