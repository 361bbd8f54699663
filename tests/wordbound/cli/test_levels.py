"""``wordbound levels`` and ``wordbound words``, and the levels of other commands."""

from pathlib import Path

import pytest

from wordbound.cli import app

Output = pytest.CaptureFixture[str]


def main(*arguments: str) -> int:
    """Run a command as a shell does, and return its exit status."""
    with pytest.raises(SystemExit) as exit_info:
        app(list(arguments))
    return int(exit_info.value.code or 0)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "published.csv").write_text("headword,pos,CEFR\nthe,x,A1\ncat,x,A1\nsat,x,B2\n", encoding="utf-8")
    (tmp_path / "forms.csv").write_text("cat,cats\n", encoding="utf-8")
    (tmp_path / "story.txt").write_text("The cats sat.", encoding="utf-8")
    return tmp_path


def test_a_published_list_becomes_levels_to_check_with(folder: Path, capsys: Output) -> None:
    lists = ("--lists", "lists")
    assert main("check", "story.txt", "--level", "A1") == 2
    assert "en_cefr-j.csv" in capsys.readouterr().err
    assert main("levels", "--import", "published.csv", "--family", "cefr-j", "--forms", "forms.csv", *lists) == 0
    output = capsys.readouterr()
    assert output.out == "lists/en_cefr-j.csv: A1: 2 words, A2: 2 words, B1: 2 words, B2: 3 words\n"
    assert "licence" in output.err
    assert main("check", "story.txt", "--level", "A1", *lists) == 1
    assert "sat" in capsys.readouterr().out
    assert main("check", "story.txt", "--level", "B2", *lists) == 0
    assert main("levels", *lists) == 0
    assert "lists/en_cefr-j.csv: A1: 2 words" in capsys.readouterr().out


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
    folder: Path, command: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, capsys: Output
) -> None:
    (folder / "list.txt").write_text("the\n")
    for option in (("--lists", "wordlists"), ()):
        assert main(*command, *option) == 2
        output = capsys.readouterr()
        assert output.out == ""
        assert "'wordlists' (WORDLIST_DIR) cannot be read: No such file or directory" in output.err
        monkeypatch.setenv("WORDLIST_DIR", "wordlists")


def test_all_levels_are_shown_with_their_licences(capsys: Output) -> None:
    assert main("levels") == 0
    shown = capsys.readouterr().out
    assert "top-500 top-1000" in shown
    assert "ngsl-1 ngsl-2 ngsl-3\n  en: New General Service List" in shown
    assert "not here: en_ngsl.csv" in shown and "not here: LANGUAGE_grade.csv" in shown
    assert main("levels", "--lang", "sv") == 0
    assert "ngsl" not in (shown := capsys.readouterr().out)
    assert "sv_kelly.csv" in shown


@pytest.mark.parametrize(
    ("arguments", "result"),
    [
        (["levels", "--import", "published.csv"], "--import needs --family"),
        (["levels", "--import", "published.csv", "--family", "kelly"], "needs --lang"),
        (["levels", "--import", "story.txt", "--family", "cefr-j"], "story.txt: no column headword"),
        (["levels", "--import", "none.csv", "--family", "cefr-j"], "none.csv: No such file"),
        (["levels", "--import", "published.csv", "--family", "kelly", "--lang", "km"], "written without spaces"),
        (["check", "story.txt", "--level", "A9"], "There is no level 'A9'"),
        (["check", "story.txt", "--level", "top-500"], "name that by 'lang'"),
        (["check", "story.txt", "--level", "A1", "--list", "story.txt"], "choose one of --list and --level"),
        (["check", "story.txt", "--lang", "en", "--level", "top-500", "--words", "5"], "choose one of --words and"),
        (["check", "story.txt", "--level", "A1", "--unit", "lemma"], "choose one of --unit and --level"),
        (["words", "xx"], "There is no word list 'xx'"),
        (["words"], "name a list"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(folder: Path, arguments: list[str], result: str, capsys: Output) -> None:
    assert main(*arguments) == 2
    output = capsys.readouterr()
    assert output.out == ""
    assert result in output.err.strip().splitlines()[-1]


def test_words_are_listed_with_rank_and_lemma(capsys: Output) -> None:
    assert main("words", "en", "--find", "ELEPH", "--limit", "2") == 0
    first, second = capsys.readouterr().out.splitlines()
    assert first == "6125\telephant\telephant"
    assert second.endswith("\telephants\telephant")
    assert main("words", "en", "--level", "top-500") == 0
    assert len(capsys.readouterr().out.splitlines()) == 500
    assert main("words", "en", "--offset", "1", "--limit", "1") == 0
    assert capsys.readouterr().out == "2\tto\tto\n"


def test_a_list_file_of_the_folder_is_found_by_its_name(folder: Path, capsys: Output) -> None:
    (folder / "en_school.txt").write_text("the\nzebra\n", encoding="utf-8")
    assert main("words", "en_school", "--lists", str(folder)) == 0
    assert capsys.readouterr().out == "1\tthe\tthe\n2\tzebra\tzebra\n"


def test_words_are_listed_with_their_readings(capsys: Output) -> None:
    pytest.importorskip("pypinyin")
    assert main("words", "zh", "--find", "长大", "--limit", "1", "--readings") == 0
    assert capsys.readouterr().out.endswith("\t长大\t\tzhǎngdà\n")
    assert main("words", "en", "--readings") == 2
