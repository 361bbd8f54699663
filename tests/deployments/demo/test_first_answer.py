"""``make demo`` whose first question gets no answer, or not at once."""

import os
import subprocess
import sys
from pathlib import Path

from tests.pages import ROOT

PROGRAM = """
import functools, sys
from deployments.demo import __main__ as demo
demo.Demo = functools.partial(demo.Demo, module="tests.deployments.demo.busy_service")
sys.exit(demo.main())
"""


def run(statuses: str, folder: Path) -> tuple[int, str]:
    """The demo's exit status and output, when its service has answered with these statuses and ended."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "WORDBOUND_CACHE": str(folder), "MODEL_NAME": str(folder)}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env=environment | {"STATUSES": statuses},
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=120,
        check=False,
    )
    return done.returncode, done.stdout


def test_it_asks_a_busy_service_again(tmp_path: Path) -> None:
    status, output = run("503 503 200", tmp_path)
    assert output.count("the service is busy; asking again in 1 s") == 2
    assert "The dog was happy." in output
    assert "Ctrl-C stops the service." in output
    # It served until its service ended.
    assert (status, "the service ended; its log is" in output) == (1, True)


def test_it_serves_although_its_question_has_no_answer(tmp_path: Path) -> None:
    status, output = run("503 500", tmp_path)
    assert "the first question has no answer: It is a 500." in output
    assert "Ctrl-C stops the service." in output
    assert (status, "the service ended; its log is" in output) == (1, True)
