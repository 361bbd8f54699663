"""The answers of the routes of files, batches and jobs, as the OpenAPI document describes them."""

from typing import Any, Generic, Literal, TypeVar

from pydantic import BaseModel


class File(BaseModel):
    id: str
    object: Literal["file"]
    bytes: int
    created_at: int
    expires_at: int | None
    filename: str
    purpose: Literal["batch", "batch_output"]
    status: str


class DeletedFile(BaseModel):
    id: str
    object: Literal["file"]
    deleted: bool


class Counts(BaseModel):
    total: int
    completed: int
    failed: int


class Batch(BaseModel):
    id: str
    object: Literal["batch"]
    endpoint: str
    status: Literal[
        "validating", "in_progress", "finalizing", "completed", "failed", "expired", "cancelling", "cancelled"
    ]
    errors: dict[str, Any] | None
    input_file_id: str
    output_file_id: str | None
    error_file_id: str | None
    completion_window: str
    created_at: int
    expires_at: int | None
    request_counts: Counts
    metadata: dict[str, str] | None


class JobError(BaseModel):
    message: str | None
    code: str | None


class Job(BaseModel):
    id: str
    job_id: str
    message: str
    object: Literal["batch.job"]
    status: Literal["pending", "processing", "completed", "failed"]
    submitted_at: int
    started_at: int | None
    finished_at: int | None
    error: JobError | None
    progress: Counts


Item = TypeVar("Item")


class Page(BaseModel, Generic[Item]):
    object: Literal["list"]
    data: list[Item]
    first_id: str | None
    last_id: str | None
    has_more: bool


class FilePage(Page[File]):
    pass


class BatchPage(Page[Batch]):
    pass
