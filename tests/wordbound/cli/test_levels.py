"""``wordbound levels`` and ``wordbound words``, and the levels of other commands."""

from pathlib import Path

import pytest

from tests.wordbound.cli.conftest import Run, assert_refused
from wordbound.cli import DONE, NOT_AS_ASKED, WRONG_INPUT


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "published.csv").write_text("headword,pos,CEFR\nthe,x,A1\ncat,x,A1\nsat,x,B2\n", encoding="utf-8")
    (tmp_path / "forms.csv").write_text("cat,cats\n", encoding="utf-8")
    (tmp_path / "story.txt").write_text("The cats sat.", encoding="utf-8")
    return tmp_path


def test_a_published_list_becomes_levels_to_check_with(folder: Path, run: Run) -> None:
    lists = ("--lists", "lists")
    assert_refused(run("check", "story.txt", "--level", "A1"), WRONG_INPUT, "en_cefr-j.csv")
    done = run("levels", "--import", "published.csv", "--family", "cefr-j", "--forms", "forms.csv", *lists)
    line = "lists/en_cefr-j.csv: A1: 2 words, A2: 2 words, B1: 2 words, B2: 3 words\n"
    assert (done.exit_code, done.stdout, "licence" in done.stderr) == (DONE, line, True)
    for level, status in (("A1", NOT_AS_ASKED), ("B2", DONE)):
        assert run("check", "story.txt", "--level", level, *lists).exit_code == status
    assert "lists/en_cefr-j.csv: A1: 2 words" in run("levels", *lists).stdout


@pytest.mark.parametrize(
    "command",
    [
        ("check", "story.txt", "--lang", "en", "--words", "100"),
        ("check", "story.txt", "--list", "list.txt"),
        ("words", "en"),
        ("grammar", "--lang", "en", "--words", "5"),
        ("levels",),
    ],
)
def test_a_folder_that_is_not_there_ends_the_command(
    folder: Path, command: tuple[str, ...], run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "list.txt").write_text("the\n")
    for option in (("--lists", "wordlists"), ()):
        message = "'wordlists' (WORDLIST_DIR) cannot be read: No such file or directory"
        assert_refused(run(*command, *option), WRONG_INPUT, message)
        monkeypatch.setenv("WORDLIST_DIR", "wordlists")


def test_all_levels_are_shown_with_their_licences(run: Run) -> None:
    shown = run("levels").stdout
    assert "top-500 top-1000" in shown
    assert "ngsl-1 ngsl-2 ngsl-3\n  en: New General Service List" in shown
    assert "not here: en_ngsl.csv" in shown and "not here: LANGUAGE_grade.csv" in shown
    shown = run("levels", "--lang", "sv").stdout
    assert "ngsl" not in shown and "sv_kelly.csv" in shown


def test_words_are_listed_with_rank_and_lemma(folder: Path, run: Run) -> None:
    first, second = run("words", "en", "--find", "ELEPH", "--limit", "2").stdout.splitlines()
    assert first == "6125\telephant\telephant"
    assert second.endswith("\telephants\telephant")
    assert len(run("words", "en", "--level", "top-500").stdout.splitlines()) == 500
    assert run("words", "en", "--offset", "1", "--limit", "1").stdout == "2\tto\tto\n"
    # A list file of the folder is found by its name.
    (folder / "en_school.txt").write_text("the\nzebra\n", encoding="utf-8")
    assert run("words", "en_school", "--lists", folder).stdout == "1\tthe\tthe\n2\tzebra\tzebra\n"


def test_words_are_listed_with_their_readings(run: Run) -> None:
    pytest.importorskip("pypinyin")
    assert run("words", "zh", "--find", "长大", "--limit", "1", "--readings").stdout.endswith("\t长大\t\tzhǎngdà\n")
