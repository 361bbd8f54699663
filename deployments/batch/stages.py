"""The stages of a batch before and after its lines are answered, and what is deleted when its time is over.

Each method blocks its thread and may be repeated: what is recorded is done, and the names of a batch's files are
derived from its id.
"""

import logging
from collections.abc import Callable, Iterator
from hashlib import sha256
from typing import Any, Final

from deployments.batch.lines import (
    ENGINE_FAILED,
    Line,
    LineFault,
    Place,
    Unanswered,
    fault_result,
    file_lines,
    job_list,
    next_lines,
    read_lines,
    unanswered_result,
)
from deployments.batch.state.contents import Contents
from deployments.batch.state.records import TERMINAL, BatchRecord, Clock, FileRecord, LineResult, Status
from deployments.batch.state.store import BatchStore
from deployments.protocol.generation.reader import ChatRequestReader
from deployments.settings.batch import BatchSettings
from deployments.settings.limits import Limits

logger = logging.getLogger("ray.serve")

MAX_DEADLY_LINES: Final = 10
"""A batch fails when so many of its lines have killed an engine, each alone: every one costs all who use the service an
engine's start."""

_CHUNK: Final = 500
"""Results that are read or recorded at once."""

_ORPHAN_S: Final = 86400.0

_DEADLY: Final = (
    f"{MAX_DEADLY_LINES} of its lines ended the engine, each alone, so the rest was not tried. Leave out those that "
    f"the error file calls {ENGINE_FAILED}, or ask the operator what the engine died of."
)


class Stages:
    """Every method may raise ``StoreError`` where the database does not work, and ``StorageError`` of files.

    ``limits`` are of a request.
    """

    def __init__(
        self,
        store: BatchStore,
        contents: Contents,
        reader: ChatRequestReader,
        limits: Limits,
        settings: BatchSettings,
        clock: Clock,
    ) -> None:
        self.store = store
        self.settings = settings
        self.clock = clock
        self._contents = contents
        self._reader = reader
        self._limits = limits
        self._orphans = set[str]()

    def has_expired(self, batch: BatchRecord) -> bool:
        return self.clock.has_passed(batch.deadline, batch.created_at)

    def _lines(self, batch: BatchRecord) -> Iterator[Line | LineFault]:
        """Yield the lines of a batch's input file, each as a request or a fault."""
        with self._contents.open(batch.input_file_id) as stream:
            yield from read_lines(stream, reader=self._reader, limits=self._limits, endpoint=batch.endpoint)

    def next_lines(
        self, batch: BatchRecord, place: Place, is_wanted: Callable[[int], bool]
    ) -> tuple[list[Line], Place | None]:
        """Read lines of a batch that has begun, as ``lines.next_lines``. Keeps no file open."""
        with self._contents.open(batch.input_file_id) as stream:
            return next_lines(stream, self._limits, place, is_wanted)

    def begin(self, batch: BatchRecord) -> None:
        """Count the lines of a batch's file, record the faulty ones, and set the batch in progress."""
        total, faults = 0, []
        for item in self._lines(batch):
            total += 1
            if total > self.settings.limits.max_lines:
                most = self.settings.limits.max_lines
                self._fail(batch, "too_many_lines", f"The file has more than {most} lines: divide it.")
                return
            if isinstance(item, LineFault):
                faults.append(fault_result(batch, item))
            if len(faults) >= _CHUNK:
                self.store.record(batch.id, faults)
                faults.clear()
        self.store.record(batch.id, faults)
        if total == 0:
            self._fail(batch, "empty_file", "The file has no line: put one request on each.")
            return
        logger.info("%s of %s begins: %d lines", batch.id, batch.owner, total)
        self.store.update_batch(
            batch.id, only_from=["validating"], status="in_progress", total=total, in_progress_at=self._now()
        )

    def complete(self, batch: BatchRecord) -> None:
        """Write the files of a batch all of whose lines have"""
        finalizing = self.store.update_batch(
            batch.id,
            only_from=["in_progress", "finalizing"],
            status="finalizing",
            finalizing_at=batch.finalizing_at or self._now(),
        )
        if finalizing is not None:
            self._write_and_finish(finalizing, "completed")

    def give_up(self, batch: BatchRecord) -> None:
        """Mark a batch whose lines kill engines as one that is to fail, so that another process ends it alike."""
        self.store.update_batch(
            batch.id, only_from=["in_progress"], status="finalizing", finalizing_at=self._now(),
            errors=_errors("engine_killed", _DEADLY),
        )  # fmt: skip

    def lose_input(self, batch_id: str) -> None:
        """End a batch whose input file is gone."""
        batch = self.store.batch(None, batch_id)
        if batch is not None and batch.status not in TERMINAL:
            self._fail(batch, "input_file_missing", "The input file is not there any more: upload it again.")

    def end_with_unanswered(self, batch: BatchRecord, why: Unanswered) -> None:
        """End a batch that was cancelled, has expired or kills engines; lines without an answer get an error."""
        recorded = self.store.recorded_lines(batch.id)
        total, chunk = 0, []
        for item in self._lines(batch):
            total += 1
            if isinstance(item, LineFault):
                chunk.append(fault_result(batch, item))
            elif item.number not in recorded:
                chunk.append(unanswered_result(batch, item.number, item.custom_id, why))
            if len(chunk) >= _CHUNK:
                self.store.record(batch.id, chunk)
                chunk.clear()
        self.store.record(batch.id, chunk)
        self._write_and_finish(batch, why, total=total)

    def clean(self) -> None:
        """Delete files and batches whose time is over, except what an open batch reads."""
        now, retention_s = self._now(), self.settings.limits.retention_s
        needed = {batch.input_file_id for batch in self.store.open_batches()}
        for file in self.store.expired_files(now):
            if file.id not in needed and self.clock.has_passed(file.expires_at or 0, file.created_at):
                self._contents.delete(file.id)
                self.store.delete_file(None, file.id)
        for batch in self.store.old_batches(now - retention_s):
            if self.clock.has_passed(batch.last_change_at + retention_s, batch.last_change_at):
                self.store.delete_batch(batch.id)
        # Left by a process that died before it recorded them. What is being written now is younger, and is recorded
        # before it is looked for again, whatever the clocks say.
        orphans = {name for name in self._contents.old_names(_ORPHAN_S) if not self.store.has_file(name)}
        for name in orphans & self._orphans:
            self._contents.delete(name)
        self._orphans = orphans

    def _fail(self, batch: BatchRecord, code: str, message: str) -> None:
        """End a batch as failed as a whole, with one error."""
        self._finish(batch, "failed", [], errors=_errors(code, message), total=0, completed=0, failed=0)

    def _write_and_finish(self, batch: BatchRecord, outcome: Status, **changes: Any) -> None:
        """Write the output and error files of a batch, or a job's results, and end it."""
        files: list[FileRecord] = []
        counted = self.store.batch(None, batch.id) or batch
        if batch.kind == "job":
            file = self._write(batch, "results", "json", job_list(self._results(batch)))
            files.append(file)
            changes["output_file_id"] = file.id
        else:
            for name, errors, num_lines in (("output", False, counted.completed), ("error", True, counted.failed)):
                if num_lines:
                    lines = file_lines(self._results(batch), errors=errors)
                    files.append(self._write(batch, name, "jsonl", lines))
                    changes[f"{name}_file_id"] = files[-1].id
        self._finish(batch, outcome, files, **changes)

    def _results(self, batch: BatchRecord) -> Iterator[LineResult]:
        """Yield the recorded results of a batch, in the order of the lines."""
        last = 0
        while page := self.store.results(batch.id, after_line=last, limit=_CHUNK):
            yield from page
            last = page[-1].line

    def _write(self, batch: BatchRecord, name: str, suffix: str, pieces: Iterator[bytes]) -> FileRecord:
        """Write one file of a batch, under an id derived from the batch's; return its record."""
        file_id = f"file-{sha256(f'{batch.id}/{name}'.encode()).hexdigest()[:32]}"
        num_bytes = self._contents.write(file_id, pieces)
        now = self._now()
        return FileRecord(
            id=file_id,
            owner=batch.owner,
            purpose="batch_output",
            filename=f"{batch.id}_{name}.{suffix}",
            num_bytes=num_bytes,
            created_at=now,
            expires_at=now + (batch.output_expires_after_s or self.settings.limits.retention_s),
        )

    def _finish(self, batch: BatchRecord, outcome: Status, files: list[FileRecord], **changes: Any) -> None:
        """Record the end of a batch with its files, and log it."""
        now = self._now()
        ended = self.store.finish(
            batch.id, only_from=[batch.status], files=files, status=outcome, **{f"{outcome}_at": now}, **changes
        )
        if ended is not None:
            logger.info(
                "%s of %s is %s after %d s: %d answers, %d errors",
                batch.id, batch.owner, outcome, now - batch.created_at, ended.completed, ended.failed,
            )  # fmt: skip

    def _now(self) -> int:
        return int(self.clock())


def _errors(code: str, message: str) -> tuple[dict[str, Any], ...]:
    return ({"code": code, "message": message, "param": None, "line": None},)
