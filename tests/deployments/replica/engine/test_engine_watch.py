from collections.abc import Callable, Hashable

import pytest

from deployments.replica.engine import engine_watch
from deployments.replica.engine.engine_watch import EngineWatch


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_watch, "_LOOK_S", 0.0001)
    monkeypatch.setattr(engine_watch, "_LAST_ANSWERS_S", 0.001)


class Engine:
    """One whose looks are numbered: what it says is a function of how often it was asked."""

    def __init__(self, progress: Callable[[int], Hashable | None], dies_at: int = 10**9) -> None:
        self.num_looks = 0
        self.ended_at: int | None = None
        self._progress = progress
        self._dies_at = dies_at

    async def watched(self, stall_s: float = 10, num_under_way: Callable[[], int] = lambda: 0) -> int:
        """The look at which the replica ended, if each takes a second."""
        watch = EngineWatch(
            self._is_dead,
            lambda: self._progress(self.num_looks),
            stall_s,
            num_under_way,
            end=self._end,
            clock=lambda: float(self.num_looks),
        )
        await watch.run()
        assert self.ended_at is not None
        return self.ended_at

    def _is_dead(self) -> bool:
        self.num_looks += 1
        return self.num_looks >= self._dies_at

    def _end(self) -> None:
        self.ended_at = self.num_looks


async def test_ends_with_the_engine() -> None:
    assert await Engine(lambda look: look, dies_at=7).watched() == 7


async def test_waits_for_what_is_still_to_be_answered_but_not_for_ever() -> None:
    left = [2, 1, 0]
    await Engine(lambda look: look, dies_at=3).watched(num_under_way=lambda: left.pop(0))
    assert not left
    await Engine(lambda look: look, dies_at=3).watched(num_under_way=lambda: 1)


async def test_ends_an_engine_that_writes_nothing_although_it_has_requests() -> None:
    assert await Engine(lambda look: min(look, 20)).watched(stall_s=10) == 31


async def test_an_idle_or_slow_engine_stays() -> None:
    assert await Engine(lambda look: None, dies_at=100).watched(stall_s=10) == 100
    assert await Engine(lambda look: look // 9, dies_at=100).watched(stall_s=10) == 100
