"""The time of day by which batches expire and files are deleted, which no jump of the machine's clock brings forward.

A process reads the time once and counts on by the monotonic clock. So what was made since then ends when its time has
really passed. Of what an earlier process made nobody knows how much time has passed but by the machine's clock, and
that may have jumped in between: its end counts only while the machine's clock has gone evenly for ``STEADY_S``.
"""

import logging
import time
from collections.abc import Callable
from threading import Lock
from typing import Final

logger = logging.getLogger("ray.serve")

STEADY_S: Final = 600.0
"""A machine that starts with a wrong time has corrected it by then, where it can."""

_TOLERANCE_S: Final = 30.0
"""Between what the machine's clock and the monotonic one say has passed. A step below this brings nothing forward by
more than it."""


class Clock:
    """The time of day as this process counts it, in seconds since 1970. ``look`` is to be called about once a second.

    May be used from several threads. ``wall`` is the machine's clock, ``monotonic`` goes on evenly.
    """

    def __init__(self, wall: Callable[[], float] = time.time, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._wall = wall
        self._monotonic = monotonic
        self._lock = Lock()
        self._started_at, self._started = wall(), monotonic()
        self._even_since: float | None = self._started

    def __call__(self) -> float:
        return self._started_at + self._monotonic() - self._started

    def look(self) -> None:
        """Compare the machine's clock with this one, and log where they begin or cease to differ."""
        with self._lock:
            ahead_s = self._wall() - self()
            if abs(ahead_s) <= _TOLERANCE_S:
                if self._even_since is None:
                    logger.warning("the machine's clock is again where it was expected")
                    self._even_since = self._monotonic()
            elif self._even_since is not None:
                self._even_since = None
                logger.error(
                    "the machine's clock has jumped by %+.0f s: batches and files made before this process started"
                    " neither expire nor are deleted until it is back, or the process starts anew",
                    ahead_s,
                )

    def has_passed(self, end: float, since: float) -> bool:
        """Return whether a time is certainly over that began at ``since``, by this clock or an earlier process's."""
        if self() < end:
            return False
        if since >= self._started_at:
            return True
        self.look()
        return self._even_since is not None and self._monotonic() - self._even_since >= STEADY_S
