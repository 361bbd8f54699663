"""Run one batch to its end: count its lines, have them answered in rounds, and write its files.

What is recorded is done and the rest is done again, so a run may end anywhere and another resume it: the names of
its files are derived from the batch's. A run may take hours and blocks its thread.

A round sends every line without a result to the engines once, until an engine dies. Lines that were under way when an
engine died go first in the next round: a few at once, and at last each alone, so that one that kills engines is found
and the others are answered. A batch with too many of them fails (``deployments.batch.worker.run_context``).
"""

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from hashlib import sha256
from typing import Any, Final, NamedTuple

from deployments.batch.state.records import TERMINAL, BatchRecord, FileRecord, Status
from deployments.batch.worker import results
from deployments.batch.worker.feeder import FeederDiedError
from deployments.batch.worker.lines import Line, LineFault
from deployments.batch.worker.run_context import CHUNK, MAX_DEADLY_LINES, RunContext
from deployments.contract import ENGINE_DIED, NOT_STARTED, LineRequest
from deployments.storage import FileMissingError

logger = logging.getLogger("ray.serve")

_WINDOW_LINES: Final = 10_000
_WINDOW_BYTES: Final = 64 * 2**20
"""Bounds the lines given to the engines in one go, which are in memory three times."""

_MAX_SUSPECTS: Final = 256
"""Lines of a round that go a few at once, or alone: those that were under way at one engine."""

_SUSPECTS_AT_ONCE: Final = 8
"""When the engine dies again, one of these killed it, and each of them goes alone the next time."""

_PAUSE_S: Final = 2.0
_READY_TIMEOUT_S: Final = 300.0


class _Sent(NamedTuple):
    """What came of lines: whether one got a result or one more attempt, and how many died with an engine."""

    did_something: bool
    num_died: int


class Round:
    """One round of a batch that is in progress."""

    def __init__(self, context: RunContext, batch: BatchRecord) -> None:
        self._context = context
        self._store = context.store
        self._batch = batch

    def run(self, recorded: set[int]) -> None:
        """Send the suspects of earlier rounds, or else all lines without a result, to the engines once."""
        attempts = self._store.attempts(self._batch.id)
        suspects = {line: number for line, number in attempts.items() if line not in recorded}
        did_something = self._send_suspects(suspects) if suspects else self._send(recorded)
        if not did_something and not self._should_stop():
            self._context.sleep(_PAUSE_S)

    def _send(self, recorded: set[int]) -> bool:
        """Send all lines without a result, window by window; return whether a line got one, or an attempt."""
        did_something = False
        for window in self._windows(recorded):
            with self._context.suspects.under_way(self._batch):
                sent = self._answer_together(window)
            did_something |= sent.did_something
            if sent.num_died and self._context.settings.max_attempts == 1:
                # None of them goes again, and no other proof will come.
                self._context.suspects.add_death(self._batch, is_proof=True)
            # A window that went on would kill an engine for every few hundred such lines.
            if sent.num_died or self._should_stop():
                break
        return did_something

    def _windows(self, recorded: set[int]) -> Iterator[list[Line]]:
        """Yield the lines without a result in windows of bounded lines and bytes."""
        window: list[Line] = []
        num_bytes = 0
        for line in self._context.lines(self._batch):
            if isinstance(line, LineFault) or line.number in recorded:
                continue
            window.append(line)
            num_bytes += len(line.to_request())
            if len(window) >= _WINDOW_LINES or num_bytes >= _WINDOW_BYTES:
                yield window
                window, num_bytes = [], 0
        if window:
            yield window

    def _send_suspects(self, attempts: Mapping[int, int]) -> bool:
        """Send some suspects again, a few at once or alone; return whether one got a result or an attempt."""
        few, alone = self._divide_suspects(attempts)
        did_something = False
        for line in alone:
            with self._turn() as is_ours:
                if is_ours:
                    did_something |= self._answer_alone(line, attempts[line.number])
            if not is_ours or self._context.suspects.are_too_many(self._batch.id):
                return did_something
        if few:
            with self._turn() as is_ours:
                if is_ours:
                    sent = self._answer_together(few, _SUSPECTS_AT_ONCE)
                    did_something |= sent.did_something
                    if sent.num_died:
                        self._context.suspects.add_death(self._batch, is_proof=False)
        return did_something

    def _divide_suspects(self, attempts: Mapping[int, int]) -> tuple[list[Line], list[Line]]:
        """Return the suspects to send a few at once, and those to send alone."""
        alone_from = max(self._context.settings.max_attempts - 1, 1)
        few: list[Line] = []
        alone: list[Line] = []
        num_left = len(attempts)
        for line in self._context.lines(self._batch):
            if isinstance(line, LineFault) or line.number not in attempts:
                continue
            some = alone if attempts[line.number] >= alone_from else few
            if len(some) < _MAX_SUSPECTS:
                some.append(line)
            num_left -= 1
            if not num_left:
                break
        return few, alone

    def _answer_together(self, lines: list[Line], at_once: int | None = None) -> _Sent:
        """Send lines at once; record their answers, and an attempt for each on which an engine failed."""
        line_of = {line.number: line for line in lines}
        failed, num_died, num_recorded = set[int](), 0, 0
        requests = [(line.number, self._request(line)) for line in lines]
        try:
            for answers in self._context.engines.answer_many(requests, self._should_stop, at_once):
                ready = []
                for number, answer in answers:
                    if answer is None or answer["status"] == ENGINE_DIED:
                        num_died += 1
                        failed.add(number)
                    elif answer["status"] >= 500:
                        failed.add(number)
                    elif answer["status"] != NOT_STARTED:
                        ready.append(
                            results.answer_result(self._batch, line_of[number], answer["status"], answer["body"])
                        )
                num_recorded += self._store.record(self._batch.id, ready)
        except FeederDiedError as error:
            logger.warning("%s of %s goes on where it was: %s", self._batch.id, self._batch.owner, error)
        if failed:
            logger.warning("%s of %s: an engine failed on %d lines", self._batch.id, self._batch.owner, len(failed))
            self._store.add_attempts(self._batch.id, failed)
            if self._context.settings.max_attempts == 1:
                self._record_failures([line_of[number] for number in failed], 1)
        return _Sent(bool(num_recorded or failed), num_died)

    def _answer_alone(self, line: Line, num_attempts: int) -> bool:
        """Try a line that may kill engines once more, with no other line of its batch beside it."""
        if num_attempts >= self._context.settings.max_attempts:
            self._record_failures([line], num_attempts)
            return True
        answer = self._context.engines.answer_one(self._request(line), self._should_stop)
        if answer is not None and answer["status"] == NOT_STARTED:
            return False
        if answer is not None and answer["status"] < 500 and answer["status"] != ENGINE_DIED:
            result = results.answer_result(self._batch, line, answer["status"], answer["body"])
            self._store.record(self._batch.id, [result])
            return True
        logger.warning("%s of %s: an engine failed on line %d alone", self._batch.id, self._batch.owner, line.number)
        self._store.add_attempts(self._batch.id, [line.number])
        if num_attempts + 1 >= self._context.settings.max_attempts:
            self._record_failures([line], num_attempts + 1)
        if answer is None or answer["status"] == ENGINE_DIED:
            self._context.suspects.add_death(self._batch, is_proof=True)
        # Serve needs a moment to see that a replica is dead.
        self._context.sleep(_PAUSE_S)
        return True

    @contextmanager
    def _turn(self) -> Iterator[bool]:
        """Wait for the turn of this batch's suspects; False where the round is to end first."""
        context = self._context
        deadline = context.clock() + _READY_TIMEOUT_S

        def are_ready() -> bool:
            # After a timeout they go anyway, and wake a replica.
            return context.clock() >= deadline or context.engines.are_ready()

        with context.suspects.turn(
            self._batch, are_ready=are_ready, should_stop=self._should_stop, clock=context.clock, sleep=context.sleep
        ) as is_ours:
            yield is_ours

    def _record_failures(self, lines: Sequence[Line], num_attempts: int) -> None:
        """Record an error as the result of lines whose attempts are used up."""
        self._store.record(self._batch.id, [results.failure_result(self._batch, line, num_attempts) for line in lines])

    def _request(self, line: Line) -> LineRequest:
        """Return a line as replicas take it."""
        return {
            "body": line.to_request(),
            "owner": self._batch.owner,
            "request_id": results.line_id(self._batch.id, line.number),
        }

    def _should_stop(self) -> bool:
        """Return whether the round is to end: the process stops, or the batch is no longer in progress."""
        if self._context.is_stopping():
            return True
        batch = self._store.batch(None, self._batch.id)
        return batch is None or batch.status != "in_progress" or self._context.has_expired(batch)


_DEADLY: Final = (
    f"{MAX_DEADLY_LINES} of its lines ended the engine, each alone, so the rest was not tried. Leave out those that "
    f"the error file calls {results.ENGINE_FAILED}, or ask the operator what the engine died of."
)


def run_batch(context: RunContext, batch_id: str) -> None:
    """Run a batch until it has ended, is gone, or the process is about to end.

    Raises:
        StoreError: The database does not work.
        StorageError: A file cannot be read or written; nothing of it is there.
    """
    try:
        _run(context, batch_id)
    except FileMissingError:
        batch = context.store.batch(None, batch_id)
        if batch is not None and batch.status not in TERMINAL:
            _fail(context, batch, "input_file_missing", "The input file is not there any more: upload it again.")


def _run(context: RunContext, batch_id: str) -> None:
    """Take a batch from status to status, by its record, until it has ended or the run is to stop."""
    while not context.is_stopping():
        batch = context.store.batch(None, batch_id)
        if batch is None or batch.status in TERMINAL:
            return
        if batch.status == "cancelling":
            _end_with_unanswered(context, batch, "cancelled")
            continue
        if batch.status == "finalizing" and batch.errors:
            _end_with_unanswered(context, batch, "failed")
            continue
        if batch.status == "validating":
            if context.has_expired(batch):
                _end_with_unanswered(context, batch, "expired")
            else:
                _count_lines_and_begin(context, batch)
            continue
        recorded = context.store.recorded_lines(batch_id)
        if len(recorded) == batch.total:
            _complete(context, batch)
        elif context.has_expired(batch):
            _end_with_unanswered(context, batch, "expired")
        else:
            Round(context, batch).run(recorded)
            if context.suspects.are_too_many(batch.id):
                # Recorded first, so that another run ends it in the same way.
                context.store.update_batch(
                    batch.id, only_from=["in_progress"], status="finalizing", finalizing_at=context.now(),
                    errors=_errors("engine_killed", _DEADLY),
                )  # fmt: skip


def _count_lines_and_begin(context: RunContext, batch: BatchRecord) -> None:
    """Count the lines of a batch's file, record the faulty ones, and set the batch in progress."""
    total, faults = 0, []
    for item in context.lines(batch):
        total += 1
        if total > context.settings.limits.max_lines:
            most = context.settings.limits.max_lines
            _fail(context, batch, "too_many_lines", f"The file has more than {most} lines: divide it.")
            return
        if isinstance(item, LineFault):
            faults.append(results.fault_result(batch, item))
        if len(faults) >= CHUNK:
            context.store.record(batch.id, faults)
            faults.clear()
    context.store.record(batch.id, faults)
    if total == 0:
        _fail(context, batch, "empty_file", "The file has no line: put one request on each.")
        return
    logger.info("%s of %s begins: %d lines", batch.id, batch.owner, total)
    context.store.update_batch(
        batch.id, only_from=["validating"], status="in_progress", total=total, in_progress_at=context.now()
    )


def _fail(context: RunContext, batch: BatchRecord, code: str, message: str) -> None:
    """End a batch as failed as a whole, with one error."""
    _finish(context, batch, "failed", [], errors=_errors(code, message), total=0, completed=0, failed=0)


def _errors(code: str, message: str) -> tuple[dict[str, Any], ...]:
    return ({"code": code, "message": message, "param": None, "line": None},)


def _complete(context: RunContext, batch: BatchRecord) -> None:
    """Write the files of a batch all of whose lines have results."""
    finalizing = context.store.update_batch(
        batch.id,
        only_from=["in_progress", "finalizing"],
        status="finalizing",
        finalizing_at=batch.finalizing_at or context.now(),
    )
    if finalizing is not None:
        _write_and_finish(context, finalizing, "completed")


def _end_with_unanswered(context: RunContext, batch: BatchRecord, why: results.Unanswered) -> None:
    """End a batch that was cancelled, has expired or kills engines; lines without an answer get an error."""
    recorded = context.store.recorded_lines(batch.id)
    total, chunk = 0, []
    for item in context.lines(batch):
        total += 1
        if isinstance(item, LineFault):
            chunk.append(results.fault_result(batch, item))
        elif item.number not in recorded:
            chunk.append(results.unanswered_result(batch, item.number, item.custom_id, why))
        if len(chunk) >= CHUNK:
            context.store.record(batch.id, chunk)
            chunk.clear()
    context.store.record(batch.id, chunk)
    _write_and_finish(context, batch, why, total=total)


def _write_and_finish(context: RunContext, batch: BatchRecord, outcome: Status, **changes: Any) -> None:
    """Write the output and error files of a batch, or a job's results, and end it."""
    files: list[FileRecord] = []
    counted = context.store.batch(None, batch.id) or batch
    if batch.kind == "job":
        file = _write(context, batch, "results", "json", results.job_list(context.results(batch)))
        files.append(file)
        changes["output_file_id"] = file.id
    else:
        for name, errors, num_lines in (("output", False, counted.completed), ("error", True, counted.failed)):
            if num_lines:
                file = _write(context, batch, name, "jsonl", results.file_lines(context.results(batch), errors=errors))
                files.append(file)
                changes[f"{name}_file_id"] = file.id
    _finish(context, batch, outcome, files, **changes)


def _write(context: RunContext, batch: BatchRecord, name: str, suffix: str, pieces: Iterator[bytes]) -> FileRecord:
    """Write one file of a batch, under an id derived from the batch's; return its record."""
    file_id = f"file-{sha256(f'{batch.id}/{name}'.encode()).hexdigest()[:32]}"
    num_bytes = context.contents.write(file_id, pieces)
    now = context.now()
    return FileRecord(
        id=file_id,
        owner=batch.owner,
        purpose="batch_output",
        filename=f"{batch.id}_{name}.{suffix}",
        num_bytes=num_bytes,
        created_at=now,
        expires_at=now + (batch.output_expires_after_s or context.settings.limits.retention_s),
    )


def _finish(context: RunContext, batch: BatchRecord, outcome: Status, files: list[FileRecord], **changes: Any) -> None:
    """Record the end of a batch with its files, and log it."""
    ended = context.store.finish(
        batch.id,
        only_from=[batch.status],
        files=files,
        status=outcome,
        **{f"{outcome}_at": context.now()},
        **changes,
    )
    context.suspects.forget(batch.id)
    if ended is not None:
        logger.info(
            "%s of %s is %s after %d s: %d answers, %d errors",
            batch.id, batch.owner, outcome, context.now() - batch.created_at, ended.completed, ended.failed,
        )  # fmt: skip
