"""What the API shows of files, batches and lines: OpenAI's objects, and the job of the simple route.

Makes dictionaries of records and nothing else; the names are OpenAI's, and what has no value is null. Who may see an
object, and where it is kept, is not known here.
"""

import json
from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any, Final

from deployments.batch.state.records import BatchRecord, FileRecord, Status

_UNUSUAL_BREAKS: Final = {character: f"\\u{ord(character):04x}" for character in "\x85\u2028\u2029"}
"""In JSON they stand inside strings only; the others are control characters, which it escapes."""

BATCH_EXPIRED: Final = "batch_expired"
BATCH_CANCELLED: Final = "batch_cancelled"
ENGINE_FAILED: Final = "engine_failed"
_NOT_THE_CALLERS: Final = (BATCH_EXPIRED, BATCH_CANCELLED, ENGINE_FAILED)

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
    return {
        "id": job.id,
        "object": "batch.job",
        "status": JOB_STATUS[job.status],
        "submitted_at": job.created_at,
        "started_at": job.in_progress_at,
        "finished_at": job.completed_at or job.failed_at or job.expired_at or job.cancelled_at,
        "error": job_error(job),
        "progress": _counts(job),
    }


def job_error(job: BatchRecord) -> dict[str, Any] | None:
    """Why a job failed, as ``{"message", "code"}``; None where it did not."""
    if JOB_STATUS[job.status] != "failed":
        return None
    if job.errors:
        return {"message": job.errors[0].get("message"), "code": job.errors[0].get("code")}
    if job.status == "expired":
        message = "The job did not end in time. Its results hold what was answered before."
        return {"message": message, "code": BATCH_EXPIRED}
    return {"message": "The job was stopped before its end.", "code": BATCH_CANCELLED}


def list_object(data: Sequence[dict[str, Any]], *, has_more: bool) -> dict[str, Any]:
    return {
        "object": "list",
        "data": list(data),
        "first_id": data[0]["id"] if data else None,
        "last_id": data[-1]["id"] if data else None,
        "has_more": has_more,
    }


def line_id(batch_id: str, line: int) -> str:
    """The id of a line's result, the same each time it is made."""
    return f"batch_req_{sha256(f'{batch_id}/{line}'.encode()).hexdigest()[:32]}"


def answer_line(
    line_id: str, custom_id: str, *, status_code: int, request_id: str, body: Mapping[str, Any]
) -> dict[str, Any]:
    """A line of the output file: the answer to a request."""
    response = {"status_code": status_code, "request_id": request_id, "body": dict(body)}
    return {"id": line_id, "custom_id": custom_id, "response": response, "error": None}


def refused_line(
    line_id: str, custom_id: str, *, line: int, status_code: int, request_id: str, body: Mapping[str, Any]
) -> dict[str, Any]:
    """A line of the error file: a request that was refused or failed when it was to be answered.

    Args:
        line: Its number in the input, from 1.
        body: OpenAI's envelope of the error, ``{"error": {"message", "type", "param", "code"}}``.
    """
    answer = answer_line(line_id, custom_id, status_code=status_code, request_id=request_id, body=body)
    error = body["error"]
    return answer | {"error": _error(error.get("code"), f"Line {line}: {error['message']}", line, error.get("param"))}


def fault_line(
    line_id: str, custom_id: str | None, *, line: int, code: str, message: str, param: str | None = None
) -> dict[str, Any]:
    """A line of the error file: a line that no engine was asked for.

    Args:
        line: Its number in the input, from 1.
        message: Begins with ``Line`` and the number.
    """
    return {"id": line_id, "custom_id": custom_id, "response": None, "error": _error(code, message, line, param)}


def expired_line(line_id: str, custom_id: str | None, line: int) -> dict[str, Any]:
    """A line that was not answered when the batch's time was over; OpenAI's words."""
    message = f"Line {line}: This request could not be executed before the completion window expired."
    return fault_line(line_id, custom_id, line=line, code=BATCH_EXPIRED, message=message)


def cancelled_line(line_id: str, custom_id: str | None, line: int) -> dict[str, Any]:
    """A line that was not answered when the batch was cancelled."""
    message = f"Line {line}: This request was not executed, for the batch was cancelled."
    return fault_line(line_id, custom_id, line=line, code=BATCH_CANCELLED, message=message)


def job_result(record: Mapping[str, Any]) -> dict[str, Any]:
    """An element of a job's results, made of the line of an output or error file: a chat completion or an error."""
    response, error = record["response"], record["error"]
    if response is not None:
        body: dict[str, Any] = response["body"]
        return body
    kind = "server_error" if error["code"] in _NOT_THE_CALLERS else "invalid_request_error"
    # Its place among the results says which it is.
    message = error["message"].removeprefix(f"Line {error['line']}: ")
    message = message[:1].upper() + message[1:]
    return {"error": {"message": message, "type": kind, "param": error["param"], "code": error["code"]}}


def to_json(value: Mapping[str, Any]) -> str:
    """Compact, without anything that a client may take for a line break (``str.splitlines`` knows ten of them)."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    for character, escaped in _UNUSUAL_BREAKS.items():
        text = text.replace(character, escaped)
    return text


def _counts(batch: BatchRecord) -> dict[str, int]:
    return {"total": batch.total, "completed": batch.completed, "failed": batch.failed}


def _error(code: str | None, message: str, line: int, param: str | None) -> dict[str, Any]:
    return {"code": code, "message": message, "line": line, "param": param}
