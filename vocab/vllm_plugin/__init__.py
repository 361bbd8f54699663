"""Everything that touches vLLM's internals, and the entry point of the plugin.

vLLM loads the plugins of its environment into every process of every engine, also of engines that are not ours.
``register``, our entry point, changes nothing there unless ``use_plugin`` was called before the engine was made. An
engine's process counts the masks that it fills where its parent reads the numbers (``MaskStatistics``).
"""

import mmap
import os
import struct
from pathlib import Path
from typing import Final, Self

PLUGIN_VARIABLE: Final = "WORDBOUND_PLUGIN"
"""Environment variable of an engine's processes: "1" where they are to load the plugin."""

STATISTICS_VARIABLE: Final = "WORDBOUND_MASK_STATISTICS"
"""Names the memory of ``MaskStatistics``, as a path."""

_COPIED_BY_RAY: Final = "VLLM_RAY_EXTRA_ENV_VARS_TO_COPY"
"""vLLM's own: variables that its workers in processes of Ray get from the engine, besides those of vLLM."""

_NUMBERS: Final = struct.Struct("qd")


def use_plugin() -> None:
    """Have the engines that this process makes from now on load the plugin, in all their processes on all nodes."""
    os.environ[PLUGIN_VARIABLE] = "1"
    copied = [name for name in os.environ.get(_COPIED_BY_RAY, "").split(",") if name]
    os.environ[_COPIED_BY_RAY] = ",".join(dict.fromkeys([*copied, PLUGIN_VARIABLE]))


def register() -> None:
    """Install the plugin in this process, if its environment asks for that. Harmless to repeat."""
    if os.environ.get(PLUGIN_VARIABLE) == "1":
        # Only here: an engine of somebody else's does not even import it.
        from vocab.vllm_plugin.backend import install

        install()


class MaskStatistics:
    """How many masks an engine has filled and how long that took, in memory that its process shares with its parent.

    Two numbers: masks, int64, and seconds, float64. One process writes.
    """

    def __init__(self, memory: mmap.mmap) -> None:
        self._memory = memory
        self._num, self._seconds = self.read()

    @classmethod
    def share(cls) -> Self:
        """Create the memory, and name it in the environment that child processes inherit."""
        memory = os.memfd_create("wordbound-masks")
        os.truncate(memory, _NUMBERS.size)
        os.environ[STATISTICS_VARIABLE] = f"/proc/{os.getpid()}/fd/{memory}"
        return cls(mmap.mmap(memory, _NUMBERS.size))

    @classmethod
    def shared(cls) -> Self:
        """Map the memory that the parent process shares; memory of this process alone where there is none."""
        if not (path := os.environ.get(STATISTICS_VARIABLE)):
            return cls(mmap.mmap(-1, _NUMBERS.size))
        with Path(path).open("r+b") as memory:
            return cls(mmap.mmap(memory.fileno(), _NUMBERS.size))

    def read(self) -> tuple[int, float]:
        """Return the number of masks and the seconds, as far as they were written."""
        num, seconds = _NUMBERS.unpack(self._memory[:])
        return num, seconds

    def add(self, seconds: float, number: int = 1) -> None:
        """Count so many masks, which took so long together."""
        self._num += number
        self._seconds += seconds
        _NUMBERS.pack_into(self._memory, 0, self._num, self._seconds)
