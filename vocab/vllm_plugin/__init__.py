"""Everything that touches vLLM's internals, and the entry point of the plugin.

vLLM loads the plugins of its environment into every process of every engine, also of engines that are not ours.
``register``, our entry point, changes nothing there unless ``use_plugin`` was called before the engine was made. An
engine's process counts the masks that it fills where its parent reads the numbers (``MaskStatistics``).
"""

import mmap
import os
import struct
from pathlib import Path
from threading import Lock
from typing import Final, NamedTuple, Self

PLUGIN_VARIABLE: Final = "WORDBOUND_PLUGIN"
"""Environment variable of an engine's processes: "1" where they are to load the plugin."""

STATISTICS_VARIABLE: Final = "WORDBOUND_MASK_STATISTICS"
"""Names the memory of ``MaskStatistics``, as a path."""

_COPIED_BY_RAY: Final = "VLLM_RAY_EXTRA_ENV_VARS_TO_COPY"
"""vLLM's own: variables that its workers in processes of Ray get from the engine, besides those of vLLM."""

_NUMBERS: Final = struct.Struct("qdqqq")


class MaskCounts(NamedTuple):
    """What an engine has masked.

    Attributes:
        num_masks: Masks filled on the CPU.
        seconds: How long that took.
        num_texts: Texts of lists that began.
        num_on_device: Those of them that the device masks.
        num_dead: Masks of texts there that had left their list, and could only stop. A fault: none is expected.
    """

    num_masks: int = 0
    seconds: float = 0.0
    num_texts: int = 0
    num_on_device: int = 0
    num_dead: int = 0

    def since(self, before: "MaskCounts") -> "MaskCounts":
        return MaskCounts(**{name: count - getattr(before, name) for name, count in self._asdict().items()})


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
    """What an engine has masked, in memory that its process shares with its parent. One process writes."""

    def __init__(self, memory: mmap.mmap) -> None:
        self._memory, self._lock = memory, Lock()
        self._counts = self.read()

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

    def read(self) -> MaskCounts:
        """Return the counts, as far as they were written."""
        return MaskCounts(*_NUMBERS.unpack(self._memory[:]))

    def add(self, seconds: float, number: int = 1) -> None:
        """Count so many masks, which took so long together."""
        self._write(num_masks=number, seconds=seconds)

    def add_text(self, *, is_on_device: bool, num_dead: int) -> None:
        """Count a text that begins; so many masks were of dead ones until now."""
        self._write(num_texts=1, num_on_device=int(is_on_device), num_dead=num_dead - self._counts.num_dead)

    def _write(self, **added: float) -> None:
        with self._lock:
            counts = {name: getattr(self._counts, name) + number for name, number in added.items()}
            self._counts = self._counts._replace(**counts)
            _NUMBERS.pack_into(self._memory, 0, *self._counts)
