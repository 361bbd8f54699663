"""Run one batch to its end: count its lines, have them answered in rounds, and write its files.

What is recorded is done and the rest is done again, so a run may end anywhere and another resume it: the names of
its files are derived from the batch's. A run may take hours and blocks its thread.
"""

import logging
from collections.abc import Iterator
from hashlib import sha256
from typing import Any, Final

from deployments.batch.state.records import TERMINAL, BatchRecord, FileRecord, Status
from deployments.batch.worker import results
from deployments.batch.worker.lines import LineFault
from deployments.batch.worker.retries import Round
from deployments.batch.worker.run_context import CHUNK, MAX_DEADLY_LINES, RunContext
from deployments.storage import FileMissingError

logger = logging.getLogger("ray.serve")

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
