"""``wordbound grammar`` writes what the library writes, and says what is wrong with what it was asked."""

import re
from pathlib import Path

import pytest

from tests.wordbound.cli.conftest import Run
from vocab.lists.wordlists import WordList, load_word_list
from vocab.options import ListOptions
from vocab.text.changes import ListChanges
from vocab.text.ebnf import ebnf_to_lark
from vocab.text.grammar import write_ebnf
from wordbound.cli import DONE

FRENCH = ("l'", "homme", "vu", "voir")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "list.txt").write_text("# frequent first\nl'\nhomme\nvu\n\nvoir\n", encoding="utf-8")
    (tmp_path / "names.txt").write_text("Éluard\nNew York\n", encoding="utf-8")
    return tmp_path


def written(run: Run, *arguments: str) -> str:
    done = run("grammar", *arguments)
    assert (done.exit_code, done.stderr) == (DONE, "")
    return done.stdout


def without_credit(grammar: str) -> str:
    return re.sub(r"\A(# .*\n)+", "", grammar)


def test_it_writes_the_grammar_of_a_language(run: Run) -> None:
    unsafe = load_word_list("es", None, safe=False)
    assert unsafe.words[:400] != load_word_list("es", None).words[:400]
    for word_list, num, options in (
        (load_word_list("es", None), 30, ()),
        (load_word_list("es", None, source="wordfreq"), 30, ("--source", "wordfreq")),
        (unsafe, 400, ("--no-safe",)),
    ):
        grammar = written(run, "--lang", "es", "--words", str(num), *options)
        assert without_credit(grammar) == write_ebnf(word_list, ListOptions(), num)


@pytest.mark.parametrize(("dialect", "comment"), [("ebnf", "# "), ("lark", "// ")])
def test_a_grammar_says_whose_words_it_holds(dialect: str, comment: str, run: Run) -> None:
    lines = written(run, "--lang", "es", "--words", "30", "--dialect", dialect).split("\n")
    credit = [line.removeprefix(comment) for line in lines if line.startswith(comment)]
    assert lines[: len(credit)] == [comment + line for line in credit]
    result = " ".join(credit)
    for owed in (
        "Robyn Speer",
        "CC BY-SA 4.0",
        "Changed by wordbound",
        "SUBTLEX by Marc Brysbaert",
        "freely available",
    ):
        assert owed in result


def test_a_grammar_of_a_file_owes_nobody_but_simplemma_where_lemmas_are_counted(folder: Path, run: Run) -> None:
    assert written(run, "--list", "list.txt", "--lang", "fr").startswith("root ::= ")
    (folder / "spanish.txt").write_text("la\ncomer\nperro\ncomió\n", encoding="utf-8")
    grammar = written(run, "--list", "spanish.txt", "--lang", "es", "--unit", "lemma", "--words", "2")
    assert grammar.startswith("# Ranked by the lemmas of simplemma by Adrien Barbaresi")
    assert '"omió"' in grammar
    assert '"erro"' not in grammar


def test_it_has_all_options(folder: Path, run: Run) -> None:
    (folder / "without.txt").write_text("VU\n", encoding="utf-8")
    arguments = ["--list", "list.txt", "--lang", "fr", "--words", "3", "--case", "sentence", "--numbers"]
    arguments += ["--punctuation", "basic", "--layout", "lines", "--end", "sentence"]
    arguments += ["--extra-words", "names.txt", "--exclude-words", "without.txt", "-o", "made.ebnf"]
    assert written(run, *arguments) == ""
    options = ListOptions("sentence", "lines", numbers=True, punctuation="basic", end="sentence")
    changes = ListChanges(("Éluard", "New York"), ("vu",))
    expected = write_ebnf(WordList("fr", FRENCH, "file"), options, 3, changes)
    assert (folder / "made.ebnf").read_bytes().decode() == expected
    assert written(run, *arguments, "--dialect", "lark") == ""
    assert (folder / "made.ebnf").read_bytes().decode() == ebnf_to_lark(expected)
    # Without a number of words it takes them all.
    assert written(run, "--list", "list.txt") == write_ebnf(WordList("und", FRENCH, "file"), ListOptions(), 4)


def test_the_page_names_every_option(run: Run) -> None:
    page = (Path(__file__).parents[3] / "docs" / "other-engines.md").read_text(encoding="utf-8")
    option = re.compile(r"--[a-z][a-z-]*")
    of_command = set(option.findall(run("grammar", "--help").output)) - {"--help", "--output"}
    assert of_command == set(option.findall(page)) - {"--grammar-file"}
