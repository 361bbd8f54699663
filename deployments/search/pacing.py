"""How often the pieces of streams leave a replica.

Each piece costs the replica, Ray, the ingress and the proxy the same, however many tokens it has. A lone stream gets
each token at once. Many streams get theirs in larger pieces: vLLM joins the tokens that nobody has asked for yet into
one output.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Final, TypeVar

_PIECE_S: Final = 0.001
"""So that a process makes 1,000 pieces a second. Of 2,500 the processor time was missed elsewhere: 256 streams on two
cores had two thirds of the tokens, and new requests waited twice as long (``docs/how-it-works.md``)."""

_MAX_INTERVAL_S: Final = 0.5

Item = TypeVar("Item")


class StreamPacer:
    """Spaces the pieces of streams, so that all open streams together ask for no more than a process can make.

    Used from one event loop.
    """

    def __init__(self) -> None:
        self._num_open = 0

    async def pace(
        self, items: AsyncGenerator[Item, None], is_last: Callable[[Item], bool], *, num_at_once: int = 1
    ) -> AsyncGenerator[Item, None]:
        """Yield one stream's items, the first ``num_at_once`` at once, the next spaced where others are open.

        Nothing is waited for after what ``is_last``. Closes ``items``.
        """
        loop = asyncio.get_running_loop()
        self._num_open += 1
        try:
            async with aclosing(items):
                async for item in items:
                    due = loop.time() + self._interval_s()
                    yield item
                    num_at_once -= 1
                    if num_at_once <= 0 and self._num_open > 1 and not is_last(item):
                        await asyncio.sleep(max(due - loop.time(), 0))
        finally:
            self._num_open -= 1

    def _interval_s(self) -> float:
        return min(self._num_open * _PIECE_S, _MAX_INTERVAL_S)
