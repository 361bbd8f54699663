"""What the compile processes do to themselves: their pipe, their priority, and an end with their parent."""

import ctypes
import os
import select
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from multiprocessing.connection import Connection
from threading import Thread
from typing import Any, Final

import psutil

NICENESS: Final = 10
"""A tenth of the share of an engine on the same core. The lowest priority, 19, would get a seventieth, and a compile
of a second would take a minute on a busy machine."""

EXIT_S: Final = 5.0
"""Time to exit after the parent has closed the pipe: enough to send a file to the shared store, not for a compile."""

_PR_SET_PDEATHSIG: Final = 1


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
