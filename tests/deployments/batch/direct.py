"""The batch deployment without a deployment: the front calls a service in a thread of its own process."""

import asyncio
from dataclasses import dataclass
from typing import Any

from deployments.batch.api.handle import Operation, reply_of
from deployments.batch.api.service import BatchService
from deployments.errors import OverloadedError, from_error_item


@dataclass
class DirectBatches:
    """``Batches``; away for a moment while it has no service."""

    service: BatchService | None = None

    async def call(self, request_id: str, operation: Operation, *args: Any) -> Any:
        if self.service is None:
            raise OverloadedError("The service has no capacity for this request now.")
        reply = await asyncio.to_thread(reply_of, getattr(self.service, operation), args, {})
        if "value" not in reply:
            raise from_error_item(reply, request_id)
        return reply["value"]
