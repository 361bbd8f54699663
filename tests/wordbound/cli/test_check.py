"""``wordbound check`` says which words of a text are not listed, and where; its exit status whether there are any."""

import csv
import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.vocab.documents.books import STORY, docx, epub, html_page, odt, pdf, srt, vtt
from tests.wordbound.cli.conftest import Run
from wordbound.cli import DONE, NOT_AS_ASKED

TEXT = "The cat sat on the elephant.\nTHE Elephant, 42 times: xyzzy!\n"
FIVE = ("check", "story.txt", "--list", "words.txt", "--words", "5")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "story.txt").write_text(TEXT, encoding="utf-8")
    (tmp_path / "words.txt").write_text("the\ncat\nsat\non\ntimes\nelephant\n", encoding="utf-8")
    return tmp_path


def rows(text: str) -> list[dict[str, Any]]:
    return list(csv.DictReader(io.StringIO(text)))


def test_it_tells_what_is_not_listed_and_where(folder: Path, run: Run) -> None:
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
    (folder / "extra.txt").write_text("xyzzy\n", encoding="utf-8")
    done = run("check", "story.txt", "--list", "words.txt", "--lang", "en", "--extra-words", "extra.txt")
    assert (done.exit_code, "100% of the words are in the list, 100%" in done.stdout) == (DONE, True)
    (folder / "long.txt").write_text("the " * 99_999 + "dog", encoding="utf-8")
    assert "99.9% of the words" in run("check", "long.txt", "--list", "words.txt").stdout


@pytest.mark.parametrize(("segmentation", "status"), [("longest", NOT_AS_ASKED), ("any", DONE)])
def test_a_text_without_spaces_is_cut_as_asked(segmentation: str, status: int, folder: Path, run: Run) -> None:
    (folder / "story.txt").write_text("我们去中国。", encoding="utf-8")
    (folder / "words.txt").write_text("我们\n去\n中\n国\n", encoding="utf-8")
    done = run("check", "story.txt", "--list", "words.txt", "--lang", "zh", "--segmentation", segmentation)
    assert (done.exit_code, "中国  (not in the list; 1:4)" in done.stdout) == (status, status == NOT_AS_ASKED)


def test_an_s_may_follow_the_words_of_a_built_in_list_and_of_others_where_asked(folder: Path, run: Run) -> None:
    (folder / "story.txt").write_text("The dog's dog. The's dog.", encoding="utf-8")
    (folder / "words.txt").write_text("the\ndog\n", encoding="utf-8")
    own, built_in = ("--list", "words.txt", "--lang", "en"), ("--lang", "en", "--words", "1000")
    cases = [(own, True), ((*own, "--possessive"), False), (built_in, False), ((*built_in, "--no-possessive"), True)]
    for arguments, is_refused in cases:
        done = run("check", "story.txt", *arguments)
        refused = done.stdout.split("not in the list:")[1]
        assert (done.exit_code, "dog's  (" in refused, "The's  (" in refused) == (NOT_AS_ASKED, is_refused, True)


def test_reports_are_written_as_csv_json_and_a_page(folder: Path, run: Run) -> None:
    done = run("check", "story.txt", "--lang", "en", "--words", "3000", "--csv")
    found = [(row["file"], row["line"], row["column"], row["word"]) for row in rows(done.stdout)]
    assert found == [
        ("story.txt", "1", "20", "elephant"),
        ("story.txt", "2", "5", "Elephant"),
        ("story.txt", "2", "25", "xyzzy"),
    ]
    done = run(*FIVE, "story.txt", "--json")
    report, again = map(json.loads, done.stdout.splitlines())
    assert (done.exit_code, report) == (NOT_AS_ASKED, again)
    assert (report["coverage"], report["num_words"], report["num_distinct_allowed"]) == (0.7, 10, 5)
    page = run(*FIVE, "--html").stdout
    assert page.startswith("<!DOCTYPE html>")
    assert '<mark title="rank 6">elephant</mark>' in page


def test_words_and_numbers_can_be_left_out(folder: Path, run: Run) -> None:
    (folder / "excluded.txt").write_text("cat\n", encoding="utf-8")
    options = ("--list", "words.txt", "--exclude-words", "excluded.txt", "--no-numbers", "--csv")
    reasons = [(row["word"], row["reason"]) for row in rows(run("check", "story.txt", *options).stdout)]
    assert reasons == [("cat", "excluded"), ("42", "unknown"), ("xyzzy", "unknown")]


def test_it_reads_standard_input_and_a_byte_order_mark() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "wordbound", "check", "-", "--list", "words.txt"],
        input="\ufeffThe cat sat.".encode(),
        capture_output=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (DONE, b"")
    assert done.stdout.startswith(b"-: 3 words, 3 different; 100%")


def test_the_strings_of_a_json_text_are_checked(folder: Path, run: Run) -> None:
    schema = {
        "type": "object",
        "properties": {"a": {"type": "string"}, "b": {"const": "xyzzy"}},
        "required": ["a", "b"],
    }
    (folder / "schema.json").write_text(json.dumps(schema | {"additionalProperties": False}))
    (folder / "story.txt").write_text('{"a": "the elephant", "b": "xyzzy"}')
    done = run(*FIVE, "--schema", "schema.json")
    assert (done.exit_code, "    elephant  (rank 6; /a)" in done.stdout) == (NOT_AS_ASKED, True), done.output


def test_new_words_are_counted_apart(folder: Path, run: Run) -> None:
    (folder / "new.txt").write_text("xyzzy\nZoltan\nelephant\n", encoding="utf-8")
    done = run(*FIVE, "--new-words", "new.txt")
    lines = done.stdout.splitlines()
    assert (done.exit_code, lines[1]) == (DONE, "  3 words are new; not used: Zoltan")
    assert "100% of the words are in the list, 100% of the different ones" in lines[0]
    # Of a text without new words the file is empty.
    (folder / "none.txt").touch()
    assert run(*FIVE, "--new-words", "none.txt").output == run(*FIVE).output


def test_names_are_counted_apart(folder: Path, run: Run) -> None:
    (folder / "story.txt").write_text("The cat sat on Anna. Tom sat on Tom, the cat on Anna's xyzzy.", encoding="utf-8")
    done = run(*FIVE, "--lang", "en", "--keep-names")
    lines = done.stdout.splitlines()
    assert (done.exit_code, lines[1]) == (NOT_AS_ASKED, "  4 names: Anna, Tom, Anna's")
    assert lines[0].endswith("90.0% of the words are in the list, 80.0% of the different ones")
    assert [line.split()[0] for line in lines[lines.index("  not in the list:") + 1 :]] == ["xyzzy"]
    refused = run("check", "story.txt", "--lang", "de", "--keep-names")
    assert "which has capitals at all nouns: add them as 'extra_words'" in refused.output


def test_words_of_ones_own_count_with_their_endings(folder: Path, run: Run) -> None:
    (folder / "story.txt").write_text("Annin kissa, Matin kissa.", encoding="utf-8")
    (folder / "words.txt").write_text("kissa\n", encoding="utf-8")
    (folder / "extra.txt").write_text("Anni\nMatti\n", encoding="utf-8")
    command = ("check", "story.txt", "--list", "words.txt", "--lang", "fi", "--extra-words", "extra.txt")
    assert (run(*command).exit_code, run(*command, "--inflected").exit_code) == (NOT_AS_ASKED, DONE)


def test_sentences_are_counted_by_their_unlisted_words(folder: Path, run: Run) -> None:
    (folder / "story.txt").write_text(
        "The cat sat.\nThe xyzzy sat on the xyzzy. It is\nthe cat.\nTHE  plugh, sat!", encoding="utf-8"
    )
    done = run(*FIVE, "--sentences")
    assert done.stdout.splitlines()[-3:] == [
        "  sentences: 2 in words of the list, 2 with one other, 1 with more",
        "    2:1  xyzzy: The xyzzy sat on the xyzzy.",
        "    4:1  plugh: THE plugh, sat!",
    ]
    report = json.loads(run(*FIVE, "--sentences", "--json").stdout)
    assert (report["num_sentences"], report["num_sentences_with_one"]) == (5, 2)
    assert [sentence["num_unlisted"] for sentence in report["sentences"]] == [0, 1, 2, 0, 1]
    assert report["sentences"][1] == {
        "start": 13, "end": 40, "line": 2, "num_unlisted": 1, "unlisted": ["xyzzy"],
        "text": "The xyzzy sat on the xyzzy.",
    }  # fmt: skip
    assert "--sentences goes with --json" in run(*FIVE, "--sentences", "--html").output


def test_a_word_counts_as_listed_in_another_spelling(folder: Path, run: Run) -> None:
    (folder / "story.txt").write_text("Thé cat · ﬁsh don´t", encoding="utf-8")
    (folder / "words.txt").write_text("cat\nfish\ndon't\n", encoding="utf-8")
    report = json.loads(run("check", "story.txt", "--list", "words.txt", "--lang", "en", "--json").stdout)
    assert [(word["word"], word["reason"]) for word in report["allowed"]] == [
        ("cat", "listed"), ("ﬁsh", "spelling"), ("don´t", "spelling"),
    ]  # fmt: skip
    assert [word["word"] for word in report["not_allowed"]] == ["Thé"]


def test_other_kinds_of_files_are_read(folder: Path, run: Run) -> None:
    names = ("story.docx", "story.epub", "story.pdf", "story.odt", "story.html", "story.srt", "story.vtt")
    for name, make in zip(names, (docx, epub, pdf, odt, html_page, srt, vtt), strict=True):
        (folder / name).write_bytes(make(STORY))
    done = run("check", *names, "--list", "words.txt", "--json")
    reports = [json.loads(line) for line in done.stdout.splitlines()]
    counts = [{name: value for name, value in report.items() if name.startswith("num_")} for report in reports]
    assert done.exit_code == NOT_AS_ASKED
    assert all(count == counts[0] for count in counts)
    (folder / "story.md").write_text("The `xyzzy` cat [sat](https://example.org).", encoding="utf-8")
    assert run("check", "story.md", "--list", "words.txt").exit_code == DONE


def test_words_that_are_not_listed_have_their_readings(folder: Path, run: Run) -> None:
    pytest.importorskip("pypinyin")
    (folder / "story.txt").write_text("他长大了。", encoding="utf-8")
    command = ("check", "story.txt", "--lang", "zh", "--words", "1000", "--readings")
    assert "    长大 zhǎngdà  (rank" in run(*command).stdout
    assert [word["reading"] for word in json.loads(run(*command, "--json").stdout)["words"]] == ["tā", "zhǎngdà", "le"]
