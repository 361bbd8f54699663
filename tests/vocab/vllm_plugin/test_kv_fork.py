"""The connector in vLLM's own scheduler, over a KV cache in which every slot says of which tokens it was computed.

The model is a chain of hashes: what it computes for a token depends on all tokens before it, and so does the token that
it samples. After every step each request's slots must hold what its tokens give; one slot of another text, one that was
overwritten or copied too early, and the world stops. An engine with a model is part of the end-to-end tests.
"""

import random
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from vllm import SamplingParams
from vllm.distributed.kv_transfer.kv_connector.v1.base import KVConnectorRole
from vllm.engine.arg_utils import EngineArgs
from vllm.lora.request import LoRARequest
from vllm.utils.hashing import sha256
from vllm.v1.core.block_pool import BlockPool
from vllm.v1.core.kv_cache_utils import get_request_block_hasher, init_none_hash
from vllm.v1.core.sched.async_scheduler import AsyncScheduler
from vllm.v1.core.sched.scheduler import Scheduler
from vllm.v1.kv_cache_interface import (
    FullAttentionSpec,
    KVCacheConfig,
    KVCacheGroupSpec,
    KVCacheSpec,
    SlidingWindowSpec,
)
from vllm.v1.outputs import ModelRunnerOutput
from vllm.v1.request import Request, RequestStatus
from vllm.v1.structured_output import StructuredOutputManager

from vocab.vllm_plugin.kv_fork import LONGEST_S, TRANSFER_CONFIG, ForkHint, KVFork

NUM_TOKENS = 3
BLOCK_SIZE = 4


SIZES = {"block_size": BLOCK_SIZE, "num_kv_heads": 1, "head_size": 1, "dtype": torch.float32}
FULL = FullAttentionSpec(**SIZES)
WINDOW = SlidingWindowSpec(**SIZES, sliding_window=8)


class EngineWorld:
    """An engine whose steps are taken one by one.

    Args:
        model: Any model that vLLM knows; only its configuration is read.
        num_blocks: Of ``BLOCK_SIZE`` tokens each.
        max_num_seqs: How many run at once.
        is_async: Steps are scheduled while the one before them runs.
        groups: The kinds of blocks that the model has.
        knows_cache: Whether the worker can make out the blocks in its cache.
        num_ranks: How many share a block, as the worker is told.
    """

    def __init__(
        self,
        model: Path,
        num_blocks: int = 40,
        *,
        max_num_seqs: int = 8,
        is_async: bool = False,
        groups: Sequence[KVCacheSpec] = (FULL,),
        knows_cache: bool = True,
        num_ranks: int = 1,
    ) -> None:
        config = EngineArgs(
            model=str(model),
            max_model_len=64,
            max_num_batched_tokens=8 * max_num_seqs,
            max_num_seqs=max_num_seqs,
            enforce_eager=True,
            kv_transfer_config=dict(TRANSFER_CONFIG),
        ).create_engine_config()
        config.cache_config.block_size = BLOCK_SIZE
        config.cache_config.num_gpu_blocks = num_blocks
        cache = KVCacheConfig(
            num_blocks=num_blocks,
            kv_cache_tensors=[],
            kv_cache_groups=[KVCacheGroupSpec([f"layer{i}"], spec) for i, spec in enumerate(groups)],
        )
        scheduler = AsyncScheduler if is_async else Scheduler
        self.scheduler = scheduler(config, cache, StructuredOutputManager(config), block_size=BLOCK_SIZE)
        # As engines do where stale contents of new blocks would hurt: before anything is copied.
        self.scheduler.needs_kv_cache_zeroing = True
        for manager in self.scheduler.kv_cache_manager.coordinator.single_type_managers:
            manager._record_new_block_ids = True
        self.connector: KVFork = self.scheduler.connector
        # A step takes a millisecond.
        self.num_steps, self.waited_s = 0, 0.0
        self.connector.clock = lambda: self.num_steps / 1000 + self.waited_s
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


World = Callable[..., EngineWorld]
PROMPT = [0, 1, 2, 0, 1, 1, 2, 2, 0, 1]


@pytest.fixture
def world(smollm2_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    return lambda *args, **kwargs: EngineWorld(smollm2_path, *args, **kwargs)


@pytest.mark.parametrize("is_async", [False, True])
def test_each_step_of_a_chain_computes_one_token(world: World, is_async: bool) -> None:
    engine = world(is_async=is_async)
    tokens = engine.ask("0", PROMPT, ForkHint(keep="0"))
    for step in range(1, 12):
        tokens = engine.ask(str(step), tokens, ForkHint(keep=str(step), parent=str(step - 1), release=(str(step - 2),)))
        assert engine.num_computed[str(step)] == 1
    assert tokens == engine.ask("plain", PROMPT, max_tokens=12)


def test_an_idle_engine_waits_for_children_that_come_one_after_the_other_and_one_at_work_for_nobody(
    world: World,
) -> None:
    engine = world()
    tokens = engine.ask("parent", PROMPT, ForkHint(keep="p"))
    engine.step()
    for child in range(NUM_TOKENS):
        engine.add(f"{child}", [*tokens[:-1], child], ForkHint(keep=f"k{child}", parent="p"))
        engine.step()
    assert not engine.num_computed.keys() & {str(child) for child in range(NUM_TOKENS)}
    for _ in range(3):
        engine.step()
    assert all(request.is_finished() for request in engine.requests.values())
    assert [engine.num_computed[str(child)] for child in range(NUM_TOKENS)] == [1] * NUM_TOKENS
    # Never for long, however many come.
    engine.waited_s += 1
    engine.step()
    num_steps = 0
    while "next 0" not in engine.num_computed:
        engine.add(f"next {num_steps}", tokens, ForkHint(parent="p"))
        engine.step()
        num_steps += 1
    assert LONGEST_S <= num_steps / 1000 <= LONGEST_S + 0.002
    engine.run()
    engine.add("other", PROMPT, max_tokens=20)
    engine.step()
    engine.add("child", tokens, ForkHint(parent="p"))
    engine.step()
    assert engine.requests["child"].is_finished()


def test_a_child_computes_what_its_parent_does_not_share(world: World) -> None:
    engine = world()
    answer = engine.ask("answer", PROMPT, ForkHint(keep="a"), max_tokens=9)
    engine.ask("parent", PROMPT, ForkHint(keep="p"))
    for name, prompt, parent, max_tokens, num_computed in (
        ("goes on from the end of a longer answer", answer, "a", 5, 5),
        ("other", [*PROMPT[:9], 2, 0, 0], "p", 1, 3),
        ("same", PROMPT, "p", 1, 1),
        ("shorter", PROMPT[:9], "p", 1, 1),
        ("stranger", [2, *PROMPT], "p", 1, 11),
        # A name that is not kept costs only time: here not even that, for vLLM has the whole blocks.
        ("of nobody", PROMPT, "nobody", 1, len(PROMPT) - 2 * BLOCK_SIZE),
    ):
        engine.ask(name, prompt, ForkHint(parent=parent, release=("nobody",)), max_tokens=max_tokens)
        assert engine.num_computed[name] == num_computed, name


def test_nothing_is_shared_across_salts_and_adapters(world: World) -> None:
    adapters = [LoRARequest(f"{number}", number, "/nowhere") for number in (1, 2)]
    contexts = [{}, {"cache_salt": "salt"}, {"lora_request": adapters[0]}, {"lora_request": adapters[1]}]
    # Less than a block, so that vLLM shares nothing by itself.
    engine, prompt = world(), PROMPT[:3]
    for number, context in enumerate(contexts):
        engine.ask(f"parent {number}", prompt, ForkHint(keep=f"{number}"), **context)
        for other, child in enumerate(contexts):
            engine.ask(f"{number} {other}", prompt, ForkHint(parent=f"{number}"), **child)
            assert engine.num_computed[f"{number} {other}"] == (1 if number == other else 3)


def test_what_is_released_is_free_again_but_not_overwritten_before_it_is_copied(world: World) -> None:
    engine = world()
    tokens = engine.ask("parent", PROMPT, ForkHint(keep="p"))
    assert engine.num_used_blocks == 3
    engine.add("child", tokens, ForkHint(parent="p", release=("p",)))
    engine.add("stranger", [2, *PROMPT])
    engine.run()
    assert engine.num_computed["child"] == 1
    assert engine.num_used_blocks == 0
    # By one that never ran, too.
    engine.ask("parent again", PROMPT, ForkHint(keep="p"))
    engine.add("aborted", PROMPT, ForkHint(keep="c", release=("p",)))
    engine.abort("aborted")
    assert engine.num_used_blocks == 0
    # By one of its name, and by time.
    engine.ask("first", PROMPT, ForkHint(keep="p"))
    engine.ask("second", [2, *PROMPT], ForkHint(keep="p"))
    assert engine.num_used_blocks == 3
    engine.waited_s += 29
    engine.ask("third", [1, 2, *PROMPT], ForkHint(keep="q"))
    assert engine.num_used_blocks == 6
    engine.waited_s += 1
    engine.step()
    assert engine.num_used_blocks == 3


@pytest.mark.parametrize("is_async", [False, True])
def test_what_an_aborted_request_computed_is_kept(world: World, is_async: bool) -> None:
    engine = world(is_async=is_async)
    engine.add("parent", PROMPT, ForkHint(keep="p"), max_tokens=30)
    for _ in range(4):
        engine.step()
    engine.abort("parent")
    engine.ask("child", engine.tokens["parent"], ForkHint(parent="p"))
    assert engine.num_computed["child"] <= 3


def test_no_more_than_a_quarter_is_kept_the_oldest_goes_first_and_none_stands_in_the_way(world: World) -> None:
    engine = world(40)
    for number in range(6):
        engine.ask(str(number), [number % 3, number // 3, *PROMPT[1:]], ForkHint(keep=str(number)))
    assert engine.num_used_blocks == 9
    engine.ask("new", [2, 1, *PROMPT[1:], 0], ForkHint(parent="5"))
    engine.ask("old", [0, 0, *PROMPT[1:], 0], ForkHint(parent="0"))
    assert engine.num_computed["new"] == 1
    assert engine.num_computed["old"] > 1
    engine = world(13)
    engine.ask("parent", PROMPT, ForkHint(keep="p"))
    engine.ask("long", [random.Random(1).randrange(NUM_TOKENS) for _ in range(40)], max_tokens=8)
    assert engine.num_used_blocks == 0


def test_resetting_the_prefix_cache_forgets_what_is_kept(world: World) -> None:
    engine = world()
    tokens = engine.ask("parent", PROMPT, ForkHint(keep="p"))
    assert engine.scheduler.reset_prefix_cache()
    assert engine.num_used_blocks == 0
    engine.ask("child", tokens, ForkHint(parent="p", keep="c"))
    assert engine.num_computed["child"] == len(tokens)
    assert engine.scheduler.reset_prefix_cache(reset_running_requests=True, reset_connector=True)


def test_an_engine_in_which_it_is_not_certain_to_be_right_computes_everything(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    engines = [
        ("several kinds of blocks", world(groups=[FULL, WINDOW])),
        ("a sliding window", world(groups=[WINDOW])),
        ("blocks that several ranks share", world(num_ranks=2)),
        ("a cache that cannot be read", world(knows_cache=False)),
    ]
    monkeypatch.setattr(BlockPool, "reset_prefix_cache", lambda self, some_blocks: True)
    engines.append(("a pool that has changed", world()))
    for why, engine in engines:
        assert engine.connector.get_num_new_matched_tokens(object(), 0) == (0, False), why
        tokens = engine.ask("parent", PROMPT, ForkHint(keep="p"))
        assert engine.num_used_blocks == 0, why
        if why != "several kinds of blocks":
            engine.ask("child", tokens, ForkHint(parent="p"))
            assert engine.num_computed["child"] >= len(tokens) - 2 * BLOCK_SIZE, why
        assert engine.connector.reset_cache()


def test_a_promise_that_cannot_be_kept_stops_the_engine(world: World) -> None:
    engine = world()
    engine.add("child", PROMPT, ForkHint(parent="gone"))
    with pytest.raises(RuntimeError, match="were released while it was scheduled"):
        engine.connector.update_state_after_alloc(engine.requests["child"], None, 3)


@pytest.mark.parametrize("seed", range(24))
def test_no_request_ever_gets_what_another_text_computed(world: World, seed: int) -> None:
    """A crowd in a cache too small for it: forks, wrong parents, aborts, resets, preemption. The world checks."""
    rng = random.Random(seed)
    engine = world(rng.choice([17, 24, 60]), is_async=seed % 2 == 1)
    names: list[str] = []
    for number in range(150):
        for _ in range(rng.randrange(3)):
            name = f"{number}.{len(names)}"
            parent = rng.choice(names[-8:]) if names and rng.random() < 0.8 else None
            fresh = [rng.randrange(NUM_TOKENS) for _ in range(rng.randrange(1, 24))]
            prompt = list(engine.tokens[parent]) if parent else fresh
            prompt = prompt[: max(1, len(prompt) - rng.choice([0, 0, 0, 0, 1, 5]))]
            prompt += [rng.randrange(NUM_TOKENS) for _ in range(rng.choice([0, 0, 1, 1, 2, 6]))]
            if rng.random() < 0.1 and names:
                parent = rng.choice(names)
            release = tuple(rng.choices(names, k=2)) if names and rng.random() < 0.5 else ()
            keep = name if rng.random() < 0.8 else None
            if len(prompt) < 50:
                engine.add(name, prompt, ForkHint(keep, parent, release), max_tokens=rng.choice([1, 1, 1, 2, 7]))
                names.append(name)
        if names and rng.random() < 0.15:
            engine.abort(rng.choice(names[-6:]))
        if rng.random() < 0.02:
            engine.scheduler.reset_prefix_cache(reset_running_requests=seed % 4 == 0)
        engine.step()
    engine.run()
    assert all(request.is_finished() for request in engine.requests.values())
    engine.connector.reset_cache()
    assert engine.num_used_blocks == 0


def test_what_is_said_arrives_and_what_is_no_name_is_ignored() -> None:
    for fork in (ForkHint(), ForkHint("a"), ForkHint("a", "b", ("c", "d")), ForkHint(release=("c",))):
        assert ForkHint.parse(fork.to_extra_args()["kv_transfer_params"]) == fork
    for params in (None, "text", {}, {"do_remote_decode": True}, {"wordbound": None}):
        assert ForkHint.parse(params) is None
    said = {"keep": 3, "parent": "", "release": ["a", 4, "", None, ["b"], "c"]}
    assert ForkHint.parse({"wordbound": said}) == ForkHint(release=("a", "c"))
    assert ForkHint.parse({"wordbound": {"release": "abc"}}) == ForkHint()
