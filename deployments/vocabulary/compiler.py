"""Compile lists in processes of their own, for callers on an event loop.

There are two: one for named lists and long ones of a client's own, and one for what takes milliseconds: short lists,
changes, and the length of the shortest text. So a list of 20 words never waits for one of 300,000. Each does its jobs
in order. A process that fails a job is replaced for the next; one that has grown, or has been idle for a while, is
ended to free its memory.
"""

import asyncio
import logging
import queue
import threading
from concurrent.futures import Future
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from deployments.vocabulary.compile_process import CompileProcess, NotBegunError, WorkerCommand
from vocab.compiler.jobs import ChangeList, Compiled, CompileList, Job, MeasureTexts, Reply
from vocab.errors import CompileError

RETIRE_SHARE: Final = 4
"""A process that still holds more than this part of its limit after a job is ended."""

SHORT_LIST: Final = 2000
"""Words of a client's own list that take a tenth of a second; longer ones wait with those that have names."""

_MAX_STARTS: Final = 2
"""For one job: a process that died while idle is replaced silently."""

_Item: TypeAlias = tuple[Job | None, Future[Reply]]

logger = logging.getLogger("ray.serve")


@dataclass(frozen=True)
class CompilerLimits:
    """Limits of the compile processes.

    Attributes:
        deadline_s: From the moment a job is begun.
        max_memory_bytes: Of one process; files that it has mapped do not count.
        idle_s: After so long without a job the process for large lists is ended.
    """

    deadline_s: float = 120.0
    max_memory_bytes: int = 4 * 2**30
    idle_s: float = 60.0


class Compiler:
    """The compile processes. Called from one event loop."""

    def __init__(self, command: WorkerCommand, limits: CompilerLimits) -> None:
        start = _NextStart(command)
        self._long = _Lane(start, limits, limits.idle_s)
        # Stays: its start would be the longest part of a short job. It grows little, see RETIRE_SHARE.
        self._short = _Lane(start, limits, idle_s=None)

    async def warm_up(self) -> None:
        """Start the process for short jobs, which needs the tokenizer.

        Raises:
            CompileError: There is none.
        """
        await self._short.ask(None)

    async def compile(self, job: CompileList | ChangeList) -> Compiled:
        """Return the artefact of a list or of its changes, found or made.

        Raises:
            WordListError: The list cannot be used.
            CompileTimeoutError: It took longer than the deadline allows.
            CompileError: It could not be compiled, or its process died.
            ArtefactError: The artefact could not be written, or the one to start from is gone.
        """
        is_long = isinstance(job, CompileList) and (job.words is None or len(job.words) > SHORT_LIST)
        reply = await self._done(self._long if is_long else self._short, job)
        if reply.compiled is None:
            raise CompileError("the compile process answered without a list")
        return reply.compiled

    async def measure(self, job: MeasureTexts) -> int | None:
        """Return how many tokens the shortest text has; None where there is no text. Raises as ``compile``."""
        return (await self._done(self._short, job)).fewest_tokens

    def pids(self) -> list[int]:
        return [lane.pid for lane in (self._short, self._long) if lane.pid is not None]

    async def close(self) -> None:
        """End all processes at once; jobs under way fail."""
        await asyncio.gather(self._short.close(), self._long.close())

    async def _done(self, lane: "_Lane", job: Job) -> Reply:
        reply = await lane.ask(job)
        if reply.error is not None:
            raise reply.error
        return reply


class _NextStart:
    """The command of the next process, which reads the tokenizer that another has stored."""

    def __init__(self, command: WorkerCommand) -> None:
        self.lock = threading.Lock()
        self.command = command


class _Lane:
    """A thread with one process, started when there is a job, that does the jobs in order."""

    def __init__(self, start: _NextStart, limits: CompilerLimits, idle_s: float | None) -> None:
        self._start = start
        self._limits = limits
        self._idle_s = idle_s
        self._jobs: queue.SimpleQueue[_Item | None] = queue.SimpleQueue()
        self._process: CompileProcess | None = None
        self._is_closed = False
        self._thread = threading.Thread(target=self._run, name="compiler", daemon=True)
        self._thread.start()

    @property
    def pid(self) -> int | None:
        process = self._process
        return None if process is None else process.pid

    async def ask(self, job: Job | None) -> Reply:
        """Return the reply to a job; without one, an empty reply once there is a process."""
        if self._is_closed:
            raise CompileError("the service is ending")
        future: Future[Reply] = Future()
        self._jobs.put((job, future))
        return await asyncio.wrap_future(future)

    async def close(self) -> None:
        self._is_closed = True
        self._jobs.put(None)
        if (process := self._process) is not None:
            process.stop()
        await asyncio.to_thread(self._thread.join)

    def _run(self) -> None:
        while True:
            try:
                item = self._jobs.get(timeout=self._idle_s)
            except queue.Empty:
                self._end("had nothing to do")
                continue
            if item is None:
                break
            job, future = item
            if future.set_running_or_notify_cancel():
                try:
                    future.set_result(self._do(job))
                except Exception as error:
                    future.set_exception(error)
        if self._process is not None:
            self._process.reap()
            self._process = None

    def _do(self, job: Job | None) -> Reply:
        for _ in range(_MAX_STARTS):
            if self._is_closed:
                break
            try:
                process = self._ready_process()
                if job is None:
                    return Reply()
                reply = process.ask(job, self._limits.deadline_s)
            except NotBegunError:
                self._process = None
            except CompileError as error:
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
            # One at a time: the first stores the tokenizer for the next.
            with self._start.lock:
                command = self._start.command
                self._process = CompileProcess(command.arguments(), self._limits.max_memory_bytes)
                digest = self._process.wait_until_ready()
                self._start.command = replace(command, tokenizer=digest)
        return self._process

    def _end(self, why: str) -> None:
        if self._process is not None:
            logger.info("a compile process %s and is ended", why)
            self._process.close()
            self._process = None
