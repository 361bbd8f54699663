"""How often the parts of streams leave a replica.

Each part costs the replica, Ray and the ingress the same, however many tokens it has. A lone stream gets each token at
once. Many streams get theirs in larger parts: vLLM joins the tokens that nobody has asked for yet into one output.
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Final

from vllm.outputs import RequestOutput

_PART_S: Final = 0.00025
"""What a part costs, about, in the busiest of the processes that it passes."""

_MAX_INTERVAL_S: Final = 0.05


class StreamPacer:
    """Spaces the outputs of streams, so that all open streams together ask for no more than one core.

    Used from one event loop.
    """

    def __init__(self) -> None:
        self._num_open = 0

    async def pace(self, outputs: AsyncGenerator[RequestOutput, None]) -> AsyncGenerator[RequestOutput, None]:
        """Yield one stream's outputs, the first at once, the next spaced where others are open. Closes ``outputs``."""
        loop = asyncio.get_running_loop()
        self._num_open += 1
        try:
            async with aclosing(outputs):
                async for output in outputs:
                    due = loop.time() + self._interval_s()
                    yield output
                    if self._num_open > 1 and not output.finished and (wait_s := due - loop.time()) > 0:
                        await asyncio.sleep(wait_s)
        finally:
            self._num_open -= 1

    def _interval_s(self) -> float:
        return min(self._num_open * _PART_S, _MAX_INTERVAL_S)
