"""What each process of the service does first, and how it notices that its event loop is blocked.

Serve starts processes with the environment of Ray on their node, which is not that of ``serve run``; the settings come
to them as arguments.
"""

import asyncio
import logging
import os
import sys
import threading
import time
import traceback
from pathlib import Path
from typing import Final

from deployments.settings.service import Settings

logger = logging.getLogger("ray.serve.wordbound")

HF_TOKEN = "HF_TOKEN"  # noqa: S105 - the name of the variable

CALLBACK_VARIABLE: Final = "RAY_SERVE_HTTP_PROXY_CALLBACK_IMPORT_PATH"
CALLBACK: Final = "deployments.proxy:middlewares"

SERVE_ENVIRONMENT: Final = {
    CALLBACK_VARIABLE: CALLBACK,
    # From ingress to proxy each piece of a stream would be an object of Ray's.
    "RAY_SERVE_PROXY_USE_GRPC": "1",
    # One event loop for Serve and the code here: each piece of a stream would change threads twice in each process.
    "RAY_SERVE_RUN_USER_CODE_IN_SEPARATE_THREAD": "0",
    "RAY_SERVE_RUN_ROUTER_IN_SEPARATE_LOOP": "0",
    # By default each process exports its metrics, and the controller looks at its deployments, ten times a second.
    "RAY_SERVE_METRICS_EXPORT_INTERVAL_MS": "2000",
    "RAY_SERVE_CONTROL_LOOP_INTERVAL_S": "0.5",
    # With variables of its own a proxy is a new process, which on a busy machine does not start within Serve's 5 s.
    "RAY_SERVE_PROXY_READY_CHECK_TIMEOUT_S": "60",
    # Of requests with gRPC, and of each piece of their answers; gRPC's own is 4 MiB.
    "RAY_SERVE_REPLICA_GRPC_MAX_MESSAGE_LENGTH": "268435456",
}
"""Ray Serve's own variables, in its controller and in the proxies and replicas that it starts.

``controller_options`` of the YAML files have them; Serve's processes read them before any code here runs.
"""

RAY_ENVIRONMENT: Final = {
    # At 95% of a machine's memory, whoever has taken it, Ray would end tasks to try them again: controller, ingress and
    # replica at once, which nobody tries again. The kernel ends one process, the largest of Ray's workers and theirs.
    "RAY_memory_monitor_refresh_ms": "0",
}
"""Variables of each node's Ray itself, set before it starts: its raylet reads them."""

BLOCKED_S: Final = 0.5
"""A callback that runs for so long keeps every other request of its process waiting."""

BLOCKED: Final = "event loop blocked for"
"""Begins the log line of each."""

_PING_S: Final = 0.1
_SAMPLE_S: Final = 0.05
_MAX_FRAMES: Final = 8


def set_serve_environment() -> None:
    """Set the variables of Ray and Serve for the Ray that this process starts, whatever the YAML file has.

    Variables that are set already stay as they are.
    """
    for name, value in (RAY_ENVIRONMENT | SERVE_ENVIRONMENT).items():
        os.environ.setdefault(name, value)


def set_up_process(settings: Settings) -> None:
    """Set this process's ``HF_TOKEN``, which its children inherit, and Serve's log level from the settings."""
    if settings.hf_token is not None:
        # What the node has, or ``replica_env``, goes before.
        os.environ.setdefault(HF_TOKEN, settings.hf_token.get_secret_value())
    if settings.log_level is not None:
        logging.getLogger("ray.serve").setLevel(settings.log_level)


def watch_event_loop(blocked_s: float = BLOCKED_S) -> threading.Thread:
    """Start a thread that logs where the event loop is each time a callback blocks it for ``blocked_s``.

    It ends when the loop is closed.

    Time in which the loop's thread, or one that it waits for, was ready to run and had no processor is not counted: a
    busy machine blocks no loop.
    Called when a process is ready: what it imports and loads before that blocks nobody.
    """
    args = asyncio.get_running_loop(), threading.get_ident(), threading.get_native_id(), blocked_s
    thread = threading.Thread(target=_watch, args=args, name="event loop watch", daemon=True)
    thread.start()
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
