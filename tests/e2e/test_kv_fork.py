"""Steps that go on from one another, against ordinary requests, on a real engine in float32."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.forking_engine import NUM_STEPS, WIDTH

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

Results = dict[str, dict[str, Any]]
ALL = ["short", "long", "given up", "stranger", *(f"fork {i}" for i in range(WIDTH))]


@pytest.fixture(scope="module")
def results(smollm2_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Results:
    path = tmp_path_factory.mktemp("forks") / "results.json"
    log = path.with_name("engine.log")
    variables = {"VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_NO_USAGE_STATS": "1", "HF_HUB_OFFLINE": "1"}
    command = [sys.executable, "-m", "tests.e2e.forking_engine", str(smollm2_path), str(path)]
    with log.open("w") as output:
        done = subprocess.run(
            command, env=os.environ | variables, stdout=output, stderr=subprocess.STDOUT, timeout=400, check=False
        )
    assert done.returncode == 0, log.read_text()[-3000:]
    found: Results = json.loads(path.read_text())
    return found


@pytest.mark.parametrize("name", ALL)
def test_steps_give_what_an_ordinary_request_gives(results: Results, name: str) -> None:
    steps, ordinary = results[name]["steps"], results[name]["ordinary"]
    assert steps["tokens"] == ordinary["tokens"]
    for mine, other in zip(steps["logprobs"], ordinary["logprobs"], strict=True):
        assert mine == pytest.approx(other, abs=1e-4)


@pytest.mark.parametrize("name", ["short", "long", "given up", *(f"fork {i}" for i in range(WIDTH))])
def test_a_step_computes_one_token(results: Results, name: str) -> None:
    steps = results[name]["steps"]
    first = 1 if name in ("short", "long") else 0
    computed = [prompt - reused for prompt, reused in zip(steps["num_prompt"], steps["num_reused"], strict=True)]
    # One that was given up while a step ran may lack that step's token.
    assert computed[first:] == pytest.approx([1] * len(computed[first:]), abs=1 if name == "given up" else 0)
    assert len(computed) == NUM_STEPS or name not in ("short", "long")


def test_nothing_of_another_text_is_reused(results: Results) -> None:
    assert results["stranger"]["steps"]["num_reused"][0] == 0
    assert results["long"]["ordinary"]["num_reused"] == 0
