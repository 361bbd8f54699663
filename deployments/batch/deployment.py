"""The batch deployment: one replica that keeps the state of batches, serves their API, and runs them.

Its state is in the database and the files, so it may die at any time: Serve restarts it, and it resumes.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Concatenate, Final, ParamSpec

from ray.serve.handle import DeploymentHandle

from deployments.batch.api.handle import Reply
from deployments.batch.api.service import BatchService
from deployments.batch.state.contents import Contents
from deployments.batch.state.records import Clock
from deployments.batch.state.store import BatchStore, StoreError
from deployments.batch.worker.feeder import LineEngines, ServeEngines
from deployments.batch.worker.run_context import RunContext
from deployments.batch.worker.scheduler import BatchScheduler
from deployments.errors import ApiError, EngineError
from deployments.process_setup import set_up_process, watch_event_loop
from deployments.protocol.generation.reader import ChatRequestReader
from deployments.settings.service import Settings
from deployments.storage import StorageError

logger = logging.getLogger("ray.serve")

_STOP_S: Final = 5.0

P = ParamSpec("P")


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


def _method(
    operation: Callable[Concatenate[BatchService, P], Any],
) -> Callable[Concatenate["Batches", P], Awaitable[Reply]]:
    """Return a method of the deployment that runs an operation of the service in a thread."""

    async def method(self: "Batches", /, *args: P.args, **kwargs: P.kwargs) -> Reply:
        return await asyncio.to_thread(reply_of, partial(operation, self._service, *args, **kwargs))

    return method


class Batches:
    """The batch deployment: its API's operations, and the scheduler of batches.

    ``replica`` is the deployment that answers lines.
    """

    async def __init__(  # type: ignore[misc]  # Serve awaits a constructor
        self, settings: Settings, replica: DeploymentHandle, *, engines: LineEngines | None = None
    ) -> None:
        set_up_process(settings)
        batch = settings.batch
        self._store = await asyncio.to_thread(BatchStore, batch.resolved_database())
        contents = await asyncio.to_thread(Contents, batch.resolved_files())
        num_lines = batch.lines_sent * settings.autoscaling.max_replicas
        running = engines or ServeEngines(replica.app_name, replica.deployment_name, num_lines)
        reader = ChatRequestReader.of(settings)
        clock = Clock()

        def make_context(is_stopping: Callable[[], bool]) -> RunContext:
            return RunContext(self._store, contents, running, reader, settings.limits, batch, is_stopping, clock)

        self._scheduler = BatchScheduler(make_context)
        self._service = BatchService(settings, self._store, contents, clock=clock, on_change=self._scheduler.wake)
        self._scheduler.start()
        watch_event_loop()

    begin_upload = _method(BatchService.begin_upload)
    append = _method(BatchService.append)
    create_file = _method(BatchService.create_file)
    list_files = _method(BatchService.list_files)
    get_file = _method(BatchService.get_file)
    read_file = _method(BatchService.read_file)
    delete_file = _method(BatchService.delete_file)
    create_batch = _method(BatchService.create_batch)
    list_batches = _method(BatchService.list_batches)
    get_batch = _method(BatchService.get_batch)
    cancel_batch = _method(BatchService.cancel_batch)
    create_job = _method(BatchService.create_job)
    get_job = _method(BatchService.get_job)
    job_results = _method(BatchService.job_results)

    async def check_health(self) -> None:
        """Raise where the scheduler of batches has ended; Serve then replaces the replica.

        Serve calls what is no coroutine in a thread.
        """
        if not self._scheduler.is_alive():
            raise RuntimeError("the scheduler of batches has ended")

    async def __del__(self) -> None:
        """Called by Serve when it ends the replica."""
        await asyncio.to_thread(self._scheduler.stop, _STOP_S)
        self._service.close()
        self._store.close()
