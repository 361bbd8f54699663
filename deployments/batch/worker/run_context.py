"""What a run of a batch works with."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final

from deployments.batch.state.clock import Clock
from deployments.batch.state.contents import Contents
from deployments.batch.state.records import BatchRecord, LineResult
from deployments.batch.state.store import Store
from deployments.batch.worker.feeder import Engines
from deployments.batch.worker.lines import Line, LineFault, read_lines
from deployments.batch.worker.suspects import Suspects
from deployments.limits import Limits
from deployments.protocol.generation.reader import ChatRequestReader
from deployments.settings import BatchSettings

CHUNK: Final = 500
"""Results that are read or recorded at once."""


@dataclass(frozen=True)
class RunContext:
    """The parts of a service that a run needs; ``limits`` are of a request.

    ``is_stopping`` says whether the process is about to end; a run then returns soon. All runs of a process share
    ``suspects``.
    """

    store: Store
    contents: Contents
    engines: Engines
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
        with self.contents.open(batch.input_file_id) as stream:
            yield from read_lines(stream, reader=self.reader, limits=self.limits, endpoint=batch.endpoint)

    def results(self, batch: BatchRecord) -> Iterator[LineResult]:
        """Yield the recorded results, in the order of the lines."""
        last = 0
        while page := self.store.results(batch.id, after_line=last, limit=CHUNK):
            yield from page
            last = page[-1].line
