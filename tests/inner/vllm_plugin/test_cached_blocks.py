"""What is cached, over vLLM's own pool of blocks, and how blocks are copied."""

from types import SimpleNamespace

import pytest
import torch
from vllm.v1.core.block_pool import BlockPool
from vllm.v1.core.kv_cache_utils import KVCacheBlock

from vocab.vllm_plugin.cached_blocks import BlockCopies, CachedBlocks, at_once, one_by_one
from vocab.vllm_plugin.kv_fork import _context

NUM_BLOCKS = 20

NUM_COPIED = 6
"""Blocks of the caches that are copied."""


class World:
    """A pool of ``NUM_BLOCKS`` free blocks, of which some may be cached; it stands still in time."""

    def __init__(self, max_blocks: int = 10) -> None:
        # One more: the first is vLLM's own.
        self.pool = BlockPool(NUM_BLOCKS + 1, enable_caching=True, hash_block_size=4)
        self.clock = SimpleNamespace(now_s=100.0)
        self.cached = CachedBlocks(self.pool, max_blocks, keep_s=30, clock=lambda: self.clock.now_s)

    def keep(self, name: str, num_blocks: int) -> list[KVCacheBlock]:
        """As a request does that ends: its blocks are cached, then it lets them go."""
        blocks: list[KVCacheBlock] = self.pool.get_new_blocks(num_blocks)
        self.cached.keep(name, [1] * 4 * num_blocks, None, blocks)
        self.pool.free_blocks(blocks)
        return blocks

    def names(self) -> str:
        return "".join(name for name in "abcdz" if self.cached.find(name) is not None)

    def assert_held(self, num_cached: int, num_lent: int = 0) -> None:
        assert self.cached.num_blocks == num_cached
        assert self.pool.get_num_free_blocks() == NUM_BLOCKS - num_cached - num_lent


def test_cached_blocks_are_not_free_until_released_and_shared_ones_count_once() -> None:
    world = World(4)
    world.keep("a", 3)
    blocks = world.keep("a", 2)
    world.assert_held(2)
    found = world.cached.find("a")
    assert found is not None and found.blocks == blocks
    for name in "bcd":
        world.cached.keep(name, [1] * 8, None, blocks)
    for name in "abcd":
        world.assert_held(2)
        world.cached.release(name)
        world.cached.release(name)
    world.assert_held(0)


def test_the_oldest_goes_where_there_are_too_many_or_its_time_is_over() -> None:
    world = World(5)
    for name in "abc":
        world.keep(name, 2)
    assert world.names() == "bc"
    world.clock.now_s += 20
    world.keep("a", 1)
    for _ in range(2):
        world.clock.now_s += 10
        world.cached.release_expired()
        assert world.names() == "a"
    world.clock.now_s += 20
    world.cached.release_expired()
    world.assert_held(0)
    world.keep("a", 2)
    world.keep("z", 6)
    world.assert_held(0)


def test_room_is_made_of_the_oldest_the_spared_goes_last_and_lent_blocks_stay_until_they_are_taken_back() -> None:
    world = World()
    for name in "abc":
        world.keep(name, 2)
    for num_free, spare, names in (
        (NUM_BLOCKS - 6, None, "abc"),
        (NUM_BLOCKS - 3, "a", "a"),
        (NUM_BLOCKS + 5, "a", ""),
    ):
        world.cached.make_room(num_free, spare=spare)
        assert world.names() == names
    world.assert_held(0)
    world.cached.lend(world.keep("a", 3)[1:])
    world.cached.release_all()
    world.assert_held(0, num_lent=2)
    for _ in range(2):
        world.cached.take_back()
        world.assert_held(0)


def test_only_tokens_that_are_equal_are_shared() -> None:
    world = World()
    world.cached.keep("a", [1, 2, 3], "adapter", world.pool.get_new_blocks(1))
    found = world.cached.find("a")
    assert found is not None
    for tokens, num_shared in (([], 0), ([1, 2], 2), ([1, 2, 3, 4], 3), ([1, 5, 3, 4], 1), ([5], 0), ([1, 2, 5], 2)):
        assert found.num_shared(tokens, "adapter") == num_shared
        assert found.num_shared(tokens, None) == 0


def test_nothing_is_shared_with_images_or_embeddings() -> None:
    for images, embeds in ((["image"], None), ([], torch.zeros(1))):
        request = SimpleNamespace(mm_features=images, prompt_embeds=embeds, lora_request=None, cache_salt=None)
        assert _context(request) != _context(request)


def test_whole_blocks_are_copied_and_no_other_touched() -> None:
    pairs = [(1, 4), (1, 5), (0, 2)]
    for shape, axis in (
        ((6, 3, 4, 8), 0), ((2, 6, 4, 3, 8), 1), ((12, 3, 2, 8), 0), ((6, 2, 4, 8), 0), ((6, 1, 4, 9), 0), ((6, 5), 0)
    ):  # fmt: skip
        cache = torch.arange(torch.tensor(shape).prod().item()).reshape(shape).clone()
        other = cache.clone() + 1000
        before = cache.unflatten(axis, (NUM_COPIED, -1)).movedim(axis, 0).clone()
        BlockCopies([cache, other, cache], NUM_COPIED).copy([])
        assert torch.equal(other, cache + 1000)
        BlockCopies([cache, other, cache], NUM_COPIED).copy(pairs)
        after = cache.unflatten(axis, (NUM_COPIED, -1)).movedim(axis, 0)
        assert torch.equal(after, before[[0, 1, 0, 3, 1, 1]])
        assert torch.equal(other, cache + 1000)
    # Blocks need not lie together, and numbers of eight bits are copied too.
    together = torch.arange(4 * NUM_COPIED * 2).reshape(4, NUM_COPIED, 2).clone()
    small = torch.rand(NUM_COPIED, 4).to(torch.float8_e4m3fn)
    expected = together[:, [0, 1, 0, 3, 1, 1]].clone(), small.view(torch.uint8)[[0, 1, 0, 3, 1, 1]]
    BlockCopies([together[layer] for layer in range(4)], NUM_COPIED).copy(pairs)
    BlockCopies([small], NUM_COPIED).copy(pairs)
    assert torch.equal(together, expected[0]) and torch.equal(small.view(torch.uint8), expected[1])
    with pytest.raises(ValueError, match="6 blocks cannot be found"):
        BlockCopies([torch.zeros(7, 5)], NUM_COPIED)


def test_both_ways_do_the_same() -> None:
    for copy in (one_by_one, at_once):
        layers = [torch.rand(NUM_COPIED, 3, 4) for _ in range(3)]
        expected = [layer[[0, 1, 2, 0, 0, 1]] for layer in layers]
        copy(layers, [(0, 3), (0, 4), (1, 5)])
        assert all(torch.equal(layer, other) for layer, other in zip(layers, expected, strict=True))
