"""``wordbound levels``, ``words`` and ``grammar``, and the levels of other commands."""

import re
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.pages import ROOT
from tests.wordbound.cli.conftest import assert_refused, run
from vocab.lists.wordlists import WordList, load_word_list
from vocab.options import ListOptions
from vocab.text.changes import ListChanges
from vocab.text.ebnf import ebnf_to_lark
from vocab.text.grammar import write_ebnf
from wordbound.cli import DONE, NOT_AS_ASKED, WRONG_INPUT

FRENCH = ("l'", "homme", "vu", "voir")


FILES = {
    "list.txt": "# frequent first\nl'\nhomme\nvu\n\nvoir\n",
    "names.txt": "Éluard\nNew York\n",
    "without.txt": "VU\n",
    "published.csv": "headword,pos,CEFR\nthe,x,A1\ncat,x,A1\nsat,x,B2\n",
    "forms.csv": "cat,cats\n",
    "story.txt": "The cats sat.",
    "heads.txt": "go\ndog\nbe\n",
    "went.txt": "Went dogs were.",
    "hunde.txt": "Hunde.",
    "deutsch.csv": "Wort;Stufe\nder Hund, -e;Start\ndas Haus, ¨-er;Ziel\n;Ziel\n",
    "no.csv": "word,level\nfisk,1\n",
    "en_school.txt": "the\nzebra\n",
    "spanish.txt": "la\ncomer\nperro\ncomió\n",
}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name, text in FILES.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    return tmp_path


def test_a_published_list_becomes_levels_to_check_with() -> None:
    lists = ("--lists", "lists")
    assert_refused(run("check", "story.txt", "--level", "A1"), WRONG_INPUT, "en_cefr-j.csv")
    done = run("levels", "--import", "published.csv", "--family", "cefr-j", "--forms", "forms.csv", *lists)
    line = "lists/en_cefr-j.csv: A1: 2 words, A2: 2 words, B1: 2 words, B2: 3 words\n"
    assert (done.exit_code, done.stdout, "licence" in done.stderr) == (DONE, line, True)
    for level, status in (("A1", NOT_AS_ASKED), ("B2", DONE)):
        assert run("check", "story.txt", "--level", level, *lists).exit_code == status
    assert "lists/en_cefr-j.csv: A1: 2 words" in run("levels", *lists).stdout


def test_what_is_understood_of_a_file_is_shown_before_it_is_used(folder: Path) -> None:
    table = 'Headword;CEFR\nlie1;a1\nlie2;A2\n"a, an";A1\n=1+1;\n7;A1\n'
    (folder / "mine.csv").write_text(table, encoding="cp1252")
    done = run("words", "en", "--file", "mine.csv", "--explain", "--left-out", "rest.csv")
    assert (done.exit_code, done.stdout.splitlines()) == (
        DONE,
        [
            "mine.csv: 3 words, 0 forms beside them; UTF-8",
            "columns: word: Headword, level: CEFR",
            "levels: A1, A2",
            "understood: numbers of homographs, variants",
            "1\tlie\ta1, A2",
            "2\ta\tA1",
            "2\tan\tA1",
            "left out: line 1: 'Headword  CEFR': the names of the columns",
            "left out: line 3: 'lie2': as in line 2",
            "left out: line 5: '=1+1': no letters",
            "left out: line 6: '7': no letters",
        ],
    )
    assert done.stderr == "4 rows left out, 1 of them of words that came before: rest.csv\n"
    rest = (folder / "rest.csv").read_text(encoding="utf-8-sig").splitlines()
    assert (rest[0], rest[3]) == ("sheet,line,text,reason", ",5,'=1+1,no letters")
    # Used as it is, a file is refused by its first fault.
    assert_refused(run("words", "en", "--file", "mine.csv"), WRONG_INPUT, "mine.csv, line 5: no letters")
    assert_refused(run("words", "en", "--explain"), WRONG_INPUT, "--explain and --left-out need --file")
    (folder / "none.csv").write_bytes(b"PK\x03\x04")
    assert_refused(run("words", "--file", "none.csv", "--explain"), WRONG_INPUT, "none.csv: the file is damaged")


def test_a_list_of_headwords_gets_its_forms() -> None:
    options = ("check", "went.txt", "--list", "heads.txt", "--lang", "en")
    assert run(*options).exit_code == NOT_AS_ASKED
    assert run(*options, "--unit", "lemma").exit_code == DONE
    assert "1\twent\tgo\n" in run("words", "en", "--file", "heads.txt", "--unit", "lemma").stdout
    assert_refused(run("words", "--file", "heads.txt", "--unit", "lemma"), WRONG_INPUT, "no lemmas for 'und'")


def test_an_import_counts_the_rows_left_out_and_refuses_what_could_not_be_used() -> None:
    done = run("levels", "--import", "deutsch.csv", "--family", "levels", "--lang", "de", "--left-out", "rest.csv")
    assert (done.exit_code, done.stdout) == (DONE, "de_levels.csv: levels-Start: 1 words, levels-Ziel: 2 words\n")
    assert "2 rows left out, 0 of them of words that came before: rest.csv" in done.stderr
    check = ("check", "hunde.txt", "--lang", "de", "--lists", ".", "--level")
    assert run(*check, "levels-Start").exit_code == DONE
    assert "levels-Start: 1 words" in run("levels", "--lists", ".").stdout
    assert_refused(run(*check, "levels-x"), WRONG_INPUT, "de_levels.csv has no level 'x', only Start, Ziel")
    kelly = run("levels", "--import", "deutsch.csv", "--family", "kelly", "--lang", "de")
    assert_refused(kelly, WRONG_INPUT, "is not for 'de', only for ar, el")


@pytest.mark.fault(76)
def test_a_folder_that_is_not_there_ends_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    check = "check story.txt"
    for option in (("--lists", "wordlists"), ()):
        for command in (f"{check} --lang en --words 9", f"{check} --list list.txt", "words en", "grammar", "levels"):
            message = "'wordlists' (WORDLIST_DIR) cannot be read: No such file or directory"
            assert_refused(run(*command.split(), *option), WRONG_INPUT, message)
        monkeypatch.setenv("WORDLIST_DIR", "wordlists")


def test_all_levels_are_shown_with_their_licences() -> None:
    shown = run("levels").stdout
    assert "top-500 top-1000" in shown
    assert "ngsl-1 ngsl-2 ngsl-3\n  en: New General Service List" in shown
    assert "not here: en_ngsl.csv" in shown and "not here: LANGUAGE_grade.csv" in shown
    shown = run("levels", "--lang", "sv").stdout
    assert "ngsl" not in shown and "sv_kelly.csv" in shown


def test_words_are_listed_with_rank_and_lemma(folder: Path) -> None:
    first, second = run("words", "en", "--find", "ELEPH", "--limit", "2").stdout.splitlines()
    assert first == "6132\telephant\telephant"
    assert second.endswith("\telephants\telephant")
    assert len(run("words", "en", "--level", "top-500").stdout.splitlines()) == 500
    assert run("words", "en", "--offset", "1", "--limit", "1").stdout == "2\tto\tto\n"
    if find_spec("pypinyin"):
        found = run("words", "zh", "--find", "长大", "--limit", "1", "--readings").stdout
        assert found.endswith("\t长大\t\tzhǎngdà\n")
    # A list file of the folder is found by its name.
    assert run("words", "en_school", "--lists", ".").stdout == "1\tthe\tthe\n2\tzebra\tzebra\n"


def test_lists_are_named_by_language_tags() -> None:
    lines = {tag: run("words", tag, "--limit", "3").stdout for tag in ("nb", "no", "NB-no", "hr", "sr-Latn-RS")}
    assert lines["nb"] == lines["no"] == lines["NB-no"] != lines["hr"] == lines["sr-Latn-RS"]
    assert all(len(text.splitlines()) == 3 for text in lines.values())
    done = run("check", "story.txt", "--lang", "en-US", "--words", "20000")
    assert (done.exit_code, "3 words" in done.stdout) == (DONE, True)
    assert run("levels", "--import", "no.csv", "--family", "grade", "--lang", "no-NO").stdout.startswith("nb_grade.csv")
    assert "not here: nb_kelly.csv" in run("levels", "--lang", "NO").stdout


def written(*arguments: str) -> str:
    done = run("grammar", *arguments)
    assert (done.exit_code, done.stderr) == (DONE, "")
    return done.stdout


OWED = ("Robyn Speer", "CC BY-SA 4.0", "Changed by wordbound", "SUBTLEX by Marc Brysbaert", "freely available")


def test_it_writes_the_grammar_of_a_language_and_says_whose_words_it_holds() -> None:
    unsafe = load_word_list("es", None, safe=False)
    assert unsafe.words[:400] != load_word_list("es", None).words[:400]
    for word_list, num, options in ((load_word_list("es", None), 30, ()), (unsafe, 400, ("--no-safe",))):
        grammar = written("--lang", "es", "--words", str(num), *options)
        without_credit = re.sub(r"\A(# .*\n)+", "", grammar)
        assert without_credit == write_ebnf(word_list, ListOptions(), num)
    for dialect, comment in (("ebnf", "# "), ("lark", "// ")):
        lines = written("--lang", "es", "--words", "30", "--dialect", dialect).split("\n")
        credit = [line.removeprefix(comment) for line in lines if line.startswith(comment)]
        assert lines[: len(credit)] == [comment + line for line in credit]
        assert [owed for owed in OWED if owed not in " ".join(credit)] == []


def test_a_grammar_of_a_file_owes_nobody_but_simplemma_where_lemmas_are_counted() -> None:
    assert written("--list", "list.txt", "--lang", "fr").startswith("root ::= ")
    grammar = written("--list", "spanish.txt", "--lang", "es", "--unit", "lemma", "--words", "2")
    assert grammar.startswith("# Ranked by the lemmas of simplemma by Adrien Barbaresi")
    assert '"omió"' in grammar
    assert '"erro"' not in grammar


def test_it_has_all_options(folder: Path) -> None:
    arguments = ["--list", "list.txt", "--lang", "fr", "--words", "3", "--case", "sentence", "--numbers"]
    arguments += ["--punctuation", "basic", "--layout", "lines", "--end", "sentence"]
    arguments += ["--extra-words", "names.txt", "--exclude-words", "without.txt", "-o", "made.ebnf"]
    assert written(*arguments) == ""
    options = ListOptions("sentence", "lines", numbers=True, punctuation="basic", end="sentence")
    changes = ListChanges(("Éluard", "New York"), ("vu",))
    expected = write_ebnf(WordList("fr", FRENCH, "file"), options, 3, changes)
    assert (folder / "made.ebnf").read_bytes().decode() == expected
    assert written(*arguments, "--dialect", "lark") == ""
    assert (folder / "made.ebnf").read_bytes().decode() == ebnf_to_lark(expected)
    english = written("--lang", "en", "--words", "50", "--no-possessive").split("root ::=")[1]
    assert f"root ::={english}" == write_ebnf(load_word_list("en", None), ListOptions(possessive=False), 50)
    # Without a number of words it takes them all.
    assert written("--list", "list.txt") == write_ebnf(WordList("und", FRENCH, "file"), ListOptions(), 4)


def test_the_page_names_every_option() -> None:
    page = (ROOT / "docs" / "other-engines.md").read_text(encoding="utf-8")
    option = re.compile(r"--[a-z][a-z-]*")
    of_command = set(option.findall(run("grammar", "--help").output)) - {"--help", "--output"}
    assert of_command == set(option.findall(page)) - {"--grammar-file"}
