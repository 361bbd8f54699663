"""Run the open batches, a few at once and the oldest first, and delete what is too old.

Looks for work when woken and once a second, for batches that another process added. A run that fails for a reason
that is not the batch's is tried again.
"""

import logging
import threading
import time
from collections.abc import Callable
from typing import Final

from deployments.batch.state.records import OPEN
from deployments.batch.worker.run import run_batch
from deployments.batch.worker.run_context import RunContext

logger = logging.getLogger("ray.serve")

_LOOK_S: Final = 1.0
_CLEAN_S: Final = 600.0
_ORPHAN_S: Final = 86400.0

_RETRY_S: Final = (1.0, 5.0, 30.0, 60.0)
"""The pause after a batch's first, second … failure in a row."""


class Runner:
    """Threads that run batches; ``make_context`` gets the function that tells a run to stop."""

    def __init__(
        self,
        make_context: Callable[[Callable[[], bool]], RunContext],
        *,
        run: Callable[[RunContext, str], None] = run_batch,
        retry_s: tuple[float, ...] = _RETRY_S,
    ) -> None:
        self._stopping = threading.Event()
        self._wake = threading.Event()
        self._context = make_context(self._stopping.is_set)
        self._run_batch = run
        self._retry_s = retry_s
        self._running: dict[str, threading.Thread] = {}
        self._failures: dict[str, int] = {}
        self._not_before: dict[str, float] = {}
        self._clean_at = 0.0
        self._thread = threading.Thread(target=self._loop, name="batches", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def wake(self) -> None:
        self._wake.set()

    def stop(self, timeout_s: float = 10.0) -> None:
        """End the runs; the next start resumes them."""
        self._stopping.set()
        self._wake.set()
        deadline = time.monotonic() + timeout_s
        for thread in [self._thread, *self._running.values()]:
            if thread.ident is not None:
                thread.join(max(deadline - time.monotonic(), 0))

    def is_alive(self) -> bool:
        return self._thread.is_alive()

    def _loop(self) -> None:
        while not self._stopping.is_set():
            try:
                self._start_runs()
                self._clean()
            except Exception:
                logger.exception("batches cannot be looked for")
                self._stopping.wait(self._retry_s[-1] / 10)
            self._wake.wait(_LOOK_S)
            self._wake.clear()

    def _start_runs(self) -> None:
        self._running = {name: thread for name, thread in self._running.items() if thread.is_alive()}
        if len(self._running) >= self._context.settings.jobs_at_once:
            return
        # Batches that only need their files written go before those that take hours.
        waiting = sorted(self._context.store.open_batches(), key=lambda batch: batch.status not in OPEN[2:])
        for batch in waiting:
            if len(self._running) >= self._context.settings.jobs_at_once:
                return
            if batch.id not in self._running and time.monotonic() >= self._not_before.get(batch.id, 0.0):
                thread = threading.Thread(target=self._run, args=(batch.id,), name=batch.id, daemon=True)
                self._running[batch.id] = thread
                thread.start()

    def _run(self, batch_id: str) -> None:
        try:
            self._run_batch(self._context, batch_id)
        except Exception:
            failures = self._failures.get(batch_id, 0)
            wait_s = self._retry_s[min(failures, len(self._retry_s) - 1)]
            self._failures[batch_id] = failures + 1
            self._not_before[batch_id] = time.monotonic() + wait_s
            logger.exception("batch %s is tried again in %.0f s", batch_id, wait_s)
        else:
            self._failures.pop(batch_id, None)
            self._not_before.pop(batch_id, None)
        self._wake.set()

    def _clean(self) -> None:
        """Delete files and batches whose time is over, except what an open batch reads."""
        if time.monotonic() < self._clean_at:
            return
        self._clean_at = time.monotonic() + _CLEAN_S
        store, now = self._context.store, self._context.now()
        needed = {batch.input_file_id for batch in store.open_batches()}
        for file in store.expired_files(now):
            if file.id not in needed:
                self._context.contents.delete(file.id)
                store.delete_file(None, file.id)
        for batch in store.old_batches(now - self._context.settings.limits.retention_s):
            store.delete_batch(batch.id)
        # Orphans of a process that died before it recorded them; files being written now are younger.
        for name in self._context.contents.old_names(_ORPHAN_S):
            if store.file(None, name) is None:
                self._context.contents.delete(name)
