"""The threads that run batches, and what they delete."""

import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from sqlalchemy import update

from deployments.batch.state import database
from deployments.batch.state.records import STEADY_S, BatchRecord
from deployments.batch.state.store import DAMAGED
from deployments.batch.worker import scheduler as scheduler_module
from deployments.batch.worker.run_context import RunContext
from deployments.batch.worker.scheduler import BatchScheduler
from deployments.storage import FileMissingError
from tests.deployments.batch.world import World, assert_every_line_once, line_of
from tests.deployments.front import wait_until


@pytest.fixture
def world(tmp_path: Path, database_url: str) -> Iterator[World]:
    """Over each of the databases."""
    world = World(tmp_path, database=database_url)
    yield world
    world.store.close()


def runner_of(world: World, run: Callable[[RunContext, str], None] | None = None) -> BatchScheduler:
    if run is None:
        return BatchScheduler(world.context)
    return BatchScheduler(world.context, run=run, retry_s=(0.01,))


def test_open_batches_run_to_their_end_also_those_that_come_later(world: World) -> None:
    first = world.batch_of([line_of(1)])
    runner = runner_of(world)
    runner.start()
    wait_until(lambda: world.now_of(first).status == "completed", timeout_s=5)
    second = world.batch_of([line_of(1)])
    runner.wake()
    wait_until(lambda: world.now_of(second).status == "completed", timeout_s=5)
    assert runner.is_alive()
    runner.stop()
    assert not runner.is_alive()
    for batch in (first, second):
        assert_every_line_once(world, batch, 1)


def test_no_more_run_at_once_than_the_setting_says_and_the_oldest_first(tmp_path: Path) -> None:
    world = World(tmp_path, jobs_at_once=2)
    batches = [world.batch_of([line_of(1)]) for _ in range(5)]
    order: list[str] = []
    running = most = 0
    lock = threading.Lock()

    def run(context: RunContext, batch_id: str) -> None:
        nonlocal running, most
        with lock:
            order.append(batch_id)
            running += 1
            most = max(most, running)
        time.sleep(0.05)
        with lock:
            running -= 1
        context.store.finish(batch_id, only_from=["validating"], files=[], status="completed", completed_at=1)

    runner = runner_of(world, run)
    runner.start()
    wait_until(lambda: not world.store.open_batches(), timeout_s=10)
    runner.stop()
    assert most == 2
    assert sorted(order[:2]) == sorted(batch.id for batch in batches[:2])
    assert sorted(order) == sorted(batch.id for batch in batches)


def test_a_cancelled_batch_waits_for_no_other(tmp_path: Path) -> None:
    world = World(tmp_path, jobs_at_once=1)
    order: list[str] = []

    def run(context: RunContext, batch_id: str) -> None:
        order.append(batch_id)
        context.store.finish(
            batch_id, only_from=["validating", "cancelling"], files=[], status="cancelled", cancelled_at=1
        )

    world.batch_of([line_of(1)])
    cancelled = world.batch_of([line_of(1)])
    world.store.update_batch(cancelled.id, only_from=["validating"], status="cancelling")
    runner = runner_of(world, run)
    runner.start()
    wait_until(lambda: not world.store.open_batches(), timeout_s=5)
    runner.stop()
    assert order[0] == cancelled.id


def test_keys_take_turns_at_a_slot(tmp_path: Path) -> None:
    world = World(tmp_path, jobs_at_once=1)
    order: list[str] = []

    def run(context: RunContext, batch_id: str) -> None:
        batch = context.store.batch(None, batch_id)
        assert batch is not None
        order.append(batch.owner)
        context.store.finish(
            batch_id, only_from=["validating", "cancelling"], files=[], status="completed", completed_at=1
        )

    for owner in ("anna", "anna", "anna", "anna", "bert", "bert", "carla"):
        world.batch_of([line_of(1)], owner=owner)
    # What only needs its files written goes before the key's other batches, not before other keys'.
    for batch in world.store.open_batches()[2:4]:
        world.store.update_batch(batch.id, only_from=["validating"], status="cancelling")
    runner = runner_of(world, run)
    runner.start()
    wait_until(lambda: not world.store.open_batches(), timeout_s=10)
    runner.stop()
    assert order == ["anna", "bert", "carla", "anna", "bert", "anna", "anna"]


@pytest.mark.parametrize("num_attempts", [0, 1, 2], ids=["together", "few at once", "alone"])
def test_a_key_that_fills_all_slots_gives_one_up_to_a_key_without_any(tmp_path: Path, num_attempts: int) -> None:
    world = World(tmp_path)
    stalled = [world.batch_of([line_of(1, "stall")], owner="anna") for _ in range(3)]
    for batch in stalled:
        for _ in range(num_attempts):
            world.store.add_attempts(batch.id, [1])
    runner = runner_of(world)
    runner.start()
    wait_until(lambda: [world.now_of(batch).status for batch in stalled[:2]] == ["in_progress"] * 2, timeout_s=5)
    small = world.batch_of((line_of(number) for number in range(10)), owner="bert")
    wait_until(lambda: world.now_of(small).status == "completed", timeout_s=10)
    assert_every_line_once(world, small, 10)
    # Its first goes on, and the slot that was lent is its own again. Of suspects, those of one batch go at a time.
    wait_until(lambda: world.engines.asked["stall"] in ((1, 2) if num_attempts else (3,)), timeout_s=5)
    runner.stop()
    assert [world.now_of(batch).status for batch in stalled] == ["in_progress", "in_progress", "validating"]
    assert all(world.store.attempts(batch.id) == ({1: num_attempts} if num_attempts else {}) for batch in stalled)


@pytest.mark.parametrize("turn_s", [0.2, 3600.0])
def test_where_no_key_has_two_slots_one_is_given_up_after_its_turn(tmp_path: Path, turn_s: float) -> None:
    world = World(tmp_path, jobs_at_once=1)
    stalled = world.batch_of([line_of(1, "stall")], owner="anna")
    own = world.batch_of([line_of(1)], owner="anna")
    runner = BatchScheduler(world.context, turn_s=turn_s)
    runner.start()
    wait_until(lambda: world.engines.asked["stall"] == 1, timeout_s=5)
    other = world.batch_of([line_of(1)], owner="bert")
    if turn_s < 1:
        wait_until(lambda: world.now_of(other).status == "completed", timeout_s=20)
        wait_until(lambda: world.engines.asked["stall"] >= 2, timeout_s=5)
    else:
        runner.wake()
        time.sleep(0.2)
        assert world.now_of(other).status == "validating"
    runner.stop()
    assert world.now_of(stalled).status == "in_progress"
    assert world.now_of(own).status == "validating"


def test_a_run_that_fails_is_tried_again(world: World) -> None:
    batch = world.batch_of([line_of(1)])
    tries = 0

    def run(context: RunContext, batch_id: str) -> None:
        nonlocal tries
        tries += 1
        if tries < 3:
            raise OSError("No space left on device")
        context.store.finish(batch_id, only_from=["validating"], files=[], status="completed", completed_at=1)

    runner = runner_of(world, run)
    runner.start()
    wait_until(lambda: world.now_of(batch).status == "completed", timeout_s=10)
    runner.stop()
    assert tries == 3


def test_a_runner_that_is_stopped_leaves_the_rest_for_the_next(world: World) -> None:
    batch = world.batch_of(line_of(number) for number in range(20))
    halfway = threading.Event()

    def wait_halfway() -> None:
        if world.engines.asked.total() >= 8:
            halfway.set()
            time.sleep(0.2)

    world.engines.after_answer = wait_halfway
    runner = runner_of(world)
    runner.start()
    assert halfway.wait(5)
    runner.stop()
    assert world.now_of(batch).status == "in_progress"
    world.engines.after_answer = lambda: None
    again = runner_of(world)
    again.start()
    wait_until(lambda: world.now_of(batch).status == "completed", timeout_s=5)
    again.stop()
    assert_every_line_once(world, batch, 20)


@pytest.fixture
def _often_cleaned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scheduler_module, "_CLEAN_S", 0.0)
    monkeypatch.setattr(scheduler_module, "_LOOK_S", 0.01)


def ended_batch(world: World) -> BatchRecord:
    batch = world.batch_of([line_of(1)])
    world.store.finish(
        batch.id, only_from=["validating"], files=[], status="failed", failed_at=int(world.now), errors=()
    )
    return batch


@pytest.mark.usefixtures("_often_cleaned")
def test_old_files_and_batches_are_deleted_but_not_what_an_open_batch_reads(world: World) -> None:
    ended, still_open = ended_batch(world), world.batch_of([line_of(2)])
    world.now += world.settings.limits.retention_s + 10
    world.contents.write("file-orphan", [b"x"])
    world.contents.write("file-young", [b"x"])
    path = world.folder / "files" / "file-orphan"
    os.utime(path, (path.stat().st_mtime - 90_000,) * 2)
    runner = runner_of(world, lambda context, batch_id: None)
    runner.start()
    wait_until(lambda: world.store.batch(None, ended.id) is None and not path.exists(), timeout_s=5)
    runner.stop()
    assert world.store.file(None, ended.input_file_id) is None
    assert world.store.file(None, still_open.input_file_id) is not None
    assert world.contents.size(still_open.input_file_id)
    assert world.contents.size("file-young")
    for name in (ended.input_file_id, "file-orphan"):
        with pytest.raises(FileMissingError):
            world.contents.size(name)


class Cleaned:
    """A runner that cleaned its world some times more, with nothing to run."""

    def __init__(self, world: World) -> None:
        num_looks = 0
        old_names = world.contents.old_names

        def count(older_than_s: float) -> list[str]:
            nonlocal num_looks
            num_looks += 1
            return old_names(older_than_s)

        world.contents.old_names = count  # type: ignore[method-assign]
        runner = runner_of(world, lambda context, batch_id: None)
        runner.start()
        wait_until(lambda: num_looks >= 4, timeout_s=5)
        runner.stop()
        world.contents.old_names = old_names  # type: ignore[method-assign]


@pytest.mark.usefixtures("_often_cleaned")
def test_a_clock_that_jumps_a_month_deletes_nothing(world: World, caplog: pytest.LogCaptureFixture) -> None:
    ended = ended_batch(world)
    world.jumped_s = world.settings.limits.retention_s + 10.0
    Cleaned(world)
    # Nor in a process that starts with the wrong time, until it has had time to be corrected.
    world.clock = world.new_clock()
    Cleaned(world)
    assert world.store.batch(None, ended.id) is not None
    assert world.store.file(None, ended.input_file_id) is not None
    assert world.contents.size(ended.input_file_id)
    assert sum("clock has jumped by +" in record.message for record in caplog.records) == 1
    world.now += STEADY_S
    Cleaned(world)
    assert world.store.batch(None, ended.id) is None


def test_a_clock_that_jumps_a_day_expires_no_batch(world: World) -> None:
    batch = world.batch_of([line_of(1, "stall")])
    world.jumped_s = 86_400.0
    for _ in range(2):
        runner = runner_of(world)
        runner.start()
        wait_until(lambda: world.engines.asked["stall"] > 0, timeout_s=5)
        time.sleep(0.05)
        runner.stop()
        assert world.now_of(batch).status == "in_progress"
        # Another process starts, with the wrong time.
        world.engines.asked.clear()
        world.clock = world.new_clock()
    world.now += STEADY_S
    runner = runner_of(world)
    runner.start()
    wait_until(lambda: world.now_of(batch).status == "expired", timeout_s=5)
    runner.stop()


def test_a_damaged_record_stops_no_other_batch(world: World, caplog: pytest.LogCaptureFixture) -> None:
    damaged, batch = world.batch_of([line_of(1)]), world.batch_of([line_of(1)])
    with world.store._database.writing() as connection:
        connection.execute(
            update(database.batches).where(database.batches.c.id == damaged.id).values(total=-1, endpoint="/v1/chat")
        )
    runner = runner_of(world)
    runner.start()
    wait_until(lambda: world.now_of(batch).status == "completed", timeout_s=5)
    runner.stop()
    assert_every_line_once(world, batch, 1)
    failed = world.now_of(damaged)
    assert (failed.status, failed.errors[0]["code"], failed.total) == ("failed", DAMAGED, 0)
    assert sum(damaged.id in record.message for record in caplog.records) == 1
