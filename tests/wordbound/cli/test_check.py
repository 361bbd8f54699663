"""``wordbound check`` says which words of a text are not listed, and where; its exit status whether there are any."""

import csv
import io
import json
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.vocab.documents.books import STORY, docx, epub, html_page, odt, pdf, srt, vtt
from tests.wordbound.cli.conftest import run
from wordbound.cli import DONE, NOT_AS_ASKED

TEXT = "The cat sat on the elephant.\nTHE Elephant, 42 times: xyzzy!\n"
WORDS = "the cat sat on times elephant"
FIVE = ("check", "story.txt", "--list", "words.txt", "--words", "5")


def write(text: str = TEXT, words: str = WORDS) -> None:
    Path("story.txt").write_text(text, encoding="utf-8")
    Path("words.txt").write_text(words.replace(" ", "\n"), encoding="utf-8")


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write()
    for name in ("xyzzy", "elephant", "Anni Matti", "xyzzy Zoltan elephant", ""):
        Path(f"{name.replace(' ', '-') or 'none'}.txt").write_text(name.replace(" ", "\n"), encoding="utf-8")


def test_it_tells_what_is_not_listed_and_where() -> None:
    done = run(*FIVE)
    assert (done.exit_code, done.stdout.splitlines()) == (
        NOT_AS_ASKED,
        [
            "story.txt: 10 words, 7 different; 70.0% of the words are in the list, 71.4% of the different ones",
            "          1 to 500          9 running,       6 different",
            "        all others          1 running,       1 different",
            "  not in the list:",
            "    elephant  (rank 6, 2 times; 1:20)",
            "    xyzzy  (not in the list; 2:25)",
        ],
    )
    # Of a text without new words the file is empty.
    assert run(*FIVE, "--new-words", "none.txt").output == done.output
    write("the " * 99_999 + "dog")
    assert "99.9% of the words" in run("check", "story.txt", "--list", "words.txt").stdout


OWN, ENGLISH = "--list words.txt --lang", "--lang en --words 1000"
CHINESE = ("我们去中国。", "我们 去 中 国")
POSSESSIVE = ("The dog's dog. The's dog.", "the dog")
CHECKED: list[tuple[str, str, str, int, list[str]]] = [
    # All are listed with the extra word; new words and names are counted apart.
    (TEXT, WORDS, f"{OWN} en --extra-words xyzzy.txt", DONE, ["100% of the words are in the list, 100%"]),
    (TEXT, WORDS, f"{OWN} en --words 5 --new-words xyzzy-Zoltan-elephant.txt", DONE,
     ["100% of the words are in the list, 100% of the different ones", "  3 words are new; not used: Zoltan\n"]),
    ("The cat sat on Anna. Tom sat on Tom, the cat on Anna's xyzzy.", WORDS, f"{OWN} en --words 5 --keep-names",
     NOT_AS_ASKED, ["90.0% of the words are in the list, 80.0% of the different ones\n  4 names: Anna, Tom, Anna's\n",
                    "not in the list:\n    xyzzy  ("]),
    # A text without spaces is cut as asked.
    (*CHINESE, f"{OWN} zh --segmentation longest", NOT_AS_ASKED, ["中国  (not in the list; 1:4)"]),
    (*CHINESE, f"{OWN} zh --segmentation any", DONE, ["100%"]),
    # An 's may follow the words of a built-in list, and of others where asked.
    (*POSSESSIVE, f"{OWN} en", NOT_AS_ASKED, ["    dog's  (", "    The's  ("]),
    (*POSSESSIVE, f"{OWN} en --possessive", NOT_AS_ASKED, ["not in the list:\n    The's  ("]),
    (*POSSESSIVE, ENGLISH, NOT_AS_ASKED, ["not in the list:\n    The's  ("]),
    (*POSSESSIVE, f"{ENGLISH} --no-possessive", NOT_AS_ASKED, ["    dog's  (", "    The's  ("]),
    # Words of one's own count with their endings, where asked.
    ("Annin kissa, Matin kissa.", "kissa", f"{OWN} fi --extra-words Anni-Matti.txt", NOT_AS_ASKED, ["Annin", "Matin"]),
    ("Annin kissa, Matin kissa.", "kissa", f"{OWN} fi --extra-words Anni-Matti.txt --inflected", DONE, ["100%"]),
    # The words of a prompt are listed too, where the list allowed them.
    ("The maps.", WORDS, f"{ENGLISH} --prompt-words 'A map'", DONE, ["100%"]),
    ("The maps.", WORDS, ENGLISH, NOT_AS_ASKED, ["    maps  (rank"]),
]  # fmt: skip
"""A text, a list's words, options, the exit status, and what is told."""


def test_words_count_as_the_options_say() -> None:
    wrong = []
    for text, words, options, status, told in CHECKED:
        write(text, words)
        done = run("check", "story.txt", *shlex.split(options))
        if done.exit_code != status or [one for one in told if one not in done.stdout]:
            wrong.append((text, options, told, done.output))
    assert wrong == []
    refused = run("check", "story.txt", "--lang", "de", "--keep-names")
    assert "which has capitals at all nouns: add them as 'extra_words'" in refused.output


def test_reports_are_written_as_csv_json_and_a_page() -> None:
    def rows(*options: str) -> list[dict[str, Any]]:
        return list(csv.DictReader(io.StringIO(run("check", "story.txt", *options, "--csv").stdout)))

    found = [[row["file"], row["line"], row["column"], row["word"]] for row in rows("--lang", "en", "--words", "3000")]
    assert found == [
        ["story.txt", "1", "20", "elephant"], ["story.txt", "2", "5", "Elephant"], ["story.txt", "2", "25", "xyzzy"],
    ]  # fmt: skip
    left_out = rows("--list", "words.txt", "--exclude-words", "elephant.txt", "--no-numbers")
    reasons = [(row["word"], row["reason"]) for row in left_out]
    assert reasons == [("elephant", "excluded"), ("Elephant", "excluded"), ("42", "unknown"), ("xyzzy", "unknown")]
    done = run(*FIVE, "story.txt", "--json")
    report, again = map(json.loads, done.stdout.splitlines())
    assert (done.exit_code, report) == (NOT_AS_ASKED, again)
    assert (report["coverage"], report["num_words"], report["num_distinct_allowed"]) == (0.7, 10, 5)
    page = run(*FIVE, "--html").stdout
    assert page.startswith("<!DOCTYPE html>")
    assert '<mark title="rank 6">elephant</mark>' in page


def test_it_reads_standard_input_and_a_byte_order_mark() -> None:
    command = [sys.executable, "-m", "wordbound", "check", "-", "--list", "words.txt"]
    done = subprocess.run(command, input="\ufeffThe cat sat.".encode(), capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (DONE, b"")
    assert done.stdout.startswith(b"-: 3 words, 3 different; 100%")


def test_the_strings_of_a_json_text_are_checked() -> None:
    members = {"a": {"type": "string"}, "b": {"const": "xyzzy"}}
    schema = {"type": "object", "properties": members, "required": ["a", "b"], "additionalProperties": False}
    Path("schema.json").write_text(json.dumps(schema))
    write('{"a": "the elephant", "b": "xyzzy"}')
    done = run(*FIVE, "--schema", "schema.json")
    assert (done.exit_code, "    elephant  (rank 6; /a)" in done.stdout) == (NOT_AS_ASKED, True), done.output


def test_sentences_are_counted_by_their_unlisted_words() -> None:
    write("The cat sat.\nThe xyzzy sat on the xyzzy. It is\nthe cat.\nTHE  plugh, sat!")
    done = run(*FIVE, "--sentences")
    assert done.stdout.splitlines()[-3:] == [
        "  sentences: 2 in words of the list, 2 with one other, 1 with more",
        "    2:1  xyzzy: The xyzzy sat on the xyzzy.",
        "    4:1  plugh: THE plugh, sat!",
    ]
    report = json.loads(run(*FIVE, "--sentences", "--json").stdout)
    assert (report["num_sentences"], report["num_sentences_with_one"]) == (5, 2)
    assert [sentence["num_unlisted"] for sentence in report["sentences"]] == [0, 1, 2, 0, 1]
    assert "--sentences goes with --json" in run(*FIVE, "--sentences", "--html").output


def test_a_word_counts_as_listed_in_another_spelling() -> None:
    write("Thé cat · ﬁsh don´t", "cat fish don't")
    report = json.loads(run("check", "story.txt", "--list", "words.txt", "--lang", "en", "--json").stdout)
    found = [(word["word"], word["reason"]) for word in report["allowed"]]
    assert found == [("cat", "listed"), ("ﬁsh", "spelling"), ("don´t", "spelling")]
    assert [word["word"] for word in report["not_allowed"]] == ["Thé"]


def test_other_kinds_of_files_are_read() -> None:
    names = ("story.docx", "story.epub", "story.pdf", "story.odt", "story.html", "story.srt", "story.vtt")
    for name, make in zip(names, (docx, epub, pdf, odt, html_page, srt, vtt), strict=True):
        Path(name).write_bytes(make(STORY))
    done = run("check", *names, "--list", "words.txt", "--json")
    reports = [json.loads(line) for line in done.stdout.splitlines()]
    counts = [{name: value for name, value in report.items() if name.startswith("num_")} for report in reports]
    assert done.exit_code == NOT_AS_ASKED
    assert all(count == counts[0] for count in counts)
    Path("story.md").write_text("The `xyzzy` cat [sat](https://example.org).", encoding="utf-8")
    assert run("check", "story.md", "--list", "words.txt").exit_code == DONE


def test_words_that_are_not_listed_have_their_readings() -> None:
    pytest.importorskip("pypinyin")
    write("他长大了。")
    command = ("check", "story.txt", "--lang", "zh", "--words", "1000", "--readings")
    assert "    长大 zhǎngdà  (rank" in run(*command).stdout
    assert [word["reading"] for word in json.loads(run(*command, "--json").stdout)["words"]] == ["tā", "zhǎngdà", "le"]
