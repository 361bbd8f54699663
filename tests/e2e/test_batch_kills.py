"""A batch of 300 lines while replica, batch worker and the whole service are killed, and started again.

Under ``make stress`` each of them is killed at each of the three moments, and the feeder too.
"""

import os
import signal
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

import openai
import pytest

from deployments.demo.process import Demo
from tests.e2e.batch_lines import assert_accounted, lines
from tests.e2e.processes import processes_named
from tests.e2e.service import Service, running
from tests.e2e.test_batches import read, start

pytestmark = pytest.mark.e2e

Victim = Literal["replica", "worker", "feeder", "service"]

VICTIMS: tuple[Victim, ...] = ("replica", "worker", "service", "feeder")
PLANS = [
    pytest.param(("replica", "worker", "service"), marks=pytest.mark.slow),
    *(pytest.param((victim,) * 3, marks=pytest.mark.stress) for victim in VICTIMS),
]

MOMENTS = (0.1, 0.5, 0.9)
NUM_LINES = 300
TIMEOUT_S = 1500

NAMES: dict[str, str] = {
    "replica": "ray::ServeReplica:wordbound:Replica",
    "worker": "ray::ServeReplica:wordbound:Batches",
    "feeder": "ray::MapWorker(MapBatches(Feeder))",
}


@pytest.mark.parametrize("plan", PLANS, ids="-".join)
def test_every_line_ends_in_one_file_whatever_is_killed(
    plan: tuple[Victim, Victim, Victim], smollm2_path: Path, tmp_path: Path
) -> None:
    args = {"batch": {"state_dir": str(tmp_path / "state"), "lines_in_flight": 16}}
    sent = lines(NUM_LINES)
    num_good = sum(line.fault is None for line in sent)
    victims = list(zip(MOMENTS, plan, strict=True))
    batch_id = ""
    for run in range(1 + plan.count("service")):
        demo = Demo(str(smollm2_path), tmp_path / f"run-{run}", args)
        with running(demo, timeout_s=60) as service:
            batch_id = batch_id or start(service, b"\n".join(line.text for line in sent)).id
            while victims:
                moment, victim = victims.pop(0)
                wait_for(service, batch_id, int(moment * num_good))
                kill(demo, victim)
                if victim == "service":
                    break
            else:
                batch = wait_for(service, batch_id, None)
                output, errors = read(service, batch.output_file_id), read(service, batch.error_file_id)
    assert batch.request_counts is not None
    assert batch.request_counts.total == NUM_LINES
    assert_accounted(sent, output, errors)


def wait_for(service: Service, batch_id: str, num_answered: int | None) -> Any:
    """Until so many lines have an answer, or all files are there."""
    deadline = time.monotonic() + TIMEOUT_S
    while time.monotonic() < deadline:
        # Whoever answers may just have been killed.
        with suppress(openai.APIError):
            batch = service.client.batches.retrieve(batch_id)
            counts = batch.request_counts
            assert counts is not None
            if num_answered is None and batch.status == "completed":
                return batch
            if num_answered is not None and counts.completed >= num_answered:
                assert batch.status == "in_progress", "it was over before the kill: the test shows nothing"
                return batch
        time.sleep(0.3)
    raise AssertionError(f"{num_answered} lines were not answered in time")


def kill(demo: Demo, victim: Victim) -> None:
    if victim == "service":
        for process in demo.processes():
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        return
    [process] = processes_named(NAMES[victim], demo.processes())
    os.kill(process, signal.SIGKILL)
