"""The benchmark for GPUs: what it counts, what it says where something is missing, and the whole of it on a CPU."""

import asyncio
import json
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from benchmarks.gpu import needs, parts, steps
from benchmarks.gpu.needs import why_unconstrained
from benchmarks.gpu.steps import METHODS, StepCounters, per_step, switch_masks, time_methods
from benchmarks.gpu.table import markdown
from benchmarks.gpu.world import Turn, World, Written
from vocab.vllm_plugin import MaskCounts

ROOT = Path(__file__).parents[1]

COSTS = {"scheduler_cpu_us": 900.4, "methods_us": {"get_grammar_bitmask": 250.0}}
STEPS = {"sequences": 256, "intervals": 1500, "num_dead": None, "num_unlisted": None, "on_device": None, **COSTS}
RUN: dict[str, Any] = {
    "date": "2026-01-01T00:00:00+00:00",
    "hardware": {
        "accelerator": "Some GPU, 81559 MiB, 580.1",
        "cpu": "Some CPU",
        "cores": 16,
        "memory_gib": 128.0,
        "system": "Linux x86_64",
        "load_before": [0.1],
    },
    "versions": {"python": "3.12.3", "vllm": "0.29.0", "torch": "2.13.0"},
    "model": {"name": "some-model", "load_format": "dummy"},
    "list": {"lang": "en", "n_words": 1000},
    "max_tokens": 128,
    "engine_args": {"dtype": "auto"},
    "equal": [{"texts": 64, "equal": 63, "first_differences": {5: 17}, "on_device": [1.0, 0.0], "num_unlisted": 0}],
    "sequences": [
        {**STEPS, "arm": "free", "tokens_per_s": 20000.0, "interval_ms": {"p10": 9.5, "p50": 9.7, "p90": 10.1}},
        {**STEPS, "arm": "device", "tokens_per_s": 19000.0, "interval_ms": {"p10": 9.8, "p50": 10.0, "p90": 10.4}}
        | {"num_dead": 0, "num_unlisted": 2, "on_device": 1.0},
    ],
    "beams": [
        {"beams": 4, "at_once": 8, "keeps_work": True, "seconds": 1.5, "tokens_per_s": 340.0}
        | {"computed_tokens": 2048, "steps": 64, **COSTS}
    ],
    "left_out": {"forks": "this vLLM has no such thing"},
}


class TinyScheduler:
    """As many tokens for each request as it is told, step by step; it has no masks."""

    def __init__(self, *steps: Sequence[int]) -> None:
        self._steps = list(steps)

    def schedule(self, throttle: bool) -> SimpleNamespace:
        assert not throttle
        tokens = self._steps.pop(0)
        return SimpleNamespace(num_scheduled_tokens=dict(enumerate(tokens)), total_num_scheduled_tokens=sum(tokens))

    def update_from_output(self, output: str) -> str:
        return output

    def add_request(self, request: Any) -> None:
        assert request.request_id

    def _try_promote_blocked_waiting_request(self, request: Any) -> bool:
        """Let go of what the device can mask, as the plugin does."""
        structured = request.structured_output_request
        if structured is not None and structured.grammar is None:
            return False
        if structured is not None and structured.grammar.device_text is not None:
            request.structured_output_request = None
        return True


def test_steps_are_counted_in_one_process_and_read_in_another(tmp_path: Path) -> None:
    reader = StepCounters(tmp_path / "steps")
    before = reader.read()
    scheduler = TinyScheduler([32], [], [3, 1])
    time_methods(scheduler, StepCounters(tmp_path / "steps"))
    assert [scheduler.schedule(False).total_num_scheduled_tokens for _ in range(3)] == [32, 0, 4]
    assert scheduler.update_from_output("as before") == "as before"
    found = reader.read() - before
    assert (found["steps"], found["tokens"]) == (2, 36)  # one step computed nothing
    assert found["schedule"] > 0
    assert found["get_grammar_bitmask"] == 0
    figures = per_step(found)
    assert tuple(figures["methods_us"]) == METHODS
    assert figures["methods_us"]["schedule"] == pytest.approx(found["schedule"] / 2000, abs=0.1)
    assert figures["scheduler_cpu_us"] == pytest.approx(sum(figures["methods_us"].values()), abs=0.2)


def test_only_steps_one_after_the_other_count_in_which_all_go_on_by_one_token(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(steps, "_NUM_NOTED", 8)
    counters = StepCounters(tmp_path / "steps")
    # The last turn's; a prompt; two of three; all; none is prompt but one waits; all; all. There is room for eight.
    at_ms = 0
    for requests, tokens, took in ((3, 3, 1), (3, 3, 1), (3, 40, 5), (2, 2, 6), (3, 3, 7), (3, 3, 8), (3, 4, 9)):
        at_ms += took
        counters.add_step(at_ms * 1_000_000, requests, tokens)
    assert counters.full_intervals_ms(Counter(), 3) == [1, 8]
    before = counters.read()
    for took in (10, 11, 12):
        at_ms += took
        counters.add_step(at_ms * 1_000_000, 3, 3)
    assert counters.full_intervals_ms(before, 3) == [11, 12]
    # Of all ten the first two are lost.
    assert counters.full_intervals_ms(Counter(), 3) == [8, 11, 12]


def test_an_arm_is_masked_on_the_cpu_though_the_device_could(tmp_path: Path) -> None:
    counters, scheduler = StepCounters(tmp_path / "steps"), TinyScheduler()
    switch_masks(scheduler, counters)

    def request(name: str, grammar: Any) -> SimpleNamespace:
        made = SimpleNamespace(request_id=name, structured_output_request=SimpleNamespace(grammar=grammar))
        scheduler.add_request(made)
        return made

    device = request("device-1", SimpleNamespace(device_text="a text"))
    constrained = request("constrained-2", SimpleNamespace(device_text="a text"))
    compiling = request("constrained-3", None)
    free = request("free-4", None)
    free.structured_output_request = None
    asked = [scheduler._try_promote_blocked_waiting_request(one) for one in (device, constrained, compiling, free)]
    assert asked == [True, True, False, True]
    assert device.structured_output_request is None
    assert constrained.structured_output_request is not None
    counts = counters.read()
    assert (counts["added"], counts["on_device"]) == (4, 1)


class TinyEngine:
    """Writes texts without a model: a step of each arm takes so many milliseconds, and there is time for some turns."""

    def __init__(
        self, *, is_on_device: bool = True, texts: Sequence[str] = ("the",), num_turns: int = 100, **ms: float
    ) -> None:
        self.turns: list[tuple[str, int, int]] = []
        self._num_turns = num_turns
        self.is_on_device, self._texts, self._ms = is_on_device, texts, ms
        self.searching = SimpleNamespace(client=self)
        self.masks = SimpleNamespace(read=lambda: MaskCounts(num_dead=len(self.turns)))
        world: Any = SimpleNamespace(max_tokens=20, rounds=2, num_steps=50, left_out={}, left_s=0.1)
        world.prompt = lambda number: [number]
        world.reader = SimpleNamespace(is_text=lambda text: text == "the")
        world.in_time = lambda work: World.in_time(world, work)
        self.world = world

    async def reset_prefix_cache(self) -> None:
        self.turns.append(("reset", 0, 0))

    async def write(self, arm: str, prompts: Sequence[list[int]], max_tokens: int, *, is_greedy: bool = False) -> Turn:
        self.turns.append((arm, len(prompts), max_tokens))
        if len(self.turns) > self._num_turns:
            self.world.left_s = 0.0
            await asyncio.sleep(60)
        counts = Counter(steps=max_tokens, on_device=len(prompts) if self.is_on_device and arm == "device" else 0)
        written = [Written(prompt, self._texts[prompt[0] % len(self._texts)]) for prompt in prompts]
        if is_greedy:
            # One text is not the same.
            written[5] = written[5]._replace(tokens=[5, len(arm)])
        # On the device it takes five steps more until all go on.
        num_full = max_tokens - (6 if arm == "device" else 1)
        return Turn(written, 1.0, counts, [self._ms[arm]] * num_full if self._ms.get(arm) else [])


def _rows(rows: Any) -> list[dict[str, Any]]:
    async def collected() -> list[dict[str, Any]]:
        return [row async for row in rows]

    return asyncio.run(collected())


def test_arms_take_turns_until_there_are_enough_steps_of_each() -> None:
    engine = TinyEngine(free=2.0, device=2.5)
    free, device = _rows(parts.sequences(engine, [4], ["free", "device"], rows_up_to=2))  # type: ignore[arg-type]
    assert engine.turns[1:11] == [("free", 4, 16), ("device", 4, 16), *[("free", 4, 20), ("device", 4, 20)] * 4]
    # After three rounds the first has 57 steps, and the second 42.
    assert (free["intervals"], free["interval_ms"]["p50"], free["on_device"]) == (76, 2.0, None)
    assert (device["intervals"], device["interval_ms"]["p50"], device["on_device"]) == (56, 2.5, 1.0)
    assert (device["num_unlisted"], free["num_dead"]) == (0, None)
    # Two more texts, until all that the device counted is known.
    assert engine.turns[11:] == [("device", 1, 16)] * 2
    assert device["num_dead"] == 12
    assert engine.world.left_out == {}


def test_what_the_time_leaves_out_is_said_by_arm_and_number() -> None:
    engine = TinyEngine(free=2.0, constrained=4.0, rows=9.0, is_on_device=False, texts=("the", "zebra"), num_turns=10)
    engine.world.num_steps = 100
    arms = ["free", "device", "constrained", "rows"]
    rows = _rows(parts.sequences(engine, [4, 2], arms, rows_up_to=3))  # type: ignore[arg-type]
    assert [(row["sequences"], row["arm"], row["turns"]) for row in rows] == [(4, "free", 4), (4, "constrained", 3)]
    assert [row["num_unlisted"] for row in rows] == [None, 6]
    up = "the time was up (--minutes)"
    assert engine.world.left_out == {
        "sequences, device": "this engine makes its masks on the CPU, and its log says why",
        "sequences, free, 4": f"76 of 100 steps measured: {up}",
        "sequences, constrained, 4": f"57 of 100 steps measured: {up}",
        "sequences, rows, 4": "not measured: more than --rows-up-to 3",
        **{f"sequences, {arm}, 2": f"not measured: {up}" for arm in ("free", "constrained", "rows")},
    }


def test_sequences_that_never_run_all_at_once_are_no_endless_work() -> None:
    engine = TinyEngine(free=2.0, constrained=0.0)
    [row] = _rows(parts.sequences(engine, [4], ["free", "constrained"], rows_up_to=4))  # type: ignore[arg-type]
    assert row["arm"] == "free"
    reason = "they did not run all at once"
    assert engine.world.left_out == {
        "sequences, free, 4": f"19 of 50 steps measured: {reason}",
        "sequences, constrained, 4": f"not measured: {reason}",
    }


def test_texts_of_both_arms_are_compared_token_by_token_and_read() -> None:
    engine = TinyEngine(texts=("the",) * 63 + ("zebra",))
    [row] = _rows(parts.equal(engine))  # type: ignore[arg-type]
    assert engine.turns == [
        ("device", 1, 16),
        *(("reset", 0, 0), ("device", 64, 20)),
        *(("reset", 0, 0), ("constrained", 64, 20)),
    ]
    assert (row["texts"], row["equal"], row["first_differences"]) == (64, 63, {5: 1})
    assert (row["on_device"], row["num_unlisted"]) == ([1.0, 0.0], 2)
    engine = TinyEngine(is_on_device=False)
    assert _rows(parts.equal(engine)) == []  # type: ignore[arg-type]
    assert engine.world.left_out == {"equal": "this engine makes its masks on the CPU, and its log says why"}


def test_a_page_names_machine_date_versions_and_what_was_left_out() -> None:
    page = markdown(RUN)
    for result in (
        "2026-01-01",
        "Some GPU, 81559 MiB",
        "Some CPU, 16 cores",
        "vllm 0.29.0",
        "torch 2.13.0",
        "some-model",
    ):
        assert result in page
    lines = page.splitlines()
    assert "63 of 64 texts at temperature 0 are the same" in page
    assert "First differences: text 5 at token 17." in lines
    assert "| 256 | free | 9.70 | 9.50 | 10.10 | 1,500 | 100.0% | 20,000 | 900 | 250 |  |  |" in lines
    assert "| 256 | device | 10.00 | 9.80 | 10.40 | 1,500 | 97.0% | 19,000 | 900 | 250 | 100% | 0 |" in lines
    assert "Texts within the list that are not of it: 2." in lines
    assert "| 4 | 8 | kept | 1.50 | 340.0 | 2,048 | 64 | 900 |" in lines
    assert lines[-1] == "- forks: this vLLM has no such thing"
    # Of a run that measured nothing it still says why.
    page = markdown({**RUN, "equal": [], "sequences": [], "beams": []})
    assert "|" not in page
    assert "- forks: this vLLM has no such thing" in page


def test_this_vllm_knows_our_grammars_and_what_does_not_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not why_unconstrained()
    monkeypatch.setattr("vocab.vllm_plugin.backend.install", lambda: None)
    monkeypatch.setattr("vllm.v1.structured_output.XgrammarBackend", object)
    assert why_unconstrained().startswith("this vLLM's XgrammarBackend is not the one that the plugin extends")
    monkeypatch.setitem(sys.modules, "vocab.vllm_plugin.backend", None)
    assert "cannot be imported: import of vocab.vllm_plugin.backend halted" in why_unconstrained()
    # A checkout that is not installed is told how to be.
    monkeypatch.setattr(needs, "entry_points", lambda group: ())
    assert why_unconstrained().endswith("pip install --no-deps --no-build-isolation -e .")


@pytest.mark.stress
def test_the_whole_of_it_runs_on_a_cpu_with_a_tiny_model_of_dummy_weights(smollm2_path: Path, tmp_path: Path) -> None:
    record = tmp_path / "run.json"
    options = ["--load-format", "dummy", "--hf-overrides", '{"num_hidden_layers": 1}', "--dtype", "float32"]
    options += ["--sequences", "2", "--max-tokens", "8", "--max-model-len", "256"]
    options += ["--rounds", "1", "--steps", "4", "--minutes", "60", "--enforce-eager", "--debug", "--json", str(record)]
    command = [sys.executable, "-m", "benchmarks.gpu", "--model", str(smollm2_path), *options]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600)
    assert result.returncode == 0, result.stderr[-3000:]
    run = json.loads(record.read_text())
    reason = "this engine makes its masks on the CPU, and its log says why"
    assert run["left_out"] == {"equal": reason, "sequences, device": reason}
    free, constrained, rows = run["sequences"]
    # Of the last arm each token came with its row, or the benchmark would have stopped.
    assert (free["arm"], constrained["arm"], rows["arm"]) == ("free", "constrained", "rows")
    for row in run["sequences"]:
        assert row["tokens"] == 16 * row["turns"]
        # All begin at once: of eight steps one computes the prompts, and the others follow each other.
        assert row["intervals"] == 6 * row["turns"]
        assert row["interval_ms"]["p10"] > 0
    assert (constrained["on_device"], constrained["num_unlisted"]) == (0, 0)
    assert free["methods_us"]["get_grammar_bitmask"] < constrained["methods_us"]["get_grammar_bitmask"]
    beams = {(row["keeps_work"], row["at_once"]): row for row in run["beams"]}
    assert len(beams) == 4
    # What an engine keeps is not computed again, which is what the two are compared for.
    assert beams[True, 8]["computed_tokens"] < beams[False, 8]["computed_tokens"]
