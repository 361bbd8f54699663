"""``wordbound write`` asks for a text as its options say, and tells what became of it."""

import json
from pathlib import Path
from typing import Any

import pytest

from deployments.contract import AskedWord, AuthorControls, NewWordsAsked
from tests.wordbound.cli.conftest import PIECES, Run, StandInService, assert_refused
from wordbound.cli.asking import WordListOptions, must_use_of, new_words_of, split_names
from wordbound.cli.commands import DONE, NO_SERVICE, NOT_AS_ASKED, WRONG_INPUT, InputError
from wordbound.cli.write import format_missing_words, glossary_of, summary_of

TEXT = "".join(PIECES)
EN = ("--lang", "en", "--words", "1000")


def test_a_text_goes_to_standard_output_and_its_words_to_standard_error(stand_in: StandInService, run: Run) -> None:
    done = run("write", "A story about a dog", *EN)
    assert (done.exit_code, done.stdout) == (DONE, f"{TEXT}\n")
    assert done.stderr == "4 words, 4 different, the rarest has rank 943\n"
    assert stand_in.body["messages"][-1] == {"role": "user", "content": "A story about a dog"}
    assert stand_in.body["stream"] is True


def test_the_options_become_members_of_the_request(stand_in: StandInService, run: Run, tmp_path: Path) -> None:
    (tmp_path / "list.txt").write_text("dog\nwas\nhappy\n")
    (tmp_path / "more.txt").write_text("geranium\n")
    (tmp_path / "less.txt").write_text("cat\n")
    done = run(
        *("write", "Go", "--lang", "en", "--list", tmp_path / "list.txt", "--words", "3", "--names", "Anna,Tom"),
        *("--names", "Mr. Fox", "--extra-words", tmp_path / "more.txt", "--exclude-words", tmp_path / "less.txt"),
        *("--max-tokens", "70", "--seed", "5", "--quality", "better"),
    )
    assert done.exit_code == DONE, done.output
    call = stand_in.backend.calls[-1]
    assert (call.body["max_tokens"], call.body["seed"]) == (70, 5)
    assert call.decoding.search_width == 4
    assert call.vocabulary is not None
    assert call.vocabulary.n_words == 3
    assert call.vocabulary.changes_digest is not None


def test_what_an_author_asks_beyond_the_list_reaches_the_engine(stand_in: StandInService, run: Run) -> None:
    done = run(
        *("write", "Go", *EN, "--must-use", "sea:3", "--must-use", "storm", "--any-form", "--new-words", "3000:2.5:8"),
        *("--max-sentence-words", "15", "--min-sentences", "2", "--max-sentences", "9", "--glossary"),
    )
    assert done.exit_code == DONE, done.stderr
    assert stand_in.backend.calls[-1].decoding.author == AuthorControls(
        new_words=NewWordsAsked(3000, 2.5, 8),
        must_use=(AskedWord("sea", 3, any_form=True), AskedWord("storm", 1, any_form=True)),
        max_sentence_words=15,
        min_sentences=2,
        max_sentences=9,
    )


def test_a_brief_comes_from_a_file_and_a_prompt_from_standard_input(
    stand_in: StandInService, run: Run, tmp_path: Path
) -> None:
    (tmp_path / "brief.txt").write_text("Chapter one.\n", encoding="utf-8-sig")
    assert run("write", "-", "--brief", tmp_path / "brief.txt", *EN, text="About a dog.\n").exit_code == DONE
    assert stand_in.body["messages"][-1]["content"] == "Chapter one.\n\nAbout a dog."


def test_json_has_the_text_and_what_it_is_made_of(stand_in: StandInService, run: Run) -> None:
    done = run("write", "Go", *EN, "--json")
    assert done.exit_code == DONE
    answer = json.loads(done.stdout)
    assert (answer["text"], answer["finish_reason"]) == (TEXT, "stop")
    assert answer["vocab"] == stand_in.backend.block


def test_a_file_is_written_whole_or_not_at_all(stand_in: StandInService, run: Run, tmp_path: Path) -> None:
    out = tmp_path / "story.txt"
    done = run("write", "Go", *EN, "--out", out)
    assert (done.exit_code, done.stdout, out.read_text()) == (DONE, "", f"{TEXT}\n")
    done = run("write", "please fail later", *EN, "--out", out)
    assert_refused(done, NO_SERVICE, "the answer broke off: The server failed")
    assert out.read_text() == f"{TEXT}\n"
    assert list(tmp_path.iterdir()) == [out]


def test_a_text_that_lacks_a_word_is_not_as_asked(stand_in: StandInService, run: Run) -> None:
    stand_in.backend.block |= {
        "must_use": [{"word": "sea", "count": 3, "used": 1}, {"word": "dog", "count": 1, "used": 1}]
    }
    done = run("write", "Go", *EN)
    assert done.exit_code == NOT_AS_ASKED
    assert "not used as often as asked: sea (1 of 3)\n" in done.stderr


def test_a_text_that_was_cut_is_told(stand_in: StandInService, run: Run) -> None:
    stand_in.backend.reason = "length"
    assert "it ended at --max-tokens: a larger number lets it go on" in run("write", "Go", *EN).stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("Go",), "name a list: --lang TAG or --list FILE"),
        (("Go", *EN, "--level", "A2"), "--level says which words count"),
        (EN, 'say what to write: wordbound write "A story about a dog"'),
        (("", *EN), "there is nothing in PROMPT"),
        (("Go", *EN, "--must-use", "sea:x"), "WORD or WORD:COUNT"),
        (("Go", *EN, "--must-use", ":2"), "WORD or WORD:COUNT"),
        # Python reads no number of more than 4,300 digits.
        (("Go", *EN, "--must-use", "sea:" + "9" * 5_000), "WORD or WORD:COUNT"),
        (("Go", *EN, "--new-words", "many"), "N:PER_100:MAX"),
        (("Go", *EN, "--any-form"), "about the words of --must-use"),
        (("Go", *EN, "--new-words-file", "new.txt"), "add it, such as --new-words 3000:2:10"),
        (("Go", *EN, "--glossary"), "add it, such as --new-words 3000:2:10"),
        (("Go", "--list", "/nothing/list.txt"), "/nothing/list.txt: No such file or directory"),
        (("--brief", "/nothing/brief.txt", *EN), "/nothing/brief.txt: No such file or directory"),
        (("Go", *EN, "--out", "/nothing/story.txt"), "/nothing/story.txt: No such file or directory"),
        (("Go", "--lang", "xx", "--words", "5"), "There is no list 'xx'. Known: en, es."),
        (("Go", "--lang", "en", "--words", "0"), "'--words'"),
        (("Go", *EN, "--quality", "best"), "'best' is not one of"),
        (("please refuse", *EN), "Too long."),
    ],
)
def test_wrong_use_is_told_in_one_line(
    arguments: tuple[str, ...], message: str, stand_in: StandInService, run: Run
) -> None:
    assert_refused(run("write", *arguments), WRONG_INPUT, message)


def test_a_file_that_cannot_be_written_is_told_before_anything_is_asked(stand_in: StandInService, run: Run) -> None:
    for arguments in (("--json", "--out", "/nothing/a"), ("--new-words", "9", "--new-words-file", "/nothing/a")):
        assert_refused(run("write", "Go", *EN, *arguments), WRONG_INPUT, "/nothing/a: No such file or directory")
    assert stand_in.backend.calls == []


def test_a_list_file_without_words_is_refused(stand_in: StandInService, run: Run, tmp_path: Path) -> None:
    (tmp_path / "empty.txt").write_text("# nothing\n")
    (tmp_path / "binary.txt").write_bytes(b"\xff\xfe\x00")
    assert_refused(run("write", "Go", "--list", tmp_path / "empty.txt"), WRONG_INPUT, "There is no word in empty.txt")
    assert_refused(run("write", "Go", "--list", tmp_path / "binary.txt"), WRONG_INPUT, "binary.txt, line 1")
    assert_refused(run("write", *EN, "--brief", tmp_path / "binary.txt"), WRONG_INPUT, "not a text in UTF-8")
    assert_refused(run("write", "-", *EN, text=" \n"), WRONG_INPUT, "standard input: there is no text")


def test_words_of_an_option_may_be_repeated_or_have_commas() -> None:
    assert split_names(["Anna, Tom", "Mr. Fox", ","]) == ["Anna", "Tom", "Mr. Fox"]
    assert split_names(None) == []


def test_a_level_stands_for_a_list() -> None:
    assert WordListOptions("en", level="A2").members() == {"lang": "en", "level": "A2"}
    assert WordListOptions(level="ngsl-1").members() == {"level": "ngsl-1"}


def test_words_to_use_have_counts() -> None:
    assert must_use_of(["sea:3", "storm"]) == [{"word": "sea", "count": 3}, {"word": "storm", "count": 1}]
    assert must_use_of(["go"], any_form=True) == [{"word": "go", "count": 1, "any_form": True}]
    assert must_use_of(None) is None


@pytest.mark.parametrize(
    ("option", "made"),
    [
        ("3000", {"n_words": 3000}),
        ("3000:2", {"n_words": 3000, "per_100": 2}),
        ("3000:0.5:10", {"n_words": 3000, "per_100": 0.5, "max": 10}),
    ],
)
def test_new_words_have_up_to_three_numbers(option: str, made: dict[str, float]) -> None:
    assert new_words_of(option) == made


@pytest.mark.parametrize("option", ["", "0", "3000:", "3000:2:10:1", "-5", "3000:nan", "3000:2:0.5"])
def test_new_words_with_other_numbers_are_refused(option: str) -> None:
    with pytest.raises(InputError):
        new_words_of(option)


NEW: dict[str, Any] = {
    "num_words": 90,
    "num_distinct_words": 50,
    "max_rank": 2871,
    "new_words": [
        {"word": "storms", "rank": 2871, "lemma": "storm", "start": 40},
        {"word": "Storm", "rank": 1903, "lemma": "storm", "start": 80},
        {"word": "anchor", "rank": 2500, "lemma": "anchor", "start": 60},
    ],
}


def test_a_glossary_has_each_new_word_once_in_alphabetical_order() -> None:
    assert list(glossary_of(NEW)) == ["", "New words", "- anchor, rank 2,500", "- storm (storms), rank 2,871"]
    assert list(glossary_of({"num_words": 3})) == []


def test_the_summary_tells_new_words() -> None:
    assert list(summary_of(NEW, "stop"))[1] == "3 new: storms, Storm, anchor"
    assert list(summary_of({}, None)) == []
    assert format_missing_words({}) == []
