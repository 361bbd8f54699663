"""numba kernels: the decorator with the options that all share, arrays by address, and binary search."""

from collections.abc import Callable
from typing import Any, TypeVar

import numba
import numpy as np
import numpy.typing as npt
from numba.core import types
from numba.extending import intrinsic

F = TypeVar("F", bound=Callable[..., Any])
AddressTable = npt.NDArray[np.int64]


def kernel(function: F) -> F:
    """Compile ``function`` on first use, cache the machine code on disk, and run it without the interpreter lock."""
    compiled: F = numba.njit(cache=True, nogil=True)(function)
    return compiled


@kernel
def position_of(values: npt.NDArray[Any], first: int, last: int, value: int) -> int:
    """Return the position of a value in the ascending ``values[first:last]``, or -1."""
    end = last
    while first < last:
        middle = (first + last) >> 1
        if values[middle] < value:
            first = middle + 1
        else:
            last = middle
    return first if first < end and values[first] == value else -1


def address_of(array: npt.NDArray[np.int64] | npt.NDArray[np.int32] | npt.NDArray[np.uint8]) -> int:
    """Return the address of a contiguous array of int64, int32 or uint8, else raise ``ValueError``."""
    if array.dtype not in (np.int64, np.int32, np.uint8) or not array.flags.c_contiguous:
        raise ValueError("only contiguous arrays of int64, int32 and uint8 are handed over by address here")
    return int(array.ctypes.data)


def _pointer_to(value_type: Any) -> Any:
    """Make an intrinsic for compiled code that casts an address to a pointer to such values."""

    @intrinsic  # type: ignore[untyped-decorator]
    def pointer(typing_context: Any, address: Any) -> Any:  # noqa: ARG001
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return builder.inttoptr(arguments[0], context.get_value_type(signature.return_type))

        return types.CPointer(value_type)(types.int64), generate

    return pointer


# In compiled code: the values from an address on.
int64_at = _pointer_to(types.int64)
int32_at = _pointer_to(types.int32)
uint8_at = _pointer_to(types.uint8)
