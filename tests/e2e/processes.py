"""Finds processes by the names that Ray and vLLM give them."""

from collections.abc import Collection

import psutil


def processes_named(beginning: str, among: Collection[int] | None = None) -> list[int]:
    """Ids of the processes, or of some of them, whose command line begins so."""
    running = (process for process in psutil.process_iter(["cmdline"]) if among is None or process.pid in among)
    return [process.pid for process in running if " ".join(process.info["cmdline"] or []).startswith(beginning)]
