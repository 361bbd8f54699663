"""What the compile processes do to themselves: priority, output, and an end with their parent."""

import ctypes
import os
import signal
import sys
from typing import BinaryIO, Final

import psutil

NICENESS: Final = 10
"""A tenth of the share of an engine on the same core. The lowest priority, 19, would get a seventieth, and a compile
of a second would take a minute on a busy machine."""

EXIT_S: Final = 5.0
"""Time to exit after the input ends: enough to send a file to the shared store, not for a compile."""

_PR_SET_PDEATHSIG: Final = 1


def give_way() -> None:
    """Lower the priority below the parent's: reading a tokenizer takes 5 s of the cores on which an engine starts."""
    # Once, though this program may have started again.
    if os.getpriority(os.PRIO_PROCESS, 0) == os.getpriority(os.PRIO_PROCESS, os.getppid()):
        os.nice(NICENESS)


def own_output() -> BinaryIO:
    """Keep standard output for replies alone: what libraries print goes to standard error."""
    output = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    return output


def send(output: BinaryIO, line: bytes) -> None:
    """Write a line to the parent process, and flush it; exit where the parent is gone."""
    try:
        output.write(line)
        output.flush()
    except BrokenPipeError:
        os._exit(0)


def die_with_parent() -> None:
    """Have Linux kill this process when its parent's thread ends; elsewhere the end of the input must do."""
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
