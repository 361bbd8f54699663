"""What is cached, over vLLM's own pool of blocks, and how blocks are copied."""

from collections.abc import Callable, Sequence

import pytest
import torch
from vllm.v1.core.block_pool import BlockPool
from vllm.v1.core.kv_cache_utils import KVCacheBlock

from vocab.vllm_plugin.cached_blocks import BlockCopies, CachedBlocks, at_once, one_by_one

NUM_BLOCKS = 20

Copy = Callable[[Sequence[torch.Tensor], Sequence[tuple[int, int]]], None]

NUM_COPIED = 6
"""Blocks of the caches that are copied."""


class Clock:
    now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def pool() -> BlockPool:
    # One more: the first is vLLM's own.
    return BlockPool(NUM_BLOCKS + 1, enable_caching=True, hash_block_size=4)


def keep(cached: CachedBlocks, pool: BlockPool, name: str, num_blocks: int) -> list[KVCacheBlock]:
    """As a request does that ends: its blocks are cached, then it lets them go."""
    blocks: list[KVCacheBlock] = pool.get_new_blocks(num_blocks)
    cached.keep(name, [1] * 4 * num_blocks, None, blocks)
    pool.free_blocks(blocks)
    return blocks


def test_cached_blocks_are_not_free_until_released(pool: BlockPool) -> None:
    cached = CachedBlocks(pool, 10)
    keep(cached, pool, "a", 3)
    assert (cached.num_blocks, pool.get_num_free_blocks()) == (3, NUM_BLOCKS - 3)
    cached.release("a")
    cached.release("a")
    assert (cached.num_blocks, pool.get_num_free_blocks()) == (0, NUM_BLOCKS)
    assert cached.find("a") is None


def test_a_name_used_again_stands_for_the_new(pool: BlockPool) -> None:
    cached = CachedBlocks(pool, 10)
    keep(cached, pool, "a", 3)
    blocks = keep(cached, pool, "a", 2)
    found = cached.find("a")
    assert found is not None
    assert found.blocks == blocks
    assert pool.get_num_free_blocks() == NUM_BLOCKS - 2


def test_blocks_that_several_share_count_once(pool: BlockPool) -> None:
    cached = CachedBlocks(pool, 4)
    blocks = keep(cached, pool, "a", 3)
    for name in "bcd":
        cached.keep(name, [1] * 12, None, blocks)
    assert (cached.num_blocks, pool.get_num_free_blocks()) == (3, NUM_BLOCKS - 3)
    for name in "abcd":
        assert cached.num_blocks == 3
        cached.release(name)
    assert pool.get_num_free_blocks() == NUM_BLOCKS


def test_the_oldest_goes_where_there_are_too_many(pool: BlockPool) -> None:
    cached = CachedBlocks(pool, 5)
    for name in "abc":
        keep(cached, pool, name, 2)
    assert [cached.find(name) is not None for name in "abc"] == [False, True, True]
    keep(cached, pool, "large", 6)
    assert cached.num_blocks == 0
    assert pool.get_num_free_blocks() == NUM_BLOCKS


def test_what_nobody_releases_goes_after_a_time(pool: BlockPool) -> None:
    clock = Clock()
    cached = CachedBlocks(pool, 10, keep_s=30, clock=clock)
    keep(cached, pool, "a", 1)
    clock.now_s += 20
    keep(cached, pool, "b", 1)
    clock.now_s += 10
    cached.release_expired()
    assert [cached.find(name) is not None for name in "ab"] == [False, True]
    clock.now_s += 20
    cached.release_expired()
    cached.release_expired()
    assert pool.get_num_free_blocks() == NUM_BLOCKS


def test_room_is_made_of_the_oldest_and_the_spared_goes_last(pool: BlockPool) -> None:
    cached = CachedBlocks(pool, 10)
    for name in "abc":
        keep(cached, pool, name, 2)
    cached.make_room(NUM_BLOCKS - 6)
    assert cached.num_blocks == 6
    cached.make_room(NUM_BLOCKS - 3, spare="a")
    assert [cached.find(name) is not None for name in "abc"] == [True, False, False]
    cached.make_room(NUM_BLOCKS + 5, spare="a")
    assert pool.get_num_free_blocks() == NUM_BLOCKS


def test_lent_blocks_stay_until_they_are_taken_back(pool: BlockPool) -> None:
    cached = CachedBlocks(pool, 10)
    blocks = keep(cached, pool, "a", 3)
    cached.lend(blocks[1:])
    cached.release_all()
    assert (cached.num_blocks, pool.get_num_free_blocks()) == (0, NUM_BLOCKS - 2)
    cached.take_back()
    cached.take_back()
    assert pool.get_num_free_blocks() == NUM_BLOCKS


@pytest.mark.parametrize(
    ("tokens", "num_shared"),
    [([], 0), ([1, 2], 2), ([1, 2, 3], 3), ([1, 2, 3, 4], 3), ([1, 5, 3, 4], 1), ([5], 0), ([1, 2, 5], 2)],
)
def test_only_tokens_that_are_equal_are_shared(pool: BlockPool, tokens: list[int], num_shared: int) -> None:
    cached = CachedBlocks(pool, 10)
    cached.keep("a", [1, 2, 3], "adapter", pool.get_new_blocks(1))
    found = cached.find("a")
    assert found is not None
    assert found.num_shared(tokens, "adapter") == num_shared
    assert found.num_shared(tokens, None) == 0


@pytest.mark.parametrize(
    ("shape", "axis"),
    [((6, 3, 4, 8), 0), ((2, 6, 4, 3, 8), 1), ((12, 3, 2, 8), 0), ((6, 2, 4, 8), 0), ((6, 1, 4, 9), 0), ((6, 5), 0)],
)
def test_whole_blocks_are_copied_and_no_other_touched(shape: tuple[int, ...], axis: int) -> None:
    cache = torch.arange(torch.tensor(shape).prod().item()).reshape(shape).clone()
    other = cache.clone() + 1000
    before = cache.unflatten(axis, (NUM_COPIED, -1)).movedim(axis, 0).clone()
    BlockCopies([cache, other, cache], NUM_COPIED).copy([(1, 4), (1, 5), (0, 2)])
    after = cache.unflatten(axis, (NUM_COPIED, -1)).movedim(axis, 0)
    assert torch.equal(after, before[[0, 1, 0, 3, 1, 1]])
    assert torch.equal(other, cache + 1000)


def test_blocks_need_not_lie_together() -> None:
    cache = torch.arange(4 * NUM_COPIED * 2).reshape(4, NUM_COPIED, 2).clone()
    layers = [cache[layer] for layer in range(4)]
    expected = cache[:, [0, 1, 2, 3, 0, 5]].clone()
    BlockCopies(layers, NUM_COPIED).copy([(0, 4)])
    assert torch.equal(cache, expected)


def test_nothing_to_copy_is_no_work() -> None:
    cache = torch.zeros(NUM_COPIED, 1)
    BlockCopies([cache], NUM_COPIED).copy([])
    assert not cache.any()


def test_a_cache_of_unknown_shape_is_refused() -> None:
    with pytest.raises(ValueError, match="6 blocks cannot be found"):
        BlockCopies([torch.zeros(7, 5)], NUM_COPIED)


@pytest.mark.parametrize("copy", [one_by_one, at_once])
def test_both_ways_do_the_same(copy: Copy) -> None:
    layers = [torch.rand(NUM_COPIED, 3, 4) for _ in range(3)]
    expected = [layer[[0, 1, 2, 0, 0, 1]] for layer in layers]
    copy(layers, [(0, 3), (0, 4), (1, 5)])
    assert all(torch.equal(layer, other) for layer, other in zip(layers, expected, strict=True))


def test_numbers_of_eight_bits_are_copied() -> None:
    cache = torch.rand(NUM_COPIED, 4).to(torch.float8_e4m3fn)
    expected = cache.view(torch.uint8)[[0, 1, 2, 3, 0, 5]]
    BlockCopies([cache], NUM_COPIED).copy([(0, 4)])
    assert torch.equal(cache.view(torch.uint8), expected)
