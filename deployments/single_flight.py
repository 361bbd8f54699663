"""Waiting together: results that are made once however many ask for them, and one watch for all who wait."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Hashable
from typing import Any, Final, TypeVar

from cachetools import Cache, LRUCache

T = TypeVar("T")

_CHECK_S: Final = 0.1
"""How often to check whether there is a replica at all while requests wait for one."""


class SingleFlight:
    """Caches results by key, each made once however many ask; the least recently used go beyond ``size``.

    Those being made count too. Used from one event loop.

    ``on_made`` is called after each result and each failure. With ``cancels_unwanted``, a call is cancelled when all
    who wait for it have left.
    """

    def __init__(
        self, size: int, on_made: Callable[[], None] = lambda: None, *, cancels_unwanted: bool = False
    ) -> None:
        self._tasks: LRUCache[Hashable, asyncio.Task[Any]] = LRUCache(size)
        self._on_made = on_made
        self._cancels_unwanted = cancels_unwanted
        self._num_waiting = Counter[asyncio.Task[Any]]()

    def __len__(self) -> int:
        return len(self._tasks)

    def __contains__(self, key: Hashable) -> bool:
        """Whether there is a result, or it is being made."""
        return key in self._tasks

    async def get(
        self,
        key: Hashable,
        make: Callable[[], Coroutine[Any, Any, T]],
        is_there: Callable[[T], Awaitable[bool]] | None = None,
        *,
        cached_errors: type[Exception] | tuple[()] = (),
    ) -> T:
        """Return the cached result of ``make``, called once however many ask, and again if ``is_there`` denies it.

        A failed call raises for all who wait for it, and is forgotten unless its error is one of ``cached_errors``.
        """
        task = self._tasks.get(key)
        if is_there and task and task.done() and not task.exception() and not await is_there(task.result()):
            # Another caller may have restarted it meanwhile.
            now = self._tasks.get(key)
            task = None if now is task else now
        if task is None:
            task = asyncio.create_task(make())
            task.add_done_callback(lambda done: self._settle(key, done, cached_errors))
        self._tasks[key] = task
        self._num_waiting[task] += 1
        try:
            # A cancelled caller must not cancel the work of the others.
            result: T = await asyncio.shield(task)
            return result
        finally:
            self._leave(key, task)

    def results(self) -> list[Any]:
        """Return all cached results, without marking them as used."""
        tasks = [Cache.__getitem__(self._tasks, key) for key in self._tasks]
        return [task.result() for task in tasks if task.done() and not task.cancelled() and not task.exception()]

    def drop_least_used(self) -> None:
        """Drop the least recently used result."""
        self._tasks.popitem()

    def _leave(self, key: Hashable, task: asyncio.Task[Any]) -> None:
        """Count a caller out; cancel the task if nobody waits for it and ``cancels_unwanted``."""
        self._num_waiting[task] -= 1
        if self._num_waiting[task]:
            return
        del self._num_waiting[task]
        if self._cancels_unwanted and not task.done():
            # Forgotten at once, for the next caller must not wait for what is ending.
            if self._tasks.get(key) is task:
                del self._tasks[key]
            task.cancel()

    def _settle(self, key: Hashable, task: asyncio.Task[Any], cached_errors: type[Exception] | tuple[()]) -> None:
        """Forget a task that failed, unless its error is to be cached; call ``on_made``."""
        # Asking for the error also marks it as retrieved; all callers may be gone.
        failed = task.cancelled() or ((error := task.exception()) is not None and not isinstance(error, cached_errors))
        if failed and self._tasks.get(key) is task:
            del self._tasks[key]
        self._on_made()


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
        while self._waiting:
            await asyncio.sleep(_CHECK_S)
            if self._has_happened():
                for future in list(self._waiting):
                    # One that was cancelled just now has not been discarded yet.
                    if not future.done():
                        future.set_result(None)


def abandon(answer: asyncio.Future[Any]) -> None:
    """Cancel what nobody waits for any more, and take the error with which it may end.

    What awaits a response of a handle that was cancelled ends with an error of Serve's, and asyncio logs one that
    nobody has taken.
    """
    answer.add_done_callback(lambda done: None if done.cancelled() else done.exception())
    answer.cancel()
