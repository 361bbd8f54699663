"""When files and batches go, while the machine's clock jumps."""

import asyncio
import os
import time
from pathlib import Path

import pytest

from deployments.batch.models import Batch
from deployments.batch.stages import STEADY_S
from deployments.storage import FileMissingError
from tests.deployments.batch.world import BatchWorld, line_of, until

DAY = 86_400.0


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


@pytest.mark.fault(49)
async def test_a_clock_that_jumps_a_month_deletes_nothing(world: BatchWorld, caplog: pytest.LogCaptureFixture) -> None:
    ended = ended_batch(world)
    world.jumped_s = world.settings.limits.retention_s + 10.0
    await clean(world)
    # Nor in a process that starts with the wrong time, until it has had time to be corrected.
    world.clock = world.new_clock()
    world.now += STEADY_S - 1
    await clean(world)
    assert world.store.batch(None, ended.id) is not None
    assert world.store.file(None, ended.input_file_id) is not None
    assert world.files.child(ended.input_file_id).size()
    # The time begins anew with each jump, and is not over while the clock is wrong.
    for jump in (DAY, -DAY):
        world.jumped_s += jump
        await clean(world)
        world.now += STEADY_S - 1
        await clean(world)
        assert world.store.batch(None, ended.id) is not None
    world.now += 1
    await clean(world)
    assert world.store.batch(None, ended.id) is None
    month, day, back = [record.message for record in caplog.records if "clock" in record.message]
    assert f"jumped by +{world.settings.limits.retention_s + 10} s" in month
    assert "jumped by +86400 s" in day
    assert "again where it was expected" in back


@pytest.mark.fault(49)
async def test_a_clock_that_jumps_a_day_expires_no_batch(world: BatchWorld) -> None:
    batch = world.batch_of([line_of(1, "stall")])
    world.jumped_s = DAY
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


@pytest.mark.parametrize("jump", [DAY, -DAY])
async def test_what_this_process_made_expires_in_time_wherever_the_machines_clock_is(
    tmp_path: Path, jump: float
) -> None:
    world = BatchWorld(tmp_path)
    batch = world.batch_of([line_of(1, "stall")])
    world.jumped_s = jump
    async with world.running():
        world.now += DAY - 1
        await until(lambda: world.engines.asked["stall"] > 0)
        await asyncio.sleep(0.05)
        assert world.now_of(batch).status == "in_progress"
        world.now += 1
        await until(lambda: world.now_of(batch).status == "expired")
    world.close()
