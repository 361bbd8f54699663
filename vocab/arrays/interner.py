"""Numbers for things that are found while others are worked through."""

from collections.abc import Hashable, Iterable
from typing import TypeVar

T = TypeVar("T", bound=Hashable)


class Interner(dict[T, int]):
    """A dict that numbers keys in the order first asked for; ``in_order`` may grow while it is iterated."""

    def __init__(self, keys: Iterable[T] = ()) -> None:
        super().__init__()
        self.in_order = list(keys)
        self.update((key, number) for number, key in enumerate(self.in_order))

    def __missing__(self, key: T) -> int:
        self[key] = len(self)
        self.in_order.append(key)
        return self[key]
