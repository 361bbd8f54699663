"""How many masks an engine has filled and how long that took, in memory that its process shares with its parent."""

import mmap
import os
import struct
from pathlib import Path
from typing import Final, Self

STATISTICS_VARIABLE: Final = "WORDBOUND_MASK_STATISTICS"
"""Names the memory, as a path."""

_NUMBERS: Final = struct.Struct("qd")


class MaskStatistics:
    """Two numbers in shared memory: masks, int64, and seconds, float64. One process writes."""

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

    def add(self, seconds: float) -> None:
        """Count a mask that took so long."""
        self._num += 1
        self._seconds += seconds
        _NUMBERS.pack_into(self._memory, 0, self._num, self._seconds)
