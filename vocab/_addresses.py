"""Arrays for compiled code by their addresses, many in one table.

A call from Python unpacks each of its arrays, 65 ns apiece: as much for ten of them as for the whole of a mask. A
table of addresses is one array. Whoever makes a table keeps its arrays alive as long as the table.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
from numba.core import types
from numba.extending import intrinsic

from vocab.byte_trie import Int32Array

AddressTable = npt.NDArray[np.int64]


def address_of(array: Int32Array) -> int:
    """Where a contiguous int32 array begins.

    Raises:
        ValueError: It is not one.
    """
    if array.dtype != np.int32 or not array.flags.c_contiguous:
        raise ValueError("only contiguous int32 arrays are handed over by address")
    return int(array.ctypes.data)


@intrinsic  # type: ignore[untyped-decorator]
def int32_at(typing_context: Any, address: Any) -> Any:  # noqa: ARG001
    """In compiled code: the int32 values from an address on."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.inttoptr(arguments[0], context.get_value_type(signature.return_type))

    return types.CPointer(types.int32)(types.int64), generate
