"""What a run of a batch works with."""

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from typing import Final

from deployments.batch.state.contents import Contents
from deployments.batch.state.records import BatchRecord, Clock, LineResult
from deployments.batch.state.store import BatchStore
from deployments.batch.worker.feeder import LineEngines
from deployments.batch.worker.lines import Line, LineFault, read_lines
from deployments.protocol.generation.reader import ChatRequestReader
from deployments.settings.batch import BatchSettings
from deployments.settings.limits import Limits

MAX_DEADLY_LINES: Final = 10
"""A batch fails when so many of its lines have killed an engine, each alone: every one costs all who use the service an
engine's start."""

YIELD_S: Final = 60.0
"""For lines of others that are under way they wait so long; some would be for hours."""

_LOOK_S: Final = 0.5


class Suspects:
    """Lines that may kill engines, of all batches: when they may go again, and how many did it.

    An engine that dies takes every line with it that is under way, of other batches too. So these are tried again by
    one batch at a time, else two would blame their lines for each other's, and when the lines of others are answered.
    The key that had a turn the longest ago is next; a batch whose lines killed an engine in its turn goes after all
    others.

    One for all runs of a process. Safe to use from several threads.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        # The owner of each batch that waits, in the order of their coming, and of the one whose turn it is.
        self._waiting: dict[str, str] = {}
        self._holder: str | None = None
        self._turns = count(1)
        self._last_turn: dict[str, int] = {}
        self._under_way: Counter[str] = Counter()
        self._num_deaths: Counter[str] = Counter()
        self._num_deadly: Counter[str] = Counter()

    @contextmanager
    def under_way(self, batch: BatchRecord) -> Iterator[None]:
        """Mark that lines of a batch that are no suspects are under way: suspects of others wait for them."""
        with self._lock:
            self._under_way[batch.id] += 1
        try:
            yield
        finally:
            with self._lock:
                self._under_way -= Counter([batch.id])

    @contextmanager
    def turn(
        self,
        batch: BatchRecord,
        *,
        are_ready: Callable[[], bool],
        should_stop: Callable[[], bool],
        clock: Callable[[], float],
        sleep: Callable[[float], None],
    ) -> Iterator[bool]:
        """Wait for the batch's turn to send its suspects; yield False where ``should_stop`` came first.

        The turn ends with the block.

        ``are_ready`` says whether there is an engine: the turn of nobody begins before.
        """
        with self._lock:
            self._waiting[batch.id] = batch.owner
        try:
            give_way_until: float | None = None
            while not (is_stopped := should_stop()):
                if are_ready():
                    give_way_until = clock() + YIELD_S if give_way_until is None else give_way_until
                    if self._take(batch, gives_way=clock() < give_way_until):
                        break
                sleep(_LOOK_S)
            yield not is_stopped
        finally:
            with self._lock:
                self._waiting.pop(batch.id, None)
                if self._holder == batch.id:
                    self._holder = None

    def add_death(self, batch: BatchRecord, *, is_proof: bool) -> None:
        """Count an engine that died in the batch's turn; ``is_proof`` where only one of its lines was under way."""
        with self._lock:
            self._num_deaths[batch.id] += 1
            self._num_deadly[batch.id] += is_proof

    def are_too_many(self, batch_id: str) -> bool:
        """Return whether ``MAX_DEADLY_LINES`` of a batch's lines have killed engines, so that it fails."""
        return self._num_deadly[batch_id] >= MAX_DEADLY_LINES

    def forget(self, batch_id: str) -> None:
        """Forget a batch that has ended."""
        with self._lock:
            for counts in (self._num_deaths, self._num_deadly):
                counts.pop(batch_id, None)

    def _take(self, batch: BatchRecord, *, gives_way: bool) -> bool:
        """Take the turn for a batch where it is free and the batch is next; return whether it was taken."""
        with self._lock:
            if self._holder is not None or min(self._waiting, key=self._place_in_line) != batch.id:
                return False
            if gives_way and any(other != batch.id for other in self._under_way):
                return False
            self._holder = batch.id
            self._last_turn[batch.owner] = next(self._turns)
            return True

    def _place_in_line(self, batch_id: str) -> tuple[bool, int]:
        """Return a sort key: batches whose lines killed an engine last, the longest without a turn first."""
        return self._num_deaths[batch_id] > 0, self._last_turn.get(self._waiting[batch_id], 0)


CHUNK: Final = 500
"""Results that are read or recorded at once."""


@dataclass(frozen=True)
class RunContext:
    """The parts of a service that a run needs; ``limits`` are of a request.

    ``is_stopping`` says whether the process is about to end; a run then returns soon. All runs of a process share
    ``suspects``.
    """

    store: BatchStore
    contents: Contents
    engines: LineEngines
    reader: ChatRequestReader
    limits: Limits
    settings: BatchSettings
    is_stopping: Callable[[], bool]
    clock: Clock
    sleep: Callable[[float], None] = time.sleep
    suspects: Suspects = field(default_factory=Suspects)

    def now(self) -> int:
        return int(self.clock())

    def has_expired(self, batch: BatchRecord) -> bool:
        return self.clock.has_passed(batch.deadline, batch.created_at)

    def lines(self, batch: BatchRecord) -> Iterator[Line | LineFault]:
        """Yield the lines of a batch's input file, each as a request or a fault."""
        with self.contents.open(batch.input_file_id) as stream:
            yield from read_lines(stream, reader=self.reader, limits=self.limits, endpoint=batch.endpoint)

    def results(self, batch: BatchRecord) -> Iterator[LineResult]:
        """Yield the recorded results of a batch, in the order of the lines."""
        last = 0
        while page := self.store.results(batch.id, after_line=last, limit=CHUNK):
            yield from page
            last = page[-1].line
