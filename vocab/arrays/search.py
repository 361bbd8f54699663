"""Binary search in part of an array, for compiled code."""

from typing import Any

import numpy.typing as npt

from vocab.arrays.kernels import kernel


@kernel
def position_of(values: npt.NDArray[Any], first: int, last: int, value: int) -> int:
    """The position of a value among the ascending ones from ``first`` to before ``last``, or -1."""
    end = last
    while first < last:
        middle = (first + last) >> 1
        if values[middle] < value:
            first = middle + 1
        else:
            last = middle
    return first if first < end and values[first] == value else -1
