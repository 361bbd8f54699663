"""What keys use of their rates, counted in memory and in Redis."""

import logging
import shutil
import socket
import subprocess
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from limits.aio.storage import RedisStorage

from deployments.rates import IN_MEMORY, Rates
from tests.deployments.front import wait_until
from tests.harness import free_port

Make: TypeAlias = Callable[[str], Rates]


@pytest.fixture(scope="module")
def redis_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A Redis server of the tests' own, on a loopback port."""
    program = shutil.which("redis-server")
    if program is None:
        pytest.skip("redis-server is not installed")
    port = free_port()
    folder = tmp_path_factory.mktemp("redis")
    server = subprocess.Popen(
        [program, "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", str(folder)],
        stdout=subprocess.DEVNULL,
    )

    def answers() -> bool:
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return True
        return False

    try:
        wait_until(answers, timeout_s=60)
        yield f"async+redis://127.0.0.1:{port}"
    finally:
        server.terminate()
        server.wait(10)


@pytest.fixture(params=["memory", "redis"])
def url(request: pytest.FixtureRequest) -> str:
    return IN_MEMORY if request.param == "memory" else str(request.getfixturevalue("redis_url"))


@pytest.fixture
async def make() -> AsyncIterator[Make]:
    """Makes rates whose connections are closed with the test's event loop."""
    made: list[Rates] = []

    def make(url: str) -> Rates:
        made.append(Rates(url))
        return made[-1]

    yield make
    for rates in made:
        if isinstance(rates._storage, RedisStorage):
            bridge: Any = rates._storage.bridge
            await bridge.get_connection().aclose()


async def test_a_rate_tells_what_is_left_and_when_there_is_more_and_what_is_refused_does_not_count(
    make: Make, url: str, tmp_path: Path
) -> None:
    rates, kind = make(url), str(tmp_path)
    left = [await rates.take(kind, 10, "alice", cost) for cost in (1, 5, 4)]
    assert [state.remaining for state in left if state] == [9, 4, 0]
    refused, of_another = await rates.take(kind, 10, "alice"), await rates.take(kind, 10, "bob")
    assert refused is not None and of_another is not None
    assert (refused.limit, refused.is_exceeded, of_another.is_exceeded) == (10, True, False)
    assert 1 <= refused.reset_s <= 60
    # What is refused does not count.
    other = f"{kind} other"
    await rates.take(other, 10, "alice", 4)
    for _ in range(3):
        refused = await rates.take(other, 10, "alice", 9)
        assert refused is not None and refused.is_exceeded
    state = await rates.take(other, 10, "alice", 6)
    assert state is not None
    assert (state.remaining, state.is_exceeded) == (0, False)


async def test_several_processes_count_together_in_redis(make: Make, redis_url: str, tmp_path: Path) -> None:
    one, other, kind = make(redis_url), make(redis_url), str(tmp_path)
    await one.take(kind, 2, "alice")
    await other.take(kind, 2, "alice")
    for rates in (one, other):
        state = await rates.take(kind, 2, "alice")
        assert state is not None and state.is_exceeded


async def test_requests_are_let_through_with_one_warning_while_the_store_does_not_answer(
    make: Make, caplog: pytest.LogCaptureFixture
) -> None:
    rates = make("async+redis://127.0.0.1:1")
    with caplog.at_level(logging.WARNING):
        assert [await rates.take("requests", 1, "alice") for _ in range(5)] == [None] * 5
    assert [record.getMessage().partition(":")[0] for record in caplog.records] == [
        "rates are not counted, their store does not answer"
    ]
