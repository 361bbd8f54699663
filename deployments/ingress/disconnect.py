"""Stop work when the client that asked for it has left."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from starlette.types import Receive

T = TypeVar("T")


class ClientLeft(Exception):  # noqa: N818 - not an error of anyone's
    """The client closed its connection before its answer was complete."""


async def unless_client_leaves(receive: Receive, work: Coroutine[Any, Any, T]) -> T:
    """Await ``work``; cancel it as soon as the client disconnects. The request's body must have been read.

    Raises:
        ClientLeft: The client has left, and ``work`` has ended.
    """
    task = asyncio.create_task(work)
    departure = asyncio.create_task(_departure(receive))
    try:
        await asyncio.wait({task, departure}, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise ClientLeft
        return task.result()
    finally:
        task.cancel()
        departure.cancel()
        await asyncio.gather(task, departure, return_exceptions=True)


async def _departure(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
