"""Runs a child process under a limit of time and of memory, and says which one it met. Knows no engine."""

import os
import signal
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from benchmarks.machine import status_mib

_POLL_S: Final = 0.1

Ending = Literal["ended", "over time", "over memory", "crashed"]


@dataclass(frozen=True)
class Outcome:
    """How a child ended.

    Attributes:
        ending: ``ended`` by itself with status 0, ``crashed`` by itself otherwise, or killed at a limit.
        seconds: How long it ran.
        peak_mib: The most memory it and its children had in use at once, as seen every tenth of a second.
        errors: The end of what it wrote to its standard error.
    """

    ending: Ending
    seconds: float
    peak_mib: float
    errors: str


def run_limited(
    command: list[str], *, cwd: Path, environment: Mapping[str, str], limit_s: float, limit_gib: float, log: Path
) -> Outcome:
    """Runs ``command`` to its end, or kills it and its children at a limit."""
    started, peak = time.monotonic(), 0.0
    with log.open("wb") as errors:
        child = subprocess.Popen(
            command, cwd=cwd, env=dict(environment), stdout=errors, stderr=errors, start_new_session=True
        )
        ending: Ending | None = None
        try:
            while ending is None:
                try:
                    ending = "crashed" if child.wait(_POLL_S) else "ended"
                except subprocess.TimeoutExpired:
                    peak = max(peak, sum(status_mib(pid, "VmRSS") for pid in _family(child.pid)))
                    if peak > limit_gib * 1024:
                        ending = "over memory"
                    elif time.monotonic() - started > limit_s:
                        ending = "over time"
        finally:
            if child.poll() is None:
                os.killpg(child.pid, signal.SIGKILL)
                child.wait()
    tail = log.read_text(errors="replace")[-2000:]
    return Outcome(ending, time.monotonic() - started, peak, tail)


def _family(pid: int) -> list[int]:
    """A process and all its descendants."""
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return [pid]
    return [pid, *(member for child in children for member in _family(int(child)))]
