"""``wordbound compile`` makes the artefacts that a service looks for, where it looks for them."""

from pathlib import Path

import pytest

from deployments.settings.service import Settings
from tests.deployments.front import KEY
from tests.wordbound.cli.conftest import Run, assert_refused
from vocab.compiler.jobs import Compiled, CompileList
from wordbound.cli import compiling, doctor
from wordbound.cli.commands import DONE, WRONG_INPUT


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, Path]:
    """A folder of lists, and one for artefacts."""
    lists = tmp_path / "lists"
    lists.mkdir()
    (lists / "animals.txt").write_text("dog\ncat\nelephant\n")
    return lists, tmp_path / "artefacts"


def test_lists_are_made_by_the_services_own_process(
    folders: tuple[Path, Path], smollm2_path: Path, tmp_path: Path, run: Run
) -> None:
    lists, target = folders
    arguments = ("compile", "animals", "--model", smollm2_path, "--wordlist-dir", lists, "--to", target)
    made = run(*arguments, "--store", tmp_path / "shared")
    assert made.exit_code == DONE, made.stderr
    assert made.stdout.startswith("animals: all of 3 words, made in ")
    (sent,) = (tmp_path / "shared").iterdir()
    assert sent.name.startswith(made.stdout.split()[-1])
    assert sent.read_bytes() == (target / sent.name).read_bytes()


def test_each_list_is_told_in_a_line() -> None:
    made = Compiled("0123456789abcdef", 152_778, 20_000, 19_990, 21, was_stored=True)
    result = (
        "en: the first 20,000 of 152,778 words, is there already, artefact 0123456789ab; this tokenizer cannot spell 21"
    )
    assert compiling._line(CompileList("en"), made) == result


def test_defaults_are_those_of_the_service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = Settings(secret_token=KEY)
    assert settings.artefact_bytes == compiling.FOLDER_BYTES
    assert settings.artefact_store_bytes == compiling.STORE_BYTES
    for variable in ("WORDBOUND_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(variable, raising=False)
    assert compiling._default_folder().expanduser() == settings.resolved_artefact_dir()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert compiling._default_folder() == settings.resolved_artefact_dir()
    monkeypatch.setenv("WORDBOUND_CACHE", str(tmp_path))
    assert compiling._default_folder() == settings.resolved_artefact_dir()


def test_more_than_the_first_words_is_made_where_it_is_asked_for(folders: tuple[Path, Path]) -> None:
    lists, _ = folders
    assert list(compiling._jobs("en", lists, "lemma", whole=True)) == [
        CompileList("en", unit="lemma", is_whole=False),
        CompileList("en", unit="lemma"),
    ]


def test_wrong_use_is_told_in_one_line(folders: tuple[Path, Path], run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MODEL_NAME", raising=False)
    target = ("--to", folders[1])
    assert_refused(run("compile", "en"), WRONG_INPUT, "--model")
    assert_refused(run("compile", "xx", "--model", "m", *target), WRONG_INPUT, "There is no word list 'xx'")
    assert_refused(run("compile", "en", "--model", "/no/model", *target), WRONG_INPUT, "the compile process ended: ")
    (folders[0] / "animals.txt").write_text("# none\n")
    monkeypatch.setattr(doctor, "installed_packages", dict)
    assert_refused(run("compile", "en", "--model", "m"), WRONG_INPUT, "`wordbound compile` needs the service")
