"""Faults in the numbers of exercises, which have no bounds of their own."""

from typing import Any

import pytest

from deployments.errors import BadRequestError
from deployments.protocol.documents import read_worksheet


@pytest.mark.parametrize("shown", [["x"], [1.5], [None]])
def test_an_order_that_is_no_number_is_named(shown: list[Any]) -> None:
    exercise = {"kind": "order", "items": [{"sentence": "a"}, {"sentence": "b"}], "shown": shown}
    with pytest.raises(BadRequestError, match="must be an integer"):
        read_worksheet({"format": "txt", "exercises": [exercise]})


def test_a_place_that_is_no_number_is_named() -> None:
    item = {"sentence": "a", "source": {"start": "x", "end": 1}}
    with pytest.raises(BadRequestError, match=r"must be an integer of at least 0"):
        read_worksheet({"format": "txt", "exercises": [{"kind": "order", "items": [item, item]}]})
