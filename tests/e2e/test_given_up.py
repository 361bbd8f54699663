"""A search that nobody waits for any more leaves nothing running in a real engine."""

from typing import Any

import pytest

pytestmark = [pytest.mark.e2e, pytest.mark.slow]


def test_no_step_outlives_its_search(searching_engine: dict[str, Any]) -> None:
    told = searching_engine["searches"]
    assert len(told) == 4
    for name, counts in told.items():
        assert counts["most"] > 1, f"{name} did not run"
        assert (counts["unfinished"], counts["at_next"]) == (0, 1), f"{name}: {counts}"
