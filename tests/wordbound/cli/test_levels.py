"""``wordbound levels``, ``words`` and ``grammar``, and the levels of other commands."""

import re
from pathlib import Path

import pytest

from tests.wordbound.cli.conftest import Run, assert_refused
from vocab.lists.wordlists import WordList, load_word_list
from vocab.options import ListOptions
from vocab.text.changes import ListChanges
from vocab.text.ebnf import ebnf_to_lark
from vocab.text.grammar import write_ebnf
from wordbound.cli import DONE, NOT_AS_ASKED, WRONG_INPUT

FRENCH = ("l'", "homme", "vu", "voir")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "list.txt").write_text("# frequent first\nl'\nhomme\nvu\n\nvoir\n", encoding="utf-8")
    (tmp_path / "names.txt").write_text("Éluard\nNew York\n", encoding="utf-8")
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


def test_what_is_understood_of_a_file_is_shown_before_it_is_used(folder: Path, run: Run) -> None:
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


def test_a_list_of_headwords_gets_its_forms(folder: Path, run: Run) -> None:
    (folder / "heads.txt").write_text("go\ndog\nbe\n", encoding="utf-8")
    (folder / "story.txt").write_text("Went dogs were.", encoding="utf-8")
    options = ("--list", "heads.txt", "--lang", "en")
    assert run("check", "story.txt", *options).exit_code == NOT_AS_ASKED
    assert run("check", "story.txt", *options, "--unit", "lemma").exit_code == DONE
    assert "1\twent\tgo\n" in run("words", "en", "--file", "heads.txt", "--unit", "lemma").stdout
    assert_refused(run("words", "--file", "heads.txt", "--unit", "lemma"), WRONG_INPUT, "no lemmas for 'und'")


def test_an_import_counts_the_rows_left_out_and_refuses_what_could_not_be_used(folder: Path, run: Run) -> None:
    table = "Wort;Stufe\nder Hund, -e;Start\ndas Haus, ¨-er;Ziel\n;Ziel\n"
    (folder / "deutsch.csv").write_text(table, encoding="utf-8")
    done = run("levels", "--import", "deutsch.csv", "--family", "levels", "--lang", "de", "--left-out", "rest.csv")
    assert (done.exit_code, done.stdout) == (DONE, "de_levels.csv: levels-Start: 1 words, levels-Ziel: 2 words\n")
    assert "2 rows left out, 0 of them of words that came before: rest.csv" in done.stderr
    (folder / "story.txt").write_text("Hunde.", encoding="utf-8")
    checked = run("check", "story.txt", "--lang", "de", "--level", "levels-Start", "--lists", ".")
    assert checked.exit_code == DONE
    assert "levels-Start: 1 words" in run("levels", "--lists", ".").stdout
    no_level = run("check", "story.txt", "--lang", "de", "--level", "levels-x", "--lists", ".")
    assert_refused(no_level, WRONG_INPUT, "de_levels.csv has no level 'x', only Start, Ziel")
    kelly = run("levels", "--import", "deutsch.csv", "--family", "kelly", "--lang", "de")
    assert_refused(kelly, WRONG_INPUT, "is not for 'de', only for ar, el")


@pytest.mark.fault(76)
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
    command: tuple[str, ...], run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
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
    assert first == "6132\telephant\telephant"
    assert second.endswith("\telephants\telephant")
    assert len(run("words", "en", "--level", "top-500").stdout.splitlines()) == 500
    assert run("words", "en", "--offset", "1", "--limit", "1").stdout == "2\tto\tto\n"
    # A list file of the folder is found by its name.
    (folder / "en_school.txt").write_text("the\nzebra\n", encoding="utf-8")
    assert run("words", "en_school", "--lists", folder).stdout == "1\tthe\tthe\n2\tzebra\tzebra\n"


def test_lists_are_named_by_language_tags(folder: Path, run: Run) -> None:
    lines = {tag: run("words", tag, "--limit", "3").stdout for tag in ("nb", "no", "NB-no", "hr", "sr-Latn-RS")}
    assert lines["nb"] == lines["no"] == lines["NB-no"] != lines["hr"] == lines["sr-Latn-RS"]
    assert all(len(text.splitlines()) == 3 for text in lines.values())
    done = run("check", "story.txt", "--lang", "en-US", "--words", "20000")
    assert (done.exit_code, "3 words" in done.stdout) == (DONE, True)
    (folder / "no.csv").write_text("word,level\nfisk,1\n", encoding="utf-8")
    assert run("levels", "--import", "no.csv", "--family", "grade", "--lang", "no-NO").stdout.startswith("nb_grade.csv")
    assert "not here: nb_kelly.csv" in run("levels", "--lang", "NO").stdout


def test_words_are_listed_with_their_readings(run: Run) -> None:
    pytest.importorskip("pypinyin")
    assert run("words", "zh", "--find", "长大", "--limit", "1", "--readings").stdout.endswith("\t长大\t\tzhǎngdà\n")


def written(run: Run, *arguments: str) -> str:
    done = run("grammar", *arguments)
    assert (done.exit_code, done.stderr) == (DONE, "")
    return done.stdout


def test_it_writes_the_grammar_of_a_language(run: Run) -> None:
    unsafe = load_word_list("es", None, safe=False)
    assert unsafe.words[:400] != load_word_list("es", None).words[:400]
    for word_list, num, options in (
        (load_word_list("es", None), 30, ()),
        (unsafe, 400, ("--no-safe",)),
    ):
        grammar = written(run, "--lang", "es", "--words", str(num), *options)
        without_credit = re.sub(r"\A(# .*\n)+", "", grammar)
        assert without_credit == write_ebnf(word_list, ListOptions(), num)


OWED = ("Robyn Speer", "CC BY-SA 4.0", "Changed by wordbound", "SUBTLEX by Marc Brysbaert", "freely available")


@pytest.mark.parametrize(("dialect", "comment"), [("ebnf", "# "), ("lark", "// ")])
def test_a_grammar_says_whose_words_it_holds(dialect: str, comment: str, run: Run) -> None:
    lines = written(run, "--lang", "es", "--words", "30", "--dialect", dialect).split("\n")
    credit = [line.removeprefix(comment) for line in lines if line.startswith(comment)]
    assert lines[: len(credit)] == [comment + line for line in credit]
    assert [owed for owed in OWED if owed not in " ".join(credit)] == []


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
    english = written(run, "--lang", "en", "--words", "50", "--no-possessive").split("root ::=")[1]
    assert f"root ::={english}" == write_ebnf(load_word_list("en", None), ListOptions(possessive=False), 50)
    # Without a number of words it takes them all.
    assert written(run, "--list", "list.txt") == write_ebnf(WordList("und", FRENCH, "file"), ListOptions(), 4)


def test_the_page_names_every_option(run: Run) -> None:
    page = (Path(__file__).parents[3] / "docs" / "other-engines.md").read_text(encoding="utf-8")
    option = re.compile(r"--[a-z][a-z-]*")
    of_command = set(option.findall(run("grammar", "--help").output)) - {"--help", "--output"}
    assert of_command == set(option.findall(page)) - {"--grammar-file"}
