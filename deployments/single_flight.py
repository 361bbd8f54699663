"""Things that are made once however many ask for them, the last few of them remembered. It knows nothing of lists."""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from typing import Any


class MadeOnce:
    """What is known or being made, by key: the last ``size`` of them. Used from one event loop."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._tasks: OrderedDict[Hashable, asyncio.Task[Any]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._tasks)

    async def get(
        self,
        key: Hashable,
        make: Callable[[], Awaitable[Any]],
        is_there: Callable[[Any], Awaitable[bool]],
        *,
        kept_errors: type[Exception] | tuple[()] = (),
    ) -> Any:
        """What ``make`` gives, called once however many ask, and again only where ``is_there`` denies the result.

        A call that fails fails all who wait for it, and is forgotten unless its error is one of ``kept_errors``.
        """
        task = self._tasks.get(key)
        if task is not None and task.done() and not task.exception() and not await is_there(task.result()):
            # Another caller may have begun to make it anew meanwhile.
            now = self._tasks.get(key)
            task = None if now is task else now
        if task is None:
            task = asyncio.create_task(_await(make))
            self._tasks[key] = task
            task.add_done_callback(lambda done: self._forget_if_failed(key, done, kept_errors))
        self._tasks[key] = task
        self._tasks.move_to_end(key)
        while len(self._tasks) > self._size:
            self._tasks.popitem(last=False)
        # A caller who goes away does not take the work from those who wait with it.
        return await asyncio.shield(task)

    def _forget_if_failed(
        self, key: Hashable, task: asyncio.Task[Any], kept_errors: type[Exception] | tuple[()]
    ) -> None:
        # Asking for the error also marks it as seen, for callers may all have gone.
        failed = task.cancelled() or ((error := task.exception()) is not None and not isinstance(error, kept_errors))
        if failed and self._tasks.get(key) is task:
            del self._tasks[key]


async def _await(make: Callable[[], Awaitable[Any]]) -> Any:
    return await make()
