from typing import Any

import pytest

from deployments.errors import BadRequestError
from deployments.protocol.batches import BatchRequest, read_batch, read_expiry
from tests.deployments.protocol.readers import NO_OBJECTS, Fault, each, refused_otherwise

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


BAD_VALUES: dict[str, list[Any]] = {
    "input_file_id": [..., None, 5, "x" * 101],
    "endpoint": [..., "/v1/embeddings"],
    "completion_window": [..., 24, "24", "0h", "-1h", "1.5h", "24H", "٢h", "31d", "24h\n"],
    "metadata": [
        *([], {"a": 1}, {"a": None}, {"k" * 65: ""}, {"a": "v" * 513}, {str(number): "" for number in range(17)})
    ],
    "output_expires_after": [3600],
    "model": ["x"],
}


def test_a_bad_field_is_refused_by_name() -> None:
    faults: list[Fault] = [({name: value}, name, "") for name, value in each(BAD_VALUES)]
    for expiry, member in (
        ({"seconds": 3600}, "anchor"),
        ({"anchor": "created_at"}, "seconds"),
        ({"anchor": "now", "seconds": 3600}, "anchor"),
        ({"anchor": "created_at", "seconds": 3599}, "seconds"),
    ):
        faults.append(({"output_expires_after": expiry}, f"output_expires_after.{member}", ""))
    faults.append(({"completion_windows": "24h"}, "completion_windows", "Did you mean 'completion_window'"))
    assert not refused_otherwise(faults, read)
    for body in NO_OBJECTS:
        with pytest.raises(BadRequestError):
            read_batch(body, max_window_s=DAY)


def test_an_expiry_has_both_its_members() -> None:
    assert read_expiry({"anchor": "created_at", "seconds": 2592000}) == 2592000
    with pytest.raises(BadRequestError, match=r"'expires_after\.seconds' is missing: it must be an integer from 3600"):
        read_expiry({"anchor": "created_at"})
