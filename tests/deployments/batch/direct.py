"""The batch deployment without a deployment: the front's client calls a service in a thread of its own process."""

import asyncio
from functools import partial
from types import SimpleNamespace
from typing import Any

from deployments.batch.api import BatchClient
from deployments.batch.deployment import reply_of
from deployments.batch.service import BatchService
from deployments.errors import OverloadedError


class DirectBatches(BatchClient):
    """Away for a moment while it has no service."""

    def __init__(self, service: BatchService | None = None) -> None:
        self.service = service
        handle: Any = _Handle(self)
        super().__init__(handle)


class _Handle:
    """Gives ``call`` as a handle gives a method of a deployment."""

    def __init__(self, batches: DirectBatches) -> None:
        async def remote(name: str, *args: Any) -> Any:
            if batches.service is None:
                raise OverloadedError("The service has no capacity for this request now.")
            return await asyncio.to_thread(reply_of, partial(getattr(batches.service, name), *args))

        self.call = SimpleNamespace(remote=remote)
