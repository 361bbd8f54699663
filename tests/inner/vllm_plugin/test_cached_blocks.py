"""How blocks are copied, and what is not shared by any."""

import time
from types import SimpleNamespace

import pytest
import torch
from vllm.v1.core.block_pool import BlockPool

from vocab.vllm_plugin.cached_blocks import BlockCopies, CachedBlocks, at_once, one_by_one
from vocab.vllm_plugin.kv_fork import _context

NUM_COPIED = 6
"""Blocks of the caches that are copied."""


def test_nothing_is_shared_with_images_or_embeddings() -> None:
    for images, embeds in ((["image"], None), ([], torch.zeros(1))):
        request = SimpleNamespace(mm_features=images, prompt_embeds=embeds, lora_request=None, cache_salt=None)
        assert _context(request) != _context(request)


def test_room_is_made_of_the_oldest_and_the_spared_goes_last() -> None:
    # 20 blocks, and one of vLLM's own.
    pool = BlockPool(21, enable_caching=True, hash_block_size=4)
    cached = CachedBlocks(pool, 10, time.monotonic)
    for name in "abc":
        blocks = pool.get_new_blocks(2)
        cached.keep(name, [1] * 8, None, blocks)
        pool.free_blocks(blocks)
    for num_free, spare, names in ((14, None, "abc"), (17, "a", "a"), (25, "a", "")):
        cached.make_room(num_free, spare=spare)
        assert "".join(name for name in "abc" if cached.find(name) is not None) == names


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
