"""The array types of the library, and groups in flat arrays."""

from typing import Any

import numpy as np
import numpy.typing as npt

Int32Array = npt.NDArray[np.int32]
Uint8Array = npt.NDArray[np.uint8]


def group_starts(owners: npt.NDArray[np.integer[Any]], num_groups: int) -> Int32Array:
    """Return the offset of each group (CSR), int32 (groups + 1,), for members sorted by owner."""
    starts = np.zeros(num_groups + 1, dtype=np.int32)
    np.cumsum(np.bincount(owners, minlength=num_groups), out=starts[1:])
    return starts
