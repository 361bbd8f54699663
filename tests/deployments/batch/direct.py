"""The batch deployment without a deployment: a handle that calls a service in a thread of its own process."""

import asyncio
from functools import partial
from types import SimpleNamespace
from typing import Any

from deployments.batch.deployment import reply_of
from deployments.batch.service import BatchService
from deployments.errors import OverloadedError


class DirectBatches:
    """Away for a moment while it has no service."""

    def __init__(self, service: BatchService | None = None) -> None:
        self.service = service
        self.call = SimpleNamespace(remote=self._call)

    async def _call(self, name: str, *args: Any) -> Any:
        if self.service is None:
            raise OverloadedError("The service has no capacity for this request now.")
        return await asyncio.to_thread(reply_of, partial(getattr(self.service, name), *args))
