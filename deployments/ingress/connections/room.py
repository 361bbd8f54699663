"""Room for the requests of all keys: places of those that are worked on, and bytes of answers that wait."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from starlette.types import Scope

from deployments.errors import OverloadedError, TooManyRequestsError

PLACE: Final = "wordbound.place"
"""A key of the scope: frees the place of its request, and does nothing where that is free."""


class Room:
    """So much room for all keys together, of which one key has three quarters at most, so that it leaves some to
    others.

    Args:
        size: How much there is.
        full: What a request is answered where there is none left, with 503.
        own_full: And where its key has no more of it, with 429.
    """

    def __init__(self, size: int, full: str, own_full: str) -> None:
        self._num_free = size
        self._num_of_key = Counter[str]()
        self._max_of_key = size - size // 4
        self._full = full
        self._own_full = own_full

    @contextmanager
    def hold(self, num: int, owner: str) -> Iterator[None]:
        """Hold so much of it for a key.

        Raises:
            OverloadedError: There is not so much left.
            TooManyRequestsError: The key has no more.
        """
        if num > self._num_free:
            raise OverloadedError(self._full)
        if self._num_of_key[owner] + num > self._max_of_key:
            raise TooManyRequestsError(self._own_full, "too_many_requests")
        self._num_free -= num
        self._num_of_key[owner] += num
        try:
            yield
        finally:
            self._num_free += num
            self._num_of_key[owner] -= num
            if not self._num_of_key[owner]:
                del self._num_of_key[owner]


def free_place(scope: Scope) -> None:
    """Free the place of a request whose answer waits for its client alone, or is bounded otherwise."""
    if PLACE in scope:
        scope[PLACE]()
