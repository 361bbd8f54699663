"""Blocks of finished requests that an engine keeps for those that continue them, and their copies.

A block holds what the engine computed for a run of tokens. Keeping one is holding a reference to it in the engine's
pool, so that it is neither overwritten nor reused. What is cached is bounded in blocks and in time, and released when
the pool runs low, the oldest first. The workers copy blocks within the KV cache, in every layer.
"""

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import torch
from vllm.v1.core.block_pool import BlockPool
from vllm.v1.core.kv_cache_utils import KVCacheBlock

KEEP_S: Final = 30.0
"""Longer than any step of a search: a name that was not released belongs to a request that was given up."""


@dataclass(frozen=True, slots=True)
class CachedRequest:
    """The cached KV blocks of one request, and the tokens that they hold.

    Attributes:
        tokens: The tokens that were computed, from the first on.
        context: What else their computation depended on; under another one it cannot be reused.
        blocks: The blocks that hold them, in order; the last may be partly filled.
    """

    tokens: Sequence[int]
    context: Hashable
    blocks: Sequence[KVCacheBlock]
    until_s: float

    def num_shared(self, tokens: Sequence[int], context: Hashable) -> int:
        """Return how many of the cached tokens are a prefix of these; 0 in another context."""
        if context != self.context:
            return 0
        length = min(len(tokens), len(self.tokens))
        if tokens[:length] == self.tokens[:length]:
            return length
        return next(index for index in range(length) if tokens[index] != self.tokens[index])


class CachedBlocks:
    """Cached KV blocks of finished requests, by name, each for ``KEEP_S`` seconds.

    At most ``max_blocks`` of the pool are cached; shared ones count once.
    """

    def __init__(self, pool: BlockPool, max_blocks: int, clock: Callable[[], float]) -> None:
        self._pool = pool
        self._max_blocks = max_blocks
        self._clock = clock
        self._cached: dict[str, CachedRequest] = {}
        self._holders: Counter[int] = Counter()
        self._lent: list[KVCacheBlock] = []

    @property
    def num_blocks(self) -> int:
        return len(self._holders)

    def keep(self, name: str, tokens: Sequence[int], context: Hashable, blocks: Sequence[KVCacheBlock]) -> None:
        """Cache blocks under a name; release what had it before, and the oldest where there are too many."""
        self._pool.touch(blocks)
        self._holders.update(block.block_id for block in blocks)
        self.release(name)
        self._cached[name] = CachedRequest(tokens, context, blocks, self._clock() + KEEP_S)
        while self.num_blocks > self._max_blocks:
            self._release_oldest()

    def find(self, name: str) -> CachedRequest | None:
        """Return the cached request of this name; None for none."""
        return self._cached.get(name)

    def release(self, name: str) -> None:
        """Release the blocks cached under this name, if any."""
        cached = self._cached.pop(name, None)
        if cached is None:
            return
        for block in cached.blocks:
            self._holders[block.block_id] -= 1
            if not self._holders[block.block_id]:
                del self._holders[block.block_id]
        # In vLLM's order: fewer requests share the end of a text than its start.
        self._pool.free_blocks(reversed(cached.blocks))

    def release_expired(self) -> None:
        """Release the cached requests whose time is over."""
        now = self._clock()
        while self._cached and next(iter(self._cached.values())).until_s <= now:
            self._release_oldest()

    def release_all(self) -> None:
        while self._cached:
            self._release_oldest()

    def make_room(self, num_free: int, *, spare: str | None = None) -> None:
        """Release the oldest until the pool has this many free blocks, or nothing is cached; ``spare`` goes last."""
        for name in sorted(self._cached, key=lambda name: name == spare):
            if self._pool.get_num_free_blocks() >= num_free:
                return
            self.release(name)

    def lend(self, blocks: Sequence[KVCacheBlock]) -> None:
        """Hold blocks that are about to be read until ``take_back``, whatever is released meanwhile."""
        self._pool.touch(blocks)
        self._lent.extend(blocks)

    def take_back(self) -> None:
        """Release the blocks that were lent."""
        self._pool.free_blocks(self._lent)
        self._lent = []

    def _release_oldest(self) -> None:
        self.release(next(iter(self._cached)))


class BlockCopies:
    """Copy blocks within the KV cache of one worker.

    Args:
        caches: One tensor for each layer; layers may share one.
        num_blocks: How many blocks the engine has. A tensor may count parts of blocks: then an equal number of them,
            in order, is one block.

    Raises:
        ValueError: No axis of some tensor fits the blocks.
    """

    def __init__(self, caches: Iterable[torch.Tensor], num_blocks: int) -> None:
        layers = {(cache.data_ptr(), cache.shape, cache.stride()): cache for cache in caches}
        self._layers = [_by_blocks(cache, num_blocks) for cache in layers.values()]

    def copy(self, pairs: Sequence[tuple[int, int]]) -> None:
        """Copy KV blocks, given as (from, to); no block may be both."""
        if pairs and self._layers:
            (one_by_one if self._layers[0].device.type == "cpu" else at_once)(self._layers, pairs)


def one_by_one(layers: Sequence[torch.Tensor], pairs: Sequence[tuple[int, int]]) -> None:
    """Copy KV blocks on a CPU: for 32 blocks of the demo model 8 ms, where ``at_once`` takes 29."""
    for layer in layers:
        for source, target in pairs:
            layer[target].copy_(layer[source])


def at_once(layers: Sequence[torch.Tensor], pairs: Sequence[tuple[int, int]]) -> None:
    """Copy KV blocks on a device: two launches for each layer, without waiting for it."""
    device = layers[0].device
    pairs_on_host = torch.tensor(list(zip(*pairs, strict=True)), pin_memory=device.type == "cuda")
    sources, targets = pairs_on_host.to(device, non_blocking=True)
    for layer in layers:
        layer.index_copy_(0, targets, layer.index_select(0, sources))


def _by_blocks(cache: torch.Tensor, num_blocks: int) -> torch.Tensor:
    """Return a view of a layer's KV cache with blocks as the first axis."""
    # vLLM 0.29 has (blocks, heads, tokens, content) everywhere; layouts with (keys and values, blocks, …) exist too.
    if cache.element_size() == 1:
        # torch copies no single numbers of 8 bits.
        cache = cache.view(torch.uint8)
    for axis in (0, 1):
        if cache.dim() > axis and cache.shape[axis] and cache.shape[axis] % num_blocks == 0:
            return cache.unflatten(axis, (num_blocks, -1)).movedim(axis, 0)
    raise ValueError(f"{num_blocks} blocks cannot be found in a KV cache of shape {tuple(cache.shape)}")
