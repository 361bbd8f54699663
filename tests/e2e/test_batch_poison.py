"""A line whose work ends vLLM's process each time: it is found, and the others are answered."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from tests.e2e.batch_lines import URL
from tests.e2e.service import MODEL, running
from tests.e2e.test_batches import read, start, wait
from tests.harness import Demo

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

DEADLY = 400
"""A prompt of so many tokens ends the engine's process."""

PLUGIN = f"""
import os, signal

def register():
    from vllm.v1.core.sched.scheduler import Scheduler
    add = Scheduler.add_request

    def add_or_die(self, request):
        if len(request.prompt_token_ids) >= {DEADLY}:
            os.kill(os.getpid(), signal.SIGKILL)
        add(self, request)

    Scheduler.add_request = add_or_die
"""


@pytest.mark.fault(51)
def test_a_line_that_kills_the_engine_each_time_is_the_only_one_that_fails(shallow_path: Path, tmp_path: Path) -> None:
    args = {"replica_env": {"PYTHONPATH": str(installed(tmp_path)), "VLLM_CPU_KVCACHE_SPACE": "1",
                            "OMP_NUM_THREADS": "1"}, "batch": {"lines_in_flight": 4}}  # fmt: skip
    content = b"\n".join(line(number, "word " * DEADLY if number == 5 else "Hello") for number in range(20))
    demo = Demo(str(shallow_path), tmp_path / "service", args)
    with running(demo, timeout_s=60) as service:
        patient = replace(service, client=service.client.with_options(max_retries=5))
        batch = wait(patient, start(patient, content).id)
        output, errors = read(patient, batch.output_file_id), read(patient, batch.error_file_id)
    assert sorted(line["custom_id"] for line in output) == sorted(str(number) for number in range(20) if number != 5)
    [error] = errors
    assert error["custom_id"] == "5"
    assert error["error"]["message"].startswith("Line 6: ")
    assert "3 times" in error["error"]["message"]


def installed(folder: Path) -> Path:
    """A folder with the plugin, as pip would install it."""
    place = folder / "plugin"
    names = place / "deadly-1.0.dist-info"
    names.mkdir(parents=True)
    (names / "METADATA").write_text("Metadata-Version: 2.1\nName: deadly\nVersion: 1.0\n")
    (names / "entry_points.txt").write_text("[vllm.general_plugins]\ndeadly = deadly:register\n")
    (place / "deadly.py").write_text(PLUGIN)
    return place


def line(number: int, text: str) -> bytes:
    body = {"model": MODEL, "messages": [{"role": "user", "content": text}], "max_tokens": 8}
    return json.dumps({"custom_id": str(number), "method": "POST", "url": URL, "body": body}).encode()
