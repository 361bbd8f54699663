"""Finds processes by the names that Ray and vLLM give them."""

from collections.abc import Collection

import psutil


def processes_named(beginning: str, among: Collection[int] | None = None) -> list[int]:
    """Ids of the processes, or of some of them, whose command line begins so."""
    running = (process for process in psutil.process_iter(["cmdline"]) if among is None or process.pid in among)
    return [process.pid for process in running if " ".join(process.info["cmdline"] or []).startswith(beginning)]


def our_processes_named(beginning: str) -> list[int]:
    """Ids of those that descend from this process: another test may run beside it."""
    return processes_named(beginning, [child.pid for child in psutil.Process().children(recursive=True)])
