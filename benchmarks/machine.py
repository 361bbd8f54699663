"""What a run was made on, and what a process weighs. Reads Linux's /proc; elsewhere the figures are missing."""

import ctypes
import gc
import os
import platform
from contextlib import suppress
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any, Final, NamedTuple

PACKAGES: Final = ("wordbound", "xgrammar", "llguidance", "outlines_core", "lm-format-enforcer", "numba", "numpy",
                   "transformers")  # fmt: skip


def facts_of_run() -> dict[str, Any]:
    """Date, machine and versions, for the record of a run."""
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "hardware": {
            "cpu": _cpu_name(),
            "cores": len(os.sched_getaffinity(0)),
            "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1024**3, 1),
            "system": f"{platform.system()} {platform.machine()}",
            "load_before": [round(load, 2) for load in os.getloadavg()],
        },
        "versions": {"python": platform.python_version(), **_versions()},
    }


def use_one_core() -> None:
    """Binds this process, and what it starts, to one core: all engines get the same."""
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})


ONE_THREAD: Final = {
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "NUMBA_NUM_THREADS": "1",
    "RAYON_NUM_THREADS": "1",
    "TOKENIZERS_PARALLELISM": "false",
}
"""For the environment of a process that is to count as one thread."""


class Memory(NamedTuple):
    """What a process has in use, in MiB.

    Attributes:
        resident: All of it.
        of_files: The part that is mapped files, which processes share.
        peak: The most that it ever had.
    """

    resident: float
    of_files: float
    peak: float


def memory_mib() -> Memory:
    """The memory of this process, after what is unused went back to the system."""
    gc.collect()
    with suppress(OSError):
        ctypes.CDLL("libc.so.6").malloc_trim(0)
    return Memory(*(status_mib(os.getpid(), field) for field in ("VmRSS", "RssFile", "VmHWM")))


def status_mib(pid: int, field: str) -> float:
    """One of the sizes of /proc/<pid>/status, in MiB; 0 where there is none."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0.0
    return next((int(line.split()[1]) / 1024 for line in lines if line.startswith(field + ":")), 0.0)


def _cpu_name() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), "unknown")


def _versions() -> dict[str, str]:
    found = {}
    for name in PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            found[name] = "not installed"
    return found
