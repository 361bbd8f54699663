"""Run the open batches: keys take turns at every line, and each line ends with exactly one result.

What is recorded is done and the rest is done again, so a run may end anywhere and another resume it.

A round sends every line without a result to the engines once, until an engine dies of one of them. Lines that were in
progress then go first in the next round, with no other line of any batch beside them: a few at once, and at last each
alone, so that one that kills engines is found and the others are answered. A batch with too many of them fails.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Final, TypeVar

from deployments.batch.engines import Engines
from deployments.batch.lines import Line, Place, answer_result, failure_result, line_id
from deployments.batch.stages import MAX_DEADLY_LINES, Stages
from deployments.batch.state.records import TERMINAL, BatchRecord, LineResult
from deployments.contract import ENGINE_DIED, NOT_STARTED, LineAnswer, LineRequest
from deployments.fair_semaphore import FairSemaphore
from deployments.metrics import BATCH_LINES, BATCHES
from deployments.storage import FileMissingError

logger = logging.getLogger("ray.serve")

T = TypeVar("T")

_MAX_SUSPECTS: Final = 256
"""Lines of a round that go a few at once, or alone: those that were in progress at one engine."""

_SUSPECTS_AT_ONCE: Final = 8
"""When the engine dies again, one of these killed it, and each of them goes alone the next time."""

_PAUSE_S: Final = 2.0
_READY_TIMEOUT_S: Final = 300.0

_LOOK_S: Final = 1.0
_CLEAN_S: Final = 600.0

_RETRY_S: Final = (1.0, 5.0, 30.0, 60.0)
"""The pause after a batch's first, second … failure in a row."""

_THREADS: Final = 8
"""For the database and files."""

_LONG_AT_ONCE: Final = 4
"""Batches whose lines are counted, or whose files are written, at once."""


class BatchRunner:
    """Runs all open batches, on one event loop.

    Looks for work when woken and once a second, for batches that another process added. A run that fails for a reason
    that is not the batch's is tried again.
    """

    def __init__(
        self,
        stages: Stages,
        engines: Engines,
        *,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        look_s: float = _LOOK_S,
        clean_s: float = _CLEAN_S,
        retry_s: tuple[float, ...] = _RETRY_S,
    ) -> None:
        self._stages = stages
        self._engines = engines
        self._sleep = sleep
        self._look_s = look_s
        self._clean_s = clean_s
        self._retry_s = retry_s
        self._turns = FairSemaphore(engines.num_lines)
        self._threads = ThreadPoolExecutor(_THREADS, "batches")
        self._long = asyncio.Semaphore(_LONG_AT_ONCE)
        self._loop = asyncio.get_running_loop()
        self._is_woken = asyncio.Event()
        self._runs: dict[str, asyncio.Task[None]] = {}
        # Of the batches that are in progress.
        self._rounds: dict[str, asyncio.Task[None]] = {}
        self._failures = Counter[str]()
        self._not_before: dict[str, float] = {}
        self._num_deadly = Counter[str]()
        self._clean_at = 0.0
        self._watch: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._watch = asyncio.create_task(self._run_open())

    def wake(self) -> None:
        """Look for work at once. May be called from any thread."""
        with suppress(RuntimeError):  # the loop has ended
            self._loop.call_soon_threadsafe(self._is_woken.set)

    def is_alive(self) -> bool:
        return self._watch is not None and not self._watch.done()

    async def stop(self, timeout_s: float = 10.0) -> None:
        """Stop all runs; the next start resumes them. Waits for what is being written."""
        tasks = [task for task in (self._watch, *self._runs.values()) if task is not None]
        for task in tasks:
            task.cancel()
        self._threads.shutdown(wait=False, cancel_futures=True)
        ended = asyncio.gather(*tasks, asyncio.to_thread(self._threads.shutdown), return_exceptions=True)
        await asyncio.wait({ended}, timeout=timeout_s)

    async def _run_open(self) -> None:
        """Start runs, and delete what is too old, until cancelled."""
        while True:
            self._stages.clock.look()
            try:
                await self._look()
                if self._loop.time() >= self._clean_at:
                    self._clean_at = self._loop.time() + self._clean_s
                    await self._in_thread(self._stages.clean)
            except Exception:
                logger.exception("batches cannot be looked for")
                await asyncio.sleep(self._retry_s[-1] / 10)
            with suppress(TimeoutError):
                async with asyncio.timeout(self._look_s):
                    await self._is_woken.wait()
            self._is_woken.clear()

    async def _look(self) -> None:
        """Start the batches that have no run, and end the rounds of those that are no longer to be answered."""
        batches = {batch.id: batch for batch in await self._in_thread(self._stages.store.open_batches)}
        for batch_id, task in list(self._runs.items()):
            if task.done():
                del self._runs[batch_id]
        for batch_id, task in self._rounds.items():
            batch = batches.get(batch_id)
            if batch is None or batch.status not in ("validating", "in_progress") or self._stages.has_expired(batch):
                task.cancel()
        now = self._loop.time()
        for batch in batches.values():
            if batch.id not in self._runs and now >= self._not_before.get(batch.id, 0.0):
                self._runs[batch.id] = asyncio.create_task(self._run_or_try_later(batch), name=batch.id)
        BATCHES.set(len(self._runs), {"state": "running"})
        BATCHES.set(max(len(batches) - len(self._runs), 0), {"state": "waiting"})
        BATCH_LINES.set(sum(batch.total - batch.completed - batch.failed for batch in batches.values()))

    async def _run_or_try_later(self, batch: BatchRecord) -> None:
        """Run a batch; where that fails, set when it is tried again."""
        try:
            await self.run(batch.id)
        except Exception:
            wait_s = self._retry_s[min(self._failures[batch.id], len(self._retry_s) - 1)]
            self._failures[batch.id] += 1
            self._not_before[batch.id] = self._loop.time() + wait_s
            logger.exception("%s of %s is tried again in %.0f s", batch.id, batch.owner, wait_s)
        else:
            for known in (self._failures, self._not_before, self._num_deadly):
                known.pop(batch.id, None)
        self._is_woken.set()

    async def run(self, batch_id: str) -> None:
        """Run a batch until it has ended or is gone.

        Raises:
            StoreError: The database does not work.
            StorageError: A file cannot be read or written; nothing of it is there.
        """
        store, stages = self._stages.store, self._stages
        try:
            while (batch := await self._in_thread(store.batch, None, batch_id)) and batch.status not in TERMINAL:
                if batch.status == "cancelling":
                    await self._in_long_thread(stages.end_with_unanswered, batch, "cancelled")
                elif batch.status == "finalizing" and batch.errors:
                    await self._in_long_thread(stages.end_with_unanswered, batch, "failed")
                elif batch.status == "validating" and not stages.has_expired(batch):
                    await self._in_long_thread(stages.begin, batch)
                else:
                    await self._go_on(batch)
        except* FileMissingError:  # also where the lines of a round were being answered
            await self._in_thread(stages.lose_input, batch_id)

    async def _go_on(self, batch: BatchRecord) -> None:
        """Have a batch's next round answered, or end it where there is none or its time is over."""
        recorded = await self._in_thread(self._stages.store.recorded_lines, batch.id)
        if batch.total and len(recorded) == batch.total:
            await self._in_long_thread(self._stages.complete, batch)
        elif self._stages.has_expired(batch):
            await self._in_long_thread(self._stages.end_with_unanswered, batch, "expired")
        else:
            await self._run_round(batch, recorded)
            if self._num_deadly[batch.id] >= MAX_DEADLY_LINES:
                await self._in_thread(self._stages.give_up, batch)

    async def _run_round(self, batch: BatchRecord, recorded: set[int]) -> None:
        """Run a round, which ``_look`` may end."""
        task = self._rounds[batch.id] = asyncio.create_task(_Round(self, batch).run(recorded))
        try:
            await task
        except asyncio.CancelledError:
            if (own := asyncio.current_task()) is not None and own.cancelling():
                raise
        finally:
            del self._rounds[batch.id]

    async def _in_thread(self, function: Callable[..., T], *args: object) -> T:
        """Call what blocks in one of the threads, for which ``stop`` waits."""
        return await self._loop.run_in_executor(self._threads, partial(function, *args))

    async def _in_long_thread(self, function: Callable[..., None], *args: object) -> None:
        """Call what reads or writes a whole file in one of the threads, and leave others free."""
        async with self._long:
            await self._in_thread(function, *args)


class _Round:
    """One round of a batch that is in progress."""

    def __init__(self, runner: BatchRunner, batch: BatchRecord) -> None:
        self._runner = runner
        self._stages = runner._stages
        self._store = runner._stages.store
        self._max_attempts = runner._stages.settings.max_attempts
        self._batch = batch
        self._did_something = False
        self._num_died = 0
        self._ready: list[LineResult] = []
        self._writing = asyncio.Lock()

    async def run(self, recorded: set[int]) -> None:
        """Send the suspects of earlier rounds, or else all lines without a result, to the engines once."""
        attempts = await self._runner._in_thread(self._store.attempts, self._batch.id)
        suspects = {line: number for line, number in attempts.items() if line not in recorded}
        if suspects:
            await self._send_suspects(suspects)
        else:
            await self._send_all(recorded)
        if not self._did_something:
            await self._runner._sleep(_PAUSE_S)

    async def _send_all(self, recorded: set[int]) -> None:
        """Send all lines without a result, each in a turn of its key's; stop after a death."""
        async with asyncio.TaskGroup() as group:
            async for line in self._lines(lambda number: number not in recorded):
                begun = asyncio.Event()
                group.create_task(self._answer_in_turn(line, begun))
                await begun.wait()
                # It died of one of these, and there may be many more like it.
                if self._num_died:
                    break
        if self._num_died and self._max_attempts == 1:
            # None of them goes again, and no other proof will come.
            self._runner._num_deadly[self._batch.id] += 1

    async def _answer_in_turn(self, line: Line, begun: asyncio.Event) -> None:
        async with self._runner._turns.take(1, self._batch.owner):
            begun.set()
            if self._num_died:
                return
            answer = await self._ask(line)
        # Another line has its turn meanwhile.
        await self._keep(line, answer, 1)

    async def _lines(self, is_wanted: Callable[[int], bool]) -> AsyncIterator[Line]:
        """Yield the lines whose numbers are wanted, read a few at a time."""
        place: Place | None = Place()
        while place is not None:
            some, place = await self._runner._in_thread(self._stages.next_lines, self._batch, place, is_wanted)
            for line in some:
                yield line

    async def _send_suspects(self, attempts: Mapping[int, int]) -> None:
        """Send some suspects again, each alone or a few at once."""
        few, alone = await self._divide_suspects(attempts)
        for line in alone:
            async with self._turn_of_suspects():
                await self._answer_again(line, attempts[line.number])
                if self._num_died:
                    self._runner._num_deadly[self._batch.id] += 1
                    self._num_died = 0
                    # Serve needs a moment to see that a replica is dead.
                    await self._runner._sleep(_PAUSE_S)
            if self._runner._num_deadly[self._batch.id] >= MAX_DEADLY_LINES:
                return
        for start in range(0, len(few), _SUSPECTS_AT_ONCE):
            async with self._turn_of_suspects(), asyncio.TaskGroup() as group:
                for line in few[start : start + _SUSPECTS_AT_ONCE]:
                    group.create_task(self._answer_again(line, attempts[line.number]))
            if self._num_died:
                return

    async def _divide_suspects(self, attempts: Mapping[int, int]) -> tuple[list[Line], list[Line]]:
        """Return the suspects to send a few at once, and those to send alone."""
        alone_from = max(self._max_attempts - 1, 1)
        few: list[Line] = []
        alone: list[Line] = []
        async for line in self._lines(attempts.__contains__):
            some = alone if attempts[line.number] >= alone_from else few
            if len(some) < _MAX_SUSPECTS:
                some.append(line)
        return few, alone

    @asynccontextmanager
    async def _turn_of_suspects(self) -> AsyncIterator[None]:
        """Wait until no other line of any batch is in progress, and until there is an engine, but not for ever."""
        async with self._runner._turns.take(self._runner._turns.size, self._batch.owner):
            with suppress(TimeoutError):
                # After that they go anyway, and wake a replica.
                async with asyncio.timeout(_READY_TIMEOUT_S):
                    while not await self._runner._engines.are_ready():
                        await self._runner._sleep(_PAUSE_S)
            yield

    async def _answer_again(self, line: Line, num_attempts: int) -> None:
        """Have a line answered that has had so many attempts."""
        if num_attempts >= self._max_attempts:
            await self._record(failure_result(self._batch, line, num_attempts))
        else:
            await self._keep(line, await self._ask(line), num_attempts + 1)

    async def _ask(self, line: Line) -> LineAnswer | None:
        """Send a line to the engines and return its answer; None where an engine died of it, or beside it."""
        request: LineRequest = {
            "body": line.to_request(),
            "owner": self._batch.owner,
            "request_id": line_id(self._batch.id, line.number),
        }
        answer = await self._runner._engines.answer(request)
        if answer is None or answer["status"] == ENGINE_DIED:
            self._num_died += 1
            return None
        return answer

    async def _keep(self, line: Line, answer: LineAnswer | None, num_attempts: int) -> None:
        """Record a line's answer, or one more attempt where the engine failed on it."""
        if answer is not None and answer["status"] == NOT_STARTED:
            return
        if answer is not None and answer["status"] < 500:
            await self._record(answer_result(self._batch, line, answer["status"], answer["body"]))
            return
        self._did_something = True
        logger.warning("%s of %s: an engine failed on line %d", self._batch.id, self._batch.owner, line.number)
        await self._runner._in_thread(self._store.add_attempts, self._batch.id, [line.number])
        if num_attempts >= self._max_attempts:
            await self._record(failure_result(self._batch, line, num_attempts))

    async def _record(self, result: LineResult) -> None:
        """Record a result, together with those that others bring while the database is written to."""
        self._did_something = True
        self._ready.append(result)
        async with self._writing:
            if self._ready:
                ready, self._ready = self._ready, []
                await self._runner._in_thread(self._store.record, self._batch.id, ready)
