"""Run the open batches, a few at once and in turns between keys, and delete what is too old.

A free slot goes to the key with the fewest runs, and of these to the one that had a slot the longest ago; to its oldest
batch. Where no slot is free, a run ends early for a key that waits, and goes on when it is its key's turn again.

Looks for work when woken and once a second, for batches that another process added. A run that fails for a reason
that is not the batch's is tried again.
"""

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Final

from deployments.batch.state.records import OPEN, BatchRecord
from deployments.batch.worker.run import run_batch
from deployments.batch.worker.run_context import RunContext
from deployments.metrics import BATCH_LINES, BATCHES

logger = logging.getLogger("ray.serve")

_LOOK_S: Final = 1.0
_CLEAN_S: Final = 600.0
_ORPHAN_S: Final = 86400.0

_RETRY_S: Final = (1.0, 5.0, 30.0, 60.0)
"""The pause after a batch's first, second … failure in a row."""

_TURN_S: Final = 300.0
"""A run may keep a slot so long while keys without one wait. Each change of turns costs the lines that are under way,
so it is longer than a line takes; where one key holds two slots more than another, nothing is waited for."""


@dataclass
class _Run:
    """A run of a batch in its slot."""

    owner: str
    thread: threading.Thread
    gives_up: threading.Event
    started_at: float = field(default_factory=time.monotonic)


class BatchScheduler:
    """Runs open batches in threads; ``make_context`` gets the function that says when a run is to stop."""

    def __init__(
        self,
        make_context: Callable[[Callable[[], bool]], RunContext],
        *,
        run: Callable[[RunContext, str], None] = run_batch,
        retry_s: tuple[float, ...] = _RETRY_S,
        turn_s: float = _TURN_S,
    ) -> None:
        self._stopping = threading.Event()
        self._wake = threading.Event()
        self._context = make_context(self._stopping.is_set)
        self._run_batch = run
        self._retry_s = retry_s
        self._turn_s = turn_s
        # By the batch, the oldest run first.
        self._running: dict[str, _Run] = {}
        self._had_slot_at: dict[str, float] = {}
        self._failures: dict[str, int] = {}
        self._not_before: dict[str, float] = {}
        self._clean_at = 0.0
        self._orphans = set[str]()
        self._thread = threading.Thread(target=self._loop, name="batches", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def wake(self) -> None:
        self._wake.set()

    def stop(self, timeout_s: float = 10.0) -> None:
        """Stop all runs and wait for their threads; the next start resumes them."""
        self._stopping.set()
        self._wake.set()
        deadline = time.monotonic() + timeout_s
        for thread in [self._thread, *(run.thread for run in self._running.values())]:
            if thread.ident is not None:
                thread.join(max(deadline - time.monotonic(), 0))

    def is_alive(self) -> bool:
        return self._thread.is_alive()

    def _loop(self) -> None:
        """Start runs and delete what is too old, once a second or when woken, until stopped."""
        while not self._stopping.is_set():
            self._context.clock.look()
            try:
                self._fill_slots()
                self._clean()
            except Exception:
                logger.exception("batches cannot be looked for")
                self._stopping.wait(self._retry_s[-1] / 10)
            self._wake.wait(_LOOK_S)
            self._wake.clear()

    def _fill_slots(self) -> None:
        """Start waiting batches; with all slots taken, make room for the next key."""
        for batch_id, run in list(self._running.items()):
            if not run.thread.is_alive():
                del self._running[batch_id]
                self._had_slot_at[run.owner] = time.monotonic()
        batches = self._context.store.open_batches()
        BATCHES.set(len(self._running), {"state": "running"})
        BATCHES.set(len(batches) - len(self._running), {"state": "waiting"})
        BATCH_LINES.set(sum(batch.total - batch.completed - batch.failed for batch in batches))
        waiting = [
            batch
            for batch in batches
            if batch.id not in self._running and time.monotonic() >= self._not_before.get(batch.id, 0.0)
        ]
        while waiting:
            batch = min(waiting, key=self._place_in_line)
            if len(self._running) >= self._context.settings.jobs_at_once:
                self._make_room_for(batch.owner)
                return
            waiting.remove(batch)
            self._start_run(batch)

    def _place_in_line(self, batch: BatchRecord) -> tuple[int, float, bool]:
        """Return a waiting batch's sort key: runs of its owner, when it last had a slot, whether it is long.

        Of one key, what only needs its files written goes before what takes hours.
        """
        is_long = batch.status not in OPEN[2:]
        return self._num_runs()[batch.owner], self._had_slot_at.get(batch.owner, 0.0), is_long

    def _num_runs(self) -> Counter[str]:
        """Count the runs of each owner."""
        return Counter(run.owner for run in self._running.values())

    def _start_run(self, batch: BatchRecord) -> None:
        """Start a thread that runs a batch, and give it a slot."""
        gives_up = threading.Event()
        context = replace(self._context, is_stopping=lambda: gives_up.is_set() or self._stopping.is_set())
        thread = threading.Thread(target=self._run, args=(context, batch), name=batch.id, daemon=True)
        self._running[batch.id] = _Run(batch.owner, thread, gives_up)
        thread.start()

    def _make_room_for(self, owner: str) -> None:
        """End a run early where that makes the shares of the keys more equal, or gives each its turn."""
        runs = list(self._running.items())
        if any(run.gives_up.is_set() for _, run in runs):
            return
        num_runs = self._num_runs()
        [(richest, most)] = num_runs.most_common(1)
        batch_id, run = next(item for item in reversed(runs) if item[1].owner == richest)
        if most < num_runs[owner] + 2:
            # The shares are as equal as they can be. The oldest run has had its turn first.
            batch_id, run = runs[0]
            if num_runs[owner] or time.monotonic() - run.started_at < self._turn_s:
                return
        logger.info("%s of %s gives its slot to %s", batch_id, run.owner, owner)
        run.gives_up.set()

    def _run(self, context: RunContext, batch: BatchRecord) -> None:
        """Run a batch in its thread; where that fails, set when it is tried again."""
        batch_id = batch.id
        try:
            self._run_batch(context, batch_id)
        except Exception:
            failures = self._failures.get(batch_id, 0)
            wait_s = self._retry_s[min(failures, len(self._retry_s) - 1)]
            self._failures[batch_id] = failures + 1
            self._not_before[batch_id] = time.monotonic() + wait_s
            logger.exception("%s of %s is tried again in %.0f s", batch_id, batch.owner, wait_s)
        else:
            self._failures.pop(batch_id, None)
            self._not_before.pop(batch_id, None)
        self._wake.set()

    def _clean(self) -> None:
        """Delete files and batches whose time is over, except what an open batch reads."""
        if time.monotonic() < self._clean_at:
            return
        self._clean_at = time.monotonic() + _CLEAN_S
        store, contents, clock = self._context.store, self._context.contents, self._context.clock
        now, retention_s = self._context.now(), self._context.settings.limits.retention_s
        needed = {batch.input_file_id for batch in store.open_batches()}
        for file in store.expired_files(now):
            if file.id not in needed and clock.has_passed(file.expires_at or 0, file.created_at):
                contents.delete(file.id)
                store.delete_file(None, file.id)
        for batch in store.old_batches(now - retention_s):
            if clock.has_passed(batch.last_change_at + retention_s, batch.last_change_at):
                store.delete_batch(batch.id)
        # Left by a process that died before it recorded them. What is being written now is younger, and is recorded
        # before it is looked for again, whatever the clocks say.
        orphans = {name for name in contents.old_names(_ORPHAN_S) if not store.has_file(name)}
        for name in orphans & self._orphans:
            contents.delete(name)
        self._orphans = orphans
