"""The batch deployment without Serve: what it answers, and what it finds when it starts again."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from deployments.batch.deployment import Batches
from deployments.settings.service import Settings
from tests.deployments.batch.world import StandInEngines

NOBODY: Any = SimpleNamespace(app_name="app", deployment_name="Replica")
"""The handle of a deployment that is never asked: the batches here have no line for it."""


class Deployment(Batches):
    """Is ended by the test: Serve alone waits for its end."""

    def __del__(self) -> None:  # type: ignore[override]
        pass


@asynccontextmanager
async def deployment(folder: Path) -> AsyncIterator[Deployment]:
    made = Deployment.__new__(Deployment)
    settings = Settings.load({"secret_token": "k", "model_id": "m", "batch": {"state_dir": str(folder)}}, {})
    await made.__init__(settings, NOBODY, engines=StandInEngines())  # type: ignore[misc]
    yield made
    await Batches.__del__(made)


async def test_it_keeps_what_it_is_given_and_runs_it_also_after_a_new_start(tmp_path: Path) -> None:
    async with deployment(tmp_path) as first:
        upload_id = await first.call("begin_upload", "default", 5)
        await first.call("append", "default", upload_id, b"{\n\nx\n")
        reply = await first.call("create_file", "default", upload_id, "in.jsonl", "batch")
        fields = {"input_file_id": reply["id"], "endpoint": "/v1/chat/completions", "completion_window": "1h"}
        batch = await first.call("create_batch", "default", fields)
    async with deployment(tmp_path) as second:
        async with asyncio.timeout(20):
            while batch["status"] != "completed":
                await asyncio.sleep(0.05)
                batch = await second.call("get_batch", "default", batch["id"])
        assert batch["request_counts"] == {"total": 3, "completed": 0, "failed": 3}
        errors = await second.call("read_file", "default", batch["error_file_id"], 0, 10_000)
        assert errors.count(b"\n") == 3
        assert (await second.call("get_file", "default", "file-0")).status == 404
        await second.check_health()
    with pytest.raises(RuntimeError):
        await second.check_health()
