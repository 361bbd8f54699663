"""Concurrent queries are gathered; failures and cancellations reach those whom they concern."""

import asyncio
import threading

import pytest
import torch

from tests.wordbound.lm.counting_lm import CountingLM


async def test_concurrent_calls_are_one_batch_and_equal_prefixes_are_computed_once() -> None:
    lm = CountingLM()
    first, second, third = await asyncio.gather(*(lm.next_token_logprobs(ids) for ids in ([1, 2], (1, 2), [3])))
    assert lm.batches == [[(1, 2), (3,)]]
    assert torch.equal(first, second)
    assert not torch.equal(first, third)


async def test_callers_that_come_a_few_passes_later_are_in_the_same_batch() -> None:
    async def after(num_passes: int) -> None:
        for _ in range(num_passes):
            await asyncio.sleep(0)
        await lm.next_token_logprobs([num_passes])

    lm = CountingLM()
    await asyncio.gather(*map(after, range(0, 30, 3)))
    assert len(lm.batches) == 1


async def test_a_full_batch_waits_for_nobody() -> None:
    lm = CountingLM(batch_size=2, timeout=1e9)
    await asyncio.gather(*(lm.next_token_logprobs([token]) for token in range(5)))
    assert [len(batch) for batch in lm.batches] == [2, 2, 1]


async def test_who_asks_for_what_is_being_computed_waits_for_that() -> None:
    lm = CountingLM()
    lm.gate = asyncio.Event()
    first = asyncio.create_task(lm.next_token_logprobs([1]))
    await lm.asked.wait()
    second = asyncio.create_task(lm.next_token_logprobs([1]))
    await asyncio.sleep(0)
    lm.gate.set()
    assert torch.equal(await first, await second)
    assert lm.batches == [[(1,)]]


async def test_a_failure_is_raised_in_everybody_who_waits_for_the_batch_and_nowhere_later() -> None:
    lm = CountingLM(cache_size=10)
    lm.error = RuntimeError("out of memory")
    calls = [lm.next_token_logprobs([token]) for token in (1, 1, 2)]
    answers = await asyncio.gather(*calls, return_exceptions=True)
    assert [str(answer) for answer in answers] == ["out of memory"] * 3
    lm.error = None
    assert (await lm.next_token_logprobs([1])).shape == (50,)


@pytest.mark.parametrize("same", [True, False])
async def test_who_is_cancelled_leaves_the_others_alone(same: bool) -> None:
    lm = CountingLM()
    lm.gate = asyncio.Event()
    gone = asyncio.create_task(lm.next_token_logprobs([1]))
    stays = asyncio.create_task(lm.next_token_logprobs([1] if same else [2]))
    await lm.asked.wait()
    gone.cancel()
    await asyncio.sleep(0)
    lm.gate.set()
    assert (await stays).shape == (50,)
    assert gone.cancelled()
    assert lm.num_cancelled == 0


async def test_what_nobody_waits_for_any_more_is_cancelled_or_never_computed() -> None:
    lm = CountingLM()
    gone, stays = (asyncio.create_task(lm.next_token_logprobs([token])) for token in (1, 2))
    await asyncio.sleep(0)
    gone.cancel()
    await stays
    assert lm.batches == [[(2,)]]
    lm.gate = asyncio.Event()
    lm.asked.clear()
    tasks = [asyncio.create_task(lm.next_token_logprobs([token])) for token in (1, 1, 2)]
    await lm.asked.wait()
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    await asyncio.sleep(0)
    assert lm.num_cancelled == 1


async def test_dropped_queries_raise_in_who_waits_for_them() -> None:
    lm = CountingLM(cache_size=10)
    task = asyncio.create_task(lm.next_token_logprobs([1]))
    await asyncio.sleep(0)
    lm.reset_async_queries()
    with pytest.raises(RuntimeError, match="dropped by reset_async_queries"):
        await task
    assert lm.batches == []
    assert (await lm.next_token_logprobs([1])).shape == (50,)


def test_one_object_serves_several_event_loops_one_after_the_other_also_where_one_ends_in_the_middle() -> None:
    async def asks_and_leaves() -> None:
        task = asyncio.create_task(lm.next_token_logprobs([1, 2]))
        await asyncio.sleep(0)
        del task

    lm = CountingLM()
    rows = [asyncio.run(lm.next_token_logprobs([1, 2])) for _ in range(2)]
    asyncio.run(asks_and_leaves())
    rows.append(asyncio.run(lm.next_token_logprobs([1, 2])))
    assert all(torch.equal(rows[0], row) for row in rows)
    assert len(lm.batches) == 3


def test_one_object_serves_event_loops_in_several_threads() -> None:
    async def ask() -> None:
        found.extend([(token, await lm.next_token_logprobs([token])) for token in range(20)])

    lm = CountingLM(cache_size=5)
    found: list[tuple[int, torch.Tensor]] = []
    threads = [threading.Thread(target=lambda: asyncio.run(ask())) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 80
    assert all(torch.equal(row, lm.next_token_logprobs_uncached([token])) for token, row in found)
