"""The batch deployment: one replica that keeps the state of batches, answers what is asked of them, and runs them.

Whatever it knows is in the database and the files, so it may die at any time: Serve starts it again, and it goes on.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from ray.serve.handle import DeploymentHandle

from deployments.batch.api.handle import CALLS, Reply, reply_of
from deployments.batch.api.service import BatchService
from deployments.batch.state.contents import Contents
from deployments.batch.state.store import Store
from deployments.batch.worker.pipeline import FeederSettings, ServeEngines
from deployments.batch.worker.runner import Runner
from deployments.batch.worker.tools import Engines, Tools
from deployments.protocol.reader import ChatRequestReader
from deployments.settings import Settings

logger = logging.getLogger("ray.serve")

_STOP_S: Final = 5.0


class Batches:
    """Started by Serve; ``replica`` is the deployment that answers lines."""

    async def __init__(  # type: ignore[misc]  # Serve awaits a constructor
        self, settings: Settings, replica: DeploymentHandle, *, engines: Engines | None = None
    ) -> None:
        batch = settings.batch
        self._store = await asyncio.to_thread(Store, batch.resolved_database())
        contents = await asyncio.to_thread(Contents, batch.resolved_files())
        num_lines = batch.lines_sent * settings.autoscaling.max_replicas
        running = engines or ServeEngines(FeederSettings(replica.app_name, replica.deployment_name, num_lines))
        reader = ChatRequestReader.of(settings)

        def make_tools(is_stopping: Callable[[], bool]) -> Tools:
            return Tools(self._store, contents, running, reader, settings.limits, batch, is_stopping)

        self._runner = Runner(make_tools)
        self._service = BatchService(settings, self._store, contents, on_change=self._runner.wake)
        self._runner.start()
        await asyncio.to_thread(running.get_ready)

    async def call(self, name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Reply:
        """One of the operations of ``BatchService``; an error is given back, for one raised would fill the log."""
        if name not in CALLS:
            raise ValueError(f"there is no such operation: {name!r}")
        return await asyncio.to_thread(reply_of, getattr(self._service, name), args, kwargs)

    def check_health(self) -> None:
        """Asked by Serve, which replaces a replica that raises."""
        if not self._runner.is_alive():
            raise RuntimeError("the runner of batches has ended")

    async def __del__(self) -> None:
        """Serve waits for it when it ends the replica."""
        await asyncio.to_thread(self._runner.stop, _STOP_S)
        self._store.close()
