"""The two ends of a call from the HTTP front to the batch deployment.

An error crosses as a value, not as an exception, which Serve would log as a failure of the replica. Knows nothing of
what an operation does.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Literal, Protocol, TypeAlias, get_args

from ray.serve.handle import DeploymentHandle

from deployments.batch.state.contents import ContentsError
from deployments.batch.state.store import StoreError
from deployments.errors import ApiError, InternalError, from_error_item, to_api_error

logger = logging.getLogger("ray.serve.wordbound")

Operation: TypeAlias = Literal[
    "create_file",
    "list_files",
    "get_file",
    "read_file",
    "delete_file",
    "create_batch",
    "list_batches",
    "get_batch",
    "cancel_batch",
    "create_job",
    "get_job",
    "job_results",
]
CALLS: Final[frozenset[str]] = frozenset(get_args(Operation))
"""The methods of ``BatchService`` that the front may call."""

Reply: TypeAlias = dict[str, Any]
"""``{"value": …}``, or ``{"error": {"status", "message", "param", "code"}}``."""


class Batches(Protocol):
    """The batch deployment, as the front sees it."""

    async def call(self, request_id: str, operation: Operation, *args: Any) -> Any:
        """What the operation gives; raises ``ApiError`` alone."""


class HandleBatches:
    """``Batches`` over a Serve handle."""

    def __init__(self, handle: DeploymentHandle) -> None:
        self._handle = handle

    async def call(self, request_id: str, operation: Operation, *args: Any) -> Any:
        try:
            reply: Reply = await self._handle.call.remote(operation, args, {})
        except Exception as exception:
            error = to_api_error(exception, request_id)
            if isinstance(error, InternalError):
                logger.exception("%s: %s failed", request_id, operation)
            raise error from exception
        if "value" not in reply:
            raise from_error_item(reply, request_id)
        return reply["value"]


def reply_of(function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Reply:
    """Calls an operation, and makes a reply of whatever comes of it."""
    try:
        return {"value": function(*args, **kwargs)}
    except ApiError as error:
        return _error(error.status, error.message, error.param, error.code)
    except (StoreError, ContentsError) as error:
        logger.error("the state of batches cannot be used: %s", error)
        return _error(503, "What is kept of batches cannot be used now. Try again later.", None, "storage_unavailable")
    except Exception:
        logger.exception("an operation on batches failed")
        return _error(500, "The server failed on this request.", None, "internal_error")


def _error(status: int, message: str, param: str | None, code: str | None) -> Reply:
    return {"error": {"status": status, "message": message, "param": param, "code": code}}
