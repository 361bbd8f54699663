"""The reproductions of docs/upstream.md still show their faults; where one does not, its section can go."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.own_engine import ENVIRONMENT
from tests.pages import blocks_run_by

# What vLLM does by itself changes with its version only.
pytestmark = [pytest.mark.e2e, pytest.mark.stress]

SEED, ADAPTERS, TEMPERATURES, SANITIZER, BITMASK = blocks_run_by(__file__, "docs/upstream.md")


def run(program: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a program as a file, as a reader would, without this package's plugin."""
    # vLLM's engine is a process of its own, which imports the file again.
    body = "".join(f"    {line}\n" for line in program.splitlines())
    (folder / "program.py").write_text(f'if __name__ == "__main__":\n{body}')
    return subprocess.run(
        [sys.executable, "program.py"],
        env=os.environ | ENVIRONMENT | {"VLLM_PLUGINS": "none"},
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def test_a_seed_and_a_prompt_of_several_steps_end_vllms_engine(shallow_path: Path, tmp_path: Path) -> None:
    done = run(SEED.text.replace("HuggingFaceTB/SmolLM2-135M-Instruct", str(shallow_path)), tmp_path)
    assert done.returncode != 0
    assert "CPU Generator does not use offset" in done.stdout + done.stderr


def test_a_token_without_an_adapter_gets_the_last_one(tmp_path: Path) -> None:
    done = run(ADAPTERS.text, tmp_path)
    assert done.stdout.splitlines()[-1:] == ["[1.0, 1.0, 1.0]"], done.stderr


def test_temperatures_of_drafted_tokens_are_what_the_buffer_held(tmp_path: Path) -> None:
    done = run(TEMPERATURES.text, tmp_path)
    assert done.stdout.splitlines()[-1:] == ["tensor([123., 123., 123., 123., 123.])"], done.stderr


def test_a_longer_message_takes_vllms_sanitizer_far_more_time(tmp_path: Path) -> None:
    # In one process, which takes long to import vLLM.
    lengths = ("3200", "800") * 2
    done = run("".join(SANITIZER.text.replace("1600", length) for length in lengths), tmp_path)
    times = [float(line) for line in done.stdout.splitlines()]
    assert len(times) == len(lengths), done.stderr
    # 35 times here, 4 where time grows with the length.
    assert min(times[::2]) > 8 * min(times[1::2])


def test_the_time_of_a_bitmask_is_measured(tmp_path: Path) -> None:
    done = run(BITMASK.text, tmp_path)
    assert float(done.stdout) > 0, done.stderr
