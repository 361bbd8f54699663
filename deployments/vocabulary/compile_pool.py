"""Compile lists in processes of their own, for callers on an event loop.

There are two: one for named lists and long ones of a client's own, and one for what takes milliseconds: short lists,
changes, and the length of the shortest text. So a list of 20 words never waits for one of 300,000. More would take
the cores of a machine that has two from its engine, and 150 MB each. A third, for grammars, is started with the first
of them, where xgrammar makes the masks. In each, the owners of the jobs (the names of keys) take turns, with their
oldest job each: nobody waits for more than one job of another. A process that fails a job is replaced for the next; one
that has grown, or has been idle for a while, is ended to free its memory.
"""

import asyncio
import logging
import math
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, TypeAlias

from deployments.fair_semaphore import FairSemaphore
from deployments.settings.keys import NO_OWNER
from deployments.single_flight import abandon
from vocab.compiler.compile_process import CompileProcess, NotBegunError, WorkerCommand
from vocab.compiler.jobs import (
    ChangeList,
    CheckStructure,
    Compiled,
    CompileGrammar,
    CompileList,
    Job,
    MeasureTexts,
    Reply,
)
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

CompileJob: TypeAlias = CompileList | ChangeList | CompileGrammar
"""What makes an artefact."""

_MAX_STARTS: Final = 2
"""For one job: a process that died while idle is replaced silently."""


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
    """Compiles lists in processes for short jobs, long ones, and grammars. Called from one event loop."""

    def __init__(self, command: WorkerCommand, limits: CompileLimits) -> None:
        self._command = command
        make = partial(ProcessInTurns, self._start, limits, on_ready=self._note_tokenizer, start_lock=threading.Lock())
        self._long = make(limits.idle_s, MAX_WAITING_LONG)
        # Stays: its start would be the longest part of a short job. It grows little, see RETIRE_SHARE.
        self._short = make(None, MAX_WAITING_SHORT)
        # So does this one, which takes 10 s to start.
        self._grammars = make(None, MAX_WAITING_LONG)

    async def warm_up(self) -> None:
        """Start the process for short jobs, which needs the tokenizer.

        Raises:
            CompileError: There is none.
        """
        await self._short.ask(None, NO_OWNER)

    async def compile(self, job: CompileJob, owner: str = NO_OWNER) -> Compiled:
        """Compile a list, its changes or its grammar, or find the artefact, and return it.

        A caller who leaves takes the job along, if it has not begun.

        Raises:
            WordListError: The list cannot be used.
            OptionsError: A grammar cannot say what they ask for.
            CompileQueueError: Too many jobs of the owner wait.
            CompileTimeoutError: It took longer than the deadline allows.
            CompileError: It could not be compiled, or its process died.
            ArtefactError: The artefact could not be written, or the one to start from is gone.
        """
        process = self._grammars
        if not isinstance(job, CompileGrammar):
            process = self._short if _is_short(job) else self._long
        reply = await self._ask(process, job, owner)
        if reply.compiled is None:
            raise CompileError("the compile process answered without a list")
        return reply.compiled

    async def measure(self, job: MeasureTexts, owner: str = NO_OWNER) -> int | None:
        """Return how many tokens the shortest text has; None where there is no text. Raises as ``compile``."""
        return (await self._ask(self._short, job, owner)).fewest_tokens

    def pids(self) -> list[int]:
        """Return the ids of the processes that run."""
        return [process.pid for process in self._processes if process.pid is not None]

    async def close(self) -> None:
        """End all processes at once; jobs under way fail."""
        await asyncio.gather(*(process.close() for process in self._processes))

    @property
    def _processes(self) -> "tuple[ProcessInTurns, ...]":
        return self._short, self._long, self._grammars

    async def _ask(self, process: "ProcessInTurns", job: Job, owner: str) -> Reply:
        reply = await process.ask(job, owner)
        if reply.error is not None:
            raise reply.error
        return reply

    def _start(self, max_memory_bytes: int) -> CompileProcess:
        return CompileProcess(self._command.arguments(), max_memory_bytes)

    def _note_tokenizer(self, name: str) -> None:
        # The next process reads the one that the first has stored.
        self._command = replace(self._command, tokenizer=name)


def _is_clients(job: Job | CheckStructure) -> bool:
    """Return whether a job is a client's own, not one of a list that all share; a grammar has limits of its own."""
    return job.words is not None if isinstance(job, CompileList) else not isinstance(job, CompileGrammar)


def _is_short(job: CompileList | ChangeList) -> bool:
    words = job.words if isinstance(job, CompileList) else (*job.extra_words, *job.exclude_words)
    return words is not None and len(words) <= SHORT_LIST and sum(map(len, words)) <= SHORT_LIST_CHARS


class ProcessInTurns:
    """One process, started when there is a job; the owners of the jobs take turns. Used from one event loop.

    Args:
        start: Starts a process that may hold so many bytes; called in a thread.
        limits: Of each job and of the process.
        idle_s: After so long without a job the process is ended; None for never.
        max_waiting: Jobs of one owner that may wait.
        on_ready: Called with what a process says when it is ready.
        start_lock: Held while a process starts, where several that share it start one at a time.
    """

    def __init__(
        self,
        start: Callable[[int], CompileProcess],
        limits: CompileLimits,
        idle_s: float | None,
        max_waiting: int,
        *,
        on_ready: Callable[[str], None] = lambda _: None,
        start_lock: AbstractContextManager[Any] | None = None,
    ) -> None:
        self._start = start
        self._on_ready = on_ready
        self._start_lock = start_lock or threading.Lock()
        self._limits = limits
        self._idle_s = idle_s
        self._max_waiting = max_waiting
        self._turns = FairSemaphore(1)
        self._num_waiting = Counter[str]()
        self._idle: asyncio.TimerHandle | None = None
        self._process: CompileProcess | None = None
        self._is_closed = False

    @property
    def pid(self) -> int | None:
        process = self._process
        return None if process is None else process.pid

    async def ask(self, job: Job | CheckStructure | None, owner: str) -> Reply:
        """Do a job when it has its turn, and return the reply; without one, an empty reply once there is a process.

        Without a job there is no deadline.

        Raises:
            CompileQueueError: Too many jobs of the owner wait.
            CompileTimeoutError: It took longer than the deadline allows.
            CompileError: It could not be done, or its process died.
        """
        if owner != NO_OWNER and self._num_waiting[owner] >= self._max_waiting:
            raise CompileQueueError(
                f"{self._max_waiting} compiles of this key wait for their turn, as many as may. Try again in a moment."
            )
        deadline_s = math.inf if job is None else self._limits.deadline_s
        begun = asyncio.Event()
        self._num_waiting[owner] += 1
        reply = asyncio.create_task(self._in_turn(job, owner, time.monotonic() + deadline_s, begun))
        try:
            async with asyncio.timeout(None if job is None else deadline_s):
                return await asyncio.shield(reply)
        except TimeoutError:
            raise CompileTimeoutError(f"a job was not done within {deadline_s:g} s") from None
        finally:
            # A caller who leaves takes the job along, if it has not begun.
            if not begun.is_set():
                self._forget_one(owner)
                abandon(reply)
            elif not reply.done():
                reply.add_done_callback(lambda done: done.exception())

    async def _in_turn(
        self, job: Job | CheckStructure | None, owner: str, deadline: float, begun: asyncio.Event
    ) -> Reply:
        async with self._turns.take(1, owner):
            begun.set()
            self._forget_one(owner)
            if self._idle is not None:
                self._idle.cancel()
            try:
                return await asyncio.to_thread(self._do, job, deadline)
            finally:
                if self._idle_s is not None:
                    loop = asyncio.get_running_loop()
                    self._idle = loop.call_later(self._idle_s, lambda: asyncio.ensure_future(self._end_idle()))

    def _forget_one(self, owner: str) -> None:
        # Keeps no key that has none.
        self._num_waiting -= Counter([owner])

    async def _end_idle(self) -> None:
        if not self._turns.num_taken:
            async with self._turns.take(1, NO_OWNER):
                await asyncio.to_thread(self._end, "had nothing to do")

    async def close(self) -> None:
        """Kill the process and wait for its end; the jobs fail."""
        self._is_closed = True
        if self._idle is not None:
            self._idle.cancel()
        if (process := self._process) is not None:
            process.stop()
        async with self._turns.take(1, NO_OWNER):
            if self._process is not None:
                await asyncio.to_thread(self._process.reap)
                self._process = None

    def _do(self, job: Job | CheckStructure | None, deadline: float) -> Reply:
        """Have the process do a job, in a thread; start another where it died before it began."""
        for _ in range(_MAX_STARTS):
            if self._is_closed:
                break
            try:
                process = self._ready_process()
                if job is None:
                    return Reply()
                max_cpu_s = MAX_CPU_S if _is_clients(job) else math.inf
                reply = process.ask(job, deadline - time.monotonic(), max_cpu_s)
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
        if self._process is not None and not self._process.is_alive():
            self._process.reap()
            self._process = None
        if self._process is None:
            with self._start_lock:
                self._process = self._start(self._limits.max_memory_bytes)
                self._on_ready(self._process.wait_until_ready())
        return self._process

    def _end(self, why: str) -> None:
        if self._process is not None:
            logger.info("a compile process %s and is ended", why)
            self._process.close()
            self._process = None
