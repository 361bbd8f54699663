"""Make, look up and cancel batches and jobs, always for one owner.

The simple route's list of chat requests becomes the lines of a batch, with the parameters of the query. An item that is
no chat request becomes a line at fault, and the others are answered.
"""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, Final
from uuid import uuid4

from deployments.batch.database import StoreError
from deployments.batch.files import FileService, page_object
from deployments.batch.lines import UNANSWERED, to_lines
from deployments.batch.models import Batch, File, Kind, Status, errors_of, is_id
from deployments.batch.store import TooManyOpenError
from deployments.errors import (
    BadRequestError,
    ConflictError,
    NotFoundError,
    OverloadedError,
    PayloadTooLargeError,
    TooManyRequestsError,
)
from deployments.protocol.batches import ENDPOINT, MAX_BATCHES_LISTED, read_batch
from deployments.storage import PartialFile

MAX_JOB_BYTES: Final = 20 * 2**20
"""Of a JSON list, which is in memory as objects: some ten times as much. For more there are files."""

_BATCHES_LISTED: Final = 20

_JOB_WINDOW_S: Final = 7 * 86400
"""A job names no window. So long, or as long as files are kept, if that is shorter."""


WHOLE_JOB: Final = ("max_tokens", "max_completion_tokens", "num_beams", "length_penalty")
"""Members that items of an older server's jobs do not have of their own."""

_JOB_STATUS: Final[Mapping[Status, str]] = {
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


class BatchService(FileService):
    """All operations on files, batches and jobs, with the contract of ``FileService``."""

    # Batches

    def create_batch(self, owner: str, fields: Any) -> dict[str, Any]:
        """Make a batch of an uploaded file; ``fields`` is the parsed body of the request."""
        checked = read_batch(fields, max_window_s=self._limits.retention_s)
        with self._lock:
            file = self._store.file(owner, checked.input_file_id) if is_id(checked.input_file_id) else None
            if file is None:
                raise NotFoundError("There is no such file. Upload one first.", "input_file_id")
            if file.purpose != "batch":
                raise BadRequestError("The file must have been uploaded with the purpose 'batch'.", "input_file_id")
            batch = self._new_batch(
                owner,
                "batch",
                file,
                checked.completion_window,
                checked.window_s,
                metadata_=checked.metadata,
                output_expires_after_s=checked.output_expires_after and checked.output_expires_after.seconds,
            )
            self._add(batch)
        self._on_change()
        return batch_object(batch)

    def get_batch(self, owner: str, batch_id: str) -> dict[str, Any]:
        """Return OpenAI's object of one of the owner's batches."""
        return batch_object(self._batch(owner, batch_id, "batch"))

    def list_batches(self, owner: str, after: str | None = None, limit: int | None = None) -> dict[str, Any]:
        """Return a page of the owner's batches, at most ``limit``, newest first."""
        find = partial(self._store.batches, owner, "batch")
        return page_object(find, batch_object, after, limit, _BATCHES_LISTED, MAX_BATCHES_LISTED)

    def cancel_batch(self, owner: str, batch_id: str) -> dict[str, Any]:
        """Begin to cancel a batch; what is answered stays.

        Harmless for a batch that is being cancelled, or was.
        """
        batch = self._batch(owner, batch_id, "batch")
        changed = self._store.update_batch(
            batch.id, only_from=("validating", "in_progress"), status="cancelling", cancelling_at=self._now()
        )
        if changed is not None:
            self._on_change()
            return batch_object(changed)
        batch = self._batch(owner, batch_id, "batch")
        if batch.status not in ("cancelling", "cancelled"):
            raise ConflictError(f"The batch is {batch.status}, so it cannot be cancelled any more.", code="batch_ended")
        return batch_object(batch)

    # Jobs

    def create_job(self, owner: str, upload_id: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """Make a job of an uploaded JSON list; ``parameters`` are those of ``protocol.batches.read_parameters``."""
        uploaded, fault = self._end_upload(owner, upload_id), dict[str, Any]()
        contents = self._folder.child(upload_id)
        try:
            num_bytes = contents.write(self._job_lines(uploaded, parameters))
        except BadRequestError as error:
            if not self._settings.compatible.whole_jobs:
                raise
            num_bytes, fault = contents.write([]), {"errors": errors_of("invalid_request", error.message)}
        finally:
            uploaded.discard()
        file = self._record_file(owner, upload_id, "job.jsonl", num_bytes, self._limits.retention_s)
        window_s = min(_JOB_WINDOW_S, self._limits.retention_s)
        job = self._new_batch(owner, "job", file, f"{window_s}s", window_s, **fault)
        if fault:
            job.status, job.failed_at = "failed", job.created_at
        try:
            self._add(job)
        except BaseException:
            with suppress(StoreError):
                self._store.delete_file(file.id)
                self._drop_contents(file.id)
            raise
        self._on_change()
        # One that has failed says so when it is looked at.
        return {**self._shown(job), **({"status": "pending", "error": None} if fault else {})}

    def get_job(self, owner: str, job_id: str) -> dict[str, Any]:
        """Return the simple route's object of one of the owner's jobs."""
        return self._shown(self._batch(owner, job_id, "job"))

    def _shown(self, job: Batch) -> dict[str, Any]:
        shown = job_object(job)
        if self._settings.compatible.whole_jobs and shown["error"]:
            shown["error"] = shown["error"]["message"]
        return shown

    def job_results(self, owner: str, job_id: str) -> str:
        """Return the id of the file that holds a job's results as a JSON list; 409 where there are none, or 404."""
        job = self._batch(owner, job_id, "job")
        if self._settings.compatible.whole_jobs and job.status != "completed":
            raise NotFoundError("The job is not completed: it has no results.")
        if job.output_file_id is not None:
            return job.output_file_id
        error = job_error(job)
        if error is not None:
            raise ConflictError(f"The job has no results, for it failed: {error['message']}", code=error["code"])
        raise ConflictError("The job has not ended yet. Ask again later.", code="job_not_finished")

    def _job_lines(self, uploaded: PartialFile, parameters: Mapping[str, Any]) -> Iterator[bytes]:
        """Yield the batch lines of an uploaded JSON list."""
        if uploaded.num_bytes > MAX_JOB_BYTES:
            raise PayloadTooLargeError(
                f"The list has more than {MAX_JOB_BYTES // 2**20} MiB. Send its requests as the lines of a batch "
                "(POST /v1/files, then POST /v1/batches), or in several jobs.",
                "file",
            )
        uploaded.flush()
        uploaded.file.seek(0)
        return to_lines(
            uploaded.file.read(),
            parameters,
            model_id=self._settings.model_id,
            max_lines=self._limits.max_lines,
            ignored=WHOLE_JOB if self._settings.compatible.whole_jobs else (),
        )

    def _new_batch(self, owner: str, kind: Kind, file: File, window: str, window_s: int, **fields: Any) -> Batch:
        """Return the record of a new batch or job, with its id and deadline."""
        now = self._now()
        return Batch(
            id=f"{kind}_{uuid4().hex}",
            owner=owner,
            kind=kind,
            endpoint=ENDPOINT,
            input_file_id=file.id,
            completion_window=window,
            created_at=now,
            deadline=now + window_s,
            **fields,
        )

    def _add(self, batch: Batch) -> None:
        """Record a new batch; refuse it where too many are open."""
        max_open = self._settings.key(batch.owner).max_open_batches or self._limits.max_open_per_key
        try:
            self._store.add_batch(batch, max_open=self._limits.max_open, max_open_of_owner=max_open)
        except TooManyOpenError as error:
            if not error.of_owner:
                raise OverloadedError("The service has as many batches as it takes. Try again later.") from None
            raise TooManyRequestsError(
                f"You have {max_open} batches that have not ended, as many as this key may. Wait until one has.",
                code="too_many_batches",
            ) from None

    def _batch(self, owner: str, batch_id: str, kind: Kind) -> Batch:
        """Return the record of one of the owner's batches or jobs, else raise a 404."""
        batch = self._store.batch(owner, batch_id) if is_id(batch_id) else None
        if batch is None or batch.kind != kind:
            raise NotFoundError(f"There is no such {kind}.")
        return batch


def batch_object(batch: Batch) -> dict[str, Any]:
    """Return OpenAI's object of a batch."""
    return {
        "id": batch.id,
        "object": "batch",
        "endpoint": batch.endpoint,
        "errors": {"object": "list", "data": batch.errors} if batch.errors else None,
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
        "metadata": batch.metadata_,
    }


def job_object(job: Batch) -> dict[str, Any]:
    """Return the simple route's object of a job."""
    return {
        "id": job.id,
        # The name and the sentence that clients of older servers look for.
        "job_id": job.id,
        "message": _progress_sentence(job),
        "object": "batch.job",
        "status": _JOB_STATUS[job.status],
        "submitted_at": job.created_at,
        "started_at": job.in_progress_at,
        "finished_at": job.completed_at or job.failed_at or job.expired_at or job.cancelled_at,
        "error": job_error(job),
        "progress": _counts(job),
    }


def job_error(job: Batch) -> dict[str, Any] | None:
    """Return why a job failed, as ``{"message", "code"}``; None where it did not."""
    if _JOB_STATUS[job.status] != "failed":
        return None
    if job.errors:
        return {"message": job.errors[0].get("message"), "code": job.errors[0].get("code")}
    if job.status == "expired":
        message = "The job did not end in time. Its results hold what was answered before."
        return {"message": message, "code": UNANSWERED["expired"].code}
    return {"message": "The job was stopped before its end.", "code": UNANSWERED["cancelled"].code}


def _progress_sentence(job: Batch) -> str:
    """Return a sentence for people: how far a job is, or why it failed."""
    if (error := job_error(job)) is not None:
        return error["message"] or "The job failed."
    if _JOB_STATUS[job.status] == "pending":
        return "The job was taken and waits for its turn."
    done = f"{job.completed + job.failed} of {job.total} requests"
    return (
        f"At work: {done}." if job.status != "completed" else f"The job has ended: {done}, {job.failed} with an error."
    )


def _counts(batch: Batch) -> dict[str, int]:
    return {"total": batch.total, "completed": batch.completed, "failed": batch.failed}
