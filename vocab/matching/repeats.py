"""Forbid tokens that would repeat an earlier run of tokens, so that a text does not run in circles.

A mask is never emptied: where every allowed token would repeat a run, all stay, so a text can always end within its
budget.
"""

from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np

from vocab.arrays.kernels import Int32Array
from vocab.matching.mask_kernels import set_token_bits

MAX_SEEN: Final = 512
"""How many earlier tokens travel with a text that goes on in another request."""


class Repeats:
    """The runs of ``size`` tokens of one text, which may not come twice; ``seen`` are its tokens so far."""

    def __init__(self, size: int, seen: Iterable[int] = ()) -> None:
        self.size = size
        self._num_before = size - 1
        self._tokens: list[int] = []
        self._next: dict[tuple[int, ...], list[int]] = {}
        for token in seen:
            self.append(token)

    @property
    def tokens(self) -> Sequence[int]:
        """Return the tokens of the text so far."""
        return self._tokens

    def append(self, token: int) -> None:
        """Record the next token of the text."""
        self._next.setdefault(self._last(), []).append(token)
        self._tokens.append(token)

    def rollback(self, num_tokens: int) -> None:
        """Forget the last tokens of the text."""
        for _ in range(num_tokens):
            self._tokens.pop()
            self._next[self._last()].pop()

    def next_tokens(self) -> list[int]:
        """Return the tokens that would complete an earlier run."""
        return self._next.get(self._last(), [])

    def clear(self, out: Int32Array) -> None:
        """Clear the tokens that would repeat a run in a mask, int32 (words,), unless nothing would be left."""
        tokens = self.next_tokens()
        if not tokens:
            return
        before = out.copy()
        set_token_bits(out, np.asarray(tokens, dtype=np.int32), False)
        if not out.any():
            out[:] = before

    def _last(self) -> tuple[int, ...]:
        """Return the tokens of a run before its last one, at the end of the text."""
        if len(self._tokens) < self._num_before:
            # A short text has no run yet; its own length keeps it apart from every key.
            return (-1, len(self._tokens))
        return tuple(self._tokens[len(self._tokens) - self._num_before :])
