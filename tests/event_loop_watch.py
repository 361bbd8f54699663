"""A watch on the event loop of a process: of a test's own, and of each process of the service in ``tests/e2e``.

One callback that computes for long keeps every other request of its process waiting.
"""

import asyncio
import logging
import sys
import threading
import time
import traceback
from pathlib import Path
from typing import Final

logger = logging.getLogger("ray.serve.wordbound")

BLOCKED_S: Final = 0.5
WATCHED: Final = "this event loop is watched"
BLOCKED: Final = "event loop blocked for"
"""Begins a line of the log for each callback that took as long."""

_PING_S: Final = 0.1
_SAMPLE_S: Final = 0.05
_MAX_FRAMES: Final = 8


def watch_event_loop(blocked_s: float = BLOCKED_S) -> threading.Thread:
    """Start a thread that logs where the event loop is each time a callback blocks it for ``blocked_s``.

    It ends when the loop is closed.

    Time in which the loop's thread, or one that it waits for, was ready to run and had no processor is not counted: a
    busy machine blocks no loop.
    """
    args = asyncio.get_running_loop(), threading.get_ident(), threading.get_native_id(), blocked_s
    thread = threading.Thread(target=_watch, args=args, name="event loop watch", daemon=True)
    thread.start()
    logger.info(WATCHED)
    return thread


def _watch(loop: asyncio.AbstractEventLoop, loop_thread: int, native_id: int, blocked_s: float) -> None:
    """Ping the event loop until it is closed; log its stack each time it was blocked for ``blocked_s``."""
    has_run = threading.Event()
    while True:
        has_run.clear()
        try:
            cpu_clock = time.pthread_getcpuclockid(loop_thread)
            cpu_start, process_cpu_s = time.clock_gettime(cpu_clock), time.process_time()
            loop.call_soon_threadsafe(has_run.set)
        except (RuntimeError, OSError):
            # Closed, or its thread has ended.
            return
        busy_s = asleep_s = 0.0
        was_asleep, sampled_at = True, time.monotonic()
        stack: list[traceback.FrameSummary] = []
        while not has_run.wait(_SAMPLE_S):
            if loop.is_closed():
                return
            before_s, busy_s = busy_s, time.clock_gettime(cpu_clock) - cpu_start
            is_asleep, now = _thread_is_asleep(native_id), time.monotonic()
            before_cpu_s, process_cpu_s = process_cpu_s, time.process_time()
            if is_asleep and was_asleep:
                # Where this thread is late too, another one has the GIL: it blocks both as far as it computes.
                counted_s = min(now - sampled_at, max(_SAMPLE_S, process_cpu_s - before_cpu_s))
                asleep_s += max(0.0, counted_s - (busy_s - before_s))
            was_asleep, sampled_at = is_asleep, now
            if not stack and busy_s + asleep_s >= blocked_s:
                stack = traceback.extract_stack(sys._current_frames().get(loop_thread))
        if stack:
            places = " < ".join(f"{one.name} ({one.filename}:{one.lineno})" for one in stack[: -_MAX_FRAMES - 1 : -1])
            logger.warning("%s %.2f s (%.2f s of CPU): %s", BLOCKED, busy_s + asleep_s, busy_s, places)
        time.sleep(_PING_S)


def _thread_is_asleep(native_id: int) -> bool:
    """Return whether a thread of this process sleeps in a call: neither runs nor waits for a processor."""
    stat = Path(f"/proc/self/task/{native_id}/stat").read_bytes()
    return stat[stat.rindex(b")") + 2 :][:1] != b"R"
