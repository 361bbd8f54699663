"""What genlm-backend's tests take from the package arsenal, in its definition."""

from typing import Any

import numpy as np
import numpy.typing as npt


class compare:  # noqa: N801 - its name there
    """The largest relative difference of two rows: |x - y| / max(|x|, |y|), 0 where both are 0, of finite ones."""

    def __init__(self, want: npt.NDArray[Any], have: npt.NDArray[Any]) -> None:
        want, have = np.asarray(want, np.float64), np.asarray(have, np.float64)
        largest = np.maximum(np.abs(want), np.abs(have))
        with np.errstate(invalid="ignore"):
            difference = np.where(largest == 0, 0, np.abs(want - have) / np.where(largest == 0, 1, largest))
        self.max_rel_err = float(np.max(difference[np.isfinite(difference)], initial=0))
