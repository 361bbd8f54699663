from typing import Any

import pytest

from deployments.errors import BadRequestError
from deployments.protocol.batches import BatchRequest, read_batch, read_expiry

FIELDS = {"input_file_id": "file-1", "endpoint": "/v1/chat/completions", "completion_window": "24h"}
DAY = 86400


def read(**changes: Any) -> BatchRequest:
    given = {name: value for name, value in {**FIELDS, **changes}.items() if value is not ...}
    return read_batch(given, max_window_s=30 * DAY)


def test_what_is_not_given_has_no_value() -> None:
    assert read(metadata=None, output_expires_after=None) == read()
    assert (read().metadata, read().output_expires_after, read().window_s) == (None, None, DAY)


@pytest.mark.parametrize(
    ("window", "seconds"), [("24h", DAY), ("1s", 1), ("90m", 5400), ("30d", 30 * DAY), ("2592000s", 30 * DAY)]
)
def test_a_window_is_a_number_and_a_unit(window: str, seconds: int) -> None:
    assert read(completion_window=window).window_s == seconds


def test_metadata_and_expiry_are_taken() -> None:
    fields = read(
        metadata={"k" * 64: "v" * 512, "": ""}, output_expires_after={"anchor": "created_at", "seconds": 3600}
    )
    assert fields.metadata == {"k" * 64: "v" * 512, "": ""}
    assert (fields.output_expires_after and fields.output_expires_after.seconds) == 3600


@pytest.mark.parametrize(
    ("changes", "param"),
    [
        ({"input_file_id": ...}, "input_file_id"),
        ({"input_file_id": None}, "input_file_id"),
        ({"input_file_id": 5}, "input_file_id"),
        ({"input_file_id": "x" * 101}, "input_file_id"),
        ({"endpoint": ...}, "endpoint"),
        ({"endpoint": "/v1/embeddings"}, "endpoint"),
        ({"completion_window": ...}, "completion_window"),
        ({"completion_window": 24}, "completion_window"),
        ({"completion_window": "24"}, "completion_window"),
        ({"completion_window": "0h"}, "completion_window"),
        ({"completion_window": "-1h"}, "completion_window"),
        ({"completion_window": "1.5h"}, "completion_window"),
        ({"completion_window": "24H"}, "completion_window"),
        ({"completion_window": "٢h"}, "completion_window"),
        ({"completion_window": "31d"}, "completion_window"),
        ({"completion_window": "24h\n"}, "completion_window"),
        ({"metadata": []}, "metadata"),
        ({"metadata": {"a": 1}}, "metadata"),
        ({"metadata": {"a": None}}, "metadata"),
        ({"metadata": {"k" * 65: ""}}, "metadata"),
        ({"metadata": {"a": "v" * 513}}, "metadata"),
        ({"metadata": {str(number): "" for number in range(17)}}, "metadata"),
        ({"output_expires_after": {"seconds": 3600}}, "output_expires_after.anchor"),
        ({"output_expires_after": {"anchor": "created_at"}}, "output_expires_after.seconds"),
        ({"output_expires_after": 3600}, "output_expires_after"),
        ({"output_expires_after": {"anchor": "now", "seconds": 3600}}, "output_expires_after.anchor"),
        ({"output_expires_after": {"anchor": "created_at", "seconds": 3599}}, "output_expires_after.seconds"),
        ({"completion_windows": "24h"}, "completion_windows"),
        ({"model": "x"}, "model"),
    ],
)
def test_a_bad_field_is_refused_by_name(changes: dict[str, Any], param: str) -> None:
    with pytest.raises(BadRequestError) as caught:
        read(**changes)
    assert caught.value.param == param


@pytest.mark.parametrize("body", [None, [], "x", 5])
def test_a_body_is_an_object(body: Any) -> None:
    with pytest.raises(BadRequestError):
        read_batch(body, max_window_s=DAY)


def test_an_unknown_field_gets_a_suggestion() -> None:
    with pytest.raises(BadRequestError, match="Did you mean 'completion_window'"):
        read(completion_windows="24h")


def test_an_expiry_has_both_its_members() -> None:
    assert read_expiry({"anchor": "created_at", "seconds": 2592000}) == 2592000
    with pytest.raises(BadRequestError, match=r"'expires_after\.seconds' is missing: it must be an integer from 3600"):
        read_expiry({"anchor": "created_at"})
