from collections.abc import Callable, Sequence

import pytest
import torch

from vocab.vllm_plugin.block_copies import BlockCopies, at_once, one_by_one

NUM_BLOCKS = 6
Copy = Callable[[Sequence[torch.Tensor], Sequence[tuple[int, int]]], None]


@pytest.mark.parametrize(
    ("shape", "axis"),
    [((6, 3, 4, 8), 0), ((2, 6, 4, 3, 8), 1), ((12, 3, 2, 8), 0), ((6, 2, 4, 8), 0), ((6, 1, 4, 9), 0), ((6, 5), 0)],
)
def test_whole_blocks_are_copied_and_no_other_touched(shape: tuple[int, ...], axis: int) -> None:
    cache = torch.arange(torch.tensor(shape).prod().item()).reshape(shape).clone()
    other = cache.clone() + 1000
    before = cache.unflatten(axis, (NUM_BLOCKS, -1)).movedim(axis, 0).clone()
    BlockCopies([cache, other, cache], NUM_BLOCKS).copy([(1, 4), (1, 5), (0, 2)])
    after = cache.unflatten(axis, (NUM_BLOCKS, -1)).movedim(axis, 0)
    assert torch.equal(after, before[[0, 1, 0, 3, 1, 1]])
    assert torch.equal(other, cache + 1000)


def test_blocks_need_not_lie_together() -> None:
    cache = torch.arange(4 * NUM_BLOCKS * 2).reshape(4, NUM_BLOCKS, 2).clone()
    layers = [cache[layer] for layer in range(4)]
    expected = cache[:, [0, 1, 2, 3, 0, 5]].clone()
    BlockCopies(layers, NUM_BLOCKS).copy([(0, 4)])
    assert torch.equal(cache, expected)


def test_nothing_to_copy_is_no_work() -> None:
    cache = torch.zeros(NUM_BLOCKS, 1)
    BlockCopies([cache], NUM_BLOCKS).copy([])
    assert not cache.any()


def test_a_cache_of_unknown_shape_is_refused() -> None:
    with pytest.raises(ValueError, match="6 blocks cannot be told"):
        BlockCopies([torch.zeros(7, 5)], NUM_BLOCKS)


@pytest.mark.parametrize("copy", [one_by_one, at_once])
def test_both_ways_do_the_same(copy: Copy) -> None:
    layers = [torch.rand(NUM_BLOCKS, 3, 4) for _ in range(3)]
    expected = [layer[[0, 1, 2, 0, 0, 1]] for layer in layers]
    copy(layers, [(0, 3), (0, 4), (1, 5)])
    assert all(torch.equal(layer, other) for layer, other in zip(layers, expected, strict=True))


def test_numbers_of_eight_bits_are_copied() -> None:
    cache = torch.rand(NUM_BLOCKS, 4).to(torch.float8_e4m3fn)
    expected = cache.view(torch.uint8)[[0, 1, 2, 3, 0, 5]]
    BlockCopies([cache], NUM_BLOCKS).copy([(0, 4)])
    assert torch.equal(cache.view(torch.uint8), expected)
