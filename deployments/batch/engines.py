"""The running service's replicas, as the lines of batches are sent to them."""

import asyncio
import logging
from typing import Protocol

from ray import serve

from deployments.contract import LineAnswer, LineRequest

logger = logging.getLogger("ray.serve")


class Engines(Protocol):
    """What answers lines, at most ``num_lines`` at once."""

    num_lines: int

    async def answer(self, line: LineRequest) -> LineAnswer | None:
        """Return the answer to a line; None where its replica died."""

    async def are_ready(self) -> bool:
        """Return whether an engine is running."""


class ServeEngines:
    """The ``Engines`` behind the handle of a deployment of Serve."""

    def __init__(self, app_name: str, deployment_name: str, num_lines: int) -> None:
        self.num_lines = num_lines
        self._app_name = app_name
        self._deployment_name = deployment_name

    async def answer(self, line: LineRequest) -> LineAnswer | None:
        response = serve.get_deployment_handle(self._deployment_name, self._app_name).answer_line.remote(line)
        try:
            answer: LineAnswer = await response
        except asyncio.CancelledError:
            response.cancel()
            raise
        except Exception as error:
            logger.warning("line %s has no answer: %s", line["request_id"], type(error).__name__)
            return None
        return answer

    async def are_ready(self) -> bool:
        status = await asyncio.to_thread(serve.status)
        application = status.applications.get(self._app_name)
        deployment = application.deployments.get(self._deployment_name) if application else None
        return deployment is not None and deployment.replica_states.get("RUNNING", 0) > 0
