import asyncio
import random

import pytest

from deployments.replica.share import Share, ShareFullError


async def test_no_more_places_are_taken_than_there_are_and_all_come_back() -> None:
    share, randomness, most = Share(7), random.Random(1), 0

    async def work(wanted: int) -> None:
        nonlocal most
        async with share.take(wanted):
            most = max(most, share.num_taken)
            await asyncio.sleep(0)

    await asyncio.gather(*(work(randomness.randint(1, 9)) for _ in range(200)))
    assert most == 7
    assert share.num_taken == 0


async def test_a_wide_line_is_not_overtaken_for_ever() -> None:
    share, order = Share(4), []

    async def work(name: str, wanted: int) -> None:
        async with share.take(wanted):
            order.append(name)
            await asyncio.sleep(0)

    await asyncio.gather(work("a", 2), work("wide", 4), work("b", 2), work("c", 2))
    assert order == ["a", "wide", "b", "c"]


async def test_who_no_longer_waits_holds_no_place() -> None:
    share = Share(1)
    release = asyncio.Event()

    async def work() -> None:
        async with share.take(1):
            await release.wait()

    holder, leaving, staying = (asyncio.create_task(work()) for _ in range(3))
    await asyncio.sleep(0)
    leaving.cancel()
    await asyncio.sleep(0)
    release.set()
    await asyncio.gather(holder, staying)
    assert leaving.cancelled()
    assert share.num_taken == 0


async def test_a_place_given_to_one_who_is_cancelled_meanwhile_goes_on() -> None:
    share = Share(1)

    async def work() -> None:
        async with share.take(1):
            await asyncio.sleep(0)

    async def hand_over() -> None:
        async with share.take(1):
            await asyncio.sleep(0)
        # The place is given to it already, but it has not run since.
        leaving.cancel()

    holder = asyncio.create_task(hand_over())
    leaving, staying = (asyncio.create_task(work()) for _ in range(2))
    await asyncio.gather(holder, staying)
    assert leaving.cancelled()
    assert share.num_taken == 0


async def test_refuses_more_than_may_wait_at_once_and_says_when_to_come_back() -> None:
    now = 0.0
    share = Share(4, max_waiting=2, clock=lambda: now)
    async with share.take(4):
        now = 30.0
    release = asyncio.Event()

    async def work() -> None:
        async with share.take(2):
            await release.wait()

    tasks = [asyncio.create_task(work()) for _ in range(4)]
    await asyncio.sleep(0)
    with pytest.raises(ShareFullError) as full:
        await work()
    # Requests of 120 sequence-seconds; two wait and this would be the third, for four sequences.
    assert full.value.retry_after_s == 60
    release.set()
    await asyncio.gather(*tasks)
    assert share.num_taken == 0


async def test_refuses_who_has_waited_too_long() -> None:
    share = Share(1, max_waiting=9, max_wait_s=0.01)
    async with share.take(1):
        with pytest.raises(ShareFullError) as full:
            async with share.take(1):
                pass
        assert full.value.retry_after_s == 1
    async with share.take(1):
        assert share.num_taken == 1


async def test_never_more_sequences_than_configured_however_many_come() -> None:
    share, most, refused = Share(8, max_waiting=16, max_wait_s=5), 0, 0

    async def work(wanted: int) -> None:
        nonlocal most, refused
        try:
            async with share.take(wanted):
                most = max(most, share.num_taken)
                await asyncio.sleep(0.001)
        except ShareFullError:
            refused += 1

    choices = random.Random(2)
    await asyncio.gather(*(work(choices.choice((1, 1, 2, 8, 16))) for _ in range(240)))
    assert most == 8
    assert 0 < refused < 240
    assert share.num_taken == 0
