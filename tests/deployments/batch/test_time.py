"""When files and batches go, and a process's time of day beside a machine's clock that jumps."""

import asyncio
import os
import time

import pytest

from deployments.batch.models import Batch
from deployments.batch.stages import STEADY_S, Clock
from deployments.storage import FileMissingError
from tests.deployments.batch.world import BatchWorld, line_of, until

START = 1_000_000.0
DAY = 86_400.0


class Machine:
    """Its clock, of which a part has passed since it was started."""

    def __init__(self) -> None:
        self.passed = 0.0
        self.jumped = 0.0
        self.clock = Clock(wall=lambda: START + self.passed + self.jumped, monotonic=lambda: self.passed)

    def wait(self, seconds: float) -> None:
        self.passed += seconds
        self.clock.look()


@pytest.mark.parametrize("jump", [DAY, -DAY, 40.0])
def test_it_goes_on_evenly_whatever_the_machines_clock_does(jump: float) -> None:
    machine = Machine()
    machine.jumped = jump
    machine.wait(100)
    assert machine.clock() == START + 100


def test_what_this_process_made_is_over_when_its_time_has_passed() -> None:
    machine = Machine()
    machine.jumped = DAY
    machine.wait(99)
    assert not machine.clock.has_passed(START + 100, START)
    machine.wait(1)
    assert machine.clock.has_passed(START + 100, START)


def test_what_an_earlier_process_made_is_over_once_the_clock_has_gone_evenly() -> None:
    machine = Machine()
    machine.wait(STEADY_S - 1)
    assert not machine.clock.has_passed(START - 100, START - 200)
    machine.wait(1)
    assert machine.clock.has_passed(START - 100, START - 200)
    machine.jumped = DAY
    assert not machine.clock.has_passed(START - 100, START - 200)
    machine.wait(2 * STEADY_S)
    assert not machine.clock.has_passed(START - 100, START - 200)
    machine.jumped = 0.0
    machine.wait(1)
    assert not machine.clock.has_passed(START - 100, START - 200)
    machine.wait(STEADY_S)
    assert machine.clock.has_passed(START - 100, START - 200)


def test_a_jump_is_logged_once_and_its_end_too(caplog: pytest.LogCaptureFixture) -> None:
    machine = Machine()
    machine.wait(1)
    assert not caplog.records
    for jumped in (DAY, DAY, 0.0, 20.0, -DAY):
        machine.jumped = jumped
        machine.wait(1)
    jump, end, back = [record.message for record in caplog.records]
    assert "jumped by +86400 s" in jump
    assert "again where it was expected" in end
    assert "jumped by -86400 s" in back


async def clean(world: BatchWorld) -> None:
    """Cleans a few times, as a runner does that has nothing to run."""
    num_looks, old_batches = 0, world.store.old_batches

    def count(before: int) -> list[tuple[str, int]]:
        nonlocal num_looks
        num_looks += 1
        return old_batches(before)

    world.store.old_batches = count  # type: ignore[method-assign]
    async with world.running(clean_s=0.0):
        await until(lambda: num_looks >= 4)
    world.store.old_batches = old_batches  # type: ignore[method-assign]


def ended_batch(world: BatchWorld) -> Batch:
    batch = world.batch_of([line_of(1)])
    world.store.finish(
        batch.id, only_from=["validating"], files=[], status="failed", failed_at=int(world.now), errors=[]
    )
    return batch


async def test_old_files_and_batches_are_deleted_but_not_what_an_open_batch_reads(world: BatchWorld) -> None:
    ended, still_open = ended_batch(world), world.batch_of([line_of(2, "stall")])
    world.store.update_batch(still_open.id, only_from=["validating"], deadline=int(world.now) + 10**8)
    world.now += world.settings.limits.retention_s + 10
    orphan, young, foreign = (world.files.child(name) for name in ("file-0f", "file-0e", "notes.txt"))
    for file in (orphan, young, foreign):
        file.write([b"x"])
    for file in (orphan, foreign):
        os.utime(file.path, (time.time() - 90_000,) * 2)
    await clean(world)
    assert world.store.batch(None, ended.id) is None
    assert world.store.file(None, ended.input_file_id) is None
    assert world.store.file(None, still_open.input_file_id) is not None
    assert [file.size() for file in (young, foreign)] == [1, 1]
    assert world.files.child(still_open.input_file_id).size()
    for file in (world.files.child(ended.input_file_id), orphan):
        with pytest.raises(FileMissingError):
            file.size()


async def test_a_clock_that_jumps_a_month_deletes_nothing(world: BatchWorld, caplog: pytest.LogCaptureFixture) -> None:
    ended = ended_batch(world)
    world.jumped_s = world.settings.limits.retention_s + 10.0
    await clean(world)
    # Nor in a process that starts with the wrong time, until it has had time to be corrected.
    world.clock = world.new_clock()
    await clean(world)
    assert world.store.batch(None, ended.id) is not None
    assert world.store.file(None, ended.input_file_id) is not None
    assert world.files.child(ended.input_file_id).size()
    assert sum("clock has jumped by +" in record.message for record in caplog.records) == 1
    world.now += STEADY_S
    await clean(world)
    assert world.store.batch(None, ended.id) is None


async def test_a_clock_that_jumps_a_day_expires_no_batch(world: BatchWorld) -> None:
    batch = world.batch_of([line_of(1, "stall")])
    world.jumped_s = 86_400.0
    for _ in range(2):
        async with world.running():
            await until(lambda: world.engines.asked["stall"] > 0)
            await asyncio.sleep(0.05)
        assert world.now_of(batch).status == "in_progress"
        # Another process starts, with the wrong time.
        world.engines.asked.clear()
        world.clock = world.new_clock()
    world.now += STEADY_S
    async with world.running():
        await until(lambda: world.now_of(batch).status == "expired")
