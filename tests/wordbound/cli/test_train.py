"""``wordbound train``: which program it starts, and which options belong to which task."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from wordbound.cli import app


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    programs: list[list[str]] = []

    def run(arguments: list[str], environment: Any, *, explains_errors: bool) -> None:
        assert explains_errors
        programs.append(arguments)

    monkeypatch.setattr("wordbound.cli.serve.run_to_its_end", run)
    monkeypatch.delenv("MODEL_NAME", raising=False)
    return programs


def test_an_adapter_and_a_decoder_are_programs_of_their_own(started: list[list[str]]) -> None:
    for arguments in (
        ["out", "--model", "m", "--words", "300,1000", "--num-texts", "12", "--epochs", "2"],
        ["out", "--task", "decoder", "--file-path", "corpus.txt", "--hidden-size", "64"],
    ):
        assert CliRunner().invoke(app, ["train", *arguments]).exit_code == 0
    adapter, decoder = started
    assert adapter[:3] == ["-m", "wordbound.train", "out"]
    assert adapter[3:] == ["--model", "m", "--words", "300,1000", "--num-texts", "12", "--epochs", "2"]
    assert decoder[:4] == ["-m", "wordbound.train.decoder", "--output", "out"]
    assert decoder[4:] == ["--file-path", "corpus.txt", "--hidden-size", "64"]


@pytest.mark.parametrize("task", ["adapter", "decoder"])
def test_what_was_trained_is_served_where_that_is_asked_for(
    task: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tmp_path / "service.yaml"
    config.write_text(yaml.safe_dump({"applications": [{"args": {"model_name": "other"}}]}))
    out = tmp_path / "out"
    served: list[tuple[list[str], dict[str, str]]] = []

    def run(arguments: list[str], environment: dict[str, str], *, explains_errors: bool = False) -> None:
        if explains_errors and task == "adapter":
            (out / "adapter").mkdir(parents=True)
            (out / "config.json").write_text(json.dumps({"model": "base"}))
            (out / "adapter" / "wordbound.json").write_text(json.dumps({"name": "simple-en"}))
        elif not explains_errors:
            served.append((arguments, environment))

    monkeypatch.setattr("wordbound.cli.serve.run_to_its_end", run)
    # A model that is not trained yet is not looked for.
    monkeypatch.setattr("wordbound.cli.serve.findings", lambda model, port: [] if model is None else pytest.fail(model))
    monkeypatch.delenv("MODEL_NAME", raising=False)
    given = ["--task", "decoder", "--file-path", "a.txt"] if task == "decoder" else ["--model", "base"]
    command = ["train", str(out), *given, "--serve", str(config)]
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SECRET_TOKEN", raising=False)
    refused = CliRunner().invoke(app, command)
    assert (refused.exit_code, served, out.exists()) == (2, [], False)
    assert "SECRET_TOKEN" in refused.stderr
    monkeypatch.setenv("SECRET_TOKEN", "a" * 32)
    assert CliRunner().invoke(app, command).exit_code == 0
    [(arguments, environment)] = served
    assert arguments == ["-m", "deployments.serving", str(config)]
    if task == "decoder":
        assert environment["MODEL_NAME"] == str(out)
    else:
        assert environment["MODEL_NAME"] == "base"
        assert json.loads(environment["WORDBOUND_LORA"]) == {"simple-en": str(out / "adapter")}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["out"], "name the base model: --model, or --config with a file that does"),
        (["out", "--task", "decoder"], "--task decoder needs --file-path"),
        (["out", "--task", "decoder", "--file-path", "a", "--num-texts", "3"], "--num-texts is not for --task decoder"),
        (["out", "--model", "m", "--vocab-size", "512"], "--vocab-size is not for --task adapter"),
    ],
)
def test_options_of_the_other_task_are_refused(started: list[list[str]], arguments: list[str], said: str) -> None:
    done = CliRunner().invoke(app, ["train", *arguments])
    assert (done.exit_code, started) == (2, [])
    assert done.stderr.startswith("wordbound train: ")
    assert said in done.stderr
    assert done.stderr.count("\n") == 1


def test_an_error_of_the_program_ends_the_command_with_its_status(tmp_path: Path) -> None:
    missing = tmp_path / "corpus.txt"
    done = CliRunner().invoke(app, ["train", str(tmp_path / "out"), "--task", "decoder", "--file-path", str(missing)])
    assert done.exit_code == 2
