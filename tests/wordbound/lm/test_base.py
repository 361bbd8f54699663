"""Rows, scores, checks and the cache of rows: what every backend has from its base."""

import asyncio
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.wordbound.lm.counting_lm import NUM_TOKENS, CountingLM
from wordbound.lm import AsyncLM, MockAsyncLM


def test_the_mock_has_the_same_distribution_for_the_same_prefix_only() -> None:
    rows = MockAsyncLM(None, NUM_TOKENS).batch_next_token_logprobs_sync([[1, 2], [2, 1], [1, 2], [4]])
    again = MockAsyncLM(None, NUM_TOKENS).next_token_logprobs_sync([2, 1])
    assert torch.equal(rows[0], rows[2])
    assert torch.equal(rows[1], again)
    assert len({tuple(row.tolist()) for row in rows}) == 3
    assert (again.dtype, again.shape, again.exp().sum().item()) == (torch.float32, (NUM_TOKENS,), pytest.approx(1))


async def test_all_ways_to_a_row_agree() -> None:
    lm = CountingLM()
    prefixes = [[1], [2, 3], [1]]
    rows = await lm.batch_next_token_logprobs(prefixes)
    assert rows.shape == (3, NUM_TOKENS)
    # Inside a running event loop, too.
    assert torch.equal(rows, lm.batch_next_token_logprobs_sync(prefixes))
    assert torch.equal(rows[1], await lm.next_token_logprobs([2, 3]))
    assert torch.equal(rows[1], lm.next_token_logprobs_sync([2, 3]))
    # Integers of numpy and torch, too.
    assert torch.equal(rows[1], lm.next_token_logprobs_uncached(np.array([2, 3])))  # type: ignore[arg-type]
    assert torch.equal(rows[1], await lm.next_token_logprobs([np.int64(2), torch.tensor(3)]))  # type: ignore[list-item]
    # Scores are those of the rows.
    rows = lm.batch_next_token_logprobs_sync([[5, 6], [5, 6, 7], [5, 6, 7, 8]])
    assert (await lm.token_logprobs([5, 6], [7, 8, 9])).tolist() == [rows[0, 7], rows[1, 8], rows[2, 9]]
    assert lm.token_logprobs_sync([5], []).shape == (0,)


async def test_a_backend_that_only_awaits_answers_sync_calls_in_a_running_loop() -> None:
    class Awaiting(CountingLM):
        compute_rows_sync = AsyncLM.compute_rows_sync

        async def compute_rows(self, prefixes: Any, lora_name: str | None) -> torch.Tensor:
            await asyncio.sleep(0)
            return torch.zeros(len(prefixes), NUM_TOKENS)

    assert Awaiting().next_token_logprobs_sync([1]).shape == (NUM_TOKENS,)
    assert Awaiting().token_logprobs_sync([1], [2, 3]).shape == (2,)


def test_sync_calls_compute_equal_prefixes_once_in_batches_of_the_size() -> None:
    batches: list[int] = []

    class Noting(CountingLM):
        def compute_rows_sync(self, prefixes: Any, lora_name: str | None) -> torch.Tensor:
            batches.append(len(prefixes))
            return super().compute_rows_sync(prefixes, lora_name)

    Noting(batch_size=2).batch_next_token_logprobs_sync([[1], [2], [1], [3]])
    assert batches == [2, 1]


@given(st.integers(0, 4), st.lists(st.tuples(st.booleans(), st.integers(0, 6)), max_size=40))
def test_the_cache_keeps_the_rows_used_last(maxsize: int, uses: list[tuple[bool, int]]) -> None:
    cache, used = MockAsyncLM(None, 1, cache_size=maxsize).cache, list[int]()
    for is_set, key in uses:
        if is_set:
            cache[key] = torch.tensor([float(key)])
        elif key in cache:
            assert cache[key].item() == key
        if is_set or key in used:
            used = [*(other for other in used if other != key), key][-maxsize:] if maxsize else []
        assert [other for other in range(7) if other in cache] == sorted(used)
        assert len(cache) == len(used)


async def test_cached_rows_are_not_computed_again_until_they_are_cleared() -> None:
    async with CountingLM(cache_size=2) as lm:
        for token in (1, 2, 1, 3, 1, 2):
            await lm.next_token_logprobs([token])
        assert [batch[0][0] for batch in lm.batches] == [1, 2, 3, 2]
        lm.clear_cache()
        await lm.next_token_logprobs([1])
        assert (len(lm.batches), len(lm.cache)) == (5, 1)
    assert len(lm.cache) == 0
    with lm:
        lm.next_token_logprobs_sync([1])
        assert len(lm.cache) == 1
    assert len(lm.cache) == 0


async def test_a_row_keeps_no_other_of_its_batch_in_memory_and_comes_back_to_its_device() -> None:
    lm = CountingLM(cache_size=1, cache_opts={"move_to_cpu": True})
    rows = await asyncio.gather(*map(lm.next_token_logprobs, ([1], [2], [3])))
    assert len(lm.batches) == 1
    lm.cache["a"] = torch.zeros(32, NUM_TOKENS)[3]
    assert all(row.untyped_storage().nbytes() == NUM_TOKENS * 4 for row in (*rows, lm.cache["a"]))
    assert lm.cache["a"].device == rows[0].device


BAD_IDS: list[tuple[list[Any], str]] = [
    ([], "must not be empty"),
    ([1, "2"], "must be ints from 0 to 49, not '2'"),
    ([True], "must be ints"),
    ([1.0], "must be ints"),
    ([50], "from 0 to 49, this model's vocabulary, not 50"),
    ([3, -1], "not -1"),
    ([1] * 9, "9 tokens are more than the model's context: at most 8"),
]


async def test_what_cannot_be_asked_is_refused_with_what_to_change_and_nothing_is_computed() -> None:
    lm = CountingLM()
    lm.max_prefix_len = 8
    for ids, words in BAD_IDS:
        for call in (lm.next_token_logprobs_sync, lm.next_token_logprobs_uncached):
            with pytest.raises(ValueError, match=words):
                call(ids)
        with pytest.raises(ValueError, match=words):
            await lm.batch_next_token_logprobs([[1], ids])
        with pytest.raises(ValueError, match=words):
            await lm.token_logprobs(ids, [1])
    with pytest.raises(ValueError, match="give at least one prefix"):
        await lm.batch_next_token_logprobs([])
    with pytest.raises(ValueError, match="give at least one prefix"):
        await lm.batch_sample([], 1, [])
    # More rows than fit into memory.
    result = r"1,000,000 prefixes .* at most 21,474 at a time"
    with pytest.raises(ValueError, match=result):
        await MockAsyncLM(None, 50_000).batch_next_token_logprobs([[1]] * 1_000_000)
    with pytest.raises(ValueError, match=result):
        MockAsyncLM(None, 50_000).batch_next_token_logprobs_sync([[1]] * 1_000_000)
    with pytest.raises(ValueError, match="at most 9 together"):
        lm.token_logprobs_sync([1] * 4, [2] * 6)
    with pytest.raises(ValueError, match="not 99"):
        lm.token_logprobs_sync([1], [99])
    assert lm.batches == []
    assert lm.token_logprobs_sync([1] * 4, [2] * 5).shape == (5,)


def test_adapters_are_refused_with_what_to_do() -> None:
    lm = CountingLM()
    with pytest.raises(ValueError, match="unknown LoRA adapter: 'poet'"):
        lm.next_token_logprobs_sync([1], lora_name="poet")
    with pytest.raises(NotImplementedError, match=r"CountingLM has no adapters: .* merge 'folder' into the model"):
        lm.add_new_lora("folder", "poet")
    with pytest.raises(ValueError, match="unknown LoRA adapter: 'poet'"):
        lm.remove_lora("poet")
    with pytest.raises(ValueError, match="unknown LoRA adapter: 'poet'"):
        lm.set_lora("folder", "poet")
    lm.clear_lora()


def test_a_model_without_a_tokenizer_has_rows_but_no_texts_and_bad_sizes_are_refused() -> None:
    for vocabulary in ("byte_vocab", "str_vocab"):
        with pytest.raises(ValueError, match="has no tokenizer"):
            getattr(MockAsyncLM(None, NUM_TOKENS), vocabulary)
    with pytest.raises(ValueError, match="needs vocab_size"):
        MockAsyncLM(None)
    for options in ({"batch_size": 0}, {"timeout": -1}, {"cache_size": -1}):
        with pytest.raises(ValueError, match="batch_size must be at least 1"):
            CountingLM(**options)


async def test_rows_of_a_wrong_shape_are_a_fault_of_the_backend() -> None:
    class Wrong(CountingLM):
        async def compute_rows(self, prefixes: Any, lora_name: str | None) -> torch.Tensor:
            return torch.zeros(len(prefixes), 3)

    with pytest.raises(RuntimeError, match=r"Wrong made rows of \(1, 3\), not of \(1, 50\)"):
        await Wrong().next_token_logprobs([1])
