"""The errors that clients see: how large they are, how they cross a handle, and what others become."""

import json
import pickle

import pytest
from ray.exceptions import RayActorError, RayTaskError
from ray.serve.exceptions import BackPressureError

from deployments.errors import (
    MAX_ERROR_BYTES,
    ApiError,
    BadRequestError,
    EngineError,
    InternalError,
    MethodNotAllowedError,
    ModelNotFoundError,
    RateLimitError,
    error_of,
    root_cause,
    to_api_error,
)
from tests.deployments.stand_in import across_a_handle
from vocab.errors import (
    ArtefactError,
    ChangesTooLargeError,
    CompileError,
    CompileQueueError,
    CompileTimeoutError,
    ListTooLargeError,
    NoLemmasError,
    OptionsError,
    TokenBudgetError,
    UnknownLanguageError,
    UnsupportedScriptError,
)


@pytest.mark.fault(12)
def test_an_error_is_never_larger_than_its_limit() -> None:
    for character in ("x", "\x1f", "😀", "\ud800", '"'):
        text = character * 10_000
        body = ApiError(text, text, text).to_json()
        assert len(body) <= MAX_ERROR_BYTES
        assert json.loads(body)["error"]["message"]


def test_an_error_crosses_as_a_value() -> None:
    for error in (
        EngineError(429, "Full.", param="n", code="some", retry_after_s=7),
        MethodNotAllowedError(("GET", "POST")),
        RateLimitError("Slower.", "tokens", 3),
        InternalError("req-1"),
        BadRequestError("Wrong.", "n", "c"),
        ModelNotFoundError("a"),
    ):
        crossed = pickle.loads(pickle.dumps(error))  # noqa: S301 - its own
        assert type(crossed) is type(error)
        assert crossed.to_json() == error.to_json()
        assert (str(crossed), crossed.status, crossed.headers) == (str(error), error.status, error.headers)


CASES: list[tuple[Exception, int, str | None]] = [
    (UnknownLanguageError("Known: en."), 400, "vocab_lang"),
    (UnsupportedScriptError("Not yet."), 400, "vocab_lang"),
    (NoLemmasError("Known: es."), 400, "vocab.unit"),
    (ListTooLargeError("Fewer words."), 400, "vocab_lang"),
    (ChangesTooLargeError("Fewer words."), 400, "vocab.extra_words"),
    (OptionsError("Not both."), 400, "vocab"),
    (TokenBudgetError("At least 3."), 400, "max_tokens"),
    (CompileTimeoutError("secret"), 503, None),
    (CompileQueueError("Try again.", 9), 429, None),
    (CompileError("secret"), 500, None),
    (ArtefactError("secret"), 500, None),
    (RuntimeError("secret"), 500, None),
    (BackPressureError(1, 1), 503, None),
    (RayActorError(), 503, None),
    (BadRequestError("No.", "stop"), 400, "stop"),
]


def test_an_exception_means_the_same_on_both_sides_of_a_handle() -> None:
    for error, status, param in CASES:
        for raised in (error, across_a_handle(error), across_a_handle(across_a_handle(error))):
            seen = to_api_error(raised, "req-1")
            assert (seen.status, seen.param) == (status, param), error
            assert "secret" not in seen.message
            assert "Traceback" not in seen.message
            if status == 500:
                assert "req-1" in seen.message
    # A task error that could not take the class of its cause.
    error = TokenBudgetError("At least 3.")
    plain = RayTaskError("resolve()", "Traceback", error, proctitle="replica", pid=1, ip="127.0.0.1")
    assert root_cause(plain) is error


def test_an_error_that_came_in_place_of_an_answer_is_raised() -> None:
    for value, status, message in (
        (EngineError(400, "Too long.", code="context_length_exceeded"), 400, "Too long."),
        (EngineError(503, "Full."), 503, "Full. Its id, for the operator: req-1."),
        (EngineError(500, "Broken."), 500, "Broken. Its id, for the operator: req-1."),
        ({"message": "secret"}, 500, None),
        ("secret", 500, None),
        (None, 500, None),
    ):
        error = error_of(value, "req-1")
        assert error.status == status
        assert "secret" not in str(error.to_dict())
        assert message is None or error.message == message
