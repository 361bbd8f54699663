"""The end of a batch: every line gets a result, the files are written, and then the batch is said to have ended.

All of it may be done again, by another process too, until it is said; the names of files are made of the batch's. What
led to the end is not known here.
"""

import logging
from collections.abc import Iterator
from hashlib import sha256
from typing import Any, Final

from deployments.batch.state.records import BatchRecord, FileRecord, Status
from deployments.batch.worker import results
from deployments.batch.worker.lines import LineFault
from deployments.batch.worker.tools import CHUNK, Tools

logger = logging.getLogger("ray.serve")

_ENDED_AT: Final[dict[Status, str]] = {
    "completed": "completed_at",
    "cancelled": "cancelled_at",
    "expired": "expired_at",
    "failed": "failed_at",
}


def fail(tools: Tools, batch: BatchRecord, code: str, message: str) -> None:
    """Ends a batch that cannot have results."""
    errors = ({"code": code, "message": message, "param": None, "line": None},)
    _finish(tools, batch, "failed", [], errors=errors, total=0, completed=0, failed=0)


def complete(tools: Tools, batch: BatchRecord) -> None:
    """Ends a batch all of whose lines have results."""
    finalizing = tools.store.update_batch(
        batch.id,
        only_from=["in_progress", "finalizing"],
        status="finalizing",
        finalizing_at=batch.finalizing_at or tools.now(),
    )
    if finalizing is not None:
        _write_and_finish(tools, finalizing, "completed")


def give_up(tools: Tools, batch: BatchRecord, why: results.Unanswered) -> None:
    """Ends a batch that was cancelled, or whose time is over, with what was answered before."""
    recorded = tools.store.recorded_lines(batch.id)
    total, chunk = 0, []
    for item in tools.lines(batch):
        total += 1
        if isinstance(item, LineFault):
            chunk.append(results.faulty(batch, item))
        elif item.number not in recorded:
            chunk.append(results.unanswered(batch, item.number, item.custom_id, why))
        if len(chunk) >= CHUNK:
            tools.store.record(batch.id, chunk)
            chunk.clear()
    tools.store.record(batch.id, chunk)
    _write_and_finish(tools, batch, why, total=total)


def _write_and_finish(tools: Tools, batch: BatchRecord, outcome: Status, **changes: Any) -> None:
    files: list[FileRecord] = []
    counted = tools.store.batch(None, batch.id) or batch
    if batch.kind == "job":
        file = _write(tools, batch, "results", "json", results.job_list(tools.results(batch)))
        files.append(file)
        changes["output_file_id"] = file.id
    else:
        for name, errors, num_lines in (("output", False, counted.completed), ("error", True, counted.failed)):
            if num_lines:
                file = _write(tools, batch, name, "jsonl", results.file_lines(tools.results(batch), errors=errors))
                files.append(file)
                changes[f"{name}_file_id"] = file.id
    _finish(tools, batch, outcome, files, **changes)


def _write(tools: Tools, batch: BatchRecord, name: str, suffix: str, pieces: Iterator[bytes]) -> FileRecord:
    file_id = f"file-{sha256(f'{batch.id}/{name}'.encode()).hexdigest()[:32]}"
    num_bytes = tools.contents.write(file_id, pieces)
    now = tools.now()
    return FileRecord(
        id=file_id,
        owner=batch.owner,
        purpose="batch_output",
        filename=f"{batch.id}_{name}.{suffix}",
        num_bytes=num_bytes,
        created_at=now,
        expires_at=now + (batch.output_expires_after_s or tools.settings.limits.retention_s),
    )


def _finish(tools: Tools, batch: BatchRecord, outcome: Status, files: list[FileRecord], **changes: Any) -> None:
    ended = tools.store.finish(
        batch.id, only_from=[batch.status], files=files, status=outcome, **{_ENDED_AT[outcome]: tools.now()}, **changes
    )
    if ended is not None:
        logger.info(
            "%s is %s after %d s: %d answers, %d errors",
            batch.id, outcome, tools.now() - batch.created_at, ended.completed, ended.failed,
        )  # fmt: skip
