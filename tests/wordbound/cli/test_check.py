"""``wordbound check`` says which words of a text are not listed, and where; its exit status whether there are any."""

import csv
import io
import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.vocab.documents.books import STORY, docx, epub, pdf
from wordbound.cli import app

Output = pytest.CaptureFixture[str]

TEXT = "The cat sat on the elephant.\nTHE Elephant, 42 times: xyzzy!\n"


def main(*arguments: str) -> int:
    """Run the command as a shell does, and return its exit status."""
    with pytest.raises(SystemExit) as exit_info:
        app(["check", *arguments])
    assert isinstance(exit_info.value.code, int)
    return exit_info.value.code


@pytest.fixture
def story(tmp_path: Path) -> str:
    path = tmp_path / "story.txt"
    path.write_text(TEXT, encoding="utf-8")
    return str(path)


@pytest.fixture
def words_file(tmp_path: Path) -> str:
    path = tmp_path / "words.txt"
    path.write_text("the\ncat\nsat\non\ntimes\nelephant\n", encoding="utf-8")
    return str(path)


def test_it_tells_what_is_not_listed_and_where(story: str, words_file: str, capsys: Output) -> None:
    assert main(story, "--list", words_file, "--words", "5") == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines == [
        f"{story}: 10 words, 7 different; 70.0% of the words are in the list, 71.4% of the different ones",
        "          1 to 500          9 running,       6 different",
        "        all others          1 running,       1 different",
        "  not in the list:",
        "    elephant  (rank 6, 2 times; 1:20)",
        "    xyzzy  (not in the list; 2:25)",
    ]


def test_a_text_of_listed_words_is_a_success(story: str, words_file: str, tmp_path: Path, capsys: Output) -> None:
    extra = tmp_path / "extra.txt"
    extra.write_text("xyzzy\n", encoding="utf-8")
    assert main(story, "--list", words_file, "--lang", "en", "--extra-words", str(extra)) == 0
    assert "100% of the words are in the list, 100%" in capsys.readouterr().out


@pytest.mark.parametrize(("segmentation", "status"), [("longest", 1), ("any", 0)])
def test_a_text_without_spaces_is_cut_as_asked(segmentation: str, status: int, tmp_path: Path, capsys: Output) -> None:
    story, words = tmp_path / "story.txt", tmp_path / "words.txt"
    story.write_text("我们去中国。", encoding="utf-8")
    words.write_text("我们\n去\n中\n国\n", encoding="utf-8")
    assert main(str(story), "--list", str(words), "--lang", "zh", "--segmentation", segmentation) == status
    assert ("中国  (not in the list; 1:4)" in capsys.readouterr().out) == (status == 1)


def test_a_language_with_spaces_has_no_segmentation(story: str, capsys: Output) -> None:
    assert main(story, "--lang", "es", "--segmentation", "any") == 2
    assert "is for languages without spaces" in capsys.readouterr().err


def test_words_are_left_out_and_numbers_refused(story: str, words_file: str, tmp_path: Path, capsys: Output) -> None:
    excluded = tmp_path / "excluded.txt"
    excluded.write_text("cat\n", encoding="utf-8")
    assert main(story, "--list", words_file, "--exclude-words", str(excluded), "--no-numbers", "--csv") == 1
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert [(row["word"], row["reason"]) for row in rows] == [
        ("cat", "excluded"),
        ("42", "unknown"),
        ("xyzzy", "unknown"),
    ]


def test_csv_has_a_row_for_each_place(story: str, capsys: Output) -> None:
    assert main(story, "--lang", "en", "--words", "3000", "--csv") == 1
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert [(row["line"], row["column"], row["word"]) for row in rows] == [
        ("1", "20", "elephant"),
        ("2", "5", "Elephant"),
        ("2", "25", "xyzzy"),
    ]
    assert all(row["file"] == story for row in rows)
    assert all(TEXT[int(row["start"]) : int(row["end"])] == row["word"] for row in rows)
    assert rows[2]["rank"] == ""


def test_json_has_the_counts_and_the_same_places(story: str, words_file: str, capsys: Output) -> None:
    assert main(story, story, "--list", words_file, "--words", "5", "--json") == 1
    report, again = map(json.loads, capsys.readouterr().out.splitlines())
    assert report == again
    assert report["coverage"] == 0.7
    assert (report["num_words"], report["num_distinct_allowed"]) == (10, 5)
    assert report["bands"][0] == {"max_rank": 500, "num_words": 9, "num_distinct_words": 6}
    assert [(word["word"], word["rank"]) for word in report["not_allowed"]] == [
        ("elephant", 6),
        ("Elephant", 6),
        ("xyzzy", None),
    ]


def test_it_reads_standard_input_and_a_byte_order_mark(words_file: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "wordbound", "check", "-", "--list", words_file],
        input="\ufeffThe cat sat.".encode(),
        capture_output=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.startswith(b"-: 3 words, 3 different; 100%")


def test_a_share_is_100_percent_only_where_no_word_is_missing(words_file: str, tmp_path: Path, capsys: Output) -> None:
    path = tmp_path / "long.txt"
    path.write_text("the " * 99_999 + "dog", encoding="utf-8")
    assert main(str(path), "--list", words_file) == 1
    assert "99.9% of the words" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "result"),
    [
        (["none.txt", "--lang", "en"], "none.txt: No such file or directory"),
        (["binary.docx", "--lang", "en"], "binary.docx: the file is damaged; save it anew, or as plain text"),
        (["latin.txt", "--lang", "en"], "latin.txt: not a text in UTF-8"),
        (["empty.txt", "--lang", "en"], "empty.txt: the file is empty"),
        (["story.txt", "--lang", "xx"], "xx"),
        (["story.txt", "--list", "none.txt"], "none.txt: No such file or directory"),
        (["story.txt"], "name a list: --lang TAG or --list FILE"),
        (["story.txt", "--lang", "en", "--json", "--csv"], "choose one of --json, --csv and --html"),
        (["--lang", "en"], "FILE"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(
    arguments: list[str], result: str, story: str, monkeypatch: pytest.MonkeyPatch, capsys: Output
) -> None:
    folder = Path(story).parent
    (folder / "latin.txt").write_bytes(b"caf\xe9")
    (folder / "empty.txt").touch()
    (folder / "binary.docx").write_bytes(b"PK\x03\x04\xff\xfe")
    monkeypatch.chdir(folder)
    assert main(*arguments) == 2
    output = capsys.readouterr()
    assert output.out == ""
    assert result in output.err.strip().splitlines()[-1]


def test_new_words_are_counted_apart(story: str, words_file: str, tmp_path: Path, capsys: Output) -> None:
    new = tmp_path / "new.txt"
    new.write_text("xyzzy\nZoltan\nelephant\n", encoding="utf-8")
    assert main(story, "--list", words_file, "--words", "5", "--new-words", str(new)) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "100% of the words are in the list, 100% of the different ones" in lines[0]
    assert lines[1] == "  3 words are new; not used: Zoltan"


def test_a_file_without_new_words_is_that_of_a_text_without_them(
    story: str, words_file: str, tmp_path: Path, capsys: Output
) -> None:
    (new := tmp_path / "none.txt").write_text("")
    without = main(story, "--list", words_file), capsys.readouterr()
    assert (main(story, "--list", words_file, "--new-words", str(new)), capsys.readouterr()) == without


def test_a_page_has_the_texts_marked(story: str, words_file: str, capsys: Output) -> None:
    assert main(story, "--list", words_file, "--words", "5", "--html") == 1
    page = capsys.readouterr().out
    assert page.startswith("<!DOCTYPE html>")
    assert '<mark title="rank 6">elephant</mark>' in page
    assert story in page


def test_other_kinds_of_files_are_read(words_file: str, tmp_path: Path, capsys: Output) -> None:
    names = ("story.docx", "story.epub", "story.pdf")
    for name, make in zip(names, (docx, epub, pdf), strict=True):
        (tmp_path / name).write_bytes(make(STORY))
    (tmp_path / "story.md").write_text("The `xyzzy` cat [sat](https://example.org).", encoding="utf-8")
    assert main(*(str(tmp_path / name) for name in names), "--list", words_file, "--json") == 1
    reports = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    counts = [{name: value for name, value in report.items() if name.startswith("num_")} for report in reports]
    assert counts[0] == counts[1] == counts[2]
    assert main(str(tmp_path / "story.md"), "--list", words_file) == 0


def test_words_that_are_not_listed_have_their_readings(tmp_path: Path, capsys: Output) -> None:
    pytest.importorskip("pypinyin")
    story = tmp_path / "story.txt"
    story.write_text("他长大了。", encoding="utf-8")
    assert main(str(story), "--lang", "zh", "--words", "1000", "--readings") == 1
    assert "    长大 zhǎngdà  (rank" in capsys.readouterr().out
    assert main(str(story), "--lang", "zh", "--words", "1000", "--readings", "--json") == 1
    assert [word["reading"] for word in json.loads(capsys.readouterr().out)["words"]] == ["tā", "zhǎngdà", "le"]
    assert main(str(story), "--lang", "zh", "--readings", "--csv") == 2
    assert main(str(story), "--lang", "th", "--readings") == 2
    assert "'th' have no readings" in capsys.readouterr().err
