"""Run the open batches: keys take turns at every line, and each line ends with exactly one result.

What is recorded is done and the rest is done again, so a run may end anywhere and another resume it.

A round sends every line without a result to the engines once, until an engine dies of one of them. Lines that were in
progress then go first in the next round, with no other line of any batch beside them: in small groups, and at last each
isolated, so that one that kills engines is found and the others are answered. A batch with too many of them fails.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Final, Protocol, TypeVar

from deployments.batch.lines import Line, engine_failure, line_id, result_of
from deployments.batch.models import TERMINAL, Batch, LineResult
from deployments.batch.stages import MAX_DEADLY_LINES, Stages
from deployments.batch.store import DamagedRecordError
from deployments.contract import LineAnswer, LineRequest
from deployments.errors import ApiError, EngineDiedError, NotStartedError
from deployments.fair_semaphore import FairSemaphore
from deployments.metrics import BATCH_LINES, BATCHES
from deployments.storage import FileMissingError

logger = logging.getLogger("ray.serve")

T = TypeVar("T")

_MAX_SUSPECTS: Final = 256
"""Lines of a round that go in groups, or isolated: those that were in progress at one engine."""

_GROUP_SIZE: Final = 8
"""When the engine dies again, one of these killed it, and each of them is isolated the next time."""

_PAUSE_S: Final = 2.0
_READY_TIMEOUT_S: Final = 300.0

_LOOK_S: Final = 1.0
_IDLE_LOOKS: Final = 10
"""Looks that are left out where there is no open batch: each is a question to the database, 3 ms."""

_CLEAN_S: Final = 600.0

_RETRY_S: Final = (1.0, 5.0, 30.0, 60.0)
"""The pause after a batch's first, second … failure in a row."""

_THREADS: Final = 8
"""For the database and files."""

_LONG_AT_ONCE: Final = 4
"""Batches whose lines are counted, or whose files are written, at once."""


class Engines(Protocol):
    """What answers lines, at most ``num_lines`` at once."""

    num_lines: int

    async def answer(self, line: LineRequest) -> LineAnswer:
        """Return the answer to a line; ``EngineDiedError`` also where the replica died."""

    async def are_ready(self) -> bool:
        """Return whether an engine is running."""


class BatchRunner:
    """Runs all open batches, on one event loop; they share the engines, the turns at them, and threads.

    Looks for work when woken and once a second, and where there is none every ten, for batches that another process
    added. A run that fails for a reason that is not the batch's is tried again.
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
        self.stages = stages
        self.engines = engines
        self.sleep = sleep
        self.turns = FairSemaphore(engines.num_lines)
        self._threads = ThreadPoolExecutor(_THREADS, "batches")
        self._long = asyncio.Semaphore(_LONG_AT_ONCE)
        self._look_s = look_s
        self._clean_s = clean_s
        self._retry_s = retry_s
        self._loop = asyncio.get_running_loop()
        self._is_woken = asyncio.Event()
        self._runs: dict[str, _Run] = {}
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

    async def run(self, batch_id: str) -> None:
        """Run a batch until it has ended or is gone.

        Raises:
            StoreError: The database does not work, or the batch's row is damaged.
            StorageError: A file cannot be read or written; nothing of it is there.
        """
        await _Run(self, batch_id).run()

    async def in_thread(self, function: Callable[..., T], *args: object) -> T:
        """Call what blocks in one of the threads, for which ``stop`` waits."""
        return await self._loop.run_in_executor(self._threads, partial(function, *args))

    async def in_long_thread(self, function: Callable[..., None], *args: object) -> None:
        """Call what reads or writes a whole file in one of the threads, and leave others free."""
        async with self._long:
            await self.in_thread(function, *args)

    async def stop(self, timeout_s: float = 10.0) -> None:
        """Stop all runs; the next start resumes them. Waits for what is being written."""
        tasks = [task for task in (self._watch, *(run.task for run in self._runs.values())) if task is not None]
        for task in tasks:
            task.cancel()
        self._threads.shutdown(wait=False, cancel_futures=True)
        ended = asyncio.gather(*tasks, asyncio.to_thread(self._threads.shutdown), return_exceptions=True)
        await asyncio.wait({ended}, timeout=timeout_s)

    async def _run_open(self) -> None:
        """Start runs, and delete what is too old, until cancelled."""
        while True:
            self.stages.clock.look()
            try:
                await self._look()
                if self._loop.time() >= self._clean_at:
                    self._clean_at = self._loop.time() + self._clean_s
                    await self.in_thread(self.stages.clean)
            except Exception:
                logger.exception("batches cannot be looked for")
                await asyncio.sleep(self._retry_s[-1] / 10)
            with suppress(TimeoutError):
                async with asyncio.timeout(self._look_s * (1 if self._runs else _IDLE_LOOKS)):
                    await self._is_woken.wait()
            self._is_woken.clear()

    async def _look(self) -> None:
        """Start the batches that have no run, and end the rounds of those that are no longer to be answered."""
        stages = self.stages
        batches = {batch.id: batch for batch in await self.in_thread(stages.store.open_batches)}
        for batch_id, run in list(self._runs.items()):
            batch = batches.get(batch_id)
            if batch is None and not run.is_running():
                del self._runs[batch_id]
            elif batch is None or batch.status not in ("validating", "in_progress") or stages.has_expired(batch):
                run.end_round()
        for batch in batches.values():
            run = self._runs.setdefault(batch.id, _Run(self, batch.id))
            if not run.is_running() and self._loop.time() >= run.not_before:
                run.task = asyncio.create_task(self._run_or_try_later(run, batch.owner), name=batch.id)
        num_running = sum(run.is_running() for run in self._runs.values())
        BATCHES.set(num_running, {"state": "running"})
        BATCHES.set(max(len(batches) - num_running, 0), {"state": "waiting"})
        BATCH_LINES.set(sum(batch.num_left for batch in batches.values()))

    async def _run_or_try_later(self, run: "_Run", owner: str) -> None:
        """Run a batch; where that fails, set when it is tried again."""
        try:
            await run.run()
        except Exception:
            wait_s = self._retry_s[min(run.num_failures, len(self._retry_s) - 1)]
            run.num_failures += 1
            run.not_before = self._loop.time() + wait_s
            logger.exception("%s of %s is tried again in %.0f s", run.batch_id, owner, wait_s)
        self._is_woken.set()


class _Run:
    """The run of one open batch, which begins anew after a failure."""

    def __init__(self, runner: BatchRunner, batch_id: str) -> None:
        self.batch_id = batch_id
        self.task: asyncio.Task[None] | None = None
        self.num_failures = 0
        self.not_before = 0.0
        self._runner = runner
        self._round: asyncio.Task[None] | None = None
        # Lines that killed an engine while isolated.
        self._num_deadly = 0

    def is_running(self) -> bool:
        return self.task is not None and not self.task.done()

    def end_round(self) -> None:
        if self._round is not None:
            self._round.cancel()

    async def run(self) -> None:
        """Run the batch until it has ended or is gone."""
        runner, stages = self._runner, self._runner.stages
        try:
            while (batch := await runner.in_thread(stages.store.batch, None, self.batch_id)) is not None:
                if batch.status in TERMINAL:
                    return
                if batch.status == "cancelling":
                    await runner.in_long_thread(stages.end_with_unanswered, batch, "cancelled")
                elif batch.status == "finalizing" and batch.errors:
                    await runner.in_long_thread(stages.end_with_unanswered, batch, "failed")
                elif batch.status == "validating" and not stages.has_expired(batch):
                    await runner.in_long_thread(stages.begin, batch)
                elif batch.total and batch.completed + batch.failed == batch.total:
                    await runner.in_long_thread(stages.complete, batch)
                elif stages.has_expired(batch):
                    await runner.in_long_thread(stages.end_with_unanswered, batch, "expired")
                else:
                    await self._run_round(batch)
        except* FileMissingError:  # also where the lines of a round were being answered
            await runner.in_thread(stages.lose_input, self.batch_id)

    async def _run_round(self, batch: Batch) -> None:
        """Run a round, which ``end_round`` may end; give the batch up after too many deadly lines."""
        current = _Round(self._runner, batch, self._num_deadly)
        self._round = asyncio.create_task(current.run())
        try:
            await self._round
        except asyncio.CancelledError:
            if (own := asyncio.current_task()) is not None and own.cancelling():
                raise
        finally:
            self._round = None
            self._num_deadly = current.num_deadly
        if self._num_deadly >= MAX_DEADLY_LINES:
            await self._runner.in_thread(self._runner.stages.give_up, batch)


class _Round:
    """One round of a batch that is in progress, after so many of its lines have killed an engine while isolated."""

    def __init__(self, runner: BatchRunner, batch: Batch, num_deadly: int) -> None:
        self.num_deadly = num_deadly
        self._runner = runner
        self._store = runner.stages.store
        self._batch = batch
        self._max_attempts = runner.stages.settings.max_attempts
        self._did_something = False
        self._num_died = 0
        self._ready: list[LineResult] = []
        self._writing = asyncio.Lock()

    async def run(self) -> None:
        """Send the suspects of earlier rounds, or else all lines without a result, to the engines once."""
        if suspects := await self._runner.in_thread(self._store.attempts, self._batch):
            await self._send_suspects(suspects)
        else:
            await self._send_all()
        if not self._did_something:
            await self._runner.sleep(_PAUSE_S)

    async def _send_all(self) -> None:
        """Send all lines without a result, each in a turn of its key's; stop after a death."""
        line = None
        async with asyncio.TaskGroup() as group:
            async for line in self._lines():
                begun = asyncio.Event()
                group.create_task(self._answer_in_turn(line, begun))
                await begun.wait()
                # It died of one of these, and there may be many more like it.
                if self._num_died:
                    break
        if line is None:
            counted = f"it says that it has {self._batch.total} lines, and its file has none without a result"
            raise DamagedRecordError(self._batch.id, counted)
        if self._num_died and self._max_attempts == 1:
            # None of them goes again, and no other proof will come.
            self.num_deadly += 1

    async def _answer_in_turn(self, line: Line, begun: asyncio.Event) -> None:
        async with self._runner.turns.take(1, self._batch.owner):
            begun.set()
            if self._num_died:
                return
            answer = await self._ask(line)
        # Another line has its turn meanwhile.
        await self._keep(line, answer, 1)

    async def _lines(self, wanted: Mapping[int, int] | None = None) -> AsyncIterator[Line]:
        """Yield the wanted lines, or else those without a result, read a few at a time."""
        start: tuple[int, int] | None = (1, 0)
        while start is not None:
            some, start = await self._runner.in_thread(self._runner.stages.next_lines, self._batch, start, wanted)
            for line in some:
                yield line

    async def _send_suspects(self, attempts: Mapping[int, int]) -> None:
        """Send some suspects again, isolated or in groups."""
        grouped, isolated = await self._divide_suspects(attempts)
        for line in isolated:
            async with self._turn_of_suspects():
                await self._answer_again(line, attempts[line.number])
                if self._num_died:
                    self.num_deadly += 1
                    self._num_died = 0
                    # Serve needs a moment to see that a replica is dead.
                    await self._runner.sleep(_PAUSE_S)
            if self.num_deadly >= MAX_DEADLY_LINES:
                return
        for start in range(0, len(grouped), _GROUP_SIZE):
            async with self._turn_of_suspects(), asyncio.TaskGroup() as tasks:
                for line in grouped[start : start + _GROUP_SIZE]:
                    tasks.create_task(self._answer_again(line, attempts[line.number]))
            if self._num_died:
                return

    async def _divide_suspects(self, attempts: Mapping[int, int]) -> tuple[list[Line], list[Line]]:
        """Return the suspects to send in groups, and those to isolate: all that have one attempt left, or none."""
        isolated_from = max(self._max_attempts - 1, 1)
        grouped: list[Line] = []
        isolated: list[Line] = []
        async for line in self._lines(attempts):
            suspects = isolated if attempts[line.number] >= isolated_from else grouped
            if len(suspects) < _MAX_SUSPECTS:
                suspects.append(line)
        return grouped, isolated

    @asynccontextmanager
    async def _turn_of_suspects(self) -> AsyncIterator[None]:
        """Wait until no other line of any batch is in progress, and until there is an engine, but not for ever."""
        turns = self._runner.turns
        async with turns.take(turns.size, self._batch.owner):
            with suppress(TimeoutError):
                # After that they go anyway, and wake a replica.
                async with asyncio.timeout(_READY_TIMEOUT_S):
                    while not await self._runner.engines.are_ready():
                        await self._runner.sleep(_PAUSE_S)
            yield

    async def _answer_again(self, line: Line, num_attempts: int) -> None:
        """Have a line answered that has had so many attempts."""
        if num_attempts >= self._max_attempts:
            await self._fail(line, num_attempts)
        else:
            await self._keep(line, await self._ask(line), num_attempts + 1)

    async def _ask(self, line: Line) -> LineAnswer:
        """Send a line to the engines and return its answer; count the deaths."""
        name = line_id(self._batch.id, line.number)
        answer = await self._runner.engines.answer(LineRequest(line.body, self._batch.owner, name))
        self._num_died += isinstance(answer, EngineDiedError)
        return answer

    async def _keep(self, line: Line, answer: LineAnswer, num_attempts: int) -> None:
        """Record a line's answer, or one more attempt where the engine failed on it."""
        if isinstance(answer, NotStartedError):
            return
        if not isinstance(answer, ApiError) or answer.status < 500:
            await self._record(result_of(self._batch, line, answer))
            return
        self._did_something = True
        logger.warning("%s of %s: an engine failed on line %d", self._batch.id, self._batch.owner, line.number)
        await self._runner.in_thread(self._store.add_attempt, self._batch.id, line.number)
        if num_attempts >= self._max_attempts:
            await self._fail(line, num_attempts)

    async def _fail(self, line: Line, num_attempts: int) -> None:
        error = engine_failure(self._batch, line, num_attempts)
        await self._record(result_of(self._batch, line, error, is_response=False))

    async def _record(self, result: LineResult) -> None:
        """Record a result, together with those that others bring while the database is written to."""
        self._did_something = True
        self._ready.append(result)
        async with self._writing:
            if self._ready:
                ready, self._ready = self._ready, []
                await self._runner.in_thread(self._store.record, self._batch.id, ready)
