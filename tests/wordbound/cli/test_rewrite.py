"""``wordbound rewrite`` sends a text, and writes what comes back for it."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from tests.wordbound.cli.conftest import PIECES, Run, StandInService, assert_refused, serving
from wordbound.cli.commands import DONE, NO_SERVICE, NOT_AS_ASKED, WRONG_INPUT

WHOLE: dict[str, Any] = {
    "object": "vocabulary.rewrite",
    "text": "The dog was happy. It slept.",
    "changes": [{"start": 12, "end": 20, "from": "euphoric", "to": "happy"}],
    "coverage": {"before": 0.8399, "after": 1.0},
    "vocab": {"lang": "en", "n_words": 1000},
    "usage": {},
}
EN = ("--lang", "en", "--words", "1000")
TEXT = "The dog was euphoric. It slept.\n"


class Rewriter:
    """The route, with one answer; the last body is ``asked``."""

    def __init__(self) -> None:
        self.whole = dict(WHOLE)
        self.asked: dict[str, Any] = {}
        self.is_broken = False

    async def __call__(self, request: Request) -> Response:
        self.asked = await request.json()
        events = [{"text": "The dog was happy. "}, {"text": "It slept."}, *([] if self.is_broken else [self.whole])]
        lines = [f"data: {json.dumps(event)}\n\n" for event in events]
        return PlainTextResponse("".join([*lines, "data: [DONE]\n\n"]), media_type="text/event-stream")


@pytest.fixture
def rewriter(monkeypatch: pytest.MonkeyPatch) -> Iterator[Rewriter]:
    made = Rewriter()

    async def answer(request: Request) -> Response:
        return await made(request)

    for url in serving(Starlette(routes=[Route("/v1/vocabularies/rewrite", answer, methods=["POST"])])):
        monkeypatch.setenv("WORDBOUND_URL", url)
        yield made


@pytest.fixture
def story(tmp_path: Path) -> Path:
    path = tmp_path / "story.txt"
    path.write_text(TEXT, encoding="utf-8")
    return path


def test_the_text_goes_out_and_what_changed_is_told(rewriter: Rewriter, story: Path, run: Run) -> None:
    done = run("rewrite", story, *EN, "--names", "Anna", "--seed", "3", "--changes")
    assert (done.exit_code, done.stdout) == (DONE, f"{WHOLE['text']}\n")
    stand_in = "12: 'euphoric' -> 'happy'\n1 change: 83.9% of the words were in the list, 100% are\n"
    assert done.stderr == stand_in
    vocab = {"lang": "en", "n_words": 1000, "extra_words": ["Anna"]}
    assert rewriter.asked == {"text": TEXT, "vocab": vocab, "seed": 3, "stream": True}


def test_a_file_may_be_replaced_and_standard_input_read(rewriter: Rewriter, story: Path, run: Run) -> None:
    assert run("rewrite", "-", *EN, "--out", story, text=TEXT).stdout == ""
    assert story.read_text() == f"{WHOLE['text']}\n"
    assert rewriter.asked["text"] == TEXT


def test_names_are_kept_unless_asked_otherwise(rewriter: Rewriter, story: Path, run: Run) -> None:
    rewriter.whole["names"] = ["Anna", "Tom"]
    assert "names kept: Anna, Tom\n" in run("rewrite", story, *EN).stderr
    assert "keep_names" not in rewriter.asked
    assert run("rewrite", story, *EN, "--no-keep-names").exit_code == DONE
    assert rewriter.asked["keep_names"] is False


def test_the_front_of_the_service_takes_what_is_sent(stand_in: StandInService, story: Path, run: Run) -> None:
    done = run("rewrite", story, *EN, "--names", "Anna", "--seed", "3", "--no-keep-names")
    assert (done.exit_code, done.stdout) == (DONE, "".join([*PIECES, "\n"])), done.stderr
    asked = stand_in.body
    assert (asked["tool"], asked["text"], asked["seed"], asked["keep_names"]) == ("rewrite", TEXT, 3, False)


def test_json_has_all_that_the_service_says(rewriter: Rewriter, story: Path, run: Run) -> None:
    assert json.loads(run("rewrite", story, *EN, "--json").stdout) == WHOLE


def test_words_that_are_left_are_not_as_asked(rewriter: Rewriter, story: Path, run: Run) -> None:
    rewriter.whole["coverage"] = {"before": 0.5, "after": 0.99999}
    done = run("rewrite", story, *EN)
    assert done.exit_code == NOT_AS_ASKED
    assert "99.9% are" in done.stderr


def test_an_answer_that_breaks_off_replaces_nothing(rewriter: Rewriter, story: Path, run: Run) -> None:
    rewriter.is_broken = True
    assert_refused(run("rewrite", story, *EN, "--out", story), NO_SERVICE, "broke off")
    assert story.read_text() == TEXT


def test_wrong_use_is_told_in_one_line(rewriter: Rewriter, story: Path, run: Run) -> None:
    assert_refused(run("rewrite", story), WRONG_INPUT, "name a list")
    assert_refused(run("rewrite", "/nothing/story.txt", *EN), WRONG_INPUT, "/nothing/story.txt: No such file")
    assert_refused(run("rewrite", "-", *EN, text=""), WRONG_INPUT, "there is no text")
    assert_refused(run("rewrite"), WRONG_INPUT, "FILE")
