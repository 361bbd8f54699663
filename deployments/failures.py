"""Which exception of the graph becomes which answer.

An exception that crosses a Serve handle arrives as a ``RayTaskError`` whose ``cause`` is the original one; both forms
are understood here. Whatever is not recognised is our own fault: a 500 that tells nothing but the request id.
"""

from typing import Any, Final

from ray.exceptions import RayActorError, RayTaskError
from ray.serve.exceptions import BackPressureError, DeploymentUnavailableError, ReplicaUnavailableError

from deployments.errors import ApiError, BadRequestError, InternalError, OverloadedError, UpstreamError
from vocab.errors import CompileTimeoutError, NoLemmasError, OptionsError, TokenBudgetError, WordListError

_UNAVAILABLE: Final = (BackPressureError, DeploymentUnavailableError, ReplicaUnavailableError, RayActorError)
"""The queue is full, or the replica just died or is not there yet: the same request may succeed a moment later."""


def to_api_error(error: BaseException, request_id: str, list_param: str = "vocab_lang") -> ApiError:
    """What the caller sees of an exception; ``list_param`` is the field that named the list."""
    error = root_cause(error)
    if isinstance(error, ApiError):
        return error
    if isinstance(error, NoLemmasError):
        return BadRequestError(str(error), param="vocab.unit", code="invalid_vocabulary")
    if isinstance(error, WordListError):
        return BadRequestError(str(error), param=list_param, code="invalid_vocabulary")
    if isinstance(error, OptionsError):
        return BadRequestError(str(error), param="vocab", code="invalid_vocabulary")
    if isinstance(error, TokenBudgetError):
        return BadRequestError(str(error), param="max_tokens")
    if isinstance(error, CompileTimeoutError):
        return OverloadedError("The list could not be compiled in time. Try again in a moment, or with fewer words.")
    if isinstance(error, _UNAVAILABLE):
        return OverloadedError("The service has no capacity for this request now. Try again in a moment.")
    return InternalError(request_id)


def root_cause(error: BaseException) -> BaseException:
    """The exception as it was raised, on whichever side of a handle that was."""
    while isinstance(error, RayTaskError) and isinstance(error.cause, BaseException):
        error = error.cause
    return error


def from_error_item(item: dict[str, Any], request_id: str) -> ApiError:
    """The error that a replica gave instead of an answer: its status, and of the rest only what is known to be text."""
    fields = item["error"] if isinstance(item["error"], dict) else {}
    status, message = fields.get("status"), _text(fields.get("message"))
    if type(status) is not int or not 400 <= status < 600 or message is None:
        return InternalError(request_id)
    if status >= 500:
        message = f"{message} Its id, for the operator: {request_id}."
    return UpstreamError(status, message, param=_text(fields.get("param")), code=_text(fields.get("code")))


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None
