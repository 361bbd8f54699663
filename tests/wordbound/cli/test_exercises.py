"""``wordbound exercises`` asks for exercises, and for the file that its ending names."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from tests.wordbound.cli.conftest import Run, StandInService, assert_refused, serving
from wordbound.cli.commands import DONE, NO_SERVICE, NOT_AS_ASKED, WRONG_INPUT
from wordbound.cli.write import EXERCISES, FORMATS

TEXT = "The dog found some money.\n"
EN = ("--lang", "en", "--words", "1000")
DICTATION = {"kind": "dictation", "instruction": None, "items": [{"sentence": "The dog ran.", "num_words": 3}]}
WHOLE: dict[str, Any] = {
    "object": "vocabulary.exercises",
    "lang": "en",
    "exercises": [DICTATION],
    "names": ["Anna"],
    "num_sentences": 3,
    "num_unlisted_sentences": 1,
    "left_out": [],
    "usage": {},
}


class Exerciser:
    """Both routes; ``asked`` and ``printed`` are the last bodies."""

    def __init__(self) -> None:
        self.whole = dict(WHOLE)
        self.asked: dict[str, Any] = {}
        self.printed: dict[str, Any] = {}
        self.is_broken = False

    async def make(self, request: Request) -> Response:
        self.asked = await request.json()
        events = [{"exercise": DICTATION}, *([] if self.is_broken else [self.whole])]
        end = [] if self.is_broken else ["data: [DONE]\n\n"]
        lines = [f"data: {json.dumps(event)}\n\n" for event in events]
        return PlainTextResponse("".join([*lines, *end]), media_type="text/event-stream")

    async def print(self, request: Request) -> Response:
        self.printed = await request.json()
        return PlainTextResponse(f"a worksheet as {self.printed['format']}\n")


@pytest.fixture
def exerciser(monkeypatch: pytest.MonkeyPatch) -> Iterator[Exerciser]:
    made = Exerciser()
    routes = [
        Route(EXERCISES, made.make, methods=["POST"]),
        Route("/v1/documents/worksheet", made.print, methods=["POST"]),
    ]
    for url in serving(Starlette(routes=routes)):
        monkeypatch.setenv("WORDBOUND_URL", url)
        yield made


@pytest.fixture
def story(tmp_path: Path) -> Path:
    path = tmp_path / "story.txt"
    path.write_text(TEXT, encoding="utf-8")
    return path


def test_the_exercises_go_out_as_text(exerciser: Exerciser, story: Path, run: Run) -> None:
    done = run(
        "exercises", story, *EN, "--kinds", "dictation,order", "--num-items", "2", "--seed", "3", "--title", "Dogs"
    )
    assert (done.exit_code, done.stdout) == (DONE, "a worksheet as txt\n"), done.stderr
    assert done.stderr == (
        "names kept: Anna\n1 of 3 sentences were not used: they have words that are not in the list\n"
    )
    assert exerciser.asked == {
        "text": TEXT,
        "vocab": {"lang": "en", "n_words": 1000},
        "kinds": ["dictation", "order"],
        "num_items": 2,
        "seed": 3,
        "stream": True,
    }
    expected = {"format": "txt", "exercises": [DICTATION], "lang": "en", "title": "Dogs", "text": TEXT}
    assert exerciser.printed == expected


@pytest.mark.parametrize("ending", FORMATS)
def test_the_ending_of_the_file_says_what_it_is(exerciser: Exerciser, story: Path, run: Run, ending: str) -> None:
    out = story.with_name(f"sheet{ending}")
    assert run("exercises", story, *EN, "--out", out).exit_code == DONE
    assert out.read_text() == f"a worksheet as {FORMATS[ending]}\n"
    assert ("text" in exerciser.printed) == (ending in (".txt", ".docx"))


def test_json_has_the_exercises_themselves(exerciser: Exerciser, story: Path, run: Run) -> None:
    out = story.with_name("sheet.json")
    assert run("exercises", story, *EN, "--out", out).exit_code == DONE
    assert json.loads(out.read_text()) == WHOLE
    assert exerciser.printed == {}


def test_fewer_items_are_not_as_asked(exerciser: Exerciser, story: Path, run: Run) -> None:
    exerciser.whole["left_out"] = [{"kind": "order", "num_items": 0, "reason": "the text is short"}]
    done = run("exercises", story, *EN)
    assert (done.exit_code, done.stdout) == (NOT_AS_ASKED, "a worksheet as txt\n")
    assert "order: 0, for the text is short\n" in done.stderr


def test_a_file_is_not_replaced_where_there_is_no_exercise(exerciser: Exerciser, story: Path, run: Run) -> None:
    exerciser.whole |= {
        "exercises": [],
        "left_out": [{"kind": "order", "num_items": 0, "reason": "the text is short"}],
    }
    done = run("exercises", story, *EN, "--out", story)
    assert_refused(done, WRONG_INPUT, "no exercise could be made: the text is short")
    assert story.read_text() == TEXT


def test_an_answer_that_breaks_off_replaces_nothing(exerciser: Exerciser, story: Path, run: Run) -> None:
    exerciser.is_broken = True
    assert_refused(run("exercises", story, *EN, "--out", story), NO_SERVICE, "broke off")
    assert story.read_text() == TEXT


def test_wrong_use_is_reported_in_one_line(exerciser: Exerciser, story: Path, run: Run) -> None:
    assert_refused(run("exercises", story), WRONG_INPUT, "name a list")
    assert_refused(run("exercises", story, *EN, "--out", "sheet.pdf"), WRONG_INPUT, "--out must end in .txt")
    assert_refused(run("exercises", "/nothing/story.txt", *EN), WRONG_INPUT, "No such file")


def test_the_front_of_the_service_takes_what_is_sent(stand_in: StandInService, story: Path, run: Run) -> None:
    run("exercises", story, *EN, "--kinds", "order", "--no-keep-names")
    asked = stand_in.body
    assert (asked["tool"], asked["kinds"], asked["keep_names"]) == ("exercises", ["order"], False)
