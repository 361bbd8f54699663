"""Count what each key uses of its rates, in windows of the library ``limits``.

Windows are fixed and begin with what is counted first, so that the time to come back is known exactly. What is refused
does not count.
"""

import asyncio
import logging
import math
import time
from typing import Final, NamedTuple

from limits import RateLimitItem, RateLimitItemPerMinute
from limits.aio.storage import MemoryStorage, RedisStorage
from limits.aio.strategies import FixedWindowRateLimiter
from limits.storage import storage_from_string

logger = logging.getLogger("ray.serve.wordbound")

IN_MEMORY: Final = "async+memory://"

_TIMEOUT_S: Final = 1.0
"""Of a store on another machine; without rates for a while is better than without answers."""

_WARN_S: Final = 60.0


class RateState(NamedTuple):
    """A rate after a request: how much there is in a window, how much is left, and seconds to the next window.

    Where it ``is_exceeded``, the request costs more than is left, and was not counted.
    """

    limit: int
    remaining: int
    reset_s: int
    is_exceeded: bool


class Rates:
    """The rate windows of all keys, in memory, or in a store that several processes share.

    Args:
        url: The store, as ``limits`` names it.

    Raises:
        ConfigurationError: Of ``limits``: the URL names no store, or one whose library is not installed.
        ValueError: The URL names a store other than memory and Redis.
    """

    def __init__(self, url: str) -> None:
        options = {} if url == IN_MEMORY else {"implementation": "redispy"}
        storage = storage_from_string(url, **options)
        if not isinstance(storage, MemoryStorage | RedisStorage):
            raise ValueError("only memory and Redis are supported")
        self._storage = storage
        self._limiter = FixedWindowRateLimiter(storage)
        self._warned_at = -math.inf

    async def take(
        self, kind: str, limit: int, owner: str, cost: int = 1, window: type[RateLimitItem] = RateLimitItemPerMinute
    ) -> RateState | None:
        """Charge ``cost`` to a key's rate in the current window; None where the store does not answer."""
        try:
            async with asyncio.timeout(_TIMEOUT_S):
                return await self._take(window(limit), owner, kind, cost)
        except Exception as error:
            if time.monotonic() - self._warned_at > _WARN_S:
                self._warned_at = time.monotonic()
                logger.warning("rates are not counted, their store does not answer: %s", type(error).__name__)
            return None

    async def _take(self, item: RateLimitItem, owner: str, kind: str, cost: int) -> RateState:
        """Charge the cost in the store, and undo it if it is too much."""
        has_room = await self._limiter.hit(item, owner, kind, cost=cost)
        if not has_room:
            # A store of Redis has no ``decr``.
            await self._storage.incr(item.key_for(owner, kind), item.get_expiry(), amount=-cost)
        window = await self._limiter.get_window_stats(item, owner, kind)
        reset_s = max(math.ceil(window.reset_time - time.time()), 1)
        return RateState(item.amount, max(window.remaining, 0), reset_s, not has_room)
