"""Handles of deployments that have replicas, have none, or are not known yet."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from deployments.handles import Watch, has_no_replica


def handle(replicas: dict[str, Any] | None, *, is_populated: bool = True) -> Any:
    """A handle that knows these replicas; None for one that was never used."""
    router = SimpleNamespace(_asyncio_router=SimpleNamespace(request_router=SimpleNamespace(curr_replicas=replicas)))
    return SimpleNamespace(
        _router=None if replicas is None else router, running_replicas_populated=lambda: is_populated
    )


def test_there_is_none_where_the_last_one_is_known_to_be_gone() -> None:
    assert has_no_replica(handle({}))
    assert not has_no_replica(handle({"one": object()}))


def test_what_is_not_known_yet_may_be_there() -> None:
    assert not has_no_replica(handle(None))
    assert not has_no_replica(handle({}, is_populated=False))


async def test_a_watch_checks_once_for_all_who_wait_and_only_while_somebody_does(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("deployments.handles._CHECK_S", 0.001)
    num_checks = 0

    def has_happened() -> bool:
        nonlocal num_checks
        num_checks += 1
        return num_checks == 3

    watch = Watch(has_happened)
    await asyncio.wait_for(asyncio.gather(*(watch.add() for _ in range(20))), 60)
    assert num_checks == 3
    watch.add().cancel()
    await asyncio.sleep(0.02)
    assert num_checks <= 4
