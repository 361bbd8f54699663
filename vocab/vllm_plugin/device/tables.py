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

from vocab.arrays.kernels import Int32Array
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
        """Return how many bytes are in gaps."""
        with self._lock:
            self._collect()
            return 4 * sum(size for _, size in self._gaps)

    def table(self, states: ListStates) -> Table:
        """Return the table of a list's states, copied to the device if it is not there, where the caller waits for it.

        It stays as long as the states do, or a caller holds it. Where there is no room, those that nobody holds go.

        Raises:
            ArenaFullError: There is no room.
        """
        with self._lock:
            table = self._tables.get(states)
            if table is None:
                table = self._put_if_it_fits(states)
            if table is None:
                self._drop_unused()
                table = self._put_if_it_fits(states)
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

    def _put_if_it_fits(self, states: ListStates) -> Table | None:
        try:
            return self._put(states)
        except ArenaFullError:
            return None

    def _put(self, states: ListStates) -> Table:
        """Copy the arrays of states into the arena, but for those that are there, and their record."""
        if self._collect() and self._stream is not None:
            torch.cuda.synchronize(self.memory.device)
        rows, row_of = np.unique(states.plain_rows(), axis=0, return_inverse=True)
        counts = np.bitwise_count(rows.view(np.uint32)).sum(axis=1, dtype=np.int32)
        blocks = {name: self._shared_block(array) for name, array in states.arrays().items()}
        own = {"row_of": row_of.reshape(-1).astype(np.int32), "rows": rows, "row_counts": counts}
        blocks |= {name: self._block(array) for name, array in own.items()}
        numbers = {
            "n_words": min(states.n_words, int(np.iinfo(np.int32).max) - 1),
            "row_size": rows.shape[1],
            "num_base": states.words.num_nodes,
            "num_added": 0 if states.overlay is None else states.overlay.num_nodes,
            "longest_distance": states.longest_distance,
            "plain_budget": states.plain_budget,
        }
        places = {name: block.place for name, block in blocks.items()}
        # The arrays of the nodes added are missing where there are none.
        record = np.array([(numbers | places).get(field, 0) for field in RECORD], dtype=np.int32)
        table = Table([*blocks.values(), self._block(record)])
        if self._stream is not None:
            self._stream.synchronize()
        return table

    def _shared_block(self, array: npt.NDArray[Any]) -> _Block:
        """Return the block of an array that other tables may have too."""
        key = array.ctypes.data, array.nbytes
        block = self._blocks.get(key)
        if block is None:
            block = self._blocks[key] = self._block(array, array)
        return block

    def _block(self, array: npt.NDArray[Any], source: npt.NDArray[Any] | None = None) -> _Block:
        """Copy an array of int32 or uint8 into the arena."""
        num_words = -(-array.nbytes // 4)
        size = -(-num_words // _ALIGNMENT) * _ALIGNMENT
        block = _Block(self._take(size), size, self._freed, source)
        values = np.zeros(num_words, dtype=np.int32)
        values.view(np.uint8)[: array.nbytes] = np.ascontiguousarray(array).view(np.uint8).reshape(-1)
        self._copy(block.place, values)
        return block

    def _copy(self, place: int, values: Int32Array) -> None:
        into = self.memory[place : place + len(values)]
        # None changes nothing.
        with torch.cuda.stream(self._stream):
            into.copy_(torch.from_numpy(values))

    def _take(self, size: int) -> int:
        """Take memory from the first gap that is large enough.

        Raises:
            ArenaFullError: None is.
        """
        for i, (place, of_gap) in enumerate(self._gaps):
            if size <= of_gap:
                self._gaps[i : i + 1] = [(place + size, of_gap - size)] if size < of_gap else []
                return place
        raise ArenaFullError

    def _collect(self) -> bool:
        """Return what was freed to the gaps, which ascend and do not touch; whether there was anything."""
        freed = [self._freed.popleft() for _ in range(len(self._freed))]
        gaps: list[tuple[int, int]] = []
        for place, size in sorted([*self._gaps, *freed]):
            if gaps and sum(gaps[-1]) == place:
                gaps[-1] = gaps[-1][0], gaps[-1][1] + size
            else:
                gaps.append((place, size))
        self._gaps = gaps
        return bool(freed)
