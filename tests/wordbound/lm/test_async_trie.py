"""Tries asked by many tasks at once."""

import asyncio
import threading
from typing import Any

import numpy as np
import pytest

from wordbound.lm import AsyncTokenCharacterTrie, Token, TokenCharacterTrie

VOCABULARY = [Token(0, b"a"), Token(1, b"ab"), Token(2, b"b")]


class Counting(TokenCharacterTrie):
    """Says how many rows it was asked for at a time; fails where the first weighs -1."""

    def __init__(self) -> None:
        super().__init__(VOCABULARY)
        self.batches: list[tuple[str, int]] = []
        self.begun, self.may_go_on = threading.Event(), threading.Event()
        self.may_go_on.set()

    def node_weights(self, rows: list[Any], operation: Any) -> Any:
        self.batches.append((operation, len(rows)))
        self.begun.set()
        self.may_go_on.wait()
        if rows and rows[0][0] == -1:
            raise ArithmeticError("no such weight")
        return super().node_weights(rows, operation)


@pytest.mark.parametrize("backend", ["sequential", "parallel"])
async def test_each_task_has_its_own_weights(backend: str) -> None:
    trie = AsyncTokenCharacterTrie.from_vocab(VOCABULARY, backend=backend)
    rows = np.random.default_rng(0).random((100, 3))
    sums = await asyncio.gather(*(trie.weight_sum(row) for row in rows))
    largest = await asyncio.gather(*(trie.weight_max(row) for row in rows))
    assert np.array_equal(sums, trie.trie.batch_weight_sum(rows))
    assert np.array_equal(largest, trie.trie.batch_weight_max(rows))


async def test_tasks_that_ask_at_once_are_computed_together() -> None:
    counting = Counting()
    trie = AsyncTokenCharacterTrie(counting)
    await asyncio.gather(*(trie.weight_sum([1, 2, 3]) for _ in range(40)), trie.weight_max([1, 2, 3]))
    assert counting.batches == [("sum", 32), ("sum", 8), ("max", 1)]


async def test_the_event_loop_goes_on_while_a_trie_computes() -> None:
    counting = Counting()
    trie = AsyncTokenCharacterTrie(counting)
    counting.may_go_on.clear()
    first = asyncio.ensure_future(trie.weight_sum([1, 2, 3]))
    await asyncio.to_thread(counting.begun.wait)
    others = [asyncio.ensure_future(trie.weight_sum([1, 2, 3])) for _ in range(3)]
    await asyncio.sleep(0)
    counting.may_go_on.set()
    await asyncio.gather(first, *others)
    assert counting.batches == [("sum", 1), ("sum", 3)]


async def test_a_task_that_is_cancelled_leaves_the_others_alone() -> None:
    counting = Counting()
    trie = AsyncTokenCharacterTrie(counting)
    counting.may_go_on.clear()
    tasks = [asyncio.ensure_future(trie.weight_sum([1, 2, 3])) for _ in range(3)]
    await asyncio.to_thread(counting.begun.wait)
    tasks[1].cancel()
    await asyncio.sleep(0)
    counting.may_go_on.set()
    found = await asyncio.gather(*tasks, return_exceptions=True)
    assert isinstance(found[1], asyncio.CancelledError)
    assert [weights[trie.trie.root] for weights in found if isinstance(weights, np.ndarray)] == [6.0, 6.0]


async def test_weights_that_are_refused_fail_their_own_task_alone() -> None:
    trie = AsyncTokenCharacterTrie.from_vocab(VOCABULARY, backend="sequential")
    found = await asyncio.gather(trie.weight_sum([1, 2, 3]), trie.weight_sum([1]), return_exceptions=True)
    assert isinstance(found[0], np.ndarray)
    assert isinstance(found[1], ValueError)


async def test_an_error_goes_to_all_of_its_batch_and_the_next_is_computed() -> None:
    trie = AsyncTokenCharacterTrie(Counting())
    found = await asyncio.gather(*(trie.weight_sum([-1, 2, 3]) for _ in range(2)), return_exceptions=True)
    assert [type(error) for error in found] == [ArithmeticError, ArithmeticError]
    assert (await trie.weight_sum([1, 2, 3]))[trie.trie.root] == 6.0


async def test_who_waits_when_it_is_cleaned_up_is_cancelled() -> None:
    counting = Counting()
    trie = AsyncTokenCharacterTrie(counting)
    counting.may_go_on.clear()
    waiting = asyncio.ensure_future(trie.weight_sum([1, 2, 3]))
    await asyncio.to_thread(counting.begun.wait)
    await trie.cleanup()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    counting.may_go_on.set()
    # It starts by itself again.
    assert (await trie.weight_sum([1, 2, 3]))[trie.trie.root] == 6.0
    await trie.cleanup()
    await trie.cleanup()


def test_one_event_loop_after_the_other_may_ask() -> None:
    trie = AsyncTokenCharacterTrie.from_vocab(VOCABULARY, backend="sequential")

    async def root() -> float:
        return float((await trie.weight_sum([1, 2, 3]))[trie.trie.root])

    assert [asyncio.run(root()) for _ in range(2)] == [6.0, 6.0]
    trie.shutdown()


def test_an_event_loop_that_ended_without_its_tasks_holds_up_no_other() -> None:
    trie = AsyncTokenCharacterTrie(Counting())

    async def ask() -> None:
        asyncio.ensure_future(trie.weight_sum([1, 2, 3]))  # noqa: RUF006
        await asyncio.sleep(0)

    abandoned = asyncio.new_event_loop()
    abandoned.run_until_complete(ask())
    abandoned_tasks = asyncio.all_tasks(abandoned)

    async def root() -> float:
        return float((await trie.weight_sum([1, 2, 3]))[trie.trie.root])

    assert asyncio.run(root()) == 6.0
    for task in abandoned_tasks:
        task.cancel()
    abandoned.run_until_complete(asyncio.gather(*abandoned_tasks, return_exceptions=True))
    abandoned.close()


def test_an_unknown_backend_is_refused() -> None:
    with pytest.raises(ValueError, match="parallel, sequential"):
        AsyncTokenCharacterTrie.from_vocab(VOCABULARY, backend="gpu")
