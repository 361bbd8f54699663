"""``wordbound compile`` makes the artefacts that a service looks for, where it looks for them."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from deployments.settings.service import Settings
from tests.deployments.front import KEY
from tests.wordbound.cli.conftest import assert_refused, run
from vocab.compiler.jobs import Compiled, CompileList, Reply
from wordbound.cli import DONE, WRONG_INPUT


@pytest.fixture
def lists(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of lists that the environment names."""
    (folder := tmp_path / "lists").mkdir()
    (folder / "animals.txt").write_text("dog\ncat\nelephant\n")
    monkeypatch.setenv("WORDLIST_DIR", str(folder))
    monkeypatch.delenv("MODEL_NAME", raising=False)
    return folder


def test_lists_are_made_by_the_services_own_process(lists: Path, smollm2_path: Path, tmp_path: Path) -> None:
    target, shared = tmp_path / "artefacts", tmp_path / "shared"
    made = run("compile", "animals", "--model", smollm2_path, "--to", target, "--store", shared)
    assert made.exit_code == DONE, made.stderr
    assert made.stdout.startswith("animals: all of 3 words, made in ")
    # The list's trie, and the table by which its texts are read.
    sent = sorted(shared.iterdir(), key=lambda one: not one.name.startswith(made.stdout.split()[-1]))
    assert len(sent) == 2
    assert sent[0].name.startswith(made.stdout.split()[-1])
    assert all(one.read_bytes() == (target / one.name).read_bytes() for one in sent)
    assert_refused(run("compile", "en", "--model", "/no/model"), WRONG_INPUT, "the compile process ended: ")


class Process:
    """In place of the compile process: ``started`` and ``asked`` are what it was given."""

    started: list[str]
    asked: list[CompileList]

    def __init__(self, arguments: Sequence[str], errors: Any) -> None:
        type(self).started, type(self).asked = [str(argument) for argument in arguments], []

    def wait_until_ready(self) -> None: ...

    def ask(self, job: CompileList) -> Reply:
        self.asked.append(job)
        return Reply(Compiled("0123456789abcdef", 152_778, 20_000, 19_990, 21, was_stored=True))

    def close(self) -> None: ...


@pytest.mark.parametrize("variables", [{}, {"XDG_CACHE_HOME": "/xdg"}, {"WORDBOUND_CACHE": "/cache"}], ids=str)
def test_what_is_made_is_told_in_a_line_and_is_where_the_service_looks(
    lists: Path, monkeypatch: pytest.MonkeyPatch, variables: dict[str, str]
) -> None:
    for variable in ("WORDBOUND_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(variable, raising=False)
    for variable, value in variables.items():
        monkeypatch.setenv(variable, value)
    monkeypatch.setattr("wordbound.cli.compiling.CompileProcess", Process)
    settings = Settings(secret_token=KEY)
    parts = [CompileList("en", unit="lemma", is_whole=False), CompileList("en", unit="lemma")]
    line = "en: the first 20,000 of 152,778 words, is there already, artefact 0123456789ab; this tokenizer cannot spell"
    for options, num in ((["--whole"], 2), ([], 1)):
        done = run("compile", "en", "en", "--model", "m", "--unit", "lemma", *options)
        assert (done.exit_code, done.stdout) == (DONE, f"{line} 21\n" * num)
        assert Process.asked == parts[:num]
        given = (settings.resolved_artefact_dir(), settings.artefact_bytes, settings.artefact_store_bytes)
        assert all(str(value) in Process.started[-1] for value in given)
