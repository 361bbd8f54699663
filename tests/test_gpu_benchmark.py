"""The benchmark for GPUs: what it counts, what it says where something is missing, and the whole of it on a CPU."""

import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from benchmarks.gpu import needs
from benchmarks.gpu.needs import Missing, check_constraint, check_forks, check_sequences, unmet
from benchmarks.gpu.steps import METHODS, StepCounters, time_methods
from benchmarks.gpu.table import markdown

ROOT = Path(__file__).parents[1]

COSTS = {"scheduler_cpu_us": 900.4, "methods_us": {"get_grammar_bitmask": {"cpu": 250.0}}, "engine_cpu_us": 5000.0}
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
    "rounds": 3,
    "engine_args": {"dtype": "auto"},
    "masks": [
        {"n_words": 50, "texts": "frequent", "mask_us": {"p50": 1.84, "p99": 5.0}, "accept_us": {"p50": 0.5}},
        {"n_words": 50, "texts": "whole", "refused": "'By', token 15 of a listed text"},
    ],
    "sequences": [
        {"sequences": 256, "arm": "free", "tokens_per_s": 20000.0, "steps_per_s": 80.0, **COSTS},
        {"sequences": 256, "arm": "constrained", "tokens_per_s": 19000.0, "steps_per_s": 76.0, **COSTS},
    ],
    "beams": [
        {
            "beams": 4,
            "at_once": 8,
            "keeps_work": True,
            "seconds": 1.5,
            "tokens_per_s": 340.0,
            "computed_tokens": 2048,
            "steps": 64,
            **COSTS,
        }
    ],
    "left_out": {"forks": "this vLLM has no such thing"},
}


class TinyScheduler:
    """As many tokens at each step as it is told; it has no masks."""

    def __init__(self, *tokens: int) -> None:
        self._tokens = list(tokens)

    def schedule(self, throttle: bool) -> SimpleNamespace:
        assert not throttle
        return SimpleNamespace(total_num_scheduled_tokens=self._tokens.pop(0))

    def update_from_output(self, output: str) -> str:
        return output


def test_steps_are_counted_in_one_process_and_read_in_another(tmp_path: Path) -> None:
    reader = StepCounters(tmp_path / "steps")
    before = reader.read()
    scheduler = TinyScheduler(32, 0, 4)
    time_methods(scheduler, StepCounters(tmp_path / "steps"))
    assert [scheduler.schedule(False).total_num_scheduled_tokens for _ in range(3)] == [32, 0, 4]
    assert scheduler.update_from_output("as before") == "as before"
    found = reader.read().since(before)
    assert (found.steps, found.tokens) == (2, 36)  # one step computed nothing
    assert tuple(found.scheduler_us) == METHODS
    assert found.scheduler_us["schedule"][1] > 0
    assert list(found.scheduler_us["get_grammar_bitmask"]) == [0, 0]
    assert found.engine_cpu_us > 0
    per_step = found.per_step()
    assert per_step["methods_us"]["schedule"]["wall"] == pytest.approx(found.scheduler_us["schedule"][1] / 2, abs=0.1)


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
    assert "| 50 | frequent | 1.8 | 5.0 | 0.5 |" in lines
    assert "| 50 | whole | 'By', token 15 of a listed text |  |  |" in lines
    assert "| 256 | constrained | 19,000 | 95.0% | 76.0 | 900 | 250 | 5,000 |" in lines
    assert "| 4 | 8 | kept | 1.50 | 340.0 | 2,048 | 64 | 900 |" in lines
    assert lines[-1] == "- forks: this vLLM has no such thing"


def test_a_page_of_a_run_that_measured_nothing_still_says_why() -> None:
    page = markdown({**RUN, "masks": [], "sequences": [], "beams": []})
    assert "|" not in page
    assert "- forks: this vLLM has no such thing" in page


def test_this_vllm_has_all_that_is_needed() -> None:
    assert [unmet(check) for check in (check_sequences, check_constraint, check_forks)] == [None, None, None]


def test_another_vllm_costs_a_part_and_says_what_it_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr("vllm.v1.engine.async_llm.AsyncLLM.from_engine_args")
    assert str(unmet(check_sequences)).startswith(
        "this vLLM has no vllm.v1.engine.async_llm.AsyncLLM.from_engine_args: another version"
    )
    monkeypatch.setitem(sys.modules, "vocab.vllm_plugin.kv_fork", None)
    assert "cannot be imported: import of vocab.vllm_plugin.kv_fork halted" in str(unmet(check_forks))


def test_a_checkout_that_is_not_installed_is_told_how_to_be(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(needs, "entry_points", lambda group: ())
    with pytest.raises(Missing, match=r"pip install --no-deps --no-build-isolation -e \."):
        check_constraint()


@pytest.mark.stress
def test_the_whole_of_it_runs_on_a_cpu_with_a_tiny_model_of_dummy_weights(smollm2_path: Path, tmp_path: Path) -> None:
    record = tmp_path / "run.json"
    options = ["--load-format", "dummy", "--hf-overrides", '{"num_hidden_layers": 1}', "--dtype", "float32"]
    options += ["--mask-words", "50", "1000", "--sequences", "2", "--max-tokens", "8", "--max-model-len", "256"]
    options += ["--rounds", "1", "--enforce-eager", "--debug", "--json", str(record)]
    command = [sys.executable, "-m", "benchmarks.gpu", "--model", str(smollm2_path), *options]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600)
    assert result.returncode == 0, result.stderr[-3000:]
    run = json.loads(record.read_text())
    assert run["left_out"] == {}
    assert [(row["n_words"], row["num_masks"] > 100) for row in run["masks"]] == [(50, True)] * 2 + [(1000, True)] * 2
    free, constrained, rows = run["sequences"]
    # Of the last arm each token came with its row, or the benchmark would have stopped.
    assert (free["tokens"], constrained["tokens"], rows["tokens"]) == (16, 16, 16)
    assert free["steps"] >= 8
    assert free["methods_us"]["get_grammar_bitmask"]["cpu"] < constrained["methods_us"]["get_grammar_bitmask"]["cpu"]
    beams = {(row["keeps_work"], row["at_once"]): row for row in run["beams"]}
    assert len(beams) == 4
    # What an engine keeps is not computed again, which is what the two are compared for.
    assert beams[True, 8]["computed_tokens"] < beams[False, 8]["computed_tokens"]
