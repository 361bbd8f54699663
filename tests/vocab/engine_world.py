"""vLLM's own scheduler with our connector, over a KV cache in which every slot says of which tokens it was computed.

The model is a chain of hashes: what it computes for a token depends on all tokens before it, and so does the token that
it samples. After every step each request's slots must hold what its tokens give; one slot of another text, one that was
overwritten or copied too early, and the world stops.
"""

from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from vllm import SamplingParams
from vllm.distributed.kv_transfer.kv_connector.v1.base import KVConnectorRole
from vllm.engine.arg_utils import EngineArgs
from vllm.utils.hashing import sha256
from vllm.v1.core.kv_cache_utils import get_request_block_hasher, init_none_hash
from vllm.v1.core.sched.async_scheduler import AsyncScheduler
from vllm.v1.core.sched.scheduler import Scheduler
from vllm.v1.kv_cache_interface import FullAttentionSpec, KVCacheConfig, KVCacheGroupSpec, KVCacheSpec
from vllm.v1.outputs import ModelRunnerOutput
from vllm.v1.request import Request, RequestStatus
from vllm.v1.structured_output import StructuredOutputManager

from vocab.vllm_plugin.kv_fork import TRANSFER_CONFIG, ArrivalWindow, ForkHint, KVFork

NUM_TOKENS = 3
BLOCK_SIZE = 4


def specs(num_groups: int = 1) -> list[KVCacheSpec]:
    return [
        FullAttentionSpec(block_size=BLOCK_SIZE, num_kv_heads=1, head_size=1, dtype=torch.float32)
        for _ in range(num_groups)
    ]


class EngineWorld:
    """An engine whose steps are taken one by one.

    Args:
        model: Any model that vLLM knows; only its configuration is read.
        num_blocks: Of ``BLOCK_SIZE`` tokens each.
        is_async: Steps are scheduled while the one before them runs.
        groups: The kinds of blocks that the model has; one of full attention for none.
        knows_cache: Whether the worker can make out the blocks in its cache.
        num_ranks: How many share a block, as the worker is told.
    """

    def __init__(
        self,
        model: Path,
        num_blocks: int = 40,
        *,
        is_async: bool = False,
        groups: Sequence[KVCacheSpec] = (),
        knows_cache: bool = True,
        num_ranks: int = 1,
    ) -> None:
        config = EngineArgs(
            model=str(model),
            max_model_len=64,
            max_num_batched_tokens=64,
            max_num_seqs=8,
            enforce_eager=True,
            kv_transfer_config=dict(TRANSFER_CONFIG),
        ).create_engine_config()
        config.cache_config.block_size = BLOCK_SIZE
        config.cache_config.num_gpu_blocks = num_blocks
        cache = KVCacheConfig(
            num_blocks=num_blocks,
            kv_cache_tensors=[],
            kv_cache_groups=[KVCacheGroupSpec([f"layer{i}"], spec) for i, spec in enumerate(groups or specs())],
        )
        scheduler = AsyncScheduler if is_async else Scheduler
        self.scheduler = scheduler(config, cache, StructuredOutputManager(config), block_size=BLOCK_SIZE)
        # As engines do where stale contents of new blocks would hurt: before anything is copied.
        self.scheduler.needs_kv_cache_zeroing = True
        for manager in self.scheduler.kv_cache_manager.coordinator.single_type_managers:
            manager._record_new_block_ids = True
        self.connector: KVFork = self.scheduler.connector
        # A step takes a millisecond.
        self.connector.arrivals = ArrivalWindow(lambda: self.num_steps / 1000)
        self.num_steps = 0
        self.pool = self.scheduler.kv_cache_manager.block_pool
        config.parallel_config.decode_context_parallel_size = num_ranks
        self._worker = KVFork(config, KVConnectorRole.WORKER, cache)
        self._memory = torch.full((num_blocks, 1, BLOCK_SIZE, 1), -1)
        self._worker.register_kv_caches({"layer": self._memory if knows_cache else self._memory[:, 0, 0, 0][1:]})
        self.connector.set_xfer_handshake_metadata_pp_aware(
            {(0, 0): word} if (word := self._worker.get_handshake_metadata()) is not None else {}
        )
        init_none_hash(sha256)
        self._hasher = get_request_block_hasher(BLOCK_SIZE, sha256)
        self._in_flight: deque[tuple[Any, ModelRunnerOutput]] = deque()
        self._depth = 1 if is_async else 0
        self._blocks: dict[str, list[int]] = {}
        self.tokens: dict[str, list[int]] = {}
        self.num_computed: dict[str, int] = {}
        self.requests: dict[str, Request] = {}

    @property
    def num_used_blocks(self) -> int:
        """Of requests, and cached: where nothing runs, so many are cached."""
        return int(self.pool.num_gpu_blocks - 1 - self.pool.get_num_free_blocks())

    def add(
        self, name: str, prompt: Sequence[int], fork: ForkHint | None = None, *, max_tokens: int = 1, **fields: Any
    ) -> None:
        params = SamplingParams(max_tokens=max_tokens, extra_args=fork.to_extra_args() if fork else None)
        request = Request(name, list(prompt), params, None, block_hasher=self._hasher, **fields)
        self.requests[name] = request
        self.tokens[name] = list(prompt)
        self.scheduler.add_request(request)

    def ask(self, name: str, prompt: Sequence[int], fork: ForkHint | None = None, **fields: Any) -> list[int]:
        """Adds a request and runs it to its end: prompt and answer."""
        self.add(name, prompt, fork, **fields)
        self.run()
        return self.tokens[name]

    def abort(self, name: str) -> None:
        self.scheduler.finish_requests(name, RequestStatus.FINISHED_ABORTED)

    def run(self) -> None:
        """Takes steps until nobody waits."""
        for _ in range(1000):
            if not (self.scheduler.has_unfinished_requests() or self._in_flight):
                return
            self.step()
        raise AssertionError("the engine makes no headway")

    def step(self) -> None:
        output = self.scheduler.schedule()
        self.num_steps += 1
        self._in_flight.append((output, self._execute(output)))
        while len(self._in_flight) > (self._depth if output.total_num_scheduled_tokens else 0):
            self.scheduler.update_from_output(*self._in_flight.popleft())

    def _execute(self, output: Any) -> ModelRunnerOutput:
        spans = {}
        for new in output.scheduled_new_reqs:
            self._blocks[new.req_id] = list(new.block_ids[0])
            spans[new.req_id] = new.num_computed_tokens
        cached = output.scheduled_cached_reqs
        for name, blocks, start in zip(cached.req_ids, cached.new_block_ids, cached.num_computed_tokens, strict=True):
            if name in cached.resumed_req_ids:
                self._blocks[name] = []
            self._blocks[name] += blocks[0] if blocks else []
            spans[name] = start
        self._memory[output.new_block_ids_to_zero or []] = 0
        self._worker.bind_connector_metadata(output.kv_connector_metadata)
        self._worker.start_load_kv(None)
        for name, start in spans.items():
            end = start + output.num_scheduled_tokens[name]
            self.num_computed[name] = self.num_computed.get(name, 0) + end - start
            for place, value in enumerate(hashes(self.tokens[name])[start:end], start):
                self._slot(name, place).fill_(value)
        sampled = [self._sample(name, spans[name] + output.num_scheduled_tokens[name]) for name in spans]
        return ModelRunnerOutput(
            req_ids=list(spans),
            req_id_to_index={name: index for index, name in enumerate(spans)},
            sampled_token_ids=sampled,
        )

    def _sample(self, name: str, end: int) -> list[int]:
        values = hashes(self.tokens[name])
        held = [int(self._slot(name, place)) for place in range(end)]
        assert held == values[:end], f"{name} was given what another text computed"
        if self.scheduler.requests[name].is_prefill_chunk:
            return []
        token = values[end - 1] % NUM_TOKENS
        if end == len(self.tokens[name]):
            self.tokens[name].append(token)
        return [token]

    def _slot(self, name: str, place: int) -> torch.Tensor:
        block, offset = divmod(place, BLOCK_SIZE)
        return self._memory[self._blocks[name][block], 0, offset]


def hashes(tokens: Sequence[int]) -> list[int]:
    values, value = [], 7
    for token in tokens:
        value = (value * 1_000_003 + token + 1) % (2**31 - 1)
        values.append(value)
    return values
