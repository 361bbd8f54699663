"""Which tokens would repeat a run of tokens that came before, so that a text does not run in circles.

Knows tokens only, neither words nor lists. A mask is never emptied by it: where every allowed token would repeat
something, all of them stay, so a text can always go on, and end within its budget.
"""

from collections.abc import Iterable
from typing import Final

import numpy as np

from vocab.arrays.byte_trie import Int32Array

MAX_SEEN: Final = 512
"""How many tokens back are looked at where a text goes on elsewhere."""

_BITS: Final = (np.uint32(1) << np.arange(32, dtype=np.uint32)).view(np.int32)


class Repeats:
    """The runs of ``size`` tokens of one text.

    Args:
        size: How long a run is that may not come twice; 1 forbids every second use of a token.
        seen: The tokens that came before.
    """

    def __init__(self, size: int, seen: Iterable[int] = ()) -> None:
        self._num_before = size - 1
        self._tokens: list[int] = []
        self._next: dict[tuple[int, ...], list[int]] = {}
        for token in seen:
            self.append(token)

    def append(self, token: int) -> None:
        self._next.setdefault(self._last(), []).append(token)
        self._tokens.append(token)

    def rollback(self, num_tokens: int) -> None:
        """Takes the last tokens back."""
        for _ in range(num_tokens):
            self._tokens.pop()
            self._next[self._last()].pop()

    def next_tokens(self) -> list[int]:
        """The tokens that would complete a run that came before."""
        return self._next.get(self._last(), [])

    def clear(self, out: Int32Array) -> None:
        """Clears those tokens in a mask, int32 (words,), unless nothing would be left."""
        tokens = self.next_tokens()
        if not tokens:
            return
        before = out.copy()
        for token in tokens:
            out[token >> 5] &= ~_BITS[token & 31]
        if not out.any():
            out[:] = before

    def _last(self) -> tuple[int, ...]:
        if len(self._tokens) < self._num_before:
            # A short text has no run yet; its own length keeps it apart from every key.
            return (-1, len(self._tokens))
        return tuple(self._tokens[len(self._tokens) - self._num_before :])
