"""The batch deployment: one replica that keeps the state of batches, serves their API, and runs them.

Its state is in the database and the files, so it may die at any time: Serve restarts it, and it resumes.
"""

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from ray.serve.handle import DeploymentHandle

from deployments.batch.api.handle import Reply
from deployments.batch.api.service import BatchService
from deployments.batch.engines import Engines, ServeEngines
from deployments.batch.runner import BatchRunner
from deployments.batch.stages import Stages
from deployments.batch.state.contents import Contents
from deployments.batch.state.records import Clock
from deployments.batch.state.store import BatchStore, StoreError
from deployments.errors import ApiError, EngineError
from deployments.process_setup import run_ready_hook, set_up_process
from deployments.protocol.generation.reader import ChatRequestReader
from deployments.settings.service import Settings
from deployments.storage import StorageError

logger = logging.getLogger("ray.serve")

_STOP_S: Final = 5.0


def reply_of(operation: Callable[[], Any]) -> Reply:
    """Run an operation of the service and return its reply, an error included.

    An exception that crosses a handle would fill Serve's log.
    """
    try:
        return operation()
    except ApiError as error:
        return error.with_traceback(None)
    except (StoreError, StorageError) as error:
        logger.error("the state of batches cannot be used: %s", error)
        return EngineError(503, "The store of batches cannot be used now. Try again later.", code="storage_unavailable")
    except Exception:
        logger.exception("an operation on batches failed")
        return EngineError(500, "The server failed on this request.", code="internal_error")


class Batches:
    """The batch deployment: its API's operations, and the runner of batches.

    ``replica`` is the deployment that answers lines.
    """

    async def __init__(  # type: ignore[misc]  # Serve awaits a constructor
        self, settings: Settings, replica: DeploymentHandle, *, engines: Engines | None = None
    ) -> None:
        set_up_process(settings)
        batch = settings.batch
        self._store = await asyncio.to_thread(BatchStore, batch.resolved_database())
        contents = await asyncio.to_thread(Contents, batch.resolved_files())
        num_lines = batch.lines_sent * settings.autoscaling.max_replicas
        running = engines or ServeEngines(replica.app_name, replica.deployment_name, num_lines)
        reader = ChatRequestReader.of(settings)
        clock = Clock()
        self._runner = BatchRunner(Stages(self._store, contents, reader, settings.limits, batch, clock), running)
        self._service = BatchService(settings, self._store, contents, clock=clock, on_change=self._runner.wake)
        self._runner.start()
        run_ready_hook()

    async def call(self, name: str, *args: Any) -> Reply:
        """Run an operation of ``BatchService`` in a thread."""
        return await asyncio.to_thread(reply_of, partial(getattr(self._service, name), *args))

    async def check_health(self) -> None:
        """Raise where the runner of batches has ended; Serve then replaces the replica.

        Serve calls what is no coroutine in a thread.
        """
        if not self._runner.is_alive():
            raise RuntimeError("the runner of batches has ended")

    async def __del__(self) -> None:
        """Called by Serve when it ends the replica."""
        await self._runner.stop(_STOP_S)
        self._service.close()
        self._store.close()
