"""Tries asked by many tasks at once; how their calls are gathered is in test_gathering."""

import asyncio
import threading
from typing import Any

import numpy as np
import pytest

from wordbound.lm import AsyncTokenCharacterTrie, Token, TokenCharacterTrie

VOCABULARY = [Token(0, b"a"), Token(1, b"ab"), Token(2, b"b")]


class Counting(TokenCharacterTrie):
    """Says how many rows it was asked for at a time, and waits until it may go on."""

    def __init__(self) -> None:
        super().__init__(VOCABULARY)
        self.batches: list[tuple[str, int]] = []
        self.begun, self.may_go_on = threading.Event(), threading.Event()

    def node_weights(self, rows: list[Any], operation: Any) -> Any:
        self.batches.append((operation, len(rows)))
        self.begun.set()
        self.may_go_on.wait()
        return super().node_weights(rows, operation)


@pytest.mark.parametrize("backend", ["sequential", "parallel"])
async def test_each_task_has_its_own_weights_or_its_own_refusal(backend: str) -> None:
    trie = AsyncTokenCharacterTrie.from_vocab(VOCABULARY, backend=backend)
    rows = np.random.default_rng(0).random((100, 3))
    sums = await asyncio.gather(*(trie.weight_sum(row) for row in rows))
    largest = await asyncio.gather(*(trie.weight_max(row) for row in rows))
    assert np.array_equal(sums, trie.trie.batch_weight_sum(rows))
    assert np.array_equal(largest, trie.trie.batch_weight_max(rows))
    found = await asyncio.gather(trie.weight_sum([1, 2, 3]), trie.weight_sum([1]), return_exceptions=True)
    assert list(map(type, found)) == [np.ndarray, ValueError]
    with pytest.raises(ValueError, match="parallel, sequential"):
        AsyncTokenCharacterTrie.from_vocab(VOCABULARY, backend="gpu")


async def test_the_event_loop_goes_on_while_a_trie_computes_what_was_asked_for_together() -> None:
    trie = AsyncTokenCharacterTrie(counting := Counting())
    first = asyncio.ensure_future(trie.weight_sum([1, 2, 3]))
    await asyncio.to_thread(counting.begun.wait)
    others = [asyncio.ensure_future(trie.weight_sum([1, 2, 3])) for _ in range(40)]
    largest = asyncio.ensure_future(trie.weight_max([1, 2, 3]))
    await asyncio.sleep(0)
    counting.may_go_on.set()
    await asyncio.gather(first, *others, largest)
    assert counting.batches == [("sum", 1), ("sum", 32), ("sum", 8), ("max", 1)]


async def test_who_waits_when_it_is_cleaned_up_is_cancelled_and_it_starts_by_itself_again() -> None:
    trie = AsyncTokenCharacterTrie(counting := Counting())
    waiting = asyncio.ensure_future(trie.weight_sum([1, 2, 3]))
    await asyncio.to_thread(counting.begun.wait)
    await trie.cleanup()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    counting.may_go_on.set()
    assert (await trie.weight_sum([1, 2, 3]))[trie.trie.root] == 6.0
    await trie.cleanup()
    await trie.cleanup()


def test_an_event_loop_that_ended_without_its_tasks_holds_up_no_other() -> None:
    trie = AsyncTokenCharacterTrie.from_vocab(VOCABULARY, backend="sequential")

    async def ask() -> None:
        asyncio.ensure_future(trie.weight_sum([1, 2, 3]))  # noqa: RUF006
        await asyncio.sleep(0)

    async def root() -> float:
        return float((await trie.weight_sum([1, 2, 3]))[trie.trie.root])

    abandoned = asyncio.new_event_loop()
    abandoned.run_until_complete(ask())
    tasks = asyncio.all_tasks(abandoned)
    assert [asyncio.run(root()) for _ in range(2)] == [6.0, 6.0]
    trie.shutdown()
    for task in tasks:
        task.cancel()
    abandoned.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
    abandoned.close()
