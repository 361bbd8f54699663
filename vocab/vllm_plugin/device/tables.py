"""The arrays of lists in a device's memory: the tables that kernels follow texts with.

A table is one tensor, which PyTorch allocates beside those of vLLM. Once nobody holds it, PyTorch gives its memory to
others when all kernels are done that may read it (``Table.record_stream``).
"""

from threading import Lock
from typing import Final
from weakref import WeakKeyDictionary, WeakSet, ref

import numpy as np
import torch

from vocab.arrays.kernels import Int32Array
from vocab.automaton.frame import NUM_MODES
from vocab.matching.states import ListStates
from vocab.vllm_plugin.device.kernels import RECORD

_MAX_WORDS: Final = int(np.iinfo(np.int32).max) - 1


class NoRoomError(RuntimeError):
    """A list does not fit into what tables may take."""


class Table:
    """A list at N in a device's memory, at ``address``, for as long as somebody holds this."""

    def __init__(self, states: ListStates, memory: torch.Tensor) -> None:
        self.states, self._memory = ref(states), memory
        self.address, self.num_bytes = memory.data_ptr(), memory.nbytes

    def record_stream(self) -> None:
        """Keep the memory until the kernels are done that this thread's stream has when nobody holds this any more."""
        if self._memory.is_cuda:
            self._memory.record_stream(torch.cuda.current_stream(self._memory.device))


class Tables:
    """The tables of the lists of one engine. Thread-safe.

    Args:
        device: Where they are.
        max_bytes: How much they may take together.
    """

    def __init__(self, device: torch.device, max_bytes: int) -> None:
        self.device, self._max_bytes = device, max_bytes
        # Beside the steps of the engine, which go on.
        self._stream = torch.cuda.Stream(device) if device.type == "cuda" else None
        self._all = WeakSet[Table]()
        self._kept = WeakKeyDictionary[ListStates, Table]()
        self._sizes = WeakKeyDictionary[ListStates, int]()
        self._lock = Lock()

    @property
    def num_bytes(self) -> int:
        """Return how much they take."""
        return sum(table.num_bytes for table in self._all)

    def of(self, states: ListStates) -> Table:
        """Return the table of a list's states; one that is not on the device is copied there first.

        It stays as long as the states do, or a caller holds it. Where there is no room, those go that nobody holds and
        that were asked for longest ago.

        Raises:
            NoRoomError: There is no room.
        """
        with self._lock:
            table = next((table for table in self._all if table.states() is states), None) or self._make(states)
            # Asked for last.
            self._kept.pop(states, None)
            self._kept[states] = table
            return table

    def _make(self, states: ListStates) -> Table:
        packed = None
        if states not in self._sizes:
            packed = _pack(states)
            self._sizes[states] = packed.nbytes
        self._make_room(self._sizes[states], states)
        # No stream changes nothing.
        with torch.cuda.stream(self._stream):
            memory = torch.from_numpy(_pack(states) if packed is None else packed).to(self.device)
        table = Table(states, memory)
        self._all.add(table)
        return table

    def _make_room(self, num_bytes: int, states: ListStates) -> None:
        room = self._max_bytes - num_bytes
        for kept in list(self._kept):
            if self.num_bytes > room >= 0:
                self._kept.pop(kept, None)
        if self.num_bytes > room:
            raise NoRoomError(f"no room for {states.n_words} words in {self._max_bytes} bytes")


def _pack(states: ListStates) -> Int32Array:
    """Return the record of a list's states with their arrays after it."""
    rows, row_of = np.unique(states.plain_rows(), axis=0, return_inverse=True)
    num_base = states.words.num_nodes
    # What is of the nodes added stays 0 where there are none.
    record = dict.fromkeys(RECORD, 0) | {
        "n_words": min(states.n_words, _MAX_WORDS),
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
    arrays = states.arrays() | {"row_of": row_of.reshape(-1).astype(np.int32), "rows": rows}
    parts, place = list[Int32Array](), len(RECORD)
    for name, array in arrays.items():
        record[name] = place
        parts.append(np.frombuffer(array.tobytes() + bytes(-array.nbytes % 4), dtype=np.int32))
        place += len(parts[-1])
    return np.concatenate([np.array([record[field] for field in RECORD], dtype=np.int32), *parts])
