"""Gather concurrent queries of one event loop into batches, each equal one computed once; run coroutines anywhere."""

import asyncio
import threading
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass
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


@dataclass(eq=False)
class _PendingRow:
    """The row of one key that is awaited: a future that all who ask for it share."""

    future: "asyncio.Future[Any]"
    num_waiters: int = 0
    batch: "_Batch | None" = None


@dataclass(eq=False)
class _Batch:
    task: "asyncio.Task[None]"
    flights: list[_PendingRow]


class Gatherer:
    """Gathers the queries of one event loop into batches.

    A batch is closed when it is full (``batch_size``), when the loop has nothing else to do, or, where other work
    keeps the loop busy, after ``timeout`` seconds. A failed batch raises its exception in everybody who waits for it.
    Who is cancelled leaves the others alone; what nobody waits for any more is taken back.
    """

    def __init__(self, source: RowSource) -> None:
        self._source = source
        self._flights: dict[_AnyKey, _PendingRow] = {}
        self._waiting: dict[_AnyKey, _PendingRow] = {}
        self._batches: set[asyncio.Task[None]] = set()
        self._watcher: asyncio.Task[None] | None = None

    @property
    def waiting(self) -> list[_AnyKey]:
        """The queries that are in no batch yet."""
        return list(self._waiting)

    async def rows(self, keys: Sequence[_AnyKey]) -> list[Any]:
        """Wait for the rows of ``keys``, gathered into batches; return them in the order of the keys."""
        flights = [self._join(key) for key in keys]
        try:
            # Shielded, for the future belongs to everybody who asked for the same prefix.
            return [await asyncio.shield(flight.future) for flight in flights]
        finally:
            for key, flight in zip(keys, flights, strict=True):
                self._leave(key, flight)

    def add(self, key: Key, future: "asyncio.Future[Any]") -> None:
        """Queue a key; set ``future`` to its row, or to the error, when it is computed."""
        flight = self._join(key)

        def hand_over(done: "asyncio.Future[Any]") -> None:
            if future.done():
                return
            if done.cancelled():
                future.cancel()
            elif error := done.exception():
                future.set_exception(error)
            else:
                future.set_result(done.result())

        flight.future.add_done_callback(hand_over)

    def reset(self) -> None:
        """Drop the queries that are in no batch yet: who waits for one gets a RuntimeError."""
        for key, flight in self._waiting.items():
            self._flights.pop(key, None)
            _fail(flight.future, RuntimeError("the query was dropped by reset_async_queries()"))
        self._waiting.clear()

    def cancel(self) -> None:
        """Cancel all batches and queries; who waits for one is cancelled too."""
        for task in (*self._batches, *([self._watcher] if self._watcher else [])):
            if not task.get_loop().is_closed():
                task.cancel()

    def _join(self, key: _AnyKey) -> _PendingRow:
        """Add a caller to the flight of a key, queued if it is new; a full batch is closed."""
        flight = self._flights.get(key)
        if flight is None:
            flight = _PendingRow(asyncio.get_running_loop().create_future())
            self._flights[key] = self._waiting[key] = flight
            if len(self._waiting) >= self._source.batch_size:
                self.close_batch()
            elif self._watcher is None or self._watcher.done():
                self._watcher = asyncio.create_task(self._watch())
        flight.num_waiters += 1
        return flight

    def _leave(self, key: _AnyKey, flight: _PendingRow) -> None:
        """Remove a caller from a flight; cancel a row, or a whole batch, that nobody awaits."""
        flight.num_waiters -= 1
        if flight.num_waiters or flight.future.done():
            return
        if self._flights.get(key) is flight:
            del self._flights[key]
        flight.future.cancel()
        if flight.batch is None:
            self._waiting.pop(key, None)
        elif all(one.future.cancelled() for one in flight.batch.flights):
            flight.batch.task.cancel()

    async def _watch(self) -> None:
        """Close the batch when the loop is quiet or ``timeout`` is over; cancel it where the loop ends."""
        loop = asyncio.get_running_loop()
        latest = loop.time() + self._source.timeout
        num_seen, num_quiet = 0, 0
        try:
            while self._waiting and num_quiet < _QUIET_PASSES and loop.time() < latest:
                await asyncio.sleep(0)
                num_quiet = num_quiet + 1 if len(self._waiting) == num_seen else 0
                num_seen = len(self._waiting)
        except asyncio.CancelledError:
            # The loop ends.
            for key, flight in self._waiting.items():
                self._flights.pop(key, None)
                flight.future.cancel()
            self._waiting.clear()
            raise
        # An entry may have been added, and its batch closed, since this watcher began.
        if self._waiting:
            self.close_batch()

    def close_batch(self) -> None:
        """Start to compute the queries that wait, by group, with the next pass of the loop."""
        by_group: dict[Any, dict[Any, _PendingRow]] = {}
        for (group, item), flight in self._waiting.items():
            by_group.setdefault(group, {})[item] = flight
        self._waiting.clear()
        for group, flights in by_group.items():
            task = asyncio.create_task(self._compute(flights, group))
            batch = _Batch(task, list(flights.values()))
            for flight in flights.values():
                flight.batch = batch
            # The loop itself keeps only weak references to its tasks.
            self._batches.add(task)
            task.add_done_callback(self._batches.discard)

    async def _compute(self, flights: dict[Any, _PendingRow], group: Any) -> None:
        """Compute a batch and set the futures of its flights to the rows, or to the error."""
        try:
            rows = await self._source.compute_batch(list(flights), group)
            found = list(zip(flights.values(), rows, strict=True))
        except Exception as error:
            for flight in flights.values():
                _fail(flight.future, error)
        except BaseException:
            # The loop ends, or nobody waits.
            for flight in flights.values():
                flight.future.cancel()
            raise
        else:
            for flight, row in found:
                if not flight.future.done():
                    flight.future.set_result(row)
        finally:
            for item, flight in flights.items():
                if self._flights.get((group, item)) is flight:
                    del self._flights[group, item]


class Gatherers(WeakKeyDictionary[asyncio.AbstractEventLoop, Gatherer]):
    """The gatherers of a source, one for each event loop that asks it."""

    def __init__(self) -> None:
        super().__init__()
        self._lock = threading.Lock()

    def of_loop(self, source: RowSource) -> Gatherer:
        """Return the gatherer of the running event loop, created on first use."""
        with self._lock:
            return self.setdefault(asyncio.get_running_loop(), Gatherer(source))


def _fail(future: "asyncio.Future[Any]", error: Exception) -> None:
    """Set an error on a future that is not done, so that no log complains if nobody reads it."""
    if not future.done():
        future.set_exception(error)
        # Read once, so that nothing is logged where all who waited are gone.
        future.exception()


_Result = TypeVar("_Result")


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
    results: list[_Result] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            results.append(asyncio.run(work))
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=run, name="wordbound-lm-sync")
    thread.start()
    thread.join()
    if errors:
        raise errors[0]
    return results[0]
