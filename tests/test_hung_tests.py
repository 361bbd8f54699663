"""A test that hangs fails with its stack, and the run goes on: the limit that ``pyproject.toml`` has, made shorter."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

HUNG = """
import asyncio, threading

def test_hung():
    threading.Event().wait()

async def test_hung_loop():
    await asyncio.Event().wait()

def test_another():
    pass
"""


def test_a_hung_test_fails_with_its_stack_and_the_run_goes_on(tmp_path: Path, pytestconfig: pytest.Config) -> None:
    assert 0 < float(pytestconfig.getini("timeout")) <= 600
    (tmp_path / "test_hung.py").write_text(HUNG)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    options = ["-c", str(ROOT / "pyproject.toml"), "--rootdir", str(tmp_path), "-p", "no:cacheprovider"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, "-o", "timeout=1", "test_hung.py"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 1, done.stdout + done.stderr
    assert "2 failed, 1 passed" in done.stdout
    assert ">       threading.Event().wait()" in done.stdout
