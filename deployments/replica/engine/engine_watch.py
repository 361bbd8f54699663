"""End a replica whose engine is of no more use, so that Serve sends it nothing and starts another.

Serve finds a process that ended within a second, and one that says that it is unwell after three periods of its health
checks; meanwhile such a replica looks idle and draws requests.
"""

import asyncio
import logging
import os
import time
from collections.abc import Callable, Hashable
from typing import Final, NoReturn

import psutil

logger = logging.getLogger("ray.serve")

_LOOK_S: Final = 0.1

_LAST_ANSWERS_S: Final = 3.0
"""For requests under way, which fail by themselves, and lines that did not begin, which are to say so."""


def end_process() -> NoReturn:
    """End this process, and those of an engine that no longer listens."""
    for child in psutil.Process().children(recursive=True):
        child.kill()
    os._exit(1)


class EngineWatch:
    """Watch an engine until its process has ended, or it has stood still.

    Args:
        is_dead: Whether its process has ended.
        progress: A value that changes with each token of each request; None where nothing is to be done.
        stall_s: It may be the same for so long.
        num_under_way: Requests that have not been answered.
        end: Called once at the end.
    """

    def __init__(
        self,
        is_dead: Callable[[], bool],
        progress: Callable[[], Hashable | None],
        stall_s: float,
        num_under_way: Callable[[], int],
        *,
        end: Callable[[], object] = end_process,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._is_dead = is_dead
        self._progress = progress
        self._stall_s = stall_s
        self._num_under_way = num_under_way
        self._end = end
        self._clock = clock

    async def run(self) -> None:
        last, since = None, self._clock()
        while not self._is_dead():
            await asyncio.sleep(_LOOK_S)
            now = self._progress()
            if now is None or now != last:
                last, since = now, self._clock()
            elif self._clock() - since > self._stall_s:
                logger.error("the engine has written nothing for %g s, and so this replica ends", self._stall_s)
                self._end()
                return
        logger.error("the engine's process has ended, and so does this replica")
        for _ in range(round(_LAST_ANSWERS_S / _LOOK_S)):
            await asyncio.sleep(_LOOK_S)
            if not self._num_under_way():
                break
        self._end()
