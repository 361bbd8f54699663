"""The stages of a batch before and after its lines are answered, what is deleted when its time is over, and the clock
by which it is.

Each method blocks its thread and may be repeated: what is recorded is done, and the names of a batch's files are
derived from its id.
"""

import json
import logging
import time
from collections.abc import Callable, Container, Iterator
from hashlib import sha256
from threading import Lock
from typing import Any, Final

from deployments.batch.lines import ENGINE_FAILED, UNANSWERED, Line, Unanswered, job_list, read_lines, result_of
from deployments.batch.models import TERMINAL, Batch, File, LineResult, OpenBatch, Status, errors_of, is_id
from deployments.batch.store import BatchStore
from deployments.errors import ApiError, ModelNotFoundError
from deployments.protocol.reader import ChatRequestReader
from deployments.protocol.strict_json import raw_lines
from deployments.settings.batch import BatchSettings
from deployments.settings.limits import Limits
from deployments.storage import Location

logger = logging.getLogger("ray.serve")

MAX_DEADLY_LINES: Final = 10
"""A batch fails when so many of its lines have killed an engine, each alone: every one costs all who use the service an
engine's start."""

_CHUNK: Final = 500
"""Results that are read or recorded at once."""

_READ_LINES: Final = 64
_READ_BYTES: Final = 256 * 1024
"""Bounds the lines of a batch that are read ahead."""

_MAX_LINES_READ: Final = 10_000
"""Lines that are passed over at once: those of which the store is asked whether they have a result."""

_ORPHAN_S: Final = 86400.0

_OF_WHOLE_JOB: Final = ("invalid_vocabulary", ModelNotFoundError.code)
"""The codes of errors that all lines of an older server's job would have: there a job has one list and one model."""

_DEADLY: Final = (
    f"{MAX_DEADLY_LINES} of its lines ended the engine, each alone, so the rest was not tried. Leave out those that "
    f"the error file calls {ENGINE_FAILED}, or ask the operator what the engine died of."
)


STEADY_S: Final = 600.0
"""A machine that starts with a wrong time has corrected it by then, where it can."""

_TOLERANCE_S: Final = 30.0
"""Between what the machine's clock and the monotonic one say has passed. A step below this brings nothing forward by
more than it."""


class Clock:
    """The time of day as this process counts it, in seconds since 1970. ``look`` is to be called about once a second.

    No jump of the machine's clock brings an end forward: a process reads the time once and counts on by the monotonic
    clock. Of what an earlier process made the end counts only while the machine's clock has gone evenly for
    ``STEADY_S``.

    May be used from several threads. ``wall`` is the machine's clock, ``monotonic`` goes on evenly.
    """

    def __init__(self, wall: Callable[[], float] = time.time, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._wall = wall
        self._monotonic = monotonic
        self._lock = Lock()
        self._started_at, self._started = wall(), monotonic()
        self._even_since: float | None = self._started

    def __call__(self) -> float:
        return self._started_at + self._monotonic() - self._started

    def look(self) -> None:
        """Compare the machine's clock with this one, and log where they begin or cease to differ."""
        with self._lock:
            ahead_s = self._wall() - self()
            if abs(ahead_s) <= _TOLERANCE_S:
                if self._even_since is None:
                    logger.warning("the machine's clock is again where it was expected")
                    self._even_since = self._monotonic()
            elif self._even_since is not None:
                self._even_since = None
                logger.error(
                    "the machine's clock has jumped by %+.0f s: batches and files made before this process started"
                    " neither expire nor are deleted until it is back, or the process starts anew",
                    ahead_s,
                )

    def has_passed(self, end: float, since: float) -> bool:
        """Return whether ``end`` has certainly passed, for a time that began at ``since``.

        ``since`` may be a time of this clock or of an earlier process's.
        """
        if self() < end:
            return False
        if since >= self._started_at:
            return True
        self.look()
        return self._even_since is not None and self._monotonic() - self._even_since >= STEADY_S


class Stages:
    """Every method may raise ``StoreError`` where the database does not work, and ``StorageError`` of files.

    ``folder`` has the contents of files under their ids; ``limits`` are of a request.
    """

    def __init__(
        self,
        store: BatchStore,
        folder: Location,
        reader: ChatRequestReader,
        limits: Limits,
        settings: BatchSettings,
        clock: Clock,
    ) -> None:
        self.store = store
        self.settings = settings
        self.clock = clock
        self._folder = folder
        self._reader = reader
        self._limits = limits
        self._orphans = set[str]()

    def has_expired(self, batch: Batch | OpenBatch) -> bool:
        return self.clock.has_passed(batch.deadline, batch.created_at)

    def next_lines(
        self, batch: Batch, start: tuple[int, int], wanted: Container[int] | None
    ) -> tuple[list[Line], tuple[int, int] | None]:
        """Read lines of a batch that has begun: those wanted, else those without a result. Keeps no file open.

        Args:
            start: The number and the first byte of the line to begin with.

        Returns:
            As many lines as may be in memory, of the next ``_MAX_LINES_READ``, and where others begin; None at the end.
        """
        first, some, num_bytes = start[0], list[Line](), 0
        recorded = self.store.recorded_lines(batch, first, first + _MAX_LINES_READ - 1) if wanted is None else ()
        with self._folder.child(batch.input_file_id).open() as stream:
            for line in raw_lines(stream, self._limits.max_body_bytes, start=start[1], number=first):
                if len(some) >= _READ_LINES or num_bytes >= _READ_BYTES or line.number >= first + _MAX_LINES_READ:
                    return some, (line.number, line.start)
                is_wanted = line.number not in recorded if wanted is None else line.number in wanted
                if is_wanted and line.text is not None:
                    # It was checked when the batch began.
                    members = json.loads(line.text)
                    some.append(Line(line.number, members["custom_id"], members["body"]))
                    num_bytes += len(line.text)
        return some, None

    def begin(self, batch: Batch) -> None:
        """Count the lines of a batch's file, record the faulty ones, and set the batch in progress."""
        total = self._record_errors(batch, None)
        if total > self.settings.limits.max_lines:
            most = self.settings.limits.max_lines
            self._fail(batch, "too_many_lines", f"The file has more than {most} lines: divide it.")
            return
        if total == 0:
            self._fail(batch, "empty_file", "The file has no line: put one request on each.")
            return
        if self._fails_as_a_whole(batch):
            return
        logger.info("%s of %s begins: %d lines", batch.id, batch.owner, total)
        self.store.update_batch(
            batch.id, only_from=["validating"], status="in_progress", total=total, in_progress_at=self._now()
        )

    def _record_errors(self, batch: Batch, of_others: ApiError | None) -> int:
        """Record the faults of a batch's lines, and an error of the others, if any; return how many lines it has.

        A line that has a result keeps it. Where the others have no error, reading stops after one line too many.
        """
        total, errors = 0, list[LineResult]()
        with self._folder.child(batch.input_file_id).open() as stream:
            for line in read_lines(stream, reader=self._reader, limits=self._limits, endpoint=batch.endpoint):
                total += 1
                if of_others is None and total > self.settings.limits.max_lines:
                    break
                if error := line.fault or of_others:
                    errors.append(result_of(batch, line, error, is_response=False))
                if len(errors) >= _CHUNK:
                    self.store.record(batch.id, errors)
                    errors.clear()
        self.store.record(batch.id, errors)
        return total

    def complete(self, batch: Batch) -> None:
        """Write the files of a batch all of whose lines have a result, and end it."""
        finalizing = self.store.update_batch(
            batch.id,
            only_from=["in_progress", "finalizing"],
            status="finalizing",
            finalizing_at=batch.finalizing_at or self._now(),
        )
        if finalizing is not None:
            self._write_and_finish(finalizing, "completed")

    def give_up(self, batch: Batch) -> None:
        """Mark a batch whose lines kill engines as one that is to fail, so that another process ends it alike."""
        self.store.update_batch(
            batch.id, only_from=["in_progress"], status="finalizing", finalizing_at=self._now(),
            errors=errors_of("engine_killed", _DEADLY),
        )  # fmt: skip

    def lose_input(self, batch_id: str) -> None:
        """End a batch whose input file is gone."""
        batch = self.store.batch(None, batch_id)
        if batch is not None and batch.status not in TERMINAL:
            self._fail(batch, "input_file_missing", "The input file is not there any more: upload it again.")

    def end_with_unanswered(self, batch: Batch, why: Unanswered) -> None:
        """End a batch that was cancelled, has expired or kills engines; lines without an answer get an error."""
        total = self._record_errors(batch, UNANSWERED[why])
        self._write_and_finish(batch, why, total=total)

    def clean(self) -> None:
        """Delete files and batches whose time is over, except what an open batch reads."""
        now, retention_s = self._now(), self.settings.limits.retention_s
        needed = {batch.input_file_id for batch in self.store.open_batches()}
        for file_id, created_at, expires_at in self.store.expired_files(now):
            if file_id not in needed and self.clock.has_passed(expires_at, created_at):
                self._folder.child(file_id).delete()
                self.store.delete_file(file_id)
        for batch_id, ended_at in self.store.old_batches(now - retention_s):
            if self.clock.has_passed(ended_at + retention_s, ended_at):
                self.store.delete_batch(batch_id)
        # Left by a process that died before it recorded them. What is being written now is younger, and is recorded
        # before it is looked for again, whatever the clocks say.
        old = filter(is_id, self._folder.old_names(_ORPHAN_S))
        orphans = {name for name in old if not self.store.has_file(name)}
        for name in orphans & self._orphans:
            self._folder.child(name).delete()
        self._orphans = orphans

    def _fail(self, batch: Batch, code: str, message: str) -> None:
        self._finish(batch, "failed", [], errors=errors_of(code, message), total=0, completed=0, failed=0)

    def _write_and_finish(self, batch: Batch, outcome: Status, **changes: Any) -> None:
        """Write the output and error files of a batch, or a job's results, and end it."""
        files: list[File] = []
        counted = self.store.batch(None, batch.id) or batch
        if self._fails_as_a_whole(batch):
            return
        if batch.kind == "job":
            name = f"chatcmpl-batch-{batch.id}" if self._reader.compatible.whole_jobs else None
            file = self._write(batch, "results", "json", job_list(self._results(batch), name))
            files.append(file)
            changes["output_file_id"] = file.id
        else:
            for name, errors, num_lines in (("output", False, counted.completed), ("error", True, counted.failed)):
                if num_lines:
                    results = self._results(batch)
                    lines = (result.record.encode() + b"\n" for result in results if result.is_error == errors)
                    files.append(self._write(batch, name, "jsonl", lines))
                    changes[f"{name}_file_id"] = files[-1].id
        self._finish(batch, outcome, files, **changes)

    def _fails_as_a_whole(self, batch: Batch) -> bool:
        """End a job one line of which has no list or model, where the clients of an older server expect that."""
        if batch.kind == "job" and self._reader.compatible.whole_jobs:
            for result in self._results(batch):
                error = json.loads(result.record)["error"] if result.is_error else None
                if error is not None and error["code"] in _OF_WHOLE_JOB:
                    self._fail(batch, error["code"], error["message"])
                    return True
        return False

    def _results(self, batch: Batch) -> Iterator[LineResult]:
        """Yield the recorded results of a batch, in the order of the lines."""
        last = 0
        while page := self.store.results(batch, after_line=last, limit=_CHUNK):
            yield from page
            last = page[-1].line

    def _write(self, batch: Batch, name: str, suffix: str, pieces: Iterator[bytes]) -> File:
        """Write one file of a batch, under an id derived from the batch's; return its record."""
        file_id = f"file-{sha256(f'{batch.id}/{name}'.encode()).hexdigest()[:32]}"
        num_bytes = self._folder.child(file_id).write(pieces)
        now = self._now()
        return File(
            id=file_id,
            owner=batch.owner,
            purpose="batch_output",
            filename=f"{batch.id}_{name}.{suffix}",
            num_bytes=num_bytes,
            created_at=now,
            expires_at=now + (batch.output_expires_after_s or self.settings.limits.retention_s),
        )

    def _finish(self, batch: Batch, outcome: Status, files: list[File], **changes: Any) -> None:
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
