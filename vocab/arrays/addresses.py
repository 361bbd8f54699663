"""Arrays for compiled code by their addresses, many in one table.

A call from Python unpacks each of its arrays, 65 ns apiece: as much for ten of them as for the whole of a mask. And a
tuple of arrays that goes from one compiled function to another has each of them counted. Addresses are plain numbers.
Whoever takes them keeps the arrays alive.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
from numba.core import types
from numba.extending import intrinsic

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
