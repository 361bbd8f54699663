"""Numbers for things that are found while others are worked through."""

from collections.abc import Hashable, Iterable
from typing import TypeVar

T = TypeVar("T", bound=Hashable)


class Numbers(dict[T, int]):
    """Numbers keys in the order in which they are first asked for; ``in_order`` grows while it is walked."""

    def __init__(self, keys: Iterable[T] = ()) -> None:
        super().__init__()
        self.in_order = list(keys)
        self.update((key, number) for number, key in enumerate(self.in_order))

    def __missing__(self, key: T) -> int:
        self[key] = len(self)
        self.in_order.append(key)
        return self[key]
