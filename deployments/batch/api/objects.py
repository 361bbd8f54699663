"""OpenAI's objects of files and batches, and the job of the simple route. What has no value is null."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from deployments.batch.state.records import BatchRecord, FileRecord, Status

BATCH_EXPIRED: Final = "batch_expired"
BATCH_CANCELLED: Final = "batch_cancelled"
BATCH_FAILED: Final = "batch_failed"

JOB_STATUS: Final[Mapping[Status, str]] = {
    "validating": "pending",
    "in_progress": "processing",
    "finalizing": "processing",
    "cancelling": "processing",
    "completed": "completed",
    "failed": "failed",
    "cancelled": "failed",
    "expired": "failed",
}
"""The simple route's words for OpenAI's statuses."""


def file_object(file: FileRecord) -> dict[str, Any]:
    """Return OpenAI's object of a file."""
    return {
        "id": file.id,
        "object": "file",
        "bytes": file.num_bytes,
        "created_at": file.created_at,
        "expires_at": file.expires_at,
        "filename": file.filename,
        "purpose": file.purpose,
        "status": "processed",
        "status_details": None,
    }


def deleted_file(file_id: str) -> dict[str, Any]:
    return {"id": file_id, "object": "file", "deleted": True}


def batch_object(batch: BatchRecord) -> dict[str, Any]:
    """Return OpenAI's object of a batch."""
    return {
        "id": batch.id,
        "object": "batch",
        "endpoint": batch.endpoint,
        "errors": {"object": "list", "data": list(batch.errors)} if batch.errors else None,
        "input_file_id": batch.input_file_id,
        "completion_window": batch.completion_window,
        "status": batch.status,
        "output_file_id": batch.output_file_id,
        "error_file_id": batch.error_file_id,
        "created_at": batch.created_at,
        "in_progress_at": batch.in_progress_at,
        "expires_at": batch.deadline,
        "finalizing_at": batch.finalizing_at,
        "completed_at": batch.completed_at,
        "failed_at": batch.failed_at,
        "expired_at": batch.expired_at,
        "cancelling_at": batch.cancelling_at,
        "cancelled_at": batch.cancelled_at,
        "request_counts": _counts(batch),
        "metadata": batch.metadata,
    }


def job_object(job: BatchRecord) -> dict[str, Any]:
    """Return the simple route's object of a job."""
    return {
        "id": job.id,
        # The name and the sentence that clients of older servers look for.
        "job_id": job.id,
        "message": _progress_sentence(job),
        "object": "batch.job",
        "status": JOB_STATUS[job.status],
        "submitted_at": job.created_at,
        "started_at": job.in_progress_at,
        "finished_at": job.completed_at or job.failed_at or job.expired_at or job.cancelled_at,
        "error": job_error(job),
        "progress": _counts(job),
    }


def job_error(job: BatchRecord) -> dict[str, Any] | None:
    """Return why a job failed, as ``{"message", "code"}``; None where it did not."""
    if JOB_STATUS[job.status] != "failed":
        return None
    if job.errors:
        return {"message": job.errors[0].get("message"), "code": job.errors[0].get("code")}
    if job.status == "expired":
        message = "The job did not end in time. Its results hold what was answered before."
        return {"message": message, "code": BATCH_EXPIRED}
    return {"message": "The job was stopped before its end.", "code": BATCH_CANCELLED}


def _progress_sentence(job: BatchRecord) -> str:
    """Return a sentence for people: how far a job is, or why it failed."""
    if (error := job_error(job)) is not None:
        return error["message"] or "The job failed."
    if JOB_STATUS[job.status] == "pending":
        return "The job was taken and waits for its turn."
    done = f"{job.completed + job.failed} of {job.total} requests"
    return (
        f"At work: {done}." if job.status != "completed" else f"The job has ended: {done}, {job.failed} with an error."
    )


def list_object(data: Sequence[dict[str, Any]], *, has_more: bool) -> dict[str, Any]:
    """Return OpenAI's object of one page of a list."""
    return {
        "object": "list",
        "data": list(data),
        "first_id": data[0]["id"] if data else None,
        "last_id": data[-1]["id"] if data else None,
        "has_more": has_more,
    }


def _counts(batch: BatchRecord) -> dict[str, int]:
    return {"total": batch.total, "completed": batch.completed, "failed": batch.failed}
