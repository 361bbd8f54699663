"""``wordbound train`` from prompts to an adapter, in two rounds, killed in each of its steps and started again."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from deployments.adapter_files import Adapter
from tests.pages import ROOT
from tests.tiny_adapters import write_model

pytestmark = [pytest.mark.e2e, pytest.mark.stress]

NUM_TEXTS = 12
SETTINGS: dict[str, Any] = {
    "word_counts": [300, 2000],
    "num_texts": NUM_TEXTS,
    "rounds": 2,
    "max_tokens": [24],
    "teacher": {"temperature": 0},
    # A model that was never trained writes none that would pass.
    "filters": {"min_tokens": 1, "max_bits_share": 0, "min_distinct": 0, "max_repeated": 1, "max_word_times": 99,
                "max_opening_share": 1},
    "training": {"rank": 2, "epochs": 8, "batch_size": 4, "evaluations": 1},
    "service": {"engine_kwargs": {"enforce_eager": True, "max_model_len": 512, "max_num_seqs": 8},
                "limits": {"max_input_tokens": 256, "max_new_tokens": 64},
                "offline": {"rows_per_task": 4, "tasks_per_engine": 2, "part_s": 0.1}},
}  # fmt: skip


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory, smollm2_path: Path) -> Path:
    return write_model(smollm2_path, tmp_path_factory.mktemp("model") / "tiny-model")


def start(model: Path, out: Path) -> subprocess.Popen[str]:
    config = out.with_suffix(".yaml")
    config.write_text(yaml.safe_dump(SETTINGS))
    command = [sys.executable, "-m", "wordbound.train", str(out), "--config", str(config), "--model", str(model)]
    environment = os.environ | {"PYTHONPATH": str(ROOT), "HF_HUB_OFFLINE": "1", "RAY_USAGE_STATS_ENABLED": "0"}
    return subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
    )


def kill_when(process: subprocess.Popen[str], is_due: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 180
    while not is_due():
        assert process.poll() is None, process.communicate()[0][-3000:]
        assert time.monotonic() < deadline
        time.sleep(0.02)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()


def finish(process: subprocess.Popen[str]) -> str:
    output, _ = process.communicate(timeout=300)
    assert process.returncode == 0, output[-3000:]
    return output


@pytest.mark.fault(66)
def test_killed_in_each_step_it_ends_with_the_same_report(model: Path, tmp_path: Path) -> None:
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    output = finish(start(model, whole))
    assert "round 2: " in output
    draw = random.Random()

    def num_texts(number: int) -> int:
        return sum(part.read_text().count("\n") for part in killed.glob(f"round-{number}/answers/answers/*.jsonl"))

    def num_steps(number: int) -> int:
        path = killed / f"round-{number}" / "progress.json"
        return int(json.loads(path.read_text())["step"]) if path.exists() else 0

    moments: list[tuple[Callable[[int], int], int, int]] = [
        (num_texts, 1, draw.randint(1, NUM_TEXTS - 1)),
        (num_steps, 1, draw.randint(1, 12)),
        (num_texts, 2, draw.randint(1, NUM_TEXTS - 1)),
    ]
    print("killed at", [(count.__name__, number, at) for count, number, at in moments])
    for count, number, at in moments:
        kill_when(start(model, killed), lambda count=count, number=number, at=at: count(number) >= at)  # type: ignore[misc]
    finish(start(model, killed))
    reports = [json.loads((folder / "report.json").read_text()) for folder in (whole, killed)]
    assert reports[0] == reports[1]
    losses = [one["held_out_loss"] for one in reports[0]["evaluations"]]
    assert min(losses) < losses[0]
    adapter = Adapter.read("words", str(killed / "adapter"))
    assert adapter.rank == SETTINGS["training"]["rank"]
    assert adapter.card is not None
    assert adapter.card.fits("en", 300)
    assert not adapter.card.fits("en", 2001)
    assert not adapter.card.fits("es", 300)
