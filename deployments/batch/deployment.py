"""The batch deployment: one replica that keeps the state of batches, serves their API, and runs them.

Its state is in the database and the files, so it may die at any time: Serve restarts it, and it resumes.
"""

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from typing import Any, Final, TypeVar

from ray import serve
from ray.serve.handle import DeploymentHandle

from deployments.batch.database import StoreError
from deployments.batch.runner import BatchRunner, Engines
from deployments.batch.service import BatchService
from deployments.batch.stages import Clock, Stages
from deployments.batch.store import BatchStore, DamagedRecordError
from deployments.contract import LineAnswer, LineRequest
from deployments.errors import ApiError, EngineDiedError, EngineError
from deployments.process_setup import run_ready_hook, set_up_process
from deployments.protocol.reader import ChatRequestReader
from deployments.ray_private import by_grpc
from deployments.settings.service import Settings
from deployments.storage import Location, StorageError

logger = logging.getLogger("ray.serve")

T = TypeVar("T")

_STOP_S: Final = 5.0

_DAMAGED: Final = "What the server recorded of it is damaged. Ask the operator: the log says what to do."


def reply_of(operation: Callable[[], T]) -> T | ApiError:
    """Run an operation of the service and return what it returned, or the error that it raised.

    An exception that crosses a handle would fill Serve's log.
    """
    try:
        return operation()
    except ApiError as error:
        return error.with_traceback(None)
    except DamagedRecordError as error:
        logger.error("%s", error)
        return EngineError(500, _DAMAGED, code="record_damaged")
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
        folder = await asyncio.to_thread(Location.of, batch.resolved_files())
        await asyncio.to_thread(folder.prepare_folder)
        num_lines = batch.lines_sent * settings.autoscaling.max_replicas
        running = engines or ServeEngines(replica.app_name, replica.deployment_name, num_lines)
        reader = ChatRequestReader.of(settings)
        clock = Clock()
        self._runner = BatchRunner(Stages(self._store, folder, reader, settings.limits, batch, clock), running)
        self._service = BatchService(settings, self._store, folder, clock=clock, on_change=self._runner.wake)
        self._runner.start()
        run_ready_hook()

    async def call(self, name: str, *args: Any) -> Any:
        """Run an operation of ``BatchService`` in a thread; return what it returned, or the ``ApiError`` it raised."""
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


class ServeEngines:
    """The ``Engines`` behind the handle of a deployment of Serve."""

    def __init__(self, app_name: str, deployment_name: str, num_lines: int) -> None:
        self.num_lines = num_lines
        self._app_name = app_name
        self._deployment_name = deployment_name

    async def answer(self, line: LineRequest) -> LineAnswer:
        handle = by_grpc(serve.get_deployment_handle(self._deployment_name, self._app_name))
        response = handle.answer_line.remote(line)
        try:
            answer: LineAnswer = await response
        except asyncio.CancelledError:
            response.cancel()
            raise
        except Exception as error:
            logger.warning("line %s has no answer: %s", line.request_id, type(error).__name__)
            return EngineDiedError()
        return answer

    async def are_ready(self) -> bool:
        status = await asyncio.to_thread(serve.status)
        application = status.applications.get(self._app_name)
        deployment = application.deployments.get(self._deployment_name) if application else None
        return deployment is not None and deployment.replica_states.get("RUNNING", 0) > 0
