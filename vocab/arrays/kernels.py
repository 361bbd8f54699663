"""numba's decorator with the options every kernel of the library uses, and with a type that mypy understands."""

from collections.abc import Callable
from typing import Any, TypeVar

import numba
import numpy as np
import numpy.typing as npt
from numba.core import types
from numba.extending import intrinsic

F = TypeVar("F", bound=Callable[..., Any])


def kernel(function: F) -> F:
    """Compiles ``function`` on first use, keeps the machine code on disk, and runs it without the interpreter lock."""
    compiled: F = numba.njit(cache=True, nogil=True)(function)
    return compiled


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


AddressTable = npt.NDArray[np.int64]


def address_of(array: npt.NDArray[Any], dtype: type = np.int32) -> int:
    """Where a contiguous array of that type begins.

    Raises:
        ValueError: It is not one.
    """
    if array.dtype != dtype or not array.flags.c_contiguous:
        raise ValueError(f"only contiguous arrays of {dtype.__name__} are handed over by address here")
    return int(array.ctypes.data)


def _pointer_to(value_type: Any) -> Any:
    @intrinsic  # type: ignore[untyped-decorator]
    def pointer(typing_context: Any, address: Any) -> Any:  # noqa: ARG001
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return builder.inttoptr(arguments[0], context.get_value_type(signature.return_type))

        return types.CPointer(value_type)(types.int64), generate

    return pointer


int32_at = _pointer_to(types.int32)
"""In compiled code: the int32 values from an address on."""

uint8_at = _pointer_to(types.uint8)
"""In compiled code: the uint8 values from an address on."""
