"""A trie asked by many tasks at once: what they ask while it computes is computed together next."""

import asyncio
from collections import deque
from collections.abc import Sequence
from typing import Any, Final, NamedTuple, Self

from wordbound.lm.tries.arrays import Floats
from wordbound.lm.tries.trie import Operation, ParallelTokenCharacterTrie, TokenCharacterTrie, Weights


class _Query(NamedTuple):
    operation: Operation
    row: Any
    future: asyncio.Future[Floats]


_MOST_ROWS: Final = 32
"""Of a batch; a result keeps the memory of its whole batch, 7 MB a row with 262,144 tokens."""


class AsyncTokenCharacterTrie:
    """A trie whose sums are awaited; concurrent calls are gathered into batches, computed in a thread.

    It may be asked from several event loops, each of which gathers its own calls.

    Args:
        trie: The trie that computes.
    """

    def __init__(self, trie: TokenCharacterTrie) -> None:
        self.trie = trie
        self._waiting: deque[_Query] = deque()
        self._task: asyncio.Task[None] | None = None

    @classmethod
    def from_vocab(cls, vocab: Sequence[Any], backend: str = "parallel", **kwargs: Any) -> Self:
        """Build the trie of a vocabulary, to be computed in parallel or one row at a time.

        Args:
            vocab: The tokens by id; see ``TokenCharacterTrie``.
            backend: ``parallel``, on a GPU where there is one, or ``sequential``.
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

    def _queue(self, operation: Operation, ws: Weights) -> asyncio.Future[Floats]:
        """Check a row of weights, queue it, and return the future of its node weights."""
        # Weights that are refused are so for their own task, and not for the others of a batch.
        row = self.trie.row_of(ws)
        self.start()
        future: asyncio.Future[Floats] = asyncio.get_running_loop().create_future()
        self._waiting.append(_Query(operation, row, future))
        return future

    def start(self) -> None:
        """Start the task that computes queued calls on this event loop, as each call does by itself."""
        loop = asyncio.get_running_loop()
        if self._task is None or self._task.done() or self._task.get_loop() is not loop:
            # That of another event loop goes on with those who wait there.
            self._waiting = deque()
            self._task = loop.create_task(self._compute(self._waiting))

    async def _compute(self, waiting: deque[_Query]) -> None:
        """Compute queued calls, in batches of one operation each, until none waits."""
        batch: list[_Query] = []
        try:
            # The tasks that are ready to run may ask too.
            await asyncio.sleep(0)
            while waiting:
                operation = waiting[0].operation
                while waiting and waiting[0].operation == operation and len(batch) < _MOST_ROWS:
                    batch.append(waiting.popleft())
                await self._answer(batch, operation)
                batch = []
        finally:
            # Cancelled, it leaves nobody waiting.
            for query in (*batch, *waiting):
                query.future.cancel()
            waiting.clear()

    async def _answer(self, batch: list[_Query], operation: Operation) -> None:
        """Compute a batch in a thread and set the future of each query to its result or error."""
        asked = [query for query in batch if not query.future.done()]
        try:
            results = await asyncio.to_thread(self.trie.node_weights, [query.row for query in asked], operation)
        except Exception as error:
            for query in asked:
                if not query.future.done():
                    query.future.set_exception(error)
            return
        for query, weights in zip(asked, results, strict=True):
            if not query.future.done():
                query.future.set_result(weights)

    async def cleanup(self) -> None:
        """Stop the computing task and wait for its end; who still waits is cancelled."""
        task = self._task
        self.shutdown()
        if task is not None and task.get_loop() is asyncio.get_running_loop():
            await asyncio.wait([task])

    def shutdown(self) -> None:
        """Stop the computing task without waiting for its end, from the event loop or after it."""
        if self._task is not None and not self._task.get_loop().is_closed():
            self._task.cancel()
        self._task = None
