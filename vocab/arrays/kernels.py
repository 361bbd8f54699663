"""The array types of the library, and numba kernels: decorator, arrays and records by address, and binary search."""

from collections.abc import Callable
from typing import Any, TypeVar

try:
    import numba
except ModuleNotFoundError as missing:
    raise ModuleNotFoundError("masks need numba: pip install 'wordbound[masks]'", name=missing.name) from missing
import numpy as np
import numpy.typing as npt
from numba.core import types
from numba.extending import intrinsic

F = TypeVar("F", bound=Callable[..., Any])
Int32Array = npt.NDArray[np.int32]
Uint8Array = npt.NDArray[np.uint8]
AddressTable = npt.NDArray[np.int64]


def kernel(function: F) -> F:
    """Compile ``function`` on first use, cache the machine code on disk, and run it without the interpreter lock."""
    compiled: F = numba.njit(cache=True, nogil=True)(function)
    return compiled


def short_kernel(function: F) -> F:
    """Compile ``function`` as ``kernel`` does, but keep the interpreter lock: for microseconds beside busy threads.

    Who gives the lock up waits up to 5 ms for it.
    """
    compiled: F = numba.njit(cache=True)(function)
    return compiled


def inlined(function: F) -> F:
    """Compile ``function`` into each kernel that calls it: a call costs 20 ns, for the arrays that it is given."""
    compiled: F = numba.njit(cache=True, inline="always")(function)
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


def group_starts(owners: npt.NDArray[np.integer[Any]], num_groups: int) -> Int32Array:
    """Return the offset of each group (CSR), int32 (groups + 1,), for members sorted by owner."""
    starts = np.zeros(num_groups + 1, dtype=np.int32)
    np.cumsum(np.bincount(owners, minlength=num_groups), out=starts[1:])
    return starts


def address_of(array: npt.NDArray[Any]) -> int:
    """Return the address of a contiguous array of int64, int32, uint8 or records, else raise ``ValueError``."""
    if array.dtype not in (np.int64, np.int32, np.uint8) and array.dtype.names is None:
        raise ValueError("only arrays of int64, int32, uint8 and records are handed over by address here")
    if not array.flags.c_contiguous:
        raise ValueError("only contiguous arrays are handed over by address here")
    return int(array.ctypes.data)


def _cast_to(result: Any) -> Any:
    """Make an intrinsic for compiled code that takes an address for a value of this type, which is a pointer."""

    @intrinsic  # type: ignore[untyped-decorator]
    def cast(typing_context: Any, address: Any) -> Any:  # noqa: ARG001
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return builder.inttoptr(arguments[0], context.get_value_type(signature.return_type))

        return result(types.int64), generate

    return cast


def record_at(record: np.dtype[Any]) -> Any:
    """Return what in compiled code takes an address for a record; its fields are read by name."""
    return _cast_to(numba.from_dtype(record))


# In compiled code: the values from an address on.
int64_at = _cast_to(types.CPointer(types.int64))
int32_at = _cast_to(types.CPointer(types.int32))
uint8_at = _cast_to(types.CPointer(types.uint8))
