"""A KV connector for vLLM with which a request continues from what the engine computed for another.

A search asks for one token at a time. vLLM's prefix caching lets such a request reuse whole blocks only, so the
tokens of the last block, up to 127 on a CPU, would be computed again at every step. This connector keeps a finished
request's blocks and copies them for its successors, which then compute one token each; one whose tokens differ gets
what they share. It does nothing unless it is certain to be right: one group of full attention, no drafts.

A client says with each request what is cached of it and which cached work it continues (``ForkHint``). It is advice:
where the engine cannot follow it, the answer is the same, later.
"""

import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any, Final, Self
from weakref import WeakValueDictionary

import torch
from typing_extensions import override
from vllm.config import VllmConfig
from vllm.distributed.kv_transfer.kv_connector.v1.base import (
    KVConnectorBase_V1,
    KVConnectorHandshakeMetadata,
    KVConnectorMetadata,
    KVConnectorRole,
    SupportsHMA,
)
from vllm.logger import init_logger
from vllm.v1.core.block_pool import BlockPool
from vllm.v1.core.kv_cache_manager import KVCacheBlocks
from vllm.v1.core.sched.output import SchedulerOutput
from vllm.v1.kv_cache_interface import (
    FullAttentionSpec,
    KVCacheConfig,
    KVCacheSpec,
    MLAAttentionSpec,
    UniformTypeKVCacheSpecs,
)
from vllm.v1.request import Request

from vocab.vllm_plugin.cached_blocks import BlockCopies, CachedBlocks
from vocab.vllm_plugin.patches import Patch, PatchGroup

logger = init_logger("vllm.wordbound")

CACHED_SHARE: Final = 0.25
"""Of the engine's blocks; eight searches of four beams need 64 of the demo's 364."""

TRANSFER_CONFIG: Final = {
    "kv_connector": "KVFork",
    "kv_connector_module_path": __name__,
    # A consumer would let requests leave out their images, and keep freed blocks for longer.
    "kv_role": "kv_producer",
}
"""vLLM's ``kv_transfer_config`` that loads the connector."""

_LOST: Final = "Steps of a search compute more than they need to"

_cache_of_pool: WeakValueDictionary[int, CachedBlocks] = WeakValueDictionary()
"""By the pool's identity; what is cached of a pool keeps the pool alive."""

_EXTRA_ARG: Final = "kv_transfer_params"
_OURS: Final = "wordbound"

QUIET_S: Final = 0.003
"""After so long without a request, no more are expected."""

LONGEST_S: Final = 0.015
"""A step of a small model on a CPU takes longer: a longer wait would cost more than it saves."""


@dataclass(frozen=True, slots=True)
class ForkHint:
    """How a request shares what the engine computed.

    Attributes:
        keep: Name under which its computation is cached for others; replaces what had the name. None where it is not
            cached.
        parent: Name of the cached request with whose tokens this prompt begins, if any. Others are computed.
        release: Names that are not needed once this request is running.
    """

    keep: str | None = None
    parent: str | None = None
    release: tuple[str, ...] = ()

    def to_extra_args(self) -> dict[str, Any]:
        """Return the entries for vLLM's ``SamplingParams.extra_args``."""
        return {_EXTRA_ARG: {_OURS: {"keep": self.keep, "parent": self.parent, "release": list(self.release)}}}

    @classmethod
    def parse(cls, params: object) -> Self | None:
        """Parse vLLM's ``Request.kv_transfer_params``; None where they hold no hint."""
        ours = params.get(_OURS) if isinstance(params, dict) else None
        if not isinstance(ours, dict):
            return None
        release = ours.get("release")
        return cls(
            keep=_name(ours.get("keep")),
            parent=_name(ours.get("parent")),
            release=tuple(filter(_name, release)) if isinstance(release, (list, tuple)) else (),
        )


class ArrivalWindow:
    """Let an idle engine wait a moment for requests that belong together.

    The requests of one step of a search reach the engine a millisecond apart. An idle engine would begin with the
    first, and the others would wait for a second step where one is enough.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._first_s = self._last_s = -LONGEST_S
        self._is_idle = True

    def arrived(self) -> None:
        """Record the arrival of a request that others may follow."""
        now = self._clock()
        if now - self._last_s >= LONGEST_S:
            self._first_s = now
        self._last_s = now

    def stepped(self, num_tokens: int) -> None:
        """Record a scheduled step. A busy engine makes no request wait, which would miss the next step."""
        self._is_idle = num_tokens == 0

    def is_open(self) -> bool:
        """Return whether an idle engine waits for more requests."""
        now = self._clock()
        return self._is_idle and now - self._last_s < QUIET_S and now - self._first_s < LONGEST_S


@dataclass
class Copies(KVConnectorMetadata):
    """What the workers copy before a step, as pairs of blocks (from, to)."""

    pairs: list[tuple[int, int]] = field(default_factory=list)


@dataclass
class CanCopy(KVConnectorHandshakeMetadata):
    """A worker's message that it understands the layout of its KV cache, so that it can copy blocks."""


class KVFork(KVConnectorBase_V1, SupportsHMA):
    """The KV connector: vLLM makes one in the scheduler, which decides, and one in each worker, which copies.

    Attributes:
        clock: In seconds; for tests.
    """

    def __init__(self, vllm_config: VllmConfig, role: KVConnectorRole, kv_cache_config: KVCacheConfig) -> None:
        super().__init__(vllm_config, role, kv_cache_config)
        self._is_certain = keeps_all_tokens(vllm_config, kv_cache_config)
        self._block_size = vllm_config.cache_config.block_size
        self._cached: CachedBlocks | None = None
        """None until all workers are known to be able to copy."""
        self._bound: CachedBlocks | None = None
        self.clock: Callable[[], float] = time.monotonic
        self._arrivals = ArrivalWindow(lambda: self.clock())
        self._copies = Copies()
        self._cache: BlockCopies | None = None

    @property
    @override
    def requires_kv_delivery(self) -> bool:
        return False

    # In a worker.

    @override
    def register_kv_caches(self, kv_caches: dict[str, torch.Tensor]) -> None:
        if not self._is_certain:
            return
        try:
            self._cache = BlockCopies(kv_caches.values(), self._kv_cache_config.num_blocks)
        except (AttributeError, ValueError) as error:
            logger.warning("%s: %s", _LOST, error)

    @override
    def get_handshake_metadata(self) -> KVConnectorHandshakeMetadata | None:
        return CanCopy() if self._cache is not None else None

    @override
    def start_load_kv(self, forward_context: Any, **kwargs: Any) -> None:
        metadata = self._get_connector_metadata()
        if self._cache is not None and isinstance(metadata, Copies):
            self._cache.copy(metadata.pairs)

    @override
    def wait_for_layer_load(self, layer_name: str) -> None: ...

    @override
    def save_kv_layer(self, layer_name: str, kv_layer: torch.Tensor, attn_metadata: Any, **kwargs: Any) -> None: ...

    @override
    def wait_for_save(self) -> None: ...

    # In the scheduler.

    @override
    def bind_gpu_block_pool(self, gpu_block_pool: BlockPool) -> None:
        self._pool = gpu_block_pool
        if _POOL.install():
            max_blocks = int(gpu_block_pool.num_gpu_blocks * CACHED_SHARE)
            self._bound = CachedBlocks(gpu_block_pool, max_blocks, lambda: self.clock())
            _cache_of_pool[id(gpu_block_pool)] = self._bound

    @override
    def set_xfer_handshake_metadata_pp_aware(
        self, metadata: dict[tuple[int, int], KVConnectorHandshakeMetadata]
    ) -> None:
        num_workers = self._vllm_config.parallel_config.world_size
        if self._is_certain and len(metadata) == num_workers and all(isinstance(m, CanCopy) for m in metadata.values()):
            self._cached = self._bound

    @override
    def on_new_request(self, request: Request) -> None:
        if _parent(request) is not None:
            self._arrivals.arrived()

    @override
    def get_num_new_matched_tokens(self, request: Request, num_computed_tokens: int) -> tuple[int | None, bool]:
        if self._cached is None:
            return 0, False
        parent = _parent(request)
        if parent is not None and self._arrivals.is_open():
            return None, False
        # No request may wait for cached blocks.
        self._cached.make_room(-(-request.num_tokens // self._block_size) + 1, spare=parent)
        cached = self._cached.find(parent) if parent else None
        if cached is None or request.skip_reading_prefix_cache:
            return 0, False
        # The last token is always computed: the next one is drawn from it.
        num_shared = cached.num_shared(request.all_token_ids[: request.num_tokens - 1], _context(request))
        return max(num_shared - num_computed_tokens, 0), False

    @override
    def update_state_after_alloc(self, request: Request, blocks: KVCacheBlocks, num_external_tokens: int) -> None:
        fork = ForkHint.parse(request.kv_transfer_params)
        if self._cached is None or fork is None:
            return
        if num_external_tokens > 0:
            cached = self._cached.find(fork.parent) if fork.parent else None
            if cached is None:
                raise RuntimeError("the cached blocks of a request's parent were released while it was scheduled")
            num_shared = cached.num_shared(request.all_token_ids[: request.num_tokens - 1], _context(request))
            first = (num_shared - num_external_tokens) // self._block_size
            sources = cached.blocks[first : -(-num_shared // self._block_size)]
            targets = blocks.blocks[0][first : first + len(sources)]
            self._cached.lend(sources)
            self._copies.pairs += [
                (source.block_id, target.block_id) for source, target in zip(sources, targets, strict=True)
            ]
        for name in fork.release:
            self._cached.release(name)

    @override
    def build_connector_meta(self, scheduler_output: SchedulerOutput) -> KVConnectorMetadata:
        copies, self._copies = self._copies, Copies()
        self._arrivals.stepped(scheduler_output.total_num_scheduled_tokens)
        if self._cached is not None:
            # Steps are executed in order: what is freed now is not written before these copies are made.
            self._cached.take_back()
            self._cached.release_expired()
            # Running requests allocate without a call here.
            num_blocks = scheduler_output.total_num_scheduled_tokens // self._block_size
            self._cached.make_room(len(scheduler_output.num_scheduled_tokens) + num_blocks)
        return copies

    @override
    def request_finished_all_groups(
        self, request: Request, block_ids: tuple[list[int], ...]
    ) -> tuple[bool, dict[str, Any] | None]:
        fork = ForkHint.parse(request.kv_transfer_params)
        if self._cached is not None and fork is not None:
            for name in fork.release:
                self._cached.release(name)
            # A step in flight has not written its tokens yet.
            num_tokens = min(request.num_computed_tokens - request.num_in_flight_tokens, request.num_tokens)
            if fork.keep and num_tokens > 0:
                (ids,) = block_ids
                blocks = [self._pool.blocks[block_id] for block_id in ids[: -(-num_tokens // self._block_size)]]
                self._cached.keep(fork.keep, request.all_token_ids[:num_tokens], _context(request), blocks)
        return False, None

    @override
    def reset_cache(self) -> bool:
        if self._cached is not None:
            self._cached.release_all()
        return True


def _reset_prefix_cache(original: Callable[..., Any], pool: BlockPool) -> bool:
    """Release all cached blocks before vLLM resets its prefix cache."""
    # It fails while any block is in use; and cached blocks belong to weights that may now change.
    cached = _cache_of_pool.get(id(pool))
    if cached is not None:
        cached.release_all()
    return bool(original(pool))


_POOL: Final = PatchGroup(
    _LOST, (Patch("vllm.v1.core.block_pool:BlockPool.reset_prefix_cache", "(self)", _reset_prefix_cache),)
)


def keeps_all_tokens(vllm_config: VllmConfig, kv_cache_config: KVCacheConfig) -> bool:
    """Return whether blocks may be copied and written again: each holds all state of its tokens, and stays so."""
    if len(kv_cache_config.kv_cache_groups) != 1 or vllm_config.speculative_config is not None:
        return False
    if vllm_config.parallel_config.decode_context_parallel_size > 1:
        return False
    (group,) = kv_cache_config.kv_cache_groups
    spec: KVCacheSpec = group.kv_cache_spec
    specs = spec.kv_cache_specs.values() if isinstance(spec, UniformTypeKVCacheSpecs) else [spec]
    # Of these two exactly: their subclasses drop blocks, or keep more than tokens in them.
    return all(type(spec) in (FullAttentionSpec, MLAAttentionSpec) for spec in specs)


def _parent(request: Request) -> str | None:
    """Return the name of the cached request that a request continues; None for none."""
    fork = ForkHint.parse(request.kv_transfer_params)
    return fork.parent if fork else None


def _context(request: Request) -> Hashable:
    """Return what a request's KV blocks depend on besides tokens; nothing equals that of images or embeddings."""
    if request.mm_features or request.prompt_embeds is not None:
        return object()
    lora = request.lora_request
    return None if lora is None else lora.lora_int_id, request.cache_salt


def _name(value: object) -> str | None:
    """Return a name in a client's hint; None where it is no string, or empty."""
    return value if isinstance(value, str) and value else None
