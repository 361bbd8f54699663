import json
import pickle

import pytest

from deployments.errors import (
    MAX_ERROR_BYTES,
    ApiError,
    BadRequestError,
    MethodNotAllowedError,
    ModelNotFoundError,
    OverloadedError,
    printable,
)


def test_an_error_is_written_in_openais_envelope() -> None:
    error = json.loads(BadRequestError("Say less.", "max_tokens").to_json())
    assert error == {
        "error": {"message": "Say less.", "type": "invalid_request_error", "param": "max_tokens", "code": None}
    }


@pytest.mark.parametrize("text", ["x" * 10_000, "\x1f" * 10_000, "😀" * 10_000, "\ud800" * 10_000, '"' * 10_000])
def test_an_error_is_never_larger_than_its_limit(text: str) -> None:
    body = ApiError(text, text, text).to_json()
    assert len(body) <= MAX_ERROR_BYTES
    assert json.loads(body)["error"]["message"]


@pytest.mark.parametrize(
    "error", [BadRequestError("a", "b", "c"), ModelNotFoundError("a"), MethodNotAllowedError(("GET",))]
)
def test_an_error_survives_the_way_through_a_handle(error: ApiError) -> None:
    try:
        copy = pickle.loads(pickle.dumps(error))  # noqa: S301 - our own bytes
    except TypeError:
        pytest.fail("it cannot be unpickled")
    assert (copy.status, copy.headers, copy.to_dict()) == (error.status, error.headers, error.to_dict())


def test_lack_of_capacity_says_when_to_try_again() -> None:
    assert OverloadedError("Later.").headers == (("Retry-After", "1"),)


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("gpt-4o", "gpt-4o"),
        ("a\r\nb\0", "a\ufffd\ufffdb\ufffd"),
        ("x" * 65, "x" * 64 + "…"),
        ("\u202eabc", "\ufffdabc"),
    ],
)
def test_a_name_is_made_fit_for_one_line(name: str, shown: str) -> None:
    assert printable(name) == shown
