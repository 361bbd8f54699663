"""What is kept, over vLLM's own pool of blocks."""

import pytest
from vllm.v1.core.block_pool import BlockPool

from vocab.vllm_plugin.kept_blocks import Block, KeptBlocks

NUM_BLOCKS = 20


class Clock:
    now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def pool() -> BlockPool:
    # One more: the first is vLLM's own.
    return BlockPool(NUM_BLOCKS + 1, enable_caching=True, hash_block_size=4)


def keep(kept: KeptBlocks, pool: BlockPool, name: str, num_blocks: int) -> list[Block]:
    """As a request does that ends: its blocks are kept, then it lets them go."""
    blocks: list[Block] = pool.get_new_blocks(num_blocks)
    kept.keep(name, [1] * 4 * num_blocks, None, blocks)
    pool.free_blocks(blocks)
    return blocks


def test_kept_blocks_are_not_free_until_released(pool: BlockPool) -> None:
    kept = KeptBlocks(pool, 10)
    keep(kept, pool, "a", 3)
    assert (kept.num_blocks, pool.get_num_free_blocks()) == (3, NUM_BLOCKS - 3)
    kept.release("a")
    kept.release("a")
    assert (kept.num_blocks, pool.get_num_free_blocks()) == (0, NUM_BLOCKS)
    assert kept.find("a") is None


def test_a_name_used_again_stands_for_the_new(pool: BlockPool) -> None:
    kept = KeptBlocks(pool, 10)
    keep(kept, pool, "a", 3)
    blocks = keep(kept, pool, "a", 2)
    found = kept.find("a")
    assert found is not None
    assert found.blocks == blocks
    assert pool.get_num_free_blocks() == NUM_BLOCKS - 2


def test_blocks_that_several_share_count_once(pool: BlockPool) -> None:
    kept = KeptBlocks(pool, 4)
    blocks = keep(kept, pool, "a", 3)
    for name in "bcd":
        kept.keep(name, [1] * 12, None, blocks)
    assert (kept.num_blocks, pool.get_num_free_blocks()) == (3, NUM_BLOCKS - 3)
    for name in "abcd":
        assert kept.num_blocks == 3
        kept.release(name)
    assert pool.get_num_free_blocks() == NUM_BLOCKS


def test_the_oldest_goes_where_there_are_too_many(pool: BlockPool) -> None:
    kept = KeptBlocks(pool, 5)
    for name in "abc":
        keep(kept, pool, name, 2)
    assert [kept.find(name) is not None for name in "abc"] == [False, True, True]
    keep(kept, pool, "large", 6)
    assert kept.num_blocks == 0
    assert pool.get_num_free_blocks() == NUM_BLOCKS


def test_what_nobody_releases_goes_after_a_time(pool: BlockPool) -> None:
    clock = Clock()
    kept = KeptBlocks(pool, 10, keep_s=30, clock=clock)
    keep(kept, pool, "a", 1)
    clock.now_s += 20
    keep(kept, pool, "b", 1)
    clock.now_s += 10
    kept.release_expired()
    assert [kept.find(name) is not None for name in "ab"] == [False, True]
    clock.now_s += 20
    kept.release_expired()
    kept.release_expired()
    assert pool.get_num_free_blocks() == NUM_BLOCKS


def test_room_is_made_of_the_oldest_and_the_spared_goes_last(pool: BlockPool) -> None:
    kept = KeptBlocks(pool, 10)
    for name in "abc":
        keep(kept, pool, name, 2)
    kept.make_room(NUM_BLOCKS - 6)
    assert kept.num_blocks == 6
    kept.make_room(NUM_BLOCKS - 3, spare="a")
    assert [kept.find(name) is not None for name in "abc"] == [True, False, False]
    kept.make_room(NUM_BLOCKS + 5, spare="a")
    assert pool.get_num_free_blocks() == NUM_BLOCKS


def test_lent_blocks_stay_until_they_are_taken_back(pool: BlockPool) -> None:
    kept = KeptBlocks(pool, 10)
    blocks = keep(kept, pool, "a", 3)
    kept.lend(blocks[1:])
    kept.release_all()
    assert (kept.num_blocks, pool.get_num_free_blocks()) == (0, NUM_BLOCKS - 2)
    kept.take_back()
    kept.take_back()
    assert pool.get_num_free_blocks() == NUM_BLOCKS


@pytest.mark.parametrize(
    ("tokens", "num_shared"),
    [([], 0), ([1, 2], 2), ([1, 2, 3], 3), ([1, 2, 3, 4], 3), ([1, 5, 3, 4], 1), ([5], 0), ([1, 2, 5], 2)],
)
def test_only_tokens_that_are_equal_are_shared(pool: BlockPool, tokens: list[int], num_shared: int) -> None:
    kept = KeptBlocks(pool, 10)
    kept.keep("a", [1, 2, 3], "adapter", pool.get_new_blocks(1))
    found = kept.find("a")
    assert found is not None
    assert found.num_shared(tokens, "adapter") == num_shared
    assert found.num_shared(tokens, None) == 0
