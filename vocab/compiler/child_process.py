"""What the compile processes do to themselves: their pipe, their priority, an end with their parent, limited forks."""

import ctypes
import os
import resource
import select
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from multiprocessing.connection import Connection
from pickle import dumps, loads
from threading import Thread
from typing import Any, Final, TypeVar

import psutil

NICENESS: Final = 10
"""A tenth of the share of an engine on the same core. The lowest priority, 19, would get a seventieth, and a compile
of a second would take a minute on a busy machine."""

EXIT_S: Final = 5.0
"""Time to exit after the parent has closed the pipe: enough to send a file to the shared store, not for a compile."""

_PR_SET_PDEATHSIG: Final = 1

T = TypeVar("T")


def connect_to_parent() -> Connection:
    """Return the pipe to the parent process, which is the standard input; have a lower priority, and end with it."""
    die_with_parent()
    # Reading a tokenizer takes 5 s of the cores on which an engine starts.
    os.nice(NICENESS)
    return Connection(sys.stdin.fileno())


def receive_jobs(connection: Connection) -> Iterator[Any]:
    """Yield what the parent sends, until it closes the pipe."""
    with suppress(EOFError, ConnectionError):
        while True:
            yield connection.recv()


def end_with_pipe() -> None:
    """Have a thread end this process some time after the parent has closed the pipe, whatever it does then."""

    def wait() -> None:
        closed = select.poll()
        # That the other end is closed is reported though nothing is asked for.
        closed.register(sys.stdin.fileno(), 0)
        closed.poll()
        time.sleep(EXIT_S)
        os._exit(0)

    Thread(target=wait, name="pipe", daemon=True).start()


def die_with_parent() -> None:
    """Have Linux kill this process when its parent's thread ends; elsewhere the end of the pipe must do."""
    if sys.platform == "linux":
        parent = os.getppid()
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(0)


def resident_bytes(pid: int | None = None) -> int:
    """Return the resident memory of a process without mapped files, 0 where it is unknown."""
    try:
        memory = psutil.Process(pid).memory_info()
    except psutil.Error:
        return 0
    # Other systems than Linux do not report what is shared.
    return int(memory.rss - getattr(memory, "shared", 0))


def cpu_seconds(pid: int) -> float:
    """Return the processor time that a process has taken, 0 where it is unknown."""
    try:
        times = psutil.Process(pid).cpu_times()
    except psutil.Error:
        return 0.0
    return float(times.user + times.system)


def in_fork(work: Callable[[], T], max_cpu_s: int, max_bytes: int) -> T:
    """Return the result of ``work``, done in a fork that may take so much memory beside what this process has.

    Raises:
        TimeoutError: It took more processor time than ``max_cpu_s``.
        MemoryError: It took more memory, or crashed.
    """
    source, target = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            die_with_parent()
            _limit(max_cpu_s, max_bytes)
            with os.fdopen(target, "wb") as writer:
                writer.write(dumps(work()))
            os._exit(0)
        finally:
            os._exit(1)
    os.close(target)
    with os.fdopen(source, "rb") as reader:
        result = reader.read()
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status) and os.WTERMSIG(status) in (signal.SIGXCPU, signal.SIGKILL):
        raise TimeoutError
    if status != 0:
        raise MemoryError
    return loads(result)  # type: ignore[no-any-return]  # noqa: S301 - of a process of this program


def _limit(max_cpu_s: int, max_bytes: int) -> None:
    """Limit the processor time and memory of this process."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CPU, (max_cpu_s, max_cpu_s + 1))
    # Other systems than Linux neither report it nor enforce it.
    used = getattr(psutil.Process().memory_info(), "data", None)
    if used is not None:
        resource.setrlimit(resource.RLIMIT_DATA, (used + max_bytes, used + max_bytes))
