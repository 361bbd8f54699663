"""The connector in vLLM's own scheduler; an engine with a model is part of the end-to-end tests."""

import random
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from vllm.v1.core.block_pool import BlockPool
from vllm.v1.kv_cache_interface import SlidingWindowSpec

from tests.vocab.engine_world import BLOCK_SIZE, NUM_TOKENS, EngineWorld, specs
from vocab.vllm_plugin.kv_fork import LONGEST_S, QUIET_S, ArrivalWindow, ForkHint, _context, _is_certain

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


def test_children_of_one_parent_run_together(world: World) -> None:
    engine = world()
    tokens = engine.ask("parent", PROMPT, ForkHint(keep="p"))
    for child in range(NUM_TOKENS):
        engine.add(f"{child}", [*tokens[:-1], child], ForkHint(keep=f"k{child}", parent="p"))
    engine.run()
    assert [engine.num_computed[str(child)] for child in range(NUM_TOKENS)] == [1] * NUM_TOKENS


def test_an_idle_engine_begins_with_children_that_come_one_after_the_other_at_once(world: World) -> None:
    engine = world()
    tokens = engine.ask("parent", PROMPT, ForkHint(keep="p"))
    engine.step()
    for child in range(NUM_TOKENS):
        engine.add(f"{child}", [*tokens[:-1], child], ForkHint(parent="p"))
        engine.step()
    assert not engine.num_computed.keys() & {str(child) for child in range(NUM_TOKENS)}
    for _ in range(3):
        engine.step()
    assert all(request.is_finished() for request in engine.requests.values())


def test_an_engine_at_work_makes_nobody_wait(world: World) -> None:
    engine = world()
    tokens = engine.ask("parent", PROMPT, ForkHint(keep="p"))
    engine.add("other", PROMPT, max_tokens=20)
    engine.step()
    engine.add("child", tokens, ForkHint(parent="p"))
    engine.step()
    assert engine.requests["child"].is_finished()


def test_a_child_of_a_longer_answer_goes_on_from_its_end(world: World) -> None:
    engine = world()
    tokens = engine.ask("parent", PROMPT, ForkHint(keep="p"), max_tokens=9)
    engine.ask("child", tokens, ForkHint(parent="p"), max_tokens=5)
    assert engine.num_computed["child"] == 5


def test_a_child_whose_tokens_differ_gets_what_they_share(world: World) -> None:
    engine = world()
    engine.ask("parent", PROMPT, ForkHint(keep="p"))
    engine.ask("other", [*PROMPT[:9], 2, 0, 0], ForkHint(parent="p"))
    engine.ask("same", PROMPT, ForkHint(parent="p"))
    engine.ask("shorter", PROMPT[:9], ForkHint(parent="p"))
    engine.ask("stranger", [2, *PROMPT], ForkHint(parent="p"))
    computed = [engine.num_computed[name] for name in ("other", "same", "shorter", "stranger")]
    assert computed == [3, 1, 1, 11]


def test_a_name_that_is_not_kept_costs_only_time(world: World) -> None:
    engine = world()
    engine.ask("child", PROMPT, ForkHint(parent="nobody", release=("nobody",)))
    assert engine.num_computed["child"] == len(PROMPT)


def test_what_is_released_is_free_again(world: World) -> None:
    engine = world()
    tokens = engine.ask("parent", PROMPT, ForkHint(keep="p"))
    assert engine.num_cached_blocks == engine.num_used_blocks == 3
    engine.ask("child", tokens, ForkHint(parent="p", release=("p",)))
    assert engine.num_computed["child"] == 1
    assert engine.num_cached_blocks == engine.num_used_blocks == 0


def test_what_is_released_is_not_overwritten_before_it_is_copied(world: World) -> None:
    engine = world()
    tokens = engine.ask("parent", PROMPT, ForkHint(keep="p"))
    engine.add("child", tokens, ForkHint(parent="p", release=("p",)))
    engine.add("stranger", [2, *PROMPT])
    engine.run()
    assert engine.num_computed["child"] == 1


def test_a_request_that_never_ran_still_releases(world: World) -> None:
    engine = world()
    engine.ask("parent", PROMPT, ForkHint(keep="p"))
    engine.add("child", PROMPT, ForkHint(keep="c", release=("p",)))
    engine.abort("child")
    assert engine.num_cached_blocks == engine.num_used_blocks == 0


@pytest.mark.parametrize("is_async", [False, True])
def test_what_an_aborted_request_computed_is_kept(world: World, is_async: bool) -> None:
    engine = world(is_async=is_async)
    engine.add("parent", PROMPT, ForkHint(keep="p"), max_tokens=30)
    for _ in range(4):
        engine.step()
    engine.abort("parent")
    engine.ask("child", engine.tokens["parent"], ForkHint(parent="p"))
    assert engine.num_computed["child"] <= 3


def test_no_more_than_a_quarter_is_kept_and_the_oldest_goes_first(world: World) -> None:
    engine = world(40)
    for number in range(6):
        engine.ask(str(number), [number % 3, number // 3, *PROMPT[1:]], ForkHint(keep=str(number)))
    assert engine.num_cached_blocks == 9
    engine.ask("new", [2, 1, *PROMPT[1:], 0], ForkHint(parent="5"))
    engine.ask("old", [0, 0, *PROMPT[1:], 0], ForkHint(parent="0"))
    assert engine.num_computed["new"] == 1
    assert engine.num_computed["old"] > 1


def test_what_is_kept_never_stands_in_the_way(world: World) -> None:
    engine = world(13)
    engine.ask("parent", PROMPT, ForkHint(keep="p"))
    engine.ask("long", [random.Random(1).randrange(NUM_TOKENS) for _ in range(40)], max_tokens=8)
    assert engine.num_cached_blocks == 0


def test_resetting_the_prefix_cache_forgets_what_is_kept(world: World) -> None:
    engine = world()
    tokens = engine.ask("parent", PROMPT, ForkHint(keep="p"))
    assert engine.scheduler.reset_prefix_cache()
    assert engine.num_used_blocks == 0
    engine.ask("child", tokens, ForkHint(parent="p", keep="c"))
    assert engine.num_computed["child"] == len(tokens)
    assert engine.scheduler.reset_prefix_cache(reset_running_requests=True, reset_connector=True)


def test_a_model_with_several_kinds_of_blocks_computes_everything(world: World) -> None:
    window = SlidingWindowSpec(
        block_size=BLOCK_SIZE, num_kv_heads=1, head_size=1, dtype=torch.float32, sliding_window=8
    )
    for groups in ([*specs(), window], [window]):
        engine = world(groups=groups)
        assert engine.connector.get_num_new_matched_tokens(object(), 0) == (0, False)
        engine.ask("parent", PROMPT, ForkHint(keep="p"))
        assert engine.num_cached_blocks == 0


def test_an_engine_whose_cache_cannot_be_read_computes_everything(world: World) -> None:
    engine = world(knows_cache=False)
    tokens = engine.ask("parent", PROMPT, ForkHint(keep="p"))
    engine.ask("child", tokens, ForkHint(parent="p"))
    assert engine.num_computed["child"] == len(tokens) - 2 * BLOCK_SIZE
    assert engine.connector.reset_cache()


def test_an_engine_whose_pool_has_changed_computes_everything(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(BlockPool, "reset_prefix_cache", lambda self, some_blocks: True)
    engine = world()
    tokens = engine.ask("parent", PROMPT, ForkHint(keep="p"))
    engine.ask("child", tokens, ForkHint(parent="p"))
    assert engine.num_computed["child"] == len(tokens) - 2 * BLOCK_SIZE
    assert engine.num_cached_blocks == 0


def test_nothing_is_shared_across_salts_and_adapters_or_with_images(world: World) -> None:
    requests = [
        SimpleNamespace(mm_features=images, prompt_embeds=embeds, lora_request=adapter, cache_salt=salt)
        for images, embeds, adapter, salt in [
            ([], None, None, None),
            ([], None, None, "salt"),
            ([], None, SimpleNamespace(lora_int_id=1), None),
            ([], None, SimpleNamespace(lora_int_id=2), None),
            (["image"], None, None, None),
            ([], torch.zeros(1), None, None),
        ]
    ]
    contexts = [_context(request) for request in requests]
    assert len(set(contexts)) == len(requests)
    assert contexts[:4] == [_context(request) for request in requests[:4]]
    assert not set(contexts[4:]) & {_context(request) for request in requests[4:]}


def test_blocks_that_several_ranks_share_are_left_alone() -> None:
    cache = SimpleNamespace(kv_cache_groups=[SimpleNamespace(kv_cache_spec=specs()[0])])
    for num_ranks, certain in ((1, True), (2, False)):
        config = SimpleNamespace(
            speculative_config=None, parallel_config=SimpleNamespace(decode_context_parallel_size=num_ranks)
        )
        assert _is_certain(config, cache) is certain


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
            prompt = (
                list(engine.tokens[parent])
                if parent
                else [rng.randrange(NUM_TOKENS) for _ in range(rng.randrange(1, 24))]
            )
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


@pytest.mark.parametrize("fork", [ForkHint(), ForkHint("a"), ForkHint("a", "b", ("c", "d")), ForkHint(release=("c",))])
def test_what_is_said_arrives(fork: ForkHint) -> None:
    assert ForkHint.parse(fork.to_extra_args()["kv_transfer_params"]) == fork


@pytest.mark.parametrize("params", [None, "text", {}, {"do_remote_decode": True}, {"wordbound": None}])
def test_other_parameters_say_nothing(params: Any) -> None:
    assert ForkHint.parse(params) is None


def test_what_is_no_name_is_ignored() -> None:
    said = {"keep": 3, "parent": "", "release": ["a", 4, "", None, ["b"], "c"]}
    assert ForkHint.parse({"wordbound": said}) == ForkHint(release=("a", "c"))
    assert ForkHint.parse({"wordbound": {"release": "abc"}}) == ForkHint()


class Clock:
    now_s = 5.0

    def __call__(self) -> float:
        return self.now_s


def test_an_idle_engine_waits_until_nobody_follows() -> None:
    clock = Clock()
    window = ArrivalWindow(clock)
    assert not window.is_open()
    window.arrived()
    assert window.is_open()
    clock.now_s += QUIET_S * 0.9
    window.arrived()
    clock.now_s += QUIET_S * 0.9
    assert window.is_open()
    clock.now_s += QUIET_S * 0.2
    assert not window.is_open()


def test_an_engine_that_computes_waits_for_nobody() -> None:
    window = ArrivalWindow(Clock())
    window.stepped(3)
    window.arrived()
    assert not window.is_open()
    window.stepped(0)
    assert window.is_open()


def test_who_comes_on_and_on_is_not_waited_for_long() -> None:
    clock = Clock()
    window = ArrivalWindow(clock)
    waited_s = 0.0
    window.arrived()
    while window.is_open():
        clock.now_s += 0.001
        waited_s += 0.001
        window.arrived()
    assert LONGEST_S <= waited_s <= LONGEST_S + 0.002
    clock.now_s += LONGEST_S * 1.1
    window.arrived()
    assert window.is_open()
