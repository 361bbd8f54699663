"""``wordbound write``, ``rewrite`` and ``exercises`` ask as their options say, and tell what became of it."""

import json
from pathlib import Path
from typing import Any

import pytest

from deployments.contract import AskedWord, AuthorControls, NewWordsAsked
from tests.wordbound.cli.conftest import PIECES, ScriptedBackend, StandInService, assert_refused, run
from vocab.text.changes import PromptWord
from wordbound.cli import DONE, NO_SERVICE, NOT_AS_ASKED, WRONG_INPUT

TEXT = "".join(PIECES)
EN = ("--lang", "en", "--words", "1000")


def test_a_text_goes_to_standard_output_and_its_words_to_standard_error(stand_in: StandInService) -> None:
    done = run("write", "A story about a dog", *EN)
    assert (done.exit_code, done.stdout) == (DONE, f"{TEXT}\n")
    assert done.stderr == "4 words, 4 different, the rarest has rank 943\n"
    assert stand_in.body["messages"][-1] == {"role": "user", "content": "A story about a dog"}
    assert stand_in.body["stream"] is True
    answer = json.loads(run("write", "Go", *EN, "--json").stdout)
    assert (answer["text"], answer["finish_reason"], answer["vocab"]) == (TEXT, "stop", stand_in.backend.block)


def test_the_options_become_members_of_the_request(stand_in: StandInService, tmp_path: Path) -> None:
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


def test_what_an_author_asks_beyond_the_list_reaches_the_engine(stand_in: StandInService) -> None:
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
    # New words have up to three numbers.
    for option, made in (("3000", NewWordsAsked(3000)), ("3000:0.5", NewWordsAsked(3000, 0.5))):
        assert run("write", "Go", *EN, "--must-use", "go", "--new-words", option).exit_code == DONE
        author = stand_in.backend.calls[-1].decoding.author
        assert author is not None
        assert (author.new_words, author.must_use) == (made, (AskedWord("go", 1),))


def test_words_of_the_prompt_are_allowed_where_asked_and_told(stand_in: StandInService) -> None:
    stand_in.backend.block["prompt_words"] = [{"word": "map", "rank": 1755, "forms": ["maps"]}]
    done = run("write", "A map", *EN, "--prompt-words")
    assert done.exit_code == DONE, done.stderr
    assert "allowed by the prompt: map (rank 1,755)\n" in done.stderr
    run("write", "A map", *EN)
    asked, plain = [call.vocabulary for call in stand_in.backend.calls[-2:]]
    assert asked is not None and asked.prompt_words == (PromptWord("A map", 1755),)
    assert plain is not None and plain.prompt_words is None


def test_a_file_is_read_as_a_brief_and_written_whole_or_not_at_all(stand_in: StandInService, tmp_path: Path) -> None:
    (brief := tmp_path / "brief.txt").write_text("Chapter one.\n", encoding="utf-8-sig")
    (tmp_path / "written").mkdir()
    out = tmp_path / "written" / "story.txt"
    done = run("write", "-", "--brief", brief, *EN, "--out", out, text="About a dog.\n")
    assert (done.exit_code, done.stdout, out.read_text()) == (DONE, "", f"{TEXT}\n")
    assert stand_in.body["messages"][-1]["content"] == "Chapter one.\n\nAbout a dog."
    for prompt, status, told in (
        ("please fail later", NO_SERVICE, "the answer broke off: The server failed"),
        ("please refuse", WRONG_INPUT, "Too long."),
    ):
        assert_refused(run("write", prompt, *EN, "--out", out), status, told)
    assert out.read_text() == f"{TEXT}\n"
    assert list(out.parent.iterdir()) == [out]


def test_a_text_that_lacks_a_word_or_was_cut_is_told(stand_in: StandInService) -> None:
    stand_in.backend.reason = "length"
    stand_in.backend.block |= {
        "must_use": [{"word": "sea", "count": 3, "used": 1}, {"word": "dog", "count": 1, "used": 1}]
    }
    done = run("write", "Go", *EN)
    assert done.exit_code == NOT_AS_ASKED
    assert "not used as often as asked: sea (1 of 3)\n" in done.stderr
    assert "it ended at --max-tokens: a larger number lets it go on" in done.stderr


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


def test_a_glossary_has_each_new_word_once_in_alphabetical_order(stand_in: StandInService, tmp_path: Path) -> None:
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
PAIRS = [{"word": word, "gloss": f"not {word}"} for word in ("dog", "cat", "sea")]
MATCHING = {"kind": "matching", "instruction": "Match.", "items": PAIRS, "shown": [0, 1, 2]}
SHORT = {"kind": "order", "num_items": 0, "reason": "the text is short"}
MADE: dict[str, Any] = {
    "object": "vocabulary.exercises",
    "lang": "en",
    "exercises": [DICTATION, MATCHING],
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
def tools(stand_in: StandInService) -> ScriptedBackend:
    """A service whose word tools answer; ``told`` may be changed."""
    stand_in.backend.told = {
        "rewrite": [{"text": "The dog was happy. "}, {"text": "It slept."}, dict(REWRITTEN)],
        "exercises": [{"exercise": DICTATION}, dict(MADE)],
    }
    return stand_in.backend


def asked(tools: ScriptedBackend, *names: str) -> list[Any]:
    """Members of the last request to a tool."""
    return [tools.calls[-1].body.get(name) for name in names]


def test_a_rewritten_text_goes_out_and_what_changed_is_told(tools: ScriptedBackend, story: Path) -> None:
    done = run("rewrite", story, *EN, "--names", "Anna", "--seed", "3", "--changes")
    assert (done.exit_code, done.stdout) == (DONE, f"{REWRITTEN['text']}\n")
    assert done.stderr == ("12: 'euphoric' -> 'happy'\n1 change: 83.9% of the words were in the list, 100% are\n")
    assert asked(tools, "tool", "text", "seed", "stream") == ["rewrite", STORY, 3, True]
    vocabulary = tools.calls[-1].vocabulary
    assert vocabulary is not None
    assert (vocabulary.lang, vocabulary.n_words, vocabulary.changes_digest is None) == ("en", 1000, False)
    assert json.loads(run("rewrite", story, *EN, "--json").stdout) == REWRITTEN
    # The file may be replaced.
    assert run("rewrite", "-", *EN, "--out", story, text="Other.").stdout == ""
    assert (story.read_text(), asked(tools, "text")) == (f"{REWRITTEN['text']}\n", ["Other."])


def test_names_are_kept_unless_asked_otherwise(tools: ScriptedBackend, story: Path) -> None:
    tools.told["rewrite"][-1]["names"] = ["Anna", "Tom"]
    assert "names kept: Anna, Tom\n" in run("rewrite", story, *EN).stderr
    assert asked(tools, "keep_names") == [True]
    assert run("rewrite", story, "--level", "top-1000", "--lang", "en", "--no-keep-names").exit_code == DONE
    assert asked(tools, "keep_names") == [False]
    run("exercises", story, *EN, "--no-keep-names")
    assert asked(tools, "tool", "keep_names") == ["exercises", False]
    # Words that are left are not as asked.
    tools.told["rewrite"][-1]["coverage"] = {"before": 0.5, "after": 0.99999}
    done = run("rewrite", story, *EN)
    assert (done.exit_code, "99.9% are" in done.stderr) == (NOT_AS_ASKED, True)


def test_exercises_go_out_as_text(tools: ScriptedBackend, story: Path) -> None:
    command = ("exercises", story, *EN, "--kinds", "dictation,order", "--num-items", "2", "--seed", "3")
    done = run(*command, "--title", "Dogs")
    assert done.exit_code == DONE, done.stderr
    assert done.stdout.startswith(f"Dogs\n\n{STORY.strip()}\n\n1.")
    assert done.stdout.endswith("Key\n\n1.\n1) The dog ran.\n\n2. Match.\n1) a\n2) b\n3) c\n")
    assert done.stderr == (
        "names kept: Anna\n1 of 3 sentences were not used: they have words that are not in the list\n"
    )
    assert asked(tools, "kinds", "num_items", "seed", "text") == [["dictation", "order"], 2, 3, STORY]
    assert "euphoric" not in run(*command, "--without-text").stdout


def test_the_ending_of_the_file_says_what_it_is(tools: ScriptedBackend, story: Path) -> None:
    parts = {".txt": b"euphoric", ".docx": b"word/document.xml", ".gift": b"[html]Match.", ".zip": b"imsmanifest.xml"}
    for ending, part in {**parts, ".tsv": b"#separator:tab"}.items():
        out = story.with_name(f"sheet{ending}")
        assert run("exercises", story, *EN, "--out", out).exit_code == DONE
        assert part in out.read_bytes()
    out = story.with_name("sheet.json")
    assert run("exercises", story, *EN, "--out", out).exit_code == DONE
    assert json.loads(out.read_text()) == MADE


def test_fewer_exercises_are_not_as_asked(tools: ScriptedBackend, story: Path) -> None:
    tools.told["exercises"][-1]["left_out"] = [SHORT]
    done = run("exercises", story, *EN)
    assert (done.exit_code, "The dog ran." in done.stdout) == (NOT_AS_ASKED, True)
    assert "order: 0, for the text is short\n" in done.stderr
    tools.told["exercises"][-1]["exercises"] = []
    refused = run("exercises", story, *EN, "--out", story)
    assert_refused(refused, WRONG_INPUT, "no exercise could be made: the text is short")
    assert story.read_text() == STORY


@pytest.mark.parametrize("command", ["rewrite", "exercises"])
def test_an_answer_that_breaks_off_replaces_nothing(command: str, tools: ScriptedBackend, story: Path) -> None:
    # It ends without the whole, and then without its mark too.
    tools.told[command].pop()
    for end in (tools.end, ""):
        tools.end = end
        assert_refused(run(command, story, *EN, "--out", story), NO_SERVICE, "broke off")
    assert story.read_text() == STORY
