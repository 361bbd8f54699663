"""Lets an idle engine wait a moment for requests that belong together.

The requests of one step of a search reach the engine one after the other, a millisecond apart. An idle engine would
begin with the first, and the others would wait for a step of their own: two steps where one is enough. Nothing here
knows what is asked; it sees arrivals and steps.
"""

import time
from collections.abc import Callable
from typing import Final

QUIET_S: Final = 0.003
"""Nobody follows who has not followed after this time."""
LONGEST_S: Final = 0.015
"""A step of a small model on a CPU takes longer: to wait any more would cost more than it saves."""


class Gathering:
    """Arrivals at one engine.

    Args:
        clock: Tells the time, in seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._first_s = self._last_s = -LONGEST_S
        self._is_idle = True

    def arrived(self) -> None:
        """One of those that may belong together is there."""
        now = self._clock()
        if now - self._last_s >= LONGEST_S:
            self._first_s = now
        self._last_s = now

    def stepped(self, num_tokens: int) -> None:
        """A step was scheduled; an engine that computes something makes nobody wait, who would miss the next step."""
        self._is_idle = num_tokens == 0

    def is_open(self) -> bool:
        """Whether others may yet follow."""
        now = self._clock()
        return self._is_idle and now - self._last_s < QUIET_S and now - self._first_s < LONGEST_S
