"""The arrays of lists in a device's memory: the arena, and the tables in it that kernels follow texts with.

The arena is one tensor, and what is free in it a list of gaps: lists come and go, and nothing is allocated on the
device beside vLLM. Memory is free again when nobody holds its block. Kernels that read it may be under way then, but
were launched before: what writes there next waits for all that were.
"""

from collections import deque
from threading import Lock
from typing import Any, Final
from weakref import WeakKeyDictionary, WeakValueDictionary, ref

import numpy as np
import numpy.typing as npt
import torch

from vocab.automaton.frame import NUM_MODES
from vocab.matching.states import ListStates
from vocab.vllm_plugin.device.kernels import RECORD

_ALIGNMENT: Final = 16
"""Of a block, in int32."""


class ArenaFullError(RuntimeError):
    """A list does not fit into what is left of the arena."""


class _Block:
    """Memory of the arena that holds an array, until nobody holds the block."""

    def __init__(self, place: int, size: int, freed: deque[tuple[int, int]], array: npt.NDArray[Any] | None) -> None:
        self.place, self._size, self._freed = place, size, freed
        # So that no other array gets its address, by which it is known.
        self._array = array

    def __del__(self) -> None:
        # In any thread, while any lock is held.
        self._freed.append((self.place, self._size))


class Table:
    """A list at N in the arena, for as long as somebody holds it; ``place`` is where its record begins."""

    def __init__(self, blocks: list[_Block]) -> None:
        self.place = blocks[-1].place
        self._blocks = blocks


class Arena:
    """The arrays of the lists of one engine, in memory of its device. Thread-safe.

    Args:
        device: The device.
        num_bytes: Its bound, less than 2 GB.

    Attributes:
        memory: int32, the arena.
    """

    def __init__(self, device: torch.device, num_bytes: int) -> None:
        self.memory = torch.zeros(num_bytes // 4, dtype=torch.int32, device=device)
        # Beside the steps of the engine, which go on.
        self._stream = torch.cuda.Stream(device) if device.type == "cuda" else None
        self._gaps = [(0, len(self.memory))]
        self._freed = deque[tuple[int, int]]()
        self._blocks = WeakValueDictionary[tuple[int, int], _Block]()
        self._tables = WeakKeyDictionary[ListStates, Table]()
        self._lock = Lock()

    @property
    def num_bytes_free(self) -> int:
        with self._lock:
            return 4 * sum(size for _, size in (*self._gaps, *self._freed))

    def table(self, states: ListStates) -> Table:
        """Return the table of a list's states, copied to the device if it is not there, where the caller waits for it.

        It stays as long as the states do, or a caller holds it. Where there is no room, those that nobody holds go.

        Raises:
            ArenaFullError: There is no room.
        """
        with self._lock:
            table = self._tables.get(states) or self._put(states)
            if table is None:
                self._drop_unused()
                table = self._put(states)
            if table is None:
                raise ArenaFullError(f"no room for {states.n_words} words in {4 * len(self.memory)} bytes")
            self._tables[states] = table
            return table

    def _drop_unused(self) -> None:
        """Let go of the tables that nobody else holds."""
        known = [(ref(states), ref(table)) for states, table in self._tables.items()]
        self._tables.clear()
        for states_ref, table_ref in known:
            states, table = states_ref(), table_ref()
            if states is not None and table is not None:
                self._tables[states] = table

    def _put(self, states: ListStates) -> Table | None:
        """Copy the arrays of states into the arena, but for those that are there, and their record; None without room.

        What was freed may be written again when all kernels are done that were launched before.
        """
        if self._collect() and self._stream is not None:
            torch.cuda.synchronize(self.memory.device)
        rows, row_of = np.unique(states.plain_rows(), axis=0, return_inverse=True)
        num_base = states.words.num_nodes
        record = {
            "n_words": min(states.n_words, int(np.iinfo(np.int32).max) - 1),
            "row_size": rows.shape[1],
            "num_base": num_base,
            "base_num_nodes": num_base,
            "base_last_mode": len(states.words.ranks) - 1,
            "longest_distance": states.longest_distance,
            "plain_budget": states.plain_budget,
        }
        if states.overlay is not None:
            added = {"first_node": num_base, "num_nodes": states.overlay.num_nodes, "last_mode": NUM_MODES - 1}
            record |= {f"added_{name}": number for name, number in added.items()}
        own = {"row_of": row_of.reshape(-1).astype(np.int32), "rows": rows}
        shared, blocks = states.arrays(), list[_Block]()
        for name, array in (shared | own).items():
            block = self._block(array, is_shared=name in shared)
            if block is None:
                return None
            record[name] = block.place
            blocks.append(block)
        # What is of the nodes added is missing where there are none.
        block = self._block(np.array([record.get(field, 0) for field in RECORD], dtype=np.int32), is_shared=False)
        if self._stream is not None:
            self._stream.synchronize()
        return None if block is None else Table([*blocks, block])

    def _block(self, array: npt.NDArray[Any], *, is_shared: bool) -> _Block | None:
        """Copy an array of int32 or uint8 into the arena, if it is not there for another table; None without room."""
        key = array.ctypes.data, array.nbytes
        if is_shared and (known := self._blocks.get(key)) is not None:
            return known
        size = -(-array.nbytes // (4 * _ALIGNMENT)) * _ALIGNMENT
        place = self._take(size)
        if place is None:
            return None
        block = _Block(place, size, self._freed, array if is_shared else None)
        if is_shared:
            self._blocks[key] = block
        values = np.zeros(4 * size, dtype=np.uint8)
        values[: array.nbytes] = np.ascontiguousarray(array).view(np.uint8).reshape(-1)
        # No stream changes nothing.
        with torch.cuda.stream(self._stream):
            self.memory[place : place + size].copy_(torch.from_numpy(values.view(np.int32)))
        return block

    def _take(self, size: int) -> int | None:
        """Take memory from the first gap that is large enough; None where none is."""
        for i, (place, of_gap) in enumerate(self._gaps):
            if size <= of_gap:
                self._gaps[i : i + 1] = [(place + size, of_gap - size)] if size < of_gap else []
                return place
        return None

    def _collect(self) -> bool:
        """Return what was freed to the gaps, which ascend and do not touch; whether there was anything."""
        freed = [self._freed.popleft() for _ in range(len(self._freed))]
        gaps: list[tuple[int, int]] = []
        for place, size in sorted(gap for gap in (*self._gaps, *freed) if gap[1]):
            if gaps and sum(gaps[-1]) == place:
                gaps[-1] = gaps[-1][0], gaps[-1][1] + size
            else:
                gaps.append((place, size))
        self._gaps = gaps
        return bool(freed)
