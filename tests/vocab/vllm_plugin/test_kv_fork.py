"""The connector in vLLM's own scheduler; an engine with a model is part of the end-to-end tests."""

import random
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from vllm.lora.request import LoRARequest
from vllm.v1.core.block_pool import BlockPool
from vllm.v1.kv_cache_interface import SlidingWindowSpec

from tests.vocab.engine_world import BLOCK_SIZE, NUM_TOKENS, EngineWorld, specs
from vocab.vllm_plugin.kv_fork import LONGEST_S, ForkHint

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


def test_an_idle_engine_waits_for_children_that_come_one_after_the_other_and_one_at_work_for_nobody(
    world: World,
) -> None:
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
    # Never for long, however many come.
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
    window = SlidingWindowSpec(
        block_size=BLOCK_SIZE, num_kv_heads=1, head_size=1, dtype=torch.float32, sliding_window=8
    )
    engines = [
        ("several kinds of blocks", world(groups=[*specs(), window])),
        ("a sliding window", world(groups=[window])),
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
