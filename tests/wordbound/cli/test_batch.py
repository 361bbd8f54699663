"""``wordbound batch`` sends a file, waits, and brings every line back, also after it was interrupted."""

import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import Result

from tests.deployments.batch.world import BatchWorld, jsonl
from tests.wordbound.cli.conftest import StandInService, assert_refused, run
from wordbound.cli import DONE, INTERRUPTED, NO_SERVICE, NOT_AS_ASKED, WRONG_INPUT

ANSWERS = b'{"custom_id": "line-1"}\n'
ANSWERED = f"file-{len(ANSWERS):032x}"
OWNER = "default"
FILES = ("in.jsonl", "out.jsonl")


class World(BatchWorld):
    """The service of batches, and what happens while the command waits."""

    meanwhile: Callable[[], object]

    def __init__(self, folder: Path, stand_in: StandInService) -> None:
        super().__init__(folder)
        self.stand_in = stand_in
        stand_in.batches.service = self.service

    def go_away(self, is_away: bool = True) -> None:
        self.stand_in.batches.service = None if is_away else self.service

    @property
    def sent(self) -> dict[str, Any]:
        (found,) = self.service.list_batches(OWNER, None, 20)["data"]
        return dict(found)

    def answer_all(self) -> None:
        self.end(self.sent["id"], ANSWERS, output_file_id=ANSWERED, total=2, completed=2)

    def command(self, *arguments: str, meanwhile: Callable[[], object]) -> Result:
        self.meanwhile = meanwhile
        return run("batch", *(arguments or FILES))

    def assert_was_sent_whole(self) -> None:
        assert self.service.read_file(OWNER, self.sent["input_file_id"], 0, 10_000) == jsonl(2)


@pytest.fixture
def world(stand_in: StandInService, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    """In a folder with a file of two requests."""
    made = World(tmp_path / "state", stand_in)
    for module in ("batch", "asking"):
        monkeypatch.setattr(f"wordbound.cli.{module}.sleep", lambda _: made.meanwhile())
    (tmp_path / "mine").mkdir()
    monkeypatch.chdir(tmp_path / "mine")
    Path("in.jsonl").write_bytes(jsonl(2))
    yield made
    made.go_away()
    made.close()


def test_answers_come_back_as_a_file(world: World) -> None:
    done = world.command(*FILES, "--window", "2h", meanwhile=world.answer_all)
    assert (done.exit_code, done.stdout) == (DONE, "")
    assert Path("out.jsonl").read_bytes() == ANSWERS
    assert sorted(path.name for path in Path().iterdir()) == ["in.jsonl", "out.jsonl"]
    assert f"--batch-id {world.sent['id']}\n" in done.stderr
    assert done.stderr.endswith("2 lines: 2 answered, 0 failed\n")
    assert world.sent["completion_window"] == "2h"
    world.assert_was_sent_whole()


@pytest.mark.parametrize(
    ("status", "num_failed", "told"),
    [
        ("failed", 2, "the batch is failed: It killed ten engines.\n"),
        ("completed", 1, "2 lines: 1 answered, 1 failed, in "),
    ],
)
def test_failed_lines_are_in_a_file_beside_and_a_failed_batch_says_why(
    world: World, status: str, num_failed: int, told: str
) -> None:
    errors = [{"code": "engine_killed", "message": "It killed ten engines."}]
    counts: dict[str, Any] = {"total": 2, "completed": 2 - num_failed, "failed": num_failed, "errors": errors}
    ended = {**counts, "status": status, "error_file_id": ANSWERED}
    done = world.command(meanwhile=lambda: world.end(world.sent["id"], ANSWERS, **ended))
    assert (done.exit_code, told in done.stderr) == (NOT_AS_ASKED, True), done.stderr
    assert f"{num_failed} failed, in out.errors.jsonl\n" in done.stderr
    assert Path("out.errors.jsonl").read_bytes() == ANSWERS
    assert not Path("out.jsonl").exists()


def test_an_interrupted_wait_goes_on_with_the_batchs_id(world: World) -> None:
    done = world.command(meanwhile=lambda: signal.raise_signal(signal.SIGINT))
    assert done.exit_code == INTERRUPTED
    line = done.stderr.splitlines()[-1]
    assert line.endswith(f"wordbound batch in.jsonl out.jsonl --batch-id {world.sent['id']}")
    world.answer_all()
    assert run(*line.rpartition(": wordbound ")[2].split()).exit_code == DONE
    assert Path("out.jsonl").read_bytes() == ANSWERS


def test_a_service_that_is_away_is_waited_for_and_given_up_where_it_stays_away(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("wordbound.cli.asking.MAX_RETRIES", 0)
    monkeypatch.setattr("wordbound.cli.batch.MAX_AWAY", 2)
    away = [True, True, False]

    def come_back() -> None:
        world.go_away(away.pop(0))
        if not away:
            world.answer_all()

    assert world.command(meanwhile=come_back).exit_code == DONE
    assert away == []
    done = world.command("in.jsonl", "other.jsonl", meanwhile=world.go_away)
    assert done.exit_code == NO_SERVICE
    assert "then: wordbound batch in.jsonl" in done.stderr.splitlines()[-1]


def test_a_busy_service_is_sent_the_whole_file_again(world: World) -> None:
    world.go_away()

    def come_back() -> None:
        world.go_away(False)
        if world.service.list_batches(OWNER, None, 20)["data"]:
            world.answer_all()

    assert world.command(meanwhile=come_back).exit_code == DONE
    world.assert_was_sent_whole()


def test_files_are_looked_at_before_anything_is_sent(world: World) -> None:
    for name in ("empty.jsonl", "old.jsonl", "older.errors.jsonl"):
        Path(name).touch()
    for source, target, message in (
        ("none.jsonl", "out.jsonl", "none.jsonl: there is no such file"),
        (".", "out.jsonl", "there is no such file"),
        ("empty.jsonl", "out.jsonl", "there is no request in it"),
        ("in.jsonl", "in.jsonl", "IN and OUT are one file"),
        ("in.jsonl", "old.jsonl", "old.jsonl exists: name another OUT, or add --force"),
        ("in.jsonl", "older.jsonl", "older.errors.jsonl exists"),
        ("in.jsonl", "none/out.jsonl", "there is no such folder for OUT"),
    ):
        assert_refused(run("batch", source, target), WRONG_INPUT, message)
    assert world.service.list_batches(OWNER, None, 20)["data"] == []


def test_what_the_service_refuses_is_told_and_leaves_no_file(world: World) -> None:
    assert_refused(run("batch", *FILES, "--window", "soon"), WRONG_INPUT, "completion_window")
    done = run("batch", *FILES, "--batch-id", "batch_none")
    assert done.exit_code == WRONG_INPUT
    assert len(done.stderr.splitlines()[-1]) < 200
    # A file of answers that is not there.
    ended: dict[str, Any] = {"output_file_id": f"file-{9:032x}", "total": 2, "completed": 2}
    assert world.command(meanwhile=lambda: world.end(world.sent["id"], **ended)).exit_code == WRONG_INPUT
    assert [path.name for path in Path().iterdir()] == ["in.jsonl"]
