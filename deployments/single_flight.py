"""Results that are made once however many callers ask for them, the last few of them cached."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Hashable
from typing import Any, TypeVar

from cachetools import Cache, LRUCache

T = TypeVar("T")


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
