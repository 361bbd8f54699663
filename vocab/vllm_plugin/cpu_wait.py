"""Keeps a waiting engine from using a core of a CPU.

vLLM's engine and its worker wait for each other by looking at shared memory again and again as long as there is work,
so that the engine's process takes a whole core while the worker is at a step. Beside a GPU nobody misses it; on a CPU
the worker does, and all else that serves. Here they sleep until the other rings, which is what vLLM has them do when
there was nothing for a second. A step on a CPU takes tens of milliseconds, beside which being woken is nothing.
"""

import time
from collections.abc import Callable
from typing import Any, Final

from vllm.logger import init_logger
from vllm.platforms import current_platform

from vocab.vllm_plugin.wrap import wrap

logger = init_logger("vllm.wordbound")

_BUSY_S: Final = 1.0
"""After a message. Whoever waits longer than that is not in the middle of the work, and sleeps as vLLM says."""

_LONGEST_SLEEP_MS: Final = 5
"""Of two rings that follow each other at once, vLLM's sockets may lose the second."""


def install() -> None:
    """Has the readers of vLLM's queues sleep where the engine runs on a CPU. Doing it twice is harmless; where vLLM's
    insides have changed it says so and does nothing."""
    if not current_platform.is_cpu():
        return
    try:
        from vllm.distributed.device_communicators.shm_broadcast import SpinCondition

        wrap(SpinCondition, "wait", _wait)
    except (ImportError, AttributeError) as error:
        logger.warning("On a CPU, the engine uses a core while it waits: %s", error)


def _wait(original: Callable[..., Any], condition: Any, timeout_ms: int | None = None) -> Any:
    condition.busy_loop_s = 0
    if time.monotonic() <= condition.last_read + _BUSY_S:
        timeout_ms = _LONGEST_SLEEP_MS
    return original(condition, timeout_ms)
