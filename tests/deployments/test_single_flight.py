import asyncio

import pytest

from deployments.single_flight import SingleFlight


class Maker:
    """Makes numbers, and fails as often as it is told to."""

    def __init__(self, *errors: Exception) -> None:
        self.errors = list(errors)
        self.num_calls = 0

    async def make(self) -> int:
        self.num_calls += 1
        await asyncio.sleep(0.01)
        if self.errors:
            raise self.errors.pop()
        return self.num_calls


async def test_many_who_ask_wait_for_one_call() -> None:
    flight, maker = SingleFlight(2), Maker()
    assert await asyncio.gather(*(flight.get("a", maker.make) for _ in range(5))) == [1] * 5
    assert await flight.get("a", maker.make) == 1
    assert flight.results() == [1]


async def test_a_result_that_is_gone_is_made_once_again() -> None:
    flight, maker = SingleFlight(2), Maker()

    async def is_there(number: int) -> bool:
        await asyncio.sleep(0)
        return number > 1

    assert await flight.get("a", maker.make, is_there) == 1
    assert await asyncio.gather(*(flight.get("a", maker.make, is_there) for _ in range(5))) == [2] * 5
    assert maker.num_calls == 2


async def test_a_failure_is_forgotten_unless_it_is_to_be_kept() -> None:
    flight, maker = SingleFlight(2), Maker(KeyError(), ValueError())
    with pytest.raises(ValueError):
        await flight.get("a", maker.make, cached_errors=KeyError)
    for _ in range(2):
        with pytest.raises(KeyError):
            await flight.get("a", maker.make, cached_errors=KeyError)
    assert maker.num_calls == 2
    assert flight.results() == []


async def test_a_caller_who_leaves_takes_nothing_from_the_others() -> None:
    flight, maker = SingleFlight(2), Maker()
    first, second = (asyncio.create_task(flight.get("a", maker.make)) for _ in range(2))
    await asyncio.sleep(0)
    first.cancel()
    assert await second == 1


async def test_those_used_longest_ago_are_forgotten_and_looking_at_results_is_no_use() -> None:
    num_made: list[int] = []
    flight, maker = SingleFlight(2, on_made=lambda: num_made.append(len(flight))), Maker()
    await flight.get("a", maker.make)
    await flight.get("b", maker.make)
    await flight.get("a", maker.make)
    assert flight.results() == [1, 2]
    await flight.get("c", maker.make)
    assert sorted(flight.results()) == [1, 3]
    flight.drop_least_used()
    assert flight.results() == [3]
    assert num_made == [1, 2, 2]


async def test_a_call_that_nobody_waits_for_is_cancelled_if_so_wished() -> None:
    flight, maker = SingleFlight(2, cancels_unwanted=True), Maker()
    waiting = [asyncio.create_task(flight.get("a", maker.make)) for _ in range(3)]
    await asyncio.sleep(0)
    for task in waiting[:2]:
        task.cancel()
    assert await waiting[2] == 1
    leaving = asyncio.create_task(flight.get("b", maker.make))
    await asyncio.sleep(0)
    leaving.cancel()
    await asyncio.gather(leaving, return_exceptions=True)
    # One who comes while it ends gets a call of their own.
    assert await flight.get("b", maker.make) == 3
    assert len(flight) == 2
