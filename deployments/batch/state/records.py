"""Records of files, batches and lines. Times are whole seconds since 1970."""

from typing import Any, Final, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field

Purpose: TypeAlias = Literal["batch", "batch_output"]

Kind: TypeAlias = Literal["batch", "job"]
"""``batch``: OpenAI's, a file of lines. ``job``: the simple route's, a list of chat requests."""

Status: TypeAlias = Literal[
    "validating", "in_progress", "finalizing", "completed", "failed", "cancelling", "cancelled", "expired"
]
"""OpenAI's. ``validating`` until its first line can be sent to an engine, also while it waits for other batches."""

OPEN: Final[tuple[Status, ...]] = ("validating", "in_progress", "finalizing", "cancelling")
TERMINAL: Final[tuple[Status, ...]] = ("completed", "failed", "cancelled", "expired")


class FileRecord(BaseModel):
    """A file whose contents are stored under its id. It may be deleted from ``expires_at`` on."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: str
    owner: str
    purpose: Purpose
    filename: str
    num_bytes: int = Field(ge=0)
    created_at: int
    expires_at: int | None = None


class BatchRecord(BaseModel):
    """A batch and how far it is.

    Attributes:
        deadline: When what is not answered expires.
        total: Lines of the input; 0 until they were counted.
        errors: Why the whole batch failed, as OpenAI's ``{"code", "message", "param", "line"}``.
        output_expires_after_s: How long its output files are kept; None for as long as any file.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: str
    owner: str
    kind: Kind
    endpoint: str
    input_file_id: str
    completion_window: str
    status: Status = "validating"
    created_at: int
    deadline: int
    in_progress_at: int | None = None
    finalizing_at: int | None = None
    completed_at: int | None = None
    failed_at: int | None = None
    expired_at: int | None = None
    cancelling_at: int | None = None
    cancelled_at: int | None = None
    total: int = Field(default=0, ge=0)
    completed: int = Field(default=0, ge=0)
    failed: int = Field(default=0, ge=0)
    output_file_id: str | None = None
    error_file_id: str | None = None
    metadata: dict[str, str] | None = None
    errors: tuple[dict[str, Any], ...] = ()
    output_expires_after_s: int | None = None

    @property
    def last_change_at(self) -> int:
        """When it ended, or was made."""
        return self.completed_at or self.failed_at or self.expired_at or self.cancelled_at or self.created_at


class LineResult(BaseModel):
    """What became of one line; ``record`` is its line of the output or error file, without a line break."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    line: int = Field(ge=1)
    is_error: bool
    record: str
