"""Copies blocks within an engine's KV cache, in every layer.

It works on the tensors that vLLM hands to a connector, one for each layer, in which one axis counts blocks. It knows
nothing of requests.
"""

from collections.abc import Iterable, Sequence

import torch


class BlockCopies:
    """The KV cache of one worker.

    Args:
        caches: One tensor for each layer; layers may share one.
        num_blocks: How many blocks the engine has. A tensor may count parts of blocks: then an equal number of them,
            in order, is one block.

    Raises:
        ValueError: In some tensor no axis can be the blocks'.
    """

    def __init__(self, caches: Iterable[torch.Tensor], num_blocks: int) -> None:
        layers = {(cache.data_ptr(), cache.shape, cache.stride()): cache for cache in caches}
        self._layers = [_by_blocks(cache, num_blocks) for cache in layers.values()]

    def copy(self, pairs: Sequence[tuple[int, int]]) -> None:
        """Copies blocks, given as (from, to); no block may be both."""
        if not pairs:
            return
        sources, targets = zip(*pairs, strict=True)
        for layer in self._layers:
            if layer.device.type == "cpu":
                for source, target in pairs:
                    layer[target].copy_(layer[source])
            else:
                # One launch for all, in the order of the device's other work.
                layer[list(targets)] = layer[list(sources)]


def _by_blocks(cache: torch.Tensor, num_blocks: int) -> torch.Tensor:
    """The same memory with blocks as the first axis."""
    # vLLM 0.29 has (blocks, heads, tokens, content) everywhere; layouts with (keys and values, blocks, …) exist too.
    for axis in (0, 1):
        if cache.dim() > axis and cache.shape[axis] and cache.shape[axis] % num_blocks == 0:
            return cache.unflatten(axis, (num_blocks, -1)).movedim(axis, 0)
    raise ValueError(f"{num_blocks} blocks cannot be told in a KV cache of shape {tuple(cache.shape)}")
