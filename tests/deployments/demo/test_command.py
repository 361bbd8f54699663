"""``python -m deployments.demo`` over a service that computes nothing."""

import fcntl
import os
import re
import signal
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

from tests.pages import ROOT

PROGRAM = """
import sys
from deployments.demo import __main__ as demo
demo.Service.program = ("tests.deployments.demo.busy_service",)
sys.exit(demo.main())
"""
LAST_LINE = "Ctrl-C stops the service."


def start(statuses: str, folder: Path, **variables: str) -> subprocess.Popen[str]:
    """The demo, whose service answers with these statuses and ends."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "WORDBOUND_CACHE": str(folder), "MODEL_NAME": str(folder)}
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM],
        env={**environment, "STATUSES": statuses, **variables},
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def run(statuses: str, folder: Path, **variables: str) -> str:
    """The demo's output up to its end."""
    demo = start(statuses, folder, **variables)
    output, _ = demo.communicate(timeout=120)
    # It served until its service ended.
    assert (demo.returncode, "the service ended; its log is" in output) == (1, True), output
    return output


def test_it_asks_a_busy_service_again(tmp_path: Path) -> None:
    output = run("503 503 200", tmp_path)
    assert output.count("the service is busy; asking again in 1 s") == 2
    assert "The dog was happy." in output
    assert LAST_LINE in output


def test_it_serves_although_its_question_has_no_answer(tmp_path: Path) -> None:
    output = run("503 500", tmp_path)
    assert "the first question has no answer: It is a 500." in output
    assert LAST_LINE in output


def test_a_service_that_does_not_start_is_reported_with_the_end_of_its_log(tmp_path: Path) -> None:
    demo = start("none", tmp_path)
    output, _ = demo.communicate(timeout=120)
    assert demo.returncode == 1
    assert "the service ended before it was ready; its log is" in output
    assert "ValueError: invalid literal for int() with base 10: 'none'" in output


def test_the_env_file_of_its_folder_goes_before_the_demos_settings(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("LLM_SERVING_API_KEY=a-secret\nALLOWED_MAX_NEW_TOKENS=16,64\n")
    output = run("200", tmp_path)
    # Its page asks for a key that is a secret.
    assert re.search(r"the page: http://127\.0\.0\.1:\d+/$", output, re.MULTILINE)
    assert "a-secret" not in output
    # The length that is allowed and next to its own.
    assert '"max_tokens": 64' in (tmp_path / "demo" / "serve.log").read_text()


def test_two_runs_at_once_share_neither_log_nor_batches_nor_port_and_the_next_resumes(tmp_path: Path) -> None:
    first = start("200 200", tmp_path)
    assert first.stdout is not None
    printed = ""
    for line in first.stdout:
        printed += line
        if LAST_LINE in line:
            break
    second = run("200", tmp_path)
    first.send_signal(signal.SIGINT)
    rest, _ = first.communicate(timeout=60)
    assert (first.returncode, "stopping; requests may finish" in rest) == (0, True)
    third = run("200", tmp_path)

    names = [re.search(r"starting the service on (\S+); its log is (\S+)", one) for one in (printed, second, third)]
    (one_url, one_log), (two_url, two_log), (_, three_log) = (found.groups() for found in names if found)
    assert one_url != two_url
    assert f"the page: {one_url}/#key=changeme\n" in printed
    assert (one_log, two_log) == tuple(str(tmp_path / name / "serve.log") for name in ("demo", "demo-2"))
    assert three_log == one_log
    [config] = (tmp_path / "demo-2").glob("config-*.yaml")
    assert f"state_dir: {tmp_path}/demo-2/state" in config.read_text()


def test_too_many_runs_are_refused(tmp_path: Path) -> None:
    with ExitStack() as locks:
        for number in range(1, 9):
            folder = tmp_path / ("demo" if number == 1 else f"demo-{number}")
            folder.mkdir()
            lock = locks.enter_context((folder / "lock").open("w"))
            fcntl.flock(lock, fcntl.LOCK_EX)
        demo = start("200", tmp_path)
        output, _ = demo.communicate(timeout=120)
    assert (demo.returncode, "8 runs have" in output) == (1, True), output
