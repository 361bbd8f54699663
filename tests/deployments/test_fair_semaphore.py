import asyncio
from collections import defaultdict
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from deployments.fair_semaphore import FairSemaphore, SemaphoreFullError


async def begins(share: FairSemaphore, owner: str, order: list[str], wanted: int = 1, most: int | None = None) -> None:
    async with share.take(wanted, owner, most):
        order.append(owner)
        await asyncio.sleep(0)


async def test_a_wide_request_is_not_overtaken_for_ever() -> None:
    share, order = FairSemaphore(4), list[str]()
    wanted = {"a": 2, "wide": 4, "b": 2, "c": 2}

    async def work(name: str) -> None:
        async with share.take(wanted[name], "alice"):
            order.append(name)
            await asyncio.sleep(0)

    await asyncio.gather(*map(work, wanted))
    assert order == list(wanted)


REQUESTS = st.tuples(st.sampled_from(["alice", "bob", "carol"]), st.integers(1, 5), st.booleans())
"""Of a key, for so many sequences; whether it has had a turn before."""
STEPS = st.lists(REQUESTS | st.tuples(st.sampled_from(["ends", "leaves"]), st.integers(0, 19)) | st.none(), max_size=60)
"""A request comes, or one that came ends or leaves; None is a turn of the event loop."""

ALICE, BOB = ("alice", 1, False), ("bob", 1, False)
TWO_WAIT = [ALICE, None, ALICE, ALICE, None]


# The place is given to the one that leaves, which has not run since.
@pytest.mark.fault(35, 36, 58)
@example([*TWO_WAIT, ("ends", 0), None, ("leaves", 1), None], 1, 3)
# It leaves as the place becomes free, and runs later.
@example([*TWO_WAIT, ("ends", 0), ("leaves", 1), None], 1, 3)
# It leaves as it is refused for another key.
@example([*TWO_WAIT, BOB, None, ("leaves", 2), None], 1, 2)
@given(STEPS, st.integers(1, 4), st.integers(0, 3))
async def test_whoever_leaves_at_whatever_time_no_place_is_lost_or_given_twice(
    steps: list[tuple[Any, ...] | None], size: int, max_waiting: int
) -> None:
    share, came, has_left = FairSemaphore(size, max_waiting), list[asyncio.Task[None]](), set[asyncio.Task[None]]()
    ends = defaultdict[int, asyncio.Event](asyncio.Event)

    async def come(number: int, owner: str, wanted: int, has_begun: bool) -> None:
        async with share.take(wanted, owner, has_begun=has_begun):
            await ends[number].wait()

    for step in steps:
        match step:
            case None:
                await asyncio.sleep(0)
            case ("ends" | "leaves" as how, number) if number < len(came):
                ends[number].set()
                if how == "leaves" and came[number].cancel():
                    has_left.add(came[number])
            case (owner, wanted, has_begun):
                came.append(asyncio.create_task(come(len(came), owner, wanted, has_begun)))
        assert 0 <= share.num_taken <= size
    for number in range(len(came)):
        ends[number].set()
    async with asyncio.timeout(60):
        done = await asyncio.gather(*came, return_exceptions=True)
    assert (share.num_taken, share.num_waiting) == (0, 0)
    assert all(one is None or isinstance(one, asyncio.CancelledError | SemaphoreFullError) for one in done)
    assert {one for one in came if one.cancelled()} <= has_left


async def test_refuses_more_than_may_wait_at_once_and_says_when_to_come_back() -> None:
    now = 0.0
    share = FairSemaphore(4, max_waiting=2, clock=lambda: now)
    async with share.take(4, "alice"):
        now = 30.0
    async with share.take(2, "alice"), share.take(2, "alice"):
        waiting = [asyncio.create_task(begins(share, "alice", [], 2)) for _ in range(2)]
        await asyncio.sleep(0)
        with pytest.raises(SemaphoreFullError) as full:
            await begins(share, "alice", [], 2)
        # Requests of 30 s; two wait and this would be the third, with two sequences each, where four may run.
        assert full.value.retry_after_s == 45
    await asyncio.gather(*waiting)
    assert share.num_taken == 0


async def test_refuses_who_has_waited_too_long() -> None:
    share = FairSemaphore(1, max_waiting=9, max_wait_s=0.01)
    async with share.take(1, "alice"):
        with pytest.raises(SemaphoreFullError) as full:
            async with share.take(1, "alice"):
                pass
        assert full.value.retry_after_s == 1
    async with share.take(1, "alice"):
        assert share.num_taken == 1


async def test_refuses_at_once_who_would_wait_too_long_and_takes_another_keys_turn_into_account() -> None:
    now = 0.0
    share, order = FairSemaphore(2, max_waiting=99, max_wait_s=60, clock=lambda: now), list[str]()
    async with share.take(2, "carol"):
        now = 10.0
    # Each request is expected to take all sequences for 10 s.
    async with share.take(2, "carol"):
        crowd = [asyncio.create_task(begins(share, "alice", order, 2)) for _ in range(3)]
        await asyncio.sleep(0)
        with pytest.raises(SemaphoreFullError) as full:
            await begins(share, "alice", order, 2)
        assert full.value.retry_after_s == 40
        other = asyncio.create_task(begins(share, "bob", order, 2))
        await asyncio.sleep(0)
    await asyncio.gather(*crowd, other)
    assert order == ["alice", "bob", "alice", "alice"]
    assert (share.num_taken, share.num_waiting) == (0, 0)


async def test_wide_requests_are_expected_to_hold_others_up_for_longer() -> None:
    now = 0.0
    share = FairSemaphore(8, max_waiting=99, max_wait_s=60, clock=lambda: now)
    async with share.take(1, "alice"):
        now = 20.0
    async with share.take(8, "alice"):
        wide, order = [asyncio.create_task(begins(share, "alice", [], 8))], list[str]()
        await asyncio.sleep(0)
        with pytest.raises(SemaphoreFullError):
            await begins(share, "alice", order, 8)
        narrow = asyncio.create_task(begins(share, "alice", order, 1))
        await asyncio.sleep(0)
    await asyncio.gather(*wide, narrow)
    assert order == ["alice"]


async def test_keys_take_turns_with_their_oldest_request_each() -> None:
    share, order = FairSemaphore(1), list[str]()
    owners = ["alice"] * 5 + ["bob", "carol", "bob"]
    await asyncio.gather(*(begins(share, owner, order) for owner in owners))
    assert order == ["alice", "alice", "bob", "carol", "alice", "bob", "alice", "alice"]


async def test_a_key_has_no_more_sequences_than_it_may_and_holds_nobody_back() -> None:
    share, order = FairSemaphore(4), list[str]()
    async with share.take(9, "alice", 2):
        assert share.num_taken == 2
        waiting = asyncio.create_task(begins(share, "alice", order, 1, 2))
        await begins(share, "bob", order, 2)
        assert (order, share.num_waiting) == (["bob"], 1)
    await waiting
    assert order == ["bob", "alice"]
    assert (share.num_taken, share.num_waiting) == (0, 0)


async def test_where_too_many_wait_the_last_of_the_key_with_the_most_is_refused() -> None:
    share, order = FairSemaphore(1, max_waiting=3), list[str]()
    async with share.take(1, "carol"):
        crowd = [asyncio.create_task(begins(share, "alice", order)) for _ in range(3)]
        await asyncio.sleep(0)
        late = [asyncio.create_task(begins(share, owner, order)) for owner in ("bob", "bob", "alice")]
        await asyncio.sleep(0)
    done = await asyncio.gather(*crowd, *late, return_exceptions=True)
    assert [isinstance(result, SemaphoreFullError) for result in done] == [False, False, True, False, True, True]
    assert order == ["alice", "bob", "alice"]


async def test_who_comes_behind_long_requests_of_which_none_has_ended_is_refused_at_once_with_a_true_time() -> None:
    now = 0.0
    share = FairSemaphore(64, max_waiting=99, max_wait_s=30, clock=lambda: now)
    async with share.take(32, "loud"), share.take(32, "loud"):
        now = 50.0
        with pytest.raises(SemaphoreFullError) as full:
            await begins(share, "other", [])
    # Two that have run for 50 s are expected to end within 50 s, the first of them after 25.
    assert full.value.retry_after_s == 25


async def test_what_has_begun_waits_for_its_turns_and_is_never_refused() -> None:
    now = 0.0
    share, order = FairSemaphore(2, max_waiting=1, max_wait_s=30, clock=lambda: now), list[str]()
    async with share.take(2, "loud"):
        now = 100.0
        await asyncio.sleep(0)

        async def goes_on(owner: str) -> None:
            async with share.take(1, owner, has_begun=True):
                order.append(owner)

        begun = [asyncio.create_task(goes_on(owner)) for owner in ("loud", "loud", "loud", "other")]
        await asyncio.sleep(0)
        with pytest.raises(SemaphoreFullError):
            await share.wait_for_turn("other")
        assert share.num_waiting == 4
    await asyncio.gather(*begun)
    assert order == ["loud", "other", "loud", "loud"]
    assert (share.num_taken, share.num_waiting) == (0, 0)


async def test_a_key_has_its_part_unless_it_has_a_number_of_its_own() -> None:
    share, order = FairSemaphore(64, share_of_key=0.75), list[str]()
    async with share.take(64, "loud"):
        assert share.num_taken == 48
        waiting = asyncio.create_task(begins(share, "loud", order))
        await begins(share, "other", order, 16)
        assert order == ["other"]
    await waiting
    async with share.take(64, "loud", 60):
        assert share.num_taken == 60
    async with FairSemaphore(1, share_of_key=0.75).take(1, "loud"):
        pass


async def test_a_turn_that_was_waited_for_holds_nothing() -> None:
    share = FairSemaphore(1)
    async with share.take(1, "loud"):
        waiting = asyncio.create_task(share.wait_for_turn("other"))
        await asyncio.sleep(0)
        assert share.num_waiting == 1
    await waiting
    assert (share.num_taken, share.num_waiting) == (0, 0)
