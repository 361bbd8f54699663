"""What a run was made on. Reads Linux's /proc; elsewhere the figures are missing."""

import os
import platform
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any, Final

PACKAGES: Final = ("wordbound", "xgrammar", "llguidance", "numba", "numpy", "transformers")

ONE_THREAD: Final = {
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "NUMBA_NUM_THREADS": "1",
    "RAYON_NUM_THREADS": "1",
    "TOKENIZERS_PARALLELISM": "false",
}
"""For the environment of a process that is to count as one thread."""


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
        "versions": {"python": platform.python_version(), **versions_of(*PACKAGES)},
    }


def use_one_core() -> None:
    """Bind this process, and what it starts, to one core: all engines get the same."""
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})


def versions_of(*packages: str) -> dict[str, str]:
    found = {}
    for name in packages:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            found[name] = "not installed"
    return found


def _cpu_name() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), "unknown")
