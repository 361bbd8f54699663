from collections.abc import Callable

import pytest

from deployments.contract import UNLISTED_TEXT
from deployments.errors import EngineError
from deployments.replica.engine import health
from deployments.replica.engine.health import EngineWatch, UnlistedAnswers

_LOOK_S = 2.0**-13
"""Sums of it are exact."""


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "_LOOK_S", _LOOK_S)
    monkeypatch.setattr(health, "_LAST_ANSWERS_S", 10 * _LOOK_S)


class Engine:
    """One whose looks are numbered: what it says is a function of how often it was asked."""

    def __init__(
        self, steps: Callable[[int], int], requests: Callable[[int], int] = lambda look: 1, dies_at: int = 10**9
    ) -> None:
        self.num_looks = 0
        self.ended_at: int | None = None
        self._steps = steps
        self._requests = requests
        self._dies_at = dies_at

    async def watched(self, num_stalled: int = 10, num_under_way: Callable[[], int] = lambda: 0) -> int:
        """The look at which the replica ended."""
        watch = EngineWatch(
            self._is_dead,
            lambda: self._steps(self.num_looks),
            lambda: self._requests(self.num_looks),
            num_stalled * _LOOK_S,
            num_under_way,
            end=self._end,
        )
        await watch.run()
        assert self.ended_at is not None
        return self.ended_at

    def _is_dead(self) -> bool:
        self.num_looks += 1
        return self.num_looks >= self._dies_at

    def _end(self) -> None:
        self.ended_at = self.num_looks


@pytest.mark.fault(42, 60)
async def test_ends_with_the_engine() -> None:
    assert await Engine(lambda look: look, dies_at=7).watched() == 7


@pytest.mark.fault(60)
async def test_waits_for_what_is_still_to_be_answered_but_not_for_ever() -> None:
    left = [2, 1, 0]
    await Engine(lambda look: look, dies_at=3).watched(num_under_way=lambda: left.pop(0))
    assert not left
    await Engine(lambda look: look, dies_at=3).watched(num_under_way=lambda: 1)


@pytest.mark.fault(43)
async def test_ends_an_engine_that_makes_no_step_although_it_has_requests() -> None:
    assert await Engine(lambda look: min(look, 20)).watched(10) == 31


async def test_only_time_with_requests_and_without_a_step_counts() -> None:
    cases: list[tuple[Callable[[int], int], Callable[[int], int], int]] = [
        # Requests come and go, and between two of them there is none.
        (lambda look: min(look, 20), lambda look: look % 4, 33),
        # It is idle, or slow, until it dies.
        (lambda look: 0, lambda look: 0, 100),
        (lambda look: look // 8, lambda look: 1, 100),
        # The first request after a long rest has all of the time.
        (lambda look: 0, lambda look: int(look > 50), 60),
    ]
    for steps, requests, ends_at in cases:
        assert await Engine(steps, requests, dies_at=100).watched(9) == ends_at


async def test_one_that_stands_still_for_a_while_is_to_get_no_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "OUT_OF_ROUTING_S", 5 * _LOOK_S)
    stalled: list[bool] = []

    def steps(look: int) -> int:
        # It goes on at look 20, for a while.
        stalled.append(watch.is_stalled)
        return 0 if look < 20 else look

    num_looks = 0

    def is_dead() -> bool:
        nonlocal num_looks
        num_looks += 1
        return num_looks > 30

    watch = EngineWatch(is_dead, lambda: steps(num_looks), lambda: 1, 1.0, lambda: 0, end=lambda: None)
    await watch.run()
    assert not any(stalled[:6])
    assert all(stalled[8:19])
    assert not any(stalled[22:])


@pytest.mark.fault(63)
async def test_answers_in_a_row_that_are_of_no_list_end_the_replica_and_one_that_is_starts_anew() -> None:
    unlisted = UnlistedAnswers()

    fault = EngineError(500, "It did not keep to the list.", code=UNLISTED_TEXT)
    for _ in range(4):
        unlisted.note_answer(fault)
    # An error of another kind says nothing.
    unlisted.note_answer(EngineError(400, "Too long."))
    seen = [unlisted.are_too_many]
    unlisted.note_answer({"choices": []})
    for _ in range(5):
        seen.append(unlisted.are_too_many)
        unlisted.note_answer(fault)
    assert seen == [False] * 6
    ended: list[bool] = []
    await EngineWatch(
        lambda: unlisted.are_too_many, lambda: 0, lambda: 0, 1.0, lambda: 0, end=lambda: ended.append(True)
    ).run()
    assert ended == [True]
