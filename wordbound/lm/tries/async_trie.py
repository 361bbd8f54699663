"""A trie asked by many tasks at once: what they ask together is computed together, in a thread."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Self

from wordbound.lm.gathering import Gatherer, PerLoop
from wordbound.lm.tries.trie import Floats, Operation, ParallelTokenCharacterTrie, TokenCharacterTrie, Weights


@dataclass(frozen=True, eq=False)
class _Row:
    """A row of weights; equal ones of several calls are each computed."""

    weights: Any


class AsyncTokenCharacterTrie:
    """A trie whose sums are awaited; concurrent calls are gathered into batches, computed in threads.

    It may be asked from several event loops, each of which gathers its own calls.

    Args:
        trie: The trie that computes.
    """

    batch_size = 32
    """Rows of a batch; a result keeps the memory of its whole batch, 7 MB a row with 262,144 tokens."""
    timeout = 0.02
    _task: None = None
    """genlm-backend's name for a task of the trie's own, which there is none of."""

    def __init__(self, trie: TokenCharacterTrie) -> None:
        self.trie = trie
        self._gatherers = PerLoop[Gatherer]()

    @classmethod
    def from_vocab(cls, vocab: Sequence[Any], backend: str = "parallel", **kwargs: Any) -> Self:
        """Build the trie of a vocabulary, whose batches are computed in parallel or one row at a time.

        Args:
            vocab: The tokens by id; see ``TokenCharacterTrie``.
            backend: ``parallel`` or ``sequential``.
            **kwargs: Further arguments of ``ParallelTokenCharacterTrie`` or ``TokenCharacterTrie``.

        Raises:
            ValueError: The backend is another, or two words are equal.
        """
        backends = {"parallel": ParallelTokenCharacterTrie, "sequential": TokenCharacterTrie}
        if backend not in backends:
            raise ValueError(f"unknown backend {backend!r}: it must be one of {', '.join(backends)}")
        return cls(backends[backend](decode=vocab, **kwargs))

    async def weight_sum(self, ws: Weights) -> Floats:
        """Return the sum of the weights of the tokens below each node; see ``TokenCharacterTrie.weight_sum``."""
        return await self._queue("sum", ws)

    async def weight_max(self, ws: Weights) -> Floats:
        """Return the largest weight of the tokens below each node; see ``TokenCharacterTrie.weight_max``."""
        return await self._queue("max", ws)

    async def _queue(self, operation: Operation, ws: Weights) -> Floats:
        # Weights that are refused are so for their own task, and not for the others of a batch.
        row = _Row(self.trie.row_of(ws))
        [weights] = await self._gatherers.of_loop(partial(Gatherer, self)).rows([(operation, row)])
        return weights  # type: ignore[no-any-return]

    async def compute_batch(self, rows: Sequence[_Row], operation: Operation) -> list[Floats]:
        """Compute a gathered batch in a thread; the gatherers call it."""
        return list(await asyncio.to_thread(self.trie.node_weights, [row.weights for row in rows], operation))

    def start(self) -> None:
        """Do nothing: each call is computed without it. genlm-backend's tries have to be started."""

    async def cleanup(self) -> None:
        """Stop computing; who still waits is cancelled."""
        self.shutdown()

    def shutdown(self) -> None:
        """Stop computing, from the event loop or after it; who still waits is cancelled."""
        for gatherer in list(self._gatherers.values()):
            gatherer.cancel()
