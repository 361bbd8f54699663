"""``wordbound grammar`` writes what the library writes, and says what is wrong with what it was asked."""

import re
import runpy
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from vocab.lists.wordlists import WordList, load_word_list
from vocab.options import ListOptions
from vocab.text.changes import ListChanges
from vocab.text.ebnf import ebnf_to_lark
from vocab.text.grammar import write_ebnf
from wordbound.cli import app

Output = pytest.CaptureFixture[str]


def main(arguments: list[str]) -> int:
    """Run the command as a shell does, and return its exit status."""
    with pytest.raises(SystemExit) as exit_info:
        app(["grammar", *arguments])
    assert isinstance(exit_info.value.code, int)
    return exit_info.value.code


def without_credit(grammar: str) -> str:
    return re.sub(r"\A(# .*\n)+", "", grammar)


@pytest.fixture
def list_file(tmp_path: Path) -> str:
    path = tmp_path / "list.txt"
    path.write_text("# frequent first\nl'\nhomme\nvu\n\nvoir\n", encoding="utf-8")
    return str(path)


@pytest.fixture
def names_file(tmp_path: Path) -> str:
    path = tmp_path / "names.txt"
    path.write_text("Éluard\nNew York\n", encoding="utf-8")
    return str(path)


def test_it_writes_the_grammar_of_a_language(capsys: Output) -> None:
    assert main(["--lang", "es", "--words", "30"]) == 0
    assert without_credit(capsys.readouterr().out) == write_ebnf(load_word_list("es", None), ListOptions(), 30)


def test_the_raw_list_and_the_unsafe_one_can_be_asked_for(capsys: Output) -> None:
    assert main(["--lang", "es", "--words", "30", "--source", "wordfreq"]) == 0
    raw = load_word_list("es", None, source="wordfreq")
    assert without_credit(capsys.readouterr().out) == write_ebnf(raw, ListOptions(), 30)
    assert main(["--lang", "es", "--words", "400", "--no-safe"]) == 0
    unsafe = load_word_list("es", None, safe=False)
    assert without_credit(capsys.readouterr().out) == write_ebnf(unsafe, ListOptions(), 400)
    assert unsafe.words[:400] != load_word_list("es", None).words[:400]


@pytest.mark.parametrize(("dialect", "comment"), [("ebnf", "# "), ("lark", "// ")])
def test_a_grammar_says_whose_words_it_holds(dialect: str, comment: str, capsys: Output) -> None:
    assert main(["--lang", "es", "--words", "30", "--dialect", dialect]) == 0
    written = capsys.readouterr().out.split("\n")
    credit = [line.removeprefix(comment) for line in written if line.startswith(comment)]
    assert written[: len(credit)] == [comment + line for line in credit]
    result = " ".join(credit)
    for owed in (
        "Robyn Speer",
        "CC BY-SA 4.0",
        "Changed by wordbound",
        "SUBTLEX by Marc Brysbaert",
        "freely available",
    ):
        assert owed in result


def test_a_grammar_of_a_file_owes_nobody_but_simplemma_where_lemmas_are_counted(list_file: str, capsys: Output) -> None:
    assert main(["--list", list_file, "--lang", "fr"]) == 0
    assert capsys.readouterr().out.startswith("root ::= ")
    assert main(["--list", list_file, "--lang", "fr", "--unit", "lemma"]) == 0
    assert capsys.readouterr().out.startswith("# Ranked by the lemmas of simplemma by Adrien Barbaresi")


def test_it_has_all_options(list_file: str, names_file: str, tmp_path: Path, capsys: Output) -> None:
    left_out, made = tmp_path / "without.txt", tmp_path / "made.ebnf"
    left_out.write_text("VU\n", encoding="utf-8")
    arguments = ["--list", list_file, "--lang", "fr", "--words", "3", "--case", "sentence", "--numbers"]
    arguments += ["--punctuation", "basic", "--layout", "lines", "--end", "sentence"]
    arguments += ["--extra-words", names_file, "--exclude-words", str(left_out), "-o", str(made)]
    assert main(arguments) == 0
    assert capsys.readouterr() == ("", "")
    words = WordList("fr", ("l'", "homme", "vu", "voir"), "file")
    options = ListOptions("sentence", "lines", numbers=True, punctuation="basic", end="sentence")
    expected = write_ebnf(words, options, 3, ListChanges(("Éluard", "New York"), ("vu",)))
    assert made.read_bytes().decode() == expected
    assert main([*arguments, "--dialect", "lark"]) == 0
    assert made.read_bytes().decode() == ebnf_to_lark(expected)


def test_without_a_number_of_words_it_takes_them_all(list_file: str, capsys: Output) -> None:
    assert main(["--list", list_file]) == 0
    words = WordList("und", ("l'", "homme", "vu", "voir"), "file")
    assert capsys.readouterr().out == write_ebnf(words, ListOptions(), 4)


def test_lemmas_are_counted_where_they_are_asked_for(tmp_path: Path, capsys: Output) -> None:
    path = tmp_path / "list.txt"
    path.write_text("la\ncomer\nperro\ncomió\n", encoding="utf-8")
    assert main(["--list", str(path), "--lang", "es", "--unit", "lemma", "--words", "2"]) == 0
    grammar = capsys.readouterr().out
    assert '"omió"' in grammar
    assert '"erro"' not in grammar


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--lang", "xx"], "There is no word list 'xx'"),
        (["--lang", "ja"], "the longest one of a dictionary"),
        (["--lang", "es", "--end", "sentence", "--punctuation", "none"], "end 'sentence' needs sentence marks"),
        (["--list", "LIST", "--lang", "km"], "written without spaces"),
        (["--lang", "zh", "--segmentation", "any", "--dialect", "lark"], "take the dialect 'ebnf'"),
        (["--list", "LIST", "--lang", "zh", "--extra-words", "NAMES"], "names.txt, line 2: 'New York' has a blank"),
        (["--list", "LIST", "--lang", "../es"], "'../es' is no language tag"),
        (["--list", "LIST", "--lang", "fr", "--words", "1"], "None of the first 1 words of 'fr' may end a text"),
        (["--list", "LIST", "--unit", "lemma"], "There are no lemmas for 'und'"),
        (["--list", "LIST", "--extra-words", "NAMES", "--exclude-words", "NAMES"], "is in both extra_words and"),
        (["--list", "no such file"], "No such file or directory: 'no such file'"),
        (["--lang", "es", "--words", "1", "-o", "no/such/folder"], "No such file or directory: 'no/such/folder'"),
        (["--list", "EMPTY"], "There is no word in empty.txt"),
        (["--lang", "es", "--extra-words", "BAD"], "bad.txt, line 2: not UTF-8"),
    ],
)
def test_what_cannot_be_written_is_said_in_one_line(
    arguments: list[str], message: str, list_file: str, names_file: str, tmp_path: Path, capsys: Output
) -> None:
    (tmp_path / "empty.txt").write_text("# nothing\n", encoding="utf-8")
    (tmp_path / "bad.txt").write_bytes(b"ok\n\xff\n")
    files = {"LIST": list_file, "NAMES": names_file}
    files |= {"EMPTY": str(tmp_path / "empty.txt"), "BAD": str(tmp_path / "bad.txt")}
    assert main([files.get(argument, argument) for argument in arguments]) == 2
    out, error = capsys.readouterr()
    assert out == ""
    assert error.startswith("wordbound grammar: ")
    assert message in error
    assert error.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "name a list: --lang TAG or --list FILE"),
        (["--lang", "es", "--words", "0"], "'--words': Input should be greater than or equal to 1"),
        (["--lang", "es", "--words", "many"], "Invalid value for '--words'"),
        (["--lang", "es", "--case", "upper"], "'upper' is not one of 'auto', 'sentence'"),
    ],
)
def test_what_is_no_request_is_told_in_one_line(arguments: list[str], message: str, capsys: Output) -> None:
    assert main(arguments) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.endswith("grammar --help)\n")
    assert error.count("\n") == 1


def test_it_is_a_command(list_file: str, capsys: Output, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["wordbound", "grammar", "--list", list_file, "--punctuation", "none"])
    with pytest.raises(SystemExit) as exit_info:
        runpy.run_module("wordbound", run_name="__main__")
    assert exit_info.value.code == 0
    assert capsys.readouterr().out.startswith('root ::= " "? start-unit (gap unit)*\n')


def test_the_page_names_every_option() -> None:
    page = (Path(__file__).parents[3] / "docs" / "other-engines.md").read_text(encoding="utf-8")
    option = re.compile(r"--[a-z][a-z-]*")
    of_command = set(option.findall(CliRunner().invoke(app, ["grammar", "--help"]).output)) - {"--help", "--output"}
    assert of_command == set(option.findall(page)) - {"--grammar-file"}
