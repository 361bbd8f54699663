"""What each process of the service does first, and how it notices that its event loop is blocked.

Serve starts processes with the environment of Ray on their node, which is not that of ``serve run``; the settings come
to them as arguments.
"""

import asyncio
import inspect
import logging
import os
import sys
import threading
import time
import traceback
from typing import Final

from deployments.settings import Settings

logger = logging.getLogger("ray.serve.wordbound")

HF_TOKEN = "HF_TOKEN"  # noqa: S105 - the name of the variable

SERVE_ENVIRONMENT: Final = {
    # One event loop for Serve and the code here: each piece of a stream would change threads twice in each process.
    "RAY_SERVE_RUN_USER_CODE_IN_SEPARATE_THREAD": "0",
    "RAY_SERVE_RUN_ROUTER_IN_SEPARATE_LOOP": "0",
    # By default each process exports its metrics ten times a second, requests or not.
    "RAY_SERVE_METRICS_EXPORT_INTERVAL_MS": "2000",
}
"""Ray Serve's own variables in the processes of the deployments, which read them before any code here runs."""

BLOCKED_S: Final = 0.5
"""A callback that runs for so long keeps every other request of its process waiting."""

BLOCKED: Final = "event loop blocked for"
"""Begins the log line of each."""

_PING_S: Final = 0.1
_MAX_FRAMES: Final = 8


def set_up_process(settings: Settings) -> None:
    """Give the libraries of this process, and the processes that it starts, what they read from their environment."""
    if settings.hf_token is not None:
        # What the node has, or ``replica_env``, goes before.
        os.environ.setdefault(HF_TOKEN, settings.hf_token.get_secret_value())
    if settings.log_level is not None:
        logging.getLogger("ray.serve").setLevel(settings.log_level)


def watch_event_loop(blocked_s: float = BLOCKED_S) -> threading.Thread:
    """Log where the running event loop is each time that one callback holds it for ``blocked_s``, until it is closed.

    Called when a process is ready: what it imports and loads before that blocks nobody.
    """
    args = asyncio.get_running_loop(), threading.get_ident(), _num_idle_frames(), blocked_s
    thread = threading.Thread(target=_watch, args=args, name="event loop watch", daemon=True)
    thread.start()
    return thread


def _num_idle_frames() -> int:
    """Return how many frames this thread has while its loop waits: those below the first coroutine, at most."""
    frames = traceback.walk_stack(sys._getframe())
    in_coroutine = [bool(frame.f_code.co_flags & inspect.CO_COROUTINE) for frame, _ in frames]
    return in_coroutine[::-1].index(True) if True in in_coroutine else 0


def _watch(loop: asyncio.AbstractEventLoop, loop_thread: int, num_idle_frames: int, blocked_s: float) -> None:
    has_run = threading.Event()
    while True:
        has_run.clear()
        start = time.monotonic()
        try:
            cpu_clock = time.pthread_getcpuclockid(loop_thread)
            cpu_start = time.clock_gettime(cpu_clock)
            loop.call_soon_threadsafe(has_run.set)
        except (RuntimeError, OSError):
            # Closed, or its thread has ended.
            return
        if not has_run.wait(blocked_s):
            frame = sys._current_frames().get(loop_thread)
            stack = traceback.extract_stack(frame) if frame is not None else []
            while not has_run.wait(1.0) and not loop.is_closed():
                pass
            if loop.is_closed():
                return
            # With fewer frames it waited for a processor, and no callback ran.
            if len(stack) > num_idle_frames:
                busy_s = time.clock_gettime(cpu_clock) - cpu_start
                places = " < ".join(
                    f"{one.name} ({one.filename}:{one.lineno})" for one in stack[: -_MAX_FRAMES - 1 : -1]
                )
                logger.warning("%s %.2f s (%.2f s of CPU): %s", BLOCKED, time.monotonic() - start, busy_s, places)
        time.sleep(_PING_S)
