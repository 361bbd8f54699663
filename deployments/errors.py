"""Every error that a caller can see, as one tree, and the mapping of other exceptions to it.

    ApiError
    ├── CallerError                         the caller's mistake; the message says what to change
    │   ├── BadRequestError            400
    │   ├── UnauthorizedError          401  code invalid_api_key
    │   ├── ForbiddenError             403  the key may not use this part of the service
    │   ├── NotFoundError              404
    │   │   └── ModelNotFoundError     404  code model_not_found
    │   ├── MethodNotAllowedError      405
    │   ├── RequestTimeoutError        408  the body did not arrive in time
    │   ├── ConflictError              409  not possible in its present state; the code says which
    │   ├── PayloadTooLargeError       413
    │   ├── UnsupportedMediaTypeError  415
    │   └── TooManyRequestsError       429  the caller has reached a limit of its own
    │       └── RateLimitError         429  code rate_limit_exceeded
    ├── OverloadedError                503  no capacity now; the same request may work later
    │   └── NotStartedError            503  a batch line that did not reach the engine, and is sent again
    ├── InternalError                  500  our fault; the message names the request id and nothing else
    └── EngineError                         an error of the replica or its engine, passed on with its status
        └── EngineDiedError            500  its process ended while it was at work on a batch line

A message never repeats what the caller sent, except names cut by ``printable``. Between deployments an error crosses as
a value, which is an item of an answer or a reply: Serve logs what is raised as a failure of the replica.
"""

import json
from copy import copy
from typing import Any, Final, Literal, TypeAlias

from ray.exceptions import RayActorError, RayTaskError
from ray.serve.exceptions import BackPressureError, DeploymentUnavailableError, ReplicaUnavailableError

from vocab.errors import (
    ChangesTooLargeError,
    CompileQueueError,
    CompileTimeoutError,
    LanguageError,
    NoLemmasError,
    OptionsError,
    SegmentationError,
    StructureError,
    TokenBudgetError,
    UnknownLevelError,
    VocabularyError,
    WordListError,
)

RateKind: TypeAlias = Literal["requests", "tokens"]

MAX_ERROR_BYTES: Final = 4096
"""Largest error answer, however many faults the request has. Set by the body with 10,000 of them."""

UNAVAILABLE: Final = (BackPressureError, DeploymentUnavailableError, ReplicaUnavailableError, RayActorError)
"""The queue is full, or the replica just died or is starting: the same request may succeed a moment later."""


class ApiError(Exception):
    """An error that the client gets as an HTTP answer, in OpenAI's form.

    Attributes:
        message: One or two sentences that say what to change.
        param: The field of the request at fault, if any.
        headers: Added to the answer.
    """

    status: int = 500
    type: str = "server_error"
    code: str | None = None
    headers: tuple[tuple[str, str], ...] = ()

    def __init__(self, message: str, param: str | None = None, code: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.param = param
        self.code = code or type(self).code

    def __reduce__(self) -> tuple[Any, ...]:
        return _restore, (type(self), self.args, self.__dict__)

    def to_dict(self) -> dict[str, Any]:
        """Return OpenAI's error object."""
        return {"error": {"message": self.message, "type": self.type, "param": self.param, "code": self.code}}

    def to_json(self) -> bytes:
        """Return OpenAI's error object as JSON, at most ``MAX_ERROR_BYTES`` long."""
        body = _dump(self.to_dict())
        if len(body) <= MAX_ERROR_BYTES:
            return body
        # A character takes at most six bytes as JSON in UTF-8 (\\u001f).
        fields = {
            key: truncate(value, 500 if key == "message" else 40) for key, value in self.to_dict()["error"].items()
        }
        return _dump({"error": fields})


class CallerError(ApiError):
    status = 400
    type = "invalid_request_error"


class BadRequestError(CallerError):
    pass


class UnauthorizedError(CallerError):
    status = 401
    code = "invalid_api_key"
    headers = (("WWW-Authenticate", "Bearer"),)


class ForbiddenError(CallerError):
    status = 403
    code = "insufficient_permissions"


class NotFoundError(CallerError):
    status = 404


class ModelNotFoundError(NotFoundError):
    code = "model_not_found"


class MethodNotAllowedError(CallerError):
    status = 405

    def __init__(self, allowed: tuple[str, ...]) -> None:
        super().__init__(f"This method is not allowed here. Use {' or '.join(allowed)}.")
        self.headers = (("Allow", ", ".join(allowed)),)


class RequestTimeoutError(CallerError):
    status = 408
    headers = (("Connection", "close"),)


class ConflictError(CallerError):
    status = 409


class PayloadTooLargeError(CallerError):
    status = 413
    headers = (("Connection", "close"),)


class UnsupportedMediaTypeError(CallerError):
    status = 415


class TooManyRequestsError(CallerError):
    status = 429

    def __init__(self, message: str, code: str | None = None, retry_after_s: int = 1) -> None:
        super().__init__(message, code=code)
        self.headers = (("Retry-After", str(retry_after_s)),)


class RateLimitError(TooManyRequestsError):
    """A key has used up a rate; ``kind``, requests or tokens, is the error's ``type`` as at OpenAI."""

    code = "rate_limit_exceeded"

    def __init__(self, message: str, kind: RateKind, retry_after_s: int) -> None:
        super().__init__(message, retry_after_s=retry_after_s)
        self.type = kind


class OverloadedError(ApiError):
    status = 503
    code = "overloaded"

    def __init__(self, message: str, retry_after_s: int = 1) -> None:
        super().__init__(message)
        self.headers = (("Retry-After", str(retry_after_s)),)


class NotStartedError(OverloadedError):
    """A batch line did not reach the engine: no attempt of it, and nobody's fault."""


class InternalError(ApiError):
    code = "internal_error"

    def __init__(self, request_id: str) -> None:
        super().__init__(f"The server failed on this request. Its id, for the operator: {request_id}.")


class EngineError(ApiError):
    """An error of the replica or its engine: raised there, passed on as a value, and raised again in the ingress."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        param: str | None = None,
        code: str | None = None,
        retry_after_s: int | None = None,
    ) -> None:
        super().__init__(message, param, code)
        self.status = status
        self.type = "server_error" if status >= 500 else "invalid_request_error"
        self.retry_after_s = retry_after_s
        if status in (429, 503):
            self.headers = (("Retry-After", str(retry_after_s or 1)),)


class EngineDiedError(EngineError):
    """The engine's process ended while it was at work on a batch line, of which it may have died."""

    def __init__(self) -> None:
        super().__init__(500, "The engine died.")


def truncate(text: str | None, length: int) -> str | None:
    """Truncate a text to ``length`` characters, the last of them an ellipsis."""
    return text if text is None or len(text) <= length else text[: length - 1] + "…"


def printable(name: str, length: int = 64) -> str:
    """Make a client's name safe for a message or a log: one line, at most ``length`` characters and an ellipsis."""
    shown = "".join(character if character.isprintable() else "\ufffd" for character in name[:length])
    return shown + "…" if len(name) > length else shown


def _dump(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")


_LIST_CODE: Final = "invalid_vocabulary"

_OF_LIBRARY: Final[dict[type[VocabularyError], tuple[str | None, str | None]]] = {
    NoLemmasError: ("vocab.unit", _LIST_CODE),
    UnknownLevelError: ("vocab.level", _LIST_CODE),
    ChangesTooLargeError: ("vocab.extra_words", _LIST_CODE),
    WordListError: (None, _LIST_CODE),
    SegmentationError: ("vocab.segmentation", _LIST_CODE),
    OptionsError: ("vocab", _LIST_CODE),
    TokenBudgetError: ("max_tokens", None),
}
"""The caller's mistakes that the library finds, special ones first: the field, None for that of the list; the code."""


def to_api_error(error: BaseException, request_id: str, list_param: str = "vocab_lang") -> ApiError:
    """Map any exception to the error that the client gets; ``list_param`` is the field that named the list."""
    error = root_cause(error)
    if isinstance(error, ApiError):
        return error
    for kind, (param, code) in _OF_LIBRARY.items():
        if isinstance(error, kind):
            return BadRequestError(str(error), param or list_param, code)
    if isinstance(error, LanguageError):
        return BadRequestError(str(error), error.option)
    if isinstance(error, StructureError):
        # Of a text that is checked; others are known before they come here.
        return BadRequestError(f"'text' is not JSON of 'schema': {error}.", param="text")
    if isinstance(error, CompileQueueError):
        return TooManyRequestsError(str(error), "too_many_lists", error.retry_after_s)
    if isinstance(error, CompileTimeoutError):
        return OverloadedError("The list could not be compiled in time. Try again in a moment, or with fewer words.")
    if isinstance(error, UNAVAILABLE):
        return OverloadedError("The service has no capacity for this request now. Try again in a moment.")
    return InternalError(request_id)


def root_cause(error: BaseException) -> BaseException:
    """Unwrap the errors of Ray around an exception, on either side of a Serve handle."""
    while isinstance(error, RayTaskError) and isinstance(error.cause, BaseException):
        error = error.cause
    return error


def error_of(value: object, request_id: str) -> ApiError:
    """Return what to raise for what came in place of an answer: the error that it is, or else an internal one."""
    if not isinstance(value, ApiError):
        return InternalError(request_id)
    error = copy(value)
    if error.status >= 500:
        error.message = f"{error.message} Its id, for the operator: {request_id}."
    return error


def _restore(kind: type[ApiError], args: tuple[Any, ...], members: dict[str, Any]) -> ApiError:
    error = kind.__new__(kind, *args)
    error.__dict__.update(members)
    return error
