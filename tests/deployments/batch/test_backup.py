"""The commands of docs/runbook.md back up a state in use, from which another service goes on."""

import asyncio
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.deployments.batch.world import BatchWorld, assert_every_line_once, line_of
from tests.pages import blocks_run_by
from tools.docs.examples import typed_text

[BACKUP] = blocks_run_by(__file__, "docs/runbook.md")
NUM_LINES = 40


class StopError(Exception):
    """Nothing after it runs."""


@pytest.mark.skipif(shutil.which("sqlite3") is None, reason="sqlite3 is not installed")
@pytest.mark.parametrize("num_answered", [1, 25])
def test_a_batch_goes_on_from_a_backup(tmp_path: Path, num_answered: int) -> None:
    state, backup = tmp_path / "state", tmp_path / "backup"
    state.mkdir()
    backup.mkdir()
    world = BatchWorld(state)
    batch = world.batch_of([line_of(number, f"text {number}") for number in range(NUM_LINES)])
    left = iter(range(num_answered - 1, -1, -1))

    def stop() -> None:
        if not next(left):
            raise StopError

    world.engines.after_answer = stop
    with pytest.raises(ExceptionGroup):
        asyncio.run(world.run(batch))
    # The service has its database open meanwhile.
    variables = {"STATE": str(state), "BACKUP": str(backup), "PATH": "/usr/bin:/bin"}
    subprocess.run(["bash", "-e", "-c", typed_text(BACKUP)], env=variables, check=True)
    world.close()
    shutil.rmtree(state)
    restored = BatchWorld(backup)
    asyncio.run(restored.run(batch))
    assert_every_line_once(restored, batch, NUM_LINES)
    restored.close()
