"""End a replica whose engine is of no more use, so that Serve sends it nothing and starts another.

Serve finds a process that ended within a second, and one that says that it is unwell after three periods of its health
checks; meanwhile such a replica looks idle and draws requests.
"""

import asyncio
import logging
import os
from collections.abc import Callable
from typing import Final, NoReturn

import psutil

logger = logging.getLogger("ray.serve")

_LOOK_S: Final = 0.1

_LAST_ANSWERS_S: Final = 3.0
"""For requests under way, which fail by themselves, and lines that did not begin, which are to say so."""


def end_process() -> NoReturn:
    """End this process at once, after its children: an engine that no longer listens is among them."""
    for child in psutil.Process().children(recursive=True):
        child.kill()
    os._exit(1)


class EngineWatch:
    """Watch an engine until its process has ended, or it has stood still while it had requests.

    Requests that come and go do not hide that it stands still, nor does one that waits while others are answered look
    like it: what counts is the engine's steps. Only the time with requests counts, so that an idle engine may stay.

    Args:
        is_dead: Whether its process has ended.
        num_steps: Steps that read a prompt or wrote a token, since any time.
        num_requests: Those that the engine has; 0 where its steps are not counted.
        stall_s: It may have requests and make no step for so long.
        num_under_way: Requests that have not been answered.
        end: Called once at the end.
    """

    def __init__(
        self,
        is_dead: Callable[[], bool],
        num_steps: Callable[[], int],
        num_requests: Callable[[], int],
        stall_s: float,
        num_under_way: Callable[[], int],
        *,
        end: Callable[[], object] = end_process,
    ) -> None:
        self._is_dead = is_dead
        self._num_steps = num_steps
        self._num_requests = num_requests
        self._stall_s = stall_s
        self._num_under_way = num_under_way
        self._end = end

    async def run(self) -> None:
        """Watch until the engine is dead or stalled, then call ``end``; let last answers out after a death."""
        # Looks and not seconds: of the time in which this process did not look, it cannot say anything.
        last_step, num_stalled = self._num_steps(), 0
        while not self._is_dead():
            await asyncio.sleep(_LOOK_S)
            step = self._num_steps()
            num_stalled = num_stalled + bool(self._num_requests()) if step == last_step else 0
            last_step = step
            if num_stalled * _LOOK_S > self._stall_s:
                logger.error(
                    "the engine has made no step for %g s although it has %d requests, and so this replica ends",
                    self._stall_s,
                    self._num_requests(),
                )
                self._end()
                return
        logger.error("the engine's process has ended, and so does this replica")
        for _ in range(round(_LAST_ANSWERS_S / _LOOK_S)):
            await asyncio.sleep(_LOOK_S)
            if not self._num_under_way():
                break
        self._end()
