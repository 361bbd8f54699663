"""Gather concurrent queries of one event loop into batches, each equal one computed once; run coroutines anywhere."""

import asyncio
import threading
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import chain
from typing import Any, Final, Protocol, TypeAlias, TypeVar
from weakref import WeakKeyDictionary

Ids = tuple[int, ...]
Key = tuple[str | None, Ids]
"""Of a row: the adapter (None is the model itself), by a name that only this loading of it has, and the prefix."""

_AnyKey: TypeAlias = tuple[Any, Any]
"""What is computed in the same batch, and an item of it; of rows, a ``Key``."""

_QUIET_PASSES: Final = 16
"""Passes of the event loop without a new query that close a batch.

Callers that a batch woke up together come back within a few passes (a task, what gathers it, and what waits for that
are one pass each). 16 of them take 0.2 ms, where a forward takes tens of milliseconds.
"""


def num_equal(left: Sequence[int], right: Sequence[int]) -> int:
    """Return how many ids two sequences have in common at their beginnings."""
    pairs = enumerate(zip(left, right, strict=False))
    return next((i for i, (one, other) in pairs if one != other), min(len(left), len(right)))


class RowSource(Protocol):
    """What computes a batch of items of one group. ``batch_size`` and ``timeout`` may change between batches."""

    batch_size: int
    timeout: float

    async def compute_batch(self, items: Any, group: Any, /) -> Sequence[Any]: ...


class Gatherer:
    """Gathers the queries of one event loop into batches.

    A batch is closed when it is full (``batch_size``), when the loop has nothing else to do, or, where other work
    keeps the loop busy, after ``timeout`` seconds. A failed batch raises its exception in everybody who waits for it.
    Who is cancelled leaves the others alone; what nobody waits for any more is taken back.
    """

    def __init__(self, source: RowSource) -> None:
        self._source = source
        # By key, the futures of all who wait for its row.
        self._futures: dict[_AnyKey, list[asyncio.Future[Any]]] = {}
        self._waiting: dict[_AnyKey, list[asyncio.Future[Any]]] = {}
        self._batches: dict[asyncio.Task[None], list[list[asyncio.Future[Any]]]] = {}
        self._watcher: asyncio.Task[None] | None = None

    @property
    def waiting(self) -> list[_AnyKey]:
        """The queries that are in no batch yet."""
        return list(self._waiting)

    async def rows(self, keys: Sequence[_AnyKey]) -> list[Any]:
        """Wait for the rows of ``keys``, gathered into batches; return them in the order of the keys."""
        loop = asyncio.get_running_loop()
        futures = [loop.create_future() for _ in keys]
        for key, future in zip(keys, futures, strict=True):
            self.add(key, future)
        try:
            return await asyncio.gather(*futures)
        finally:
            for future in futures:
                future.cancel()

    def add(self, key: _AnyKey, future: "asyncio.Future[Any]") -> None:
        """Queue a key; set ``future`` to its row, or to the error, when it is computed."""
        if key not in self._futures:
            self._futures[key] = self._waiting[key] = []
            if len(self._waiting) >= self._source.batch_size:
                self.close_batch()
            elif self._watcher is None or self._watcher.done():
                self._watcher = asyncio.create_task(self._watch())
        self._futures[key].append(future)
        future.add_done_callback(partial(self._take_back, key, self._futures[key]))

    def reset(self) -> None:
        """Drop the queries that are in no batch yet: who waits for one gets a RuntimeError."""
        for key, futures in self._waiting.items():
            del self._futures[key]
            _settle(futures, RuntimeError("the query was dropped by reset_async_queries()"))
        self._waiting.clear()

    def cancel(self) -> None:
        """Cancel all queries; who waits for one is cancelled too. Nothing after the end of the loop."""
        for future in chain.from_iterable(list(self._futures.values())):
            if not future.get_loop().is_closed():
                future.cancel()

    def _take_back(self, key: _AnyKey, futures: "list[asyncio.Future[Any]]", _: object) -> None:
        """Drop a query, or cancel a whole batch, that nobody waits for."""
        if not all(future.cancelled() for future in futures):
            return
        if self._futures.get(key) is futures:
            del self._futures[key]
            self._waiting.pop(key, None)
        for task, rows in self._batches.items():
            if all(future.cancelled() for future in chain.from_iterable(rows)):
                task.cancel()

    async def _watch(self) -> None:
        """Close the batch when the loop is quiet or ``timeout`` is over."""
        loop = asyncio.get_running_loop()
        latest = loop.time() + self._source.timeout
        num_seen, num_quiet = 0, 0
        while self._waiting and num_quiet < _QUIET_PASSES and loop.time() < latest:
            await asyncio.sleep(0)
            num_quiet = num_quiet + 1 if len(self._waiting) == num_seen else 0
            num_seen = len(self._waiting)
        self.close_batch()

    def close_batch(self) -> None:
        """Start to compute the queries that wait, by group, with the next pass of the loop."""
        by_group: dict[Any, dict[Any, list[asyncio.Future[Any]]]] = {}
        for (group, item), futures in self._waiting.items():
            by_group.setdefault(group, {})[item] = futures
        self._waiting.clear()
        for group, rows in by_group.items():
            task = asyncio.create_task(self._compute(rows, group))
            self._batches[task] = list(rows.values())
            task.add_done_callback(self._batches.pop)

    async def _compute(self, rows: "dict[Any, list[asyncio.Future[Any]]]", group: Any) -> None:
        try:
            results = list(zip(rows.values(), await self._source.compute_batch(list(rows), group), strict=True))
        except Exception as error:
            results = [(futures, error) for futures in rows.values()]
        except BaseException:
            # The loop ends, or nobody waits.
            for future in chain.from_iterable(rows.values()):
                future.cancel()
            raise
        finally:
            for item, futures in rows.items():
                if self._futures.get((group, item)) is futures:
                    del self._futures[group, item]
        for futures, result in results:
            _settle(futures, result)


def _settle(futures: "Sequence[asyncio.Future[Any]]", result: Any) -> None:
    for future in futures:
        if future.done():
            continue
        if isinstance(result, Exception):
            future.set_exception(result)
        else:
            future.set_result(result)


_Result = TypeVar("_Result")


class PerLoop(WeakKeyDictionary[asyncio.AbstractEventLoop, _Result]):
    """Objects that belong to one event loop each."""

    def __init__(self) -> None:
        super().__init__()
        self._lock = threading.Lock()

    def of_loop(self, make: Callable[[], _Result]) -> _Result:
        """Return that of the running event loop, made on first use."""
        loop = asyncio.get_running_loop()
        with self._lock:
            if loop not in self:
                self[loop] = make()
            return self[loop]


def running_loop() -> asyncio.AbstractEventLoop | None:
    """Return the event loop that runs in this thread, or None."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


def run_sync(work: Coroutine[Any, Any, _Result]) -> _Result:
    """Run a coroutine to its end, in this thread or, where an event loop runs in it, in a thread of its own."""
    if running_loop() is None:
        return asyncio.run(work)
    with ThreadPoolExecutor(1, "wordbound-lm-sync") as thread:
        return thread.submit(asyncio.run, work).result()
