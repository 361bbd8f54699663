"""``wordbound train``: which program it starts, and which options belong to which task."""

from pathlib import Path
from typing import Any

import pytest
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
