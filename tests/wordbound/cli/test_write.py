"""``wordbound write``, ``rewrite`` and ``exercises`` ask as their options say, and tell what became of it."""

import json
from pathlib import Path
from typing import Any

import pytest

from deployments.contract import AskedWord, AuthorControls, NewWordsAsked
from tests.wordbound.cli.conftest import PIECES, Run, Scripted, StandInService, assert_refused
from wordbound.cli import DONE, NO_SERVICE, NOT_AS_ASKED, WRONG_INPUT
from wordbound.cli.write import EXERCISES, FORMATS, REWRITE

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


@pytest.mark.parametrize(
    ("option", "made"),
    [("3000", NewWordsAsked(3000)), ("3000:2", NewWordsAsked(3000, 2)), ("3000:0.5", NewWordsAsked(3000, 0.5))],
)
def test_new_words_have_up_to_three_numbers(
    option: str, made: NewWordsAsked, stand_in: StandInService, run: Run
) -> None:
    assert run("write", "Go", *EN, "--must-use", "go", "--new-words", option).exit_code == DONE
    author = stand_in.backend.calls[-1].decoding.author
    assert author is not None
    assert (author.new_words, author.must_use) == (made, (AskedWord("go", 1),))


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
        *(
            (("Go", *EN, f"--new-words={number}"), "N:PER_100:MAX")
            for number in ("many", "", "0", "3000:", "3000:2:10:1", "-5", "3000:nan", "3000:2:0.5")
        ),
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


NEW: dict[str, Any] = {
    "num_words": 90,
    "num_distinct_words": 50,
    "max_rank": 2871,
    "new_words": [
        {"word": "storms", "rank": 2871, "lemma": "storm", "start": 40},
        {"word": "Storm", "rank": 1903, "lemma": "storm", "start": 80},
        {"word": "anchor", "rank": 2500, "lemma": "anchor", "start": 60},
        {"word": "storms", "rank": 2871, "lemma": "storm", "start": 90},
    ],
}


def test_a_glossary_has_each_new_word_once_in_alphabetical_order(
    stand_in: StandInService, run: Run, tmp_path: Path
) -> None:
    command = ("write", "Go", *EN, "--new-words", "3000", "--glossary", "--new-words-file", tmp_path / "new.txt")
    assert (run(*command).stdout, (tmp_path / "new.txt").read_text()) == (f"{TEXT}\n", "")
    stand_in.backend.block = NEW
    done = run(*command)
    assert done.stdout == f"{TEXT}\n\nNew words\n- anchor, rank 2,500\n- storm (storms), rank 2,871\n"
    assert done.stderr.splitlines()[1] == "4 new: storms, Storm, anchor, storms"
    assert (tmp_path / "new.txt").read_text() == "storms\nStorm\nanchor\n"


STORY = "The dog was euphoric. It slept.\n"
REWRITTEN: dict[str, Any] = {
    "object": "vocabulary.rewrite",
    "text": "The dog was happy. It slept.",
    "changes": [{"start": 12, "end": 20, "from": "euphoric", "to": "happy"}],
    "coverage": {"before": 0.8399, "after": 1.0},
    "vocab": {"lang": "en", "n_words": 1000},
    "usage": {},
}
DICTATION = {"kind": "dictation", "instruction": None, "items": [{"sentence": "The dog ran.", "num_words": 3}]}
SHORT = {"kind": "order", "num_items": 0, "reason": "the text is short"}
MADE: dict[str, Any] = {
    "object": "vocabulary.exercises",
    "lang": "en",
    "exercises": [DICTATION],
    "names": ["Anna"],
    "num_sentences": 3,
    "num_unlisted_sentences": 1,
    "left_out": [],
    "usage": {},
}


@pytest.fixture
def story(tmp_path: Path) -> Path:
    path = tmp_path / "story.txt"
    path.write_text(STORY, encoding="utf-8")
    return path


@pytest.fixture
def rewriter(scripted: Scripted) -> Scripted:
    scripted.events = [{"text": "The dog was happy. "}, {"text": "It slept."}, dict(REWRITTEN)]
    return scripted


@pytest.fixture
def exerciser(scripted: Scripted) -> Scripted:
    scripted.events = [{"exercise": DICTATION}, dict(MADE)]
    return scripted


def test_a_rewritten_text_goes_out_and_what_changed_is_told(rewriter: Scripted, story: Path, run: Run) -> None:
    done = run("rewrite", story, *EN, "--names", "Anna", "--seed", "3", "--changes")
    assert (done.exit_code, done.stdout) == (DONE, f"{REWRITTEN['text']}\n")
    assert done.stderr == ("12: 'euphoric' -> 'happy'\n1 change: 83.9% of the words were in the list, 100% are\n")
    vocab = {"lang": "en", "n_words": 1000, "extra_words": ["Anna"]}
    assert rewriter.asked[REWRITE] == {"text": STORY, "vocab": vocab, "seed": 3, "stream": True}
    assert json.loads(run("rewrite", story, *EN, "--json").stdout) == REWRITTEN
    # The file may be replaced.
    assert run("rewrite", "-", *EN, "--out", story, text="Other.").stdout == ""
    assert (story.read_text(), rewriter.asked[REWRITE]["text"]) == (f"{REWRITTEN['text']}\n", "Other.")


def test_names_are_kept_unless_asked_otherwise(rewriter: Scripted, story: Path, run: Run) -> None:
    rewriter.events[-1]["names"] = ["Anna", "Tom"]
    assert "names kept: Anna, Tom\n" in run("rewrite", story, *EN).stderr
    assert "keep_names" not in rewriter.asked[REWRITE]
    assert run("rewrite", story, "--level", "A2", "--no-keep-names").exit_code == DONE
    assert (rewriter.asked[REWRITE]["keep_names"], rewriter.asked[REWRITE]["vocab"]) == (False, {"level": "A2"})


def test_words_that_are_left_are_not_as_asked(rewriter: Scripted, story: Path, run: Run) -> None:
    rewriter.events[-1]["coverage"] = {"before": 0.5, "after": 0.99999}
    done = run("rewrite", story, *EN)
    assert done.exit_code == NOT_AS_ASKED
    assert "99.9% are" in done.stderr


def test_exercises_go_out_as_text(exerciser: Scripted, story: Path, run: Run) -> None:
    done = run(
        "exercises", story, *EN, "--kinds", "dictation,order", "--num-items", "2", "--seed", "3", "--title", "Dogs"
    )
    assert (done.exit_code, done.stdout) == (DONE, "a worksheet as txt\n"), done.stderr
    assert done.stderr == (
        "names kept: Anna\n1 of 3 sentences were not used: they have words that are not in the list\n"
    )
    asked = {"kinds": ["dictation", "order"], "num_items": 2, "seed": 3, "stream": True}
    vocab = {"lang": "en", "n_words": 1000}
    assert exerciser.asked[EXERCISES] == {"text": STORY, "vocab": vocab, **asked}
    expected = {"format": "txt", "exercises": [DICTATION], "lang": "en", "title": "Dogs", "text": STORY}
    assert exerciser.asked["/v1/documents/worksheet"] == expected


@pytest.mark.parametrize("ending", FORMATS)
def test_the_ending_of_the_file_says_what_it_is(exerciser: Scripted, story: Path, run: Run, ending: str) -> None:
    out = story.with_name(f"sheet{ending}")
    assert run("exercises", story, *EN, "--out", out).exit_code == DONE
    assert out.read_text() == f"a worksheet as {FORMATS[ending]}\n"
    assert ("text" in exerciser.asked["/v1/documents/worksheet"]) == (ending in (".txt", ".docx"))
    run("exercises", story, *EN, "--without-text")
    assert "text" not in exerciser.asked["/v1/documents/worksheet"]


def test_json_has_the_exercises_themselves(exerciser: Scripted, story: Path, run: Run) -> None:
    out = story.with_name("sheet.json")
    assert run("exercises", story, *EN, "--out", out).exit_code == DONE
    assert json.loads(out.read_text()) == MADE
    assert "/v1/documents/worksheet" not in exerciser.asked


def test_fewer_exercises_are_not_as_asked(exerciser: Scripted, story: Path, run: Run) -> None:
    exerciser.events[-1]["left_out"] = [SHORT]
    done = run("exercises", story, *EN)
    assert (done.exit_code, done.stdout) == (NOT_AS_ASKED, "a worksheet as txt\n")
    assert "order: 0, for the text is short\n" in done.stderr
    exerciser.events[-1]["exercises"] = []
    refused = run("exercises", story, *EN, "--out", story)
    assert_refused(refused, WRONG_INPUT, "no exercise could be made: the text is short")
    assert story.read_text() == STORY


@pytest.mark.parametrize("command", ["rewrite", "exercises"])
def test_an_answer_that_breaks_off_replaces_nothing(command: str, scripted: Scripted, story: Path, run: Run) -> None:
    scripted.events, scripted.end = [{"text": "The dog"}], ""
    assert_refused(run(command, story, *EN, "--out", story), NO_SERVICE, "broke off")
    scripted.end = "data: [DONE]\n\n"
    if command == "rewrite":
        assert_refused(run(command, story, *EN, "--out", story), NO_SERVICE, "broke off")
    assert story.read_text() == STORY


@pytest.mark.parametrize("command", ["rewrite", "exercises"])
def test_wrong_use_of_a_text_is_told_in_one_line(command: str, scripted: Scripted, story: Path, run: Run) -> None:
    assert_refused(run(command, story), WRONG_INPUT, "name a list")
    assert_refused(run(command, "/nothing/story.txt", *EN), WRONG_INPUT, "/nothing/story.txt: No such file")
    assert_refused(run(command, "-", *EN, text=""), WRONG_INPUT, "there is no text")
    assert_refused(run(command), WRONG_INPUT, "FILE")
    assert_refused(run("exercises", story, *EN, "--out", "sheet.pdf"), WRONG_INPUT, "--out must end in .txt")
    assert scripted.asked == {}


def test_the_front_of_the_service_takes_what_is_sent(stand_in: StandInService, story: Path, run: Run) -> None:
    done = run("rewrite", story, *EN, "--names", "Anna", "--seed", "3", "--no-keep-names")
    assert (done.exit_code, done.stdout) == (DONE, "".join([*PIECES, "\n"])), done.stderr
    asked = stand_in.body
    assert (asked["tool"], asked["text"], asked["seed"], asked["keep_names"]) == ("rewrite", STORY, 3, False)
    run("exercises", story, *EN, "--kinds", "order", "--no-keep-names")
    asked = stand_in.body
    assert (asked["tool"], asked["kinds"], asked["keep_names"]) == ("exercises", ["order"], False)
