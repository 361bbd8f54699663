"""Records of files, batches and lines, and the clock by which they expire. Times are whole seconds since 1970."""

import logging
import time
from collections.abc import Callable
from threading import Lock
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
        """Return when the batch ended, or else was made."""
        return self.completed_at or self.failed_at or self.expired_at or self.cancelled_at or self.created_at


class LineResult(BaseModel):
    """The result of one line; ``record`` is its line of the output or error file, without a line break."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    line: int = Field(ge=1)
    is_error: bool
    record: str


logger = logging.getLogger("ray.serve")

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
