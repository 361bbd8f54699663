"""Compile lists in processes of their own, for callers on an event loop.

There are two: one for named lists and long ones of a client's own, and one for what takes milliseconds: short lists,
changes, and the length of the shortest text. So a list of 20 words never waits for one of 300,000. More would take
the cores of a machine that has two from its engine, and 150 MB each. In each, the owners of the jobs (the names of
keys) take turns, with their oldest job each: nobody waits for more than one job of another. A process that fails a job
is replaced for the next; one that has grown, or has been idle for a while, is ended to free its memory.
"""

import asyncio
import logging
import math
import threading
import time
from collections import deque
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Final, NamedTuple, Protocol

from deployments.settings.keys import NO_OWNER
from vocab.compiler.compile_process import CompileProcess, NotBegunError, WorkerCommand
from vocab.compiler.jobs import ChangeList, CheckStructure, Compiled, CompileList, Job, MeasureTexts, Reply
from vocab.errors import CompileError, CompileQueueError, CompileTimeoutError, ListTooLargeError

RETIRE_SHARE: Final = 4
"""A process that still holds more than this part of its limit after a job is ended."""

SHORT_LIST: Final = 2000
SHORT_LIST_CHARS: Final = 20_000
"""Words, and their characters together, that take a tenth of a second; more wait with the lists that have names."""

MAX_WAITING_SHORT: Final = 200
MAX_WAITING_LONG: Final = 32
"""Jobs of one key that may wait for each process: up to 200 MB, and a part of the thousand requests that may be under
way in the deployment. The lines of batches are bounded where they are read."""

MAX_CPU_S: Final = 15.0
"""Processor time of a job of a client's own. The worst lists found take 4 s, on a slower machine twice as long."""

_MAX_STARTS: Final = 2
"""For one job: a process that died while idle is replaced silently."""


class _Item(NamedTuple):
    """A job, None for the start of the process alone; when it is given up, in ``time.monotonic``; its reply."""

    job: Job | CheckStructure | None
    deadline: float
    reply: Future[Reply]


logger = logging.getLogger("ray.serve")


@dataclass(frozen=True)
class CompileLimits:
    """Limits of the compile processes.

    Attributes:
        deadline_s: Of a job, with the time that it waits for its turn.
        max_memory_bytes: Of one process; files that it has mapped do not count.
        idle_s: After so long without a job the process for large lists is ended.
    """

    deadline_s: float = 120.0
    max_memory_bytes: int = 4 * 2**30
    idle_s: float = 60.0


class CompilePool:
    """Compiles lists in two processes, for short and for long jobs. Called from one event loop."""

    def __init__(self, command: WorkerCommand, limits: CompileLimits) -> None:
        start = _ListStart(command)
        self._long = Lane(start, limits, limits.idle_s, MAX_WAITING_LONG)
        # Stays: its start would be the longest part of a short job. It grows little, see RETIRE_SHARE.
        self._short = Lane(start, limits, None, MAX_WAITING_SHORT)

    async def warm_up(self) -> None:
        """Start the process for short jobs, which needs the tokenizer.

        Raises:
            CompileError: There is none.
        """
        await self._short.ask(None, NO_OWNER)

    async def compile(self, job: CompileList | ChangeList, owner: str = NO_OWNER) -> Compiled:
        """Compile a list or its changes, or find the artefact, and return it.

        A caller who leaves takes the job along, if it has not begun.

        Raises:
            WordListError: The list cannot be used.
            CompileQueueError: Too many jobs of the owner wait.
            CompileTimeoutError: It took longer than the deadline allows.
            CompileError: It could not be compiled, or its process died.
            ArtefactError: The artefact could not be written, or the one to start from is gone.
        """
        reply = await self._ask(self._short if _is_short(job) else self._long, job, owner)
        if reply.compiled is None:
            raise CompileError("the compile process answered without a list")
        return reply.compiled

    async def measure(self, job: MeasureTexts, owner: str = NO_OWNER) -> int | None:
        """Return how many tokens the shortest text has; None where there is no text. Raises as ``compile``."""
        return (await self._ask(self._short, job, owner)).fewest_tokens

    def pids(self) -> list[int]:
        """Return the ids of the processes that run."""
        return [lane.pid for lane in (self._short, self._long) if lane.pid is not None]

    async def close(self) -> None:
        """End all processes at once; jobs under way fail."""
        await asyncio.gather(self._short.close(), self._long.close())

    async def _ask(self, lane: "Lane", job: Job, owner: str) -> Reply:
        """Return a lane's reply to a job; raise the error in it."""
        reply = await lane.ask(job, owner)
        if reply.error is not None:
            raise reply.error
        return reply


def _is_clients(job: Job | CheckStructure) -> bool:
    """Return whether a job is a client's own, not one of a list that all share."""
    return not isinstance(job, CompileList) or job.words is not None


def _is_short(job: CompileList | ChangeList) -> bool:
    """Return whether a job has few enough words of a client's for the process of short jobs."""
    words = job.words if isinstance(job, CompileList) else (*job.extra_words, *job.exclude_words)
    return words is not None and len(words) <= SHORT_LIST and sum(map(len, words)) <= SHORT_LIST_CHARS


class Start(Protocol):
    """How the processes of lanes are started, under ``lock``."""

    lock: threading.Lock

    def start(self, max_memory_bytes: int) -> CompileProcess: ...

    def note_ready(self, name: str) -> None:
        """Take note of what the process called itself when it was ready."""


class _ListStart:
    """Start processes for lists; the first stores the tokenizer that the next ones read."""

    def __init__(self, command: WorkerCommand) -> None:
        self.lock = threading.Lock()
        self._command = command

    def start(self, max_memory_bytes: int) -> CompileProcess:
        return CompileProcess(self._command.arguments(), max_memory_bytes)

    def note_ready(self, name: str) -> None:
        self._command = replace(self._command, tokenizer=name)


class Lane:
    """A thread with one process, started when there is a job; the owners of the jobs take turns."""

    def __init__(self, start: Start, limits: CompileLimits, idle_s: float | None, max_waiting: int) -> None:
        self._start = start
        self._limits = limits
        self._idle_s = idle_s
        self._max_waiting = max_waiting
        # By owner; the first has the next turn. Guarded by the condition, as is the end.
        self._jobs: dict[str, deque[_Item]] = {}
        self._changed = threading.Condition()
        self._process: CompileProcess | None = None
        self._is_closed = False
        self._thread = threading.Thread(target=self._run, name="compiler", daemon=True)
        self._thread.start()

    @property
    def pid(self) -> int | None:
        process = self._process
        return None if process is None else process.pid

    async def ask(self, job: Job | CheckStructure | None, owner: str) -> Reply:
        """Queue a job and return the reply to it; without one, an empty reply once there is a process.

        Without a job there is no deadline.

        Raises:
            CompileQueueError: Too many jobs of the owner wait.
            CompileTimeoutError: It took longer than the deadline allows.
            CompileError: It could not be done, or its process died.
        """
        deadline_s = math.inf if job is None else self._limits.deadline_s
        item = _Item(job, time.monotonic() + deadline_s, Future())
        self._put(owner, item)
        try:
            async with asyncio.timeout(None if job is None else deadline_s):
                return await asyncio.wrap_future(item.reply)
        except TimeoutError:
            raise CompileTimeoutError(f"a job was not done within {deadline_s:g} s") from None
        finally:
            self._discard(owner, item)

    def _put(self, owner: str, item: _Item) -> None:
        """Queue a job; refuse it where too many of its owner wait."""
        with self._changed:
            if self._is_closed:
                raise CompileError("the service is ending")
            waiting = self._jobs.setdefault(owner, deque())
            if owner != NO_OWNER and len(waiting) >= self._max_waiting:
                raise CompileQueueError(
                    f"{len(waiting)} compiles of this key wait for their turn, as many as may. Try again in a moment."
                )
            waiting.append(item)
            self._changed.notify()

    def _discard(self, owner: str, item: _Item) -> None:
        """Forget a job that has not begun."""
        with self._changed, suppress(KeyError, ValueError):
            self._jobs[owner].remove(item)
            if not self._jobs[owner]:
                del self._jobs[owner]

    def _next(self) -> _Item | None:
        """Wait for the next job, and give its owner the last turn; None at the end.

        Raises ``TimeoutError`` after idling.
        """
        with self._changed:
            if not self._changed.wait_for(lambda: self._jobs or self._is_closed, self._idle_s):
                raise TimeoutError
            if not self._jobs:
                return None
            owner = next(iter(self._jobs))
            waiting = self._jobs.pop(owner)
            item = waiting.popleft()
            if waiting:
                self._jobs[owner] = waiting
            return item

    async def close(self) -> None:
        """Kill the process and wait for the end of the thread; a job under way fails."""
        with self._changed:
            self._is_closed = True
            self._changed.notify()
        if (process := self._process) is not None:
            process.stop()
        await asyncio.to_thread(self._thread.join)

    def _run(self) -> None:
        """Do queued jobs one by one, in the lane's thread; end a process that is idle."""
        while True:
            try:
                item = self._next()
            except TimeoutError:
                self._end("had nothing to do")
                continue
            if item is None:
                break
            if item.reply.set_running_or_notify_cancel():
                try:
                    item.reply.set_result(self._do(item))
                except Exception as error:
                    item.reply.set_exception(error)
        if self._process is not None:
            self._process.reap()
            self._process = None

    def _do(self, item: _Item) -> Reply:
        """Have the process do a job; start another where it died before it began."""
        for _ in range(_MAX_STARTS):
            if self._is_closed:
                break
            try:
                process = self._ready_process()
                if item.job is None:
                    return Reply()
                max_cpu_s = MAX_CPU_S if _is_clients(item.job) else math.inf
                reply = process.ask(item.job, item.deadline - time.monotonic(), max_cpu_s)
            except NotBegunError:
                self._process = None
            except (CompileError, ListTooLargeError) as error:
                self._process = None
                logger.error("%s", error)
                raise
            else:
                if reply.resident_bytes * RETIRE_SHARE > self._limits.max_memory_bytes:
                    self._end(f"holds {reply.resident_bytes / 1e6:.0f} MB")
                return reply
        raise CompileError("the service is ending" if self._is_closed else "compile processes die before they begin")

    def _ready_process(self) -> CompileProcess:
        """Return a process that is ready; start one where none is alive."""
        if self._process is not None and not self._process.is_alive():
            self._process.reap()
            self._process = None
        if self._process is None:
            # One at a time: the first stores the tokenizer for the next.
            with self._start.lock:
                self._process = self._start.start(self._limits.max_memory_bytes)
                self._start.note_ready(self._process.wait_until_ready())
        return self._process

    def _end(self, why: str) -> None:
        """End the process, and log why."""
        if self._process is not None:
            logger.info("a compile process %s and is ended", why)
            self._process.close()
            self._process = None
