"""A disk without room, on demand."""

import resource
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def no_room(num_bytes: int) -> Iterator[None]:
    """No file of this process may grow beyond this, as if the disk were full."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (num_bytes, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
