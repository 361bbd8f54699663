"""What is recorded of files, batches and lines: SQLAlchemy's models. Times are whole seconds since 1970.

The tables' names begin with ``wordbound_``, as a server's database may hold others. Reading a row that its model cannot
have, because something else has written to the database, raises ``LookupError`` or ``ValueError``.
"""

import re
from typing import Any, Final, Literal, NamedTuple, TypeAlias, get_args

from sqlalchemy import JSON, BigInteger, Enum, Index, Integer, String, Text
from sqlalchemy.orm import DeclarativeBase, Mapped, MappedAsDataclass, mapped_column

SCHEMA_VERSION: Final = 1
"""Rises with every change of the tables that an older release could not read."""

Purpose: TypeAlias = Literal["batch", "batch_output"]

Kind: TypeAlias = Literal["batch", "job"]
"""``batch``: OpenAI's, a file of lines. ``job``: the simple route's, a list of chat requests."""

Status: TypeAlias = Literal[
    "validating", "in_progress", "finalizing", "completed", "failed", "cancelling", "cancelled", "expired"
]
"""OpenAI's. ``validating`` until its first line can be sent to an engine, also while it waits for other batches."""

OPEN: Final[tuple[Status, ...]] = ("validating", "in_progress", "finalizing", "cancelling")
TERMINAL: Final[tuple[Status, ...]] = ("completed", "failed", "cancelled", "expired")

_ID_FORM: Final = re.compile(r"[a-z]{1,16}[-_][0-9a-f]{1,64}")

_ID: Final = String(128)
_COUNTED_UP: Final = BigInteger().with_variant(Integer, "sqlite")
"""SQLite counts up a column of exactly this type only; it holds 64 bits there too."""


def _one_of(name: str, words: object) -> Enum:
    return Enum(*get_args(words), name=name, native_enum=False, length=32)


class Model(MappedAsDataclass, DeclarativeBase):
    type_annotation_map = {  # noqa: RUF012 - SQLAlchemy's
        int: BigInteger,
        str: Text,
        Purpose: _one_of("purpose", Purpose),
        Kind: _one_of("kind", Kind),
        Status: _one_of("status", Status),
    }


class Schema(Model, kw_only=True):
    """One row: the version of all of these tables. Locked while a batch or a client's file is added."""

    __tablename__ = "wordbound_schema"

    id: Mapped[int] = mapped_column(Integer, primary_key=True, autoincrement=False)
    version: Mapped[int] = mapped_column(Integer)


class File(Model, kw_only=True):
    """A file whose contents are stored under its id. It may be deleted from ``expires_at`` on.

    ``number`` orders what was made within one second.
    """

    __tablename__ = "wordbound_files"
    __table_args__ = (Index("wordbound_files_of_owner", "owner", "number"), {"sqlite_autoincrement": True})

    number: Mapped[int] = mapped_column(_COUNTED_UP, primary_key=True, init=False, compare=False)
    id: Mapped[str] = mapped_column(_ID, unique=True)
    owner: Mapped[str] = mapped_column(String(256))
    purpose: Mapped[Purpose]
    filename: Mapped[str]
    num_bytes: Mapped[int]
    created_at: Mapped[int]
    expires_at: Mapped[int | None] = mapped_column(index=True, default=None)


class Batch(Model, kw_only=True):
    """A batch and how far it is.

    Attributes:
        deadline: When what is not answered expires.
        total: Lines of the input; 0 until they were counted.
        completed: Lines with an answer; ``failed`` are those with an error.
        errors: Why the whole batch failed, as OpenAI's ``{"code", "message", "param", "line"}``.
        output_expires_after_s: How long its output files are kept; None for as long as any file.
    """

    __tablename__ = "wordbound_batches"
    __table_args__ = (Index("wordbound_batches_of_owner", "owner", "kind", "number"), {"sqlite_autoincrement": True})

    number: Mapped[int] = mapped_column(_COUNTED_UP, primary_key=True, init=False, compare=False)
    id: Mapped[str] = mapped_column(_ID, unique=True)
    owner: Mapped[str] = mapped_column(String(256))
    kind: Mapped[Kind]
    endpoint: Mapped[str]
    input_file_id: Mapped[str] = mapped_column(_ID)
    completion_window: Mapped[str] = mapped_column(String(64))
    status: Mapped[Status] = mapped_column(index=True, default="validating")
    created_at: Mapped[int]
    deadline: Mapped[int]
    in_progress_at: Mapped[int | None] = mapped_column(default=None)
    finalizing_at: Mapped[int | None] = mapped_column(default=None)
    completed_at: Mapped[int | None] = mapped_column(default=None)
    failed_at: Mapped[int | None] = mapped_column(default=None)
    expired_at: Mapped[int | None] = mapped_column(default=None)
    cancelling_at: Mapped[int | None] = mapped_column(default=None)
    cancelled_at: Mapped[int | None] = mapped_column(default=None)
    total: Mapped[int] = mapped_column(default=0)
    completed: Mapped[int] = mapped_column(default=0)
    failed: Mapped[int] = mapped_column(default=0)
    output_file_id: Mapped[str | None] = mapped_column(_ID, default=None)
    error_file_id: Mapped[str | None] = mapped_column(_ID, default=None)
    # ``metadata`` is SQLAlchemy's.
    metadata_: Mapped[dict[str, str] | None] = mapped_column("metadata", JSON(none_as_null=True), default=None)
    errors: Mapped[list[dict[str, Any]]] = mapped_column(JSON, default_factory=list)
    output_expires_after_s: Mapped[int | None] = mapped_column(default=None)


class OpenBatch(NamedTuple):
    """What is known of an open batch without reading all of its row, which may be damaged."""

    id: str
    owner: str
    status: Status
    input_file_id: str
    created_at: int
    deadline: int
    num_left: int


class LineResult(Model, kw_only=True):
    """The result of one line of the batch of this number, which makes the line count once.

    ``record`` is its line of the output or error file, without a line break.
    """

    __tablename__ = "wordbound_results"

    batch: Mapped[int] = mapped_column(primary_key=True, autoincrement=False, init=False, compare=False)
    line: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    is_error: Mapped[bool]
    record: Mapped[str]


class Attempts(Model, kw_only=True):
    """How often an engine failed on a line of the batch of this number."""

    __tablename__ = "wordbound_attempts"

    batch: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    line: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    attempts: Mapped[int] = mapped_column(Integer)


def errors_of(code: str, message: str) -> list[dict[str, Any]]:
    """Return the ``errors`` of a batch that failed as a whole."""
    return [{"code": code, "message": message, "param": None, "line": None}]


def is_id(text: str) -> bool:
    """Return whether a text has the form of our ids.

    A database may refuse other texts, so it is not asked for them, and a file of another name is not ours.
    """
    return _ID_FORM.fullmatch(text) is not None
