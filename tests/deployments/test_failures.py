import pickle

import pytest
from ray.exceptions import RayActorError, RayTaskError
from ray.serve.exceptions import BackPressureError

from deployments.errors import (
    ApiError,
    BadRequestError,
    EngineError,
    InternalError,
    MethodNotAllowedError,
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


@pytest.mark.parametrize(("error", "status", "param"), CASES, ids=[type(error).__name__ for error, *_ in CASES])
def test_an_exception_means_the_same_on_both_sides_of_a_handle(
    error: Exception, status: int, param: str | None
) -> None:
    for raised in (error, across_a_handle(error), across_a_handle(across_a_handle(error))):
        seen = to_api_error(raised, "req-1")
        assert (seen.status, seen.param) == (status, param)
        assert "secret" not in seen.message
        assert "Traceback" not in seen.message
        if status == 500:
            assert "req-1" in seen.message


def test_the_cause_is_found_below_a_task_error_that_could_not_take_its_class() -> None:
    error = TokenBudgetError("At least 3.")
    plain = RayTaskError("resolve()", "Traceback", error, proctitle="replica", pid=1, ip="127.0.0.1")
    assert root_cause(plain) is error


@pytest.mark.parametrize(
    ("value", "status", "message"),
    [
        (EngineError(400, "Too long.", code="context_length_exceeded"), 400, "Too long."),
        (EngineError(503, "Full."), 503, "Full. Its id, for the operator: req-1."),
        (EngineError(500, "Broken."), 500, "Broken. Its id, for the operator: req-1."),
        ({"message": "secret"}, 500, None),
        ("secret", 500, None),
        (None, 500, None),
    ],
)
def test_an_error_that_came_in_place_of_an_answer_is_raised(value: object, status: int, message: str | None) -> None:
    error = error_of(value, "req-1")
    assert error.status == status
    assert "secret" not in str(error.to_dict())
    if message:
        assert error.message == message


@pytest.mark.parametrize(
    "error",
    [
        EngineError(429, "Full.", param="n", code="some", retry_after_s=7),
        MethodNotAllowedError(("GET", "POST")),
        RateLimitError("Slower.", "tokens", 3),
        InternalError("req-1"),
        BadRequestError("Wrong.", "n"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_an_error_crosses_as_a_value(error: ApiError) -> None:
    crossed = pickle.loads(pickle.dumps(error))  # noqa: S301 - its own
    assert type(crossed) is type(error)
    assert crossed.to_json() == error.to_json()
    assert (str(crossed), crossed.status, crossed.headers) == (str(error), error.status, error.headers)
