"""The rows of the masks between words, made on first use."""

from threading import Lock

import numpy as np
import numpy.typing as npt

from vocab.arrays.byte_trie import Int32Array
from vocab.arrays.kernels import address_of
from vocab.matching.mask_kernels import FILLED, fill_mask, make_row


class MaskRows:
    """The rows of frame states for a budget, each made on first use, and the record with that budget.

    Filling takes no lock: a row is known by its address, which is written when the row is complete.
    """

    def __init__(self, record: npt.NDArray[np.void], budget: int, num_states: int) -> None:
        self._rows: list[Int32Array] = []
        self._addresses = np.zeros(num_states, dtype=np.int64)
        self._lock = Lock()
        self._record = record.copy()
        self._record["budget"], self._record["rows"] = budget, address_of(self._addresses)
        self._row_size = int(record["row_size"][0])
        self.address = address_of(self._record)
        self.num_bytes = 0
        """Bytes of the rows made."""

    def fill(self, out: Int32Array, reading: int, stops: Int32Array, inside: "MaskRows") -> None:
        """Write the mask of a reading, as ``ListStates.fill``; ``inside`` are the rows of its word."""
        while (missing := fill_mask(out, stops, inside.address, self.address, reading)) != FILLED:
            self._make(missing)

    def _make(self, frame_state: int) -> None:
        """Make the row of a frame state, unless another thread has made it."""
        with self._lock:
            if not self._addresses[frame_state]:
                row = np.zeros(self._row_size, dtype=np.int32)
                make_row(row, self.address, frame_state)
                self._rows.append(row)
                self._addresses[frame_state] = address_of(row)
                self.num_bytes += row.nbytes
