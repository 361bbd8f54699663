"""Finds processes by the names that Ray and vLLM give them."""

from collections.abc import Collection
from contextlib import suppress
from pathlib import Path


def processes_named(beginning: str, among: Collection[int] | None = None) -> list[int]:
    """Ids of the processes, or of some of them, whose command line begins so."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit() and (among is None or int(folder.name) in among):
            with suppress(OSError):
                if (folder / "cmdline").read_bytes().startswith(beginning.encode()):
                    found.append(int(folder.name))
    return found
