"""Serve's handles: whether anybody is there, and waiting no longer than that.

A handle whose deployment has no replica waits until there is one, however long another takes to start.
"""

import asyncio
from collections.abc import Callable
from typing import Any, Final

from ray.serve.handle import DeploymentHandle

_CHECK_S: Final = 0.1
"""How often to check whether there is a replica at all while requests wait for one."""


def has_no_replica(handle: DeploymentHandle) -> bool:
    """Return whether a deployment has no running replica, as far as this process knows; False if unknown.

    It knows from the controller, and from those that it found dead.
    """
    # Ray 2.60 has no public way that does not ask the controller, which learns of a death later.
    router = getattr(getattr(handle, "_router", None), "_asyncio_router", None)
    known = getattr(getattr(router, "request_router", None), "curr_replicas", None)
    return known is not None and not known and bool(handle.running_replicas_populated())


def abandon(answer: asyncio.Future[Any]) -> None:
    """Cancel what nobody waits for any more, and take the error with which it may end.

    What awaits a response of a handle that was cancelled ends with an error of Serve's, and asyncio logs one that
    nobody has taken.
    """
    answer.add_done_callback(lambda done: None if done.cancelled() else done.exception())
    answer.cancel()


def waits_in(handle: DeploymentHandle, request_id: str) -> bool:
    """Return whether a request waits in this process for a replica of the deployment; False if unknown."""
    router = getattr(getattr(handle, "_router", None), "_asyncio_router", None)
    waiting = getattr(getattr(router, "request_router", None), "_pending_requests_to_fulfill", ())
    return any(one.metadata.request_id == request_id and not one.future.done() for one in waiting)


class Watch:
    """One polling task that completes the futures of all waiters once ``has_happened``; it runs while any wait."""

    def __init__(self, has_happened: Callable[[], bool]) -> None:
        self._has_happened = has_happened
        self._waiting = set[asyncio.Future[None]]()
        self._task: asyncio.Task[None] | None = None

    def add(self) -> asyncio.Future[None]:
        """Return a future that completes once ``has_happened``; cancel it to stop waiting."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.add(future)
        future.add_done_callback(self._waiting.discard)
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._run())
        return future

    async def _run(self) -> None:
        """Poll ``has_happened`` while any future waits, and complete them all when it is true."""
        while self._waiting:
            await asyncio.sleep(_CHECK_S)
            if self._has_happened():
                for future in list(self._waiting):
                    # One that was cancelled just now has not been discarded yet.
                    if not future.done():
                        future.set_result(None)
