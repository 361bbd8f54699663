"""``wordbound batch`` sends a file, waits, and brings every line back, also after it was interrupted."""

import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.deployments.batch.world import BatchWorld, jsonl
from tests.wordbound.cli.conftest import Run, StandInService, assert_refused
from wordbound.cli import DONE, INTERRUPTED, NO_SERVICE, NOT_AS_ASKED, WRONG_INPUT

ANSWERS = b'{"custom_id": "line-1"}\n'
ANSWERED = f"file-{len(ANSWERS):032x}"
OWNER = "default"


@pytest.fixture
def world(stand_in: StandInService, tmp_path: Path) -> Iterator[BatchWorld]:
    made = BatchWorld(tmp_path / "state")
    stand_in.batches.service = made.service
    yield made
    stand_in.batches.service = None
    made.close()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "mine"
    made.mkdir()
    (made / "in.jsonl").write_bytes(jsonl(2))
    return made


Meanwhile = Callable[[Callable[[], object]], None]


@pytest.fixture
def meanwhile(monkeypatch: pytest.MonkeyPatch) -> Meanwhile:
    """What happens while the command waits."""

    def set_up(happen: Callable[[], object]) -> None:
        monkeypatch.setattr("wordbound.cli.batch.sleep", lambda _: happen())
        monkeypatch.setattr("wordbound.cli.asking.sleep", lambda _: happen())

    return set_up


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wordbound.cli.asking.MAX_RETRIES", 0)
    monkeypatch.setattr("wordbound.cli.batch.MAX_AWAY", 2)


def the_batch(world: BatchWorld) -> str:
    (found,) = world.service.list_batches(OWNER, None, 20)["data"]
    return str(found["id"])


def answer_all(world: BatchWorld) -> None:
    world.end(the_batch(world), ANSWERS, output_file_id=ANSWERED, total=2, completed=2)


def test_answers_come_back_as_a_file(world: BatchWorld, folder: Path, meanwhile: Meanwhile, run: Run) -> None:
    meanwhile(lambda: answer_all(world))
    done = run("batch", folder / "in.jsonl", folder / "out.jsonl", "--window", "2h")
    assert (done.exit_code, done.stdout) == (DONE, "")
    assert (folder / "out.jsonl").read_bytes() == ANSWERS
    assert sorted(path.name for path in folder.iterdir()) == ["in.jsonl", "out.jsonl"]
    assert f"--batch-id {the_batch(world)}\n" in done.stderr
    assert done.stderr.endswith("2 lines: 2 answered, 0 failed\n")
    found = world.service.get_batch(OWNER, the_batch(world))
    assert found["completion_window"] == "2h"
    assert world.service.read_file(OWNER, found["input_file_id"], 0, 10_000) == jsonl(2)


def test_a_batch_that_failed_says_why_and_its_lines_are_in_a_file_beside(
    world: BatchWorld, folder: Path, meanwhile: Meanwhile, run: Run
) -> None:
    errors = [{"code": "engine_killed", "message": "It killed ten engines."}]
    ended: dict[str, Any] = {"error_file_id": ANSWERED, "total": 2, "failed": 2, "status": "failed", "errors": errors}
    meanwhile(lambda: world.end(the_batch(world), ANSWERS, **ended))
    done = run("batch", folder / "in.jsonl", folder / "out.jsonl")
    assert done.exit_code == NOT_AS_ASKED
    assert f"2 lines: 0 answered, 2 failed, in {folder / 'out.errors.jsonl'}\n" in done.stderr
    assert "the batch is failed: It killed ten engines.\n" in done.stderr
    assert (folder / "out.errors.jsonl").read_bytes() == ANSWERS
    assert not (folder / "out.jsonl").exists()


def test_an_interrupted_wait_goes_on_with_the_batchs_id(
    world: BatchWorld, folder: Path, meanwhile: Meanwhile, run: Run
) -> None:
    meanwhile(lambda: signal.raise_signal(signal.SIGINT))
    files = folder / "in.jsonl", folder / "out.jsonl"
    done = run("batch", *files)
    assert done.exit_code == INTERRUPTED
    line = done.stderr.splitlines()[-1]
    assert line.endswith(f"wordbound batch {files[0]} {files[1]} --batch-id {the_batch(world)}")
    answer_all(world)
    assert run(*line.rpartition(": wordbound ")[2].split()).exit_code == DONE
    assert files[1].read_bytes() == ANSWERS


def test_a_service_that_is_away_is_waited_for_and_given_up_where_it_stays_away(
    stand_in: StandInService, world: BatchWorld, folder: Path, meanwhile: Meanwhile, run: Run, impatient: None
) -> None:
    away = [True, True, False]

    def come_back() -> None:
        stand_in.batches.service = None if away.pop(0) else world.service
        if not away:
            answer_all(world)

    meanwhile(come_back)
    assert run("batch", folder / "in.jsonl", folder / "out.jsonl").exit_code == DONE
    assert away == []
    meanwhile(lambda: setattr(stand_in.batches, "service", None))
    done = run("batch", folder / "in.jsonl", folder / "other.jsonl")
    assert done.exit_code == NO_SERVICE
    assert f"then: wordbound batch {folder / 'in.jsonl'}" in done.stderr.splitlines()[-1]


def test_files_are_looked_at_before_anything_is_sent(
    stand_in: StandInService, world: BatchWorld, folder: Path, run: Run
) -> None:
    in_file, out_file = folder / "in.jsonl", folder / "out.jsonl"
    (folder / "empty.jsonl").touch()
    (folder / "old.jsonl").touch()
    (folder / "older.errors.jsonl").touch()
    for source, target, message in (
        (folder / "none.jsonl", out_file, "none.jsonl: there is no such file"),
        (folder, out_file, "there is no such file"),
        (folder / "empty.jsonl", out_file, "there is no request in it"),
        (in_file, in_file, "IN and OUT are one file"),
        (in_file, folder / "old.jsonl", "old.jsonl exists: name another OUT, or add --force"),
        (in_file, folder / "older.jsonl", "older.errors.jsonl exists"),
        (in_file, folder / "none" / "out.jsonl", "there is no such folder for OUT"),
    ):
        assert_refused(run("batch", source, target), WRONG_INPUT, message)
    assert world.service.list_batches(OWNER, None, 20)["data"] == []


def test_what_the_service_refuses_is_told_and_leaves_no_file(
    world: BatchWorld, folder: Path, meanwhile: Meanwhile, run: Run
) -> None:
    files = folder / "in.jsonl", folder / "out.jsonl"
    assert_refused(run("batch", *files, "--window", "soon"), WRONG_INPUT, "completion_window")
    done = run("batch", *files, "--batch-id", "batch_none")
    assert done.exit_code == WRONG_INPUT
    assert len(done.stderr.splitlines()[-1]) < 200
    # A file of answers that is not there.
    meanwhile(lambda: world.end(the_batch(world), output_file_id=f"file-{9:032x}", total=2, completed=2))
    assert run("batch", *files).exit_code == WRONG_INPUT
    assert [path.name for path in folder.iterdir()] == ["in.jsonl"]


def test_a_busy_service_is_sent_the_whole_file_again(
    stand_in: StandInService, world: BatchWorld, folder: Path, meanwhile: Meanwhile, run: Run
) -> None:
    stand_in.batches.service = None

    def come_back() -> None:
        stand_in.batches.service = world.service
        if world.service.list_batches(OWNER, None, 20)["data"]:
            answer_all(world)

    meanwhile(come_back)
    assert run("batch", folder / "in.jsonl", folder / "out.jsonl").exit_code == DONE
    found = world.service.get_batch(OWNER, the_batch(world))
    assert world.service.read_file(OWNER, found["input_file_id"], 0, 10_000) == jsonl(2)
