"""numba's decorator with the options every kernel of the library uses, and with a type that mypy understands."""

from collections.abc import Callable
from typing import Any, TypeVar

import numba

F = TypeVar("F", bound=Callable[..., Any])


def kernel(function: F) -> F:
    """Compiles ``function`` on first use, keeps the machine code on disk, and runs it without the interpreter lock."""
    compiled: F = numba.njit(cache=True, nogil=True)(function)
    return compiled
