"""The tables of files, batches and lines, and how their rows become records and records rows.

Nothing here opens a database or knows which one it is. Their names begin with ``wordbound_``: a server's database may
hold other things too.
"""

from collections.abc import Mapping
from typing import Any, Final

from sqlalchemy import JSON, BigInteger, Boolean, Column, Index, Integer, MetaData, String, Table, Text

from deployments.batch.state.records import BatchRecord, FileRecord

SCHEMA_VERSION: Final = 1
"""Rises with every change that an older release could not read."""

METADATA: Final = MetaData()

_NUMBER: Final = BigInteger().with_variant(Integer, "sqlite")
"""SQLite counts up a column of exactly this type only; it holds 64 bits there too."""

schema = Table(
    "wordbound_schema",
    METADATA,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("version", Integer, nullable=False),
)
"""One row: the version of all of these tables. Who holds it decides alone whether a batch may be added."""

# Several are made in one second, so a number of its own says which came first.
files = Table(
    "wordbound_files",
    METADATA,
    Column("number", _NUMBER, primary_key=True),
    Column("id", String(128), nullable=False, unique=True),
    Column("owner", String(256), nullable=False),
    Column("purpose", String(32), nullable=False),
    Column("filename", Text, nullable=False),
    Column("num_bytes", BigInteger, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("expires_at", BigInteger, index=True),
    Index("wordbound_files_of_owner", "owner", "number"),
    sqlite_autoincrement=True,
)

batches = Table(
    "wordbound_batches",
    METADATA,
    Column("number", _NUMBER, primary_key=True),
    Column("id", String(128), nullable=False, unique=True),
    Column("owner", String(256), nullable=False),
    Column("kind", String(32), nullable=False),
    Column("endpoint", Text, nullable=False),
    Column("input_file_id", String(128), nullable=False),
    Column("completion_window", String(64), nullable=False),
    Column("status", String(32), nullable=False, index=True),
    Column("created_at", BigInteger, nullable=False),
    Column("deadline", BigInteger, nullable=False),
    Column("in_progress_at", BigInteger),
    Column("finalizing_at", BigInteger),
    Column("completed_at", BigInteger),
    Column("failed_at", BigInteger),
    Column("expired_at", BigInteger),
    Column("cancelling_at", BigInteger),
    Column("cancelled_at", BigInteger),
    Column("total", BigInteger, nullable=False),
    Column("completed", BigInteger, nullable=False),
    Column("failed", BigInteger, nullable=False),
    Column("output_file_id", String(128)),
    Column("error_file_id", String(128)),
    Column("metadata", JSON(none_as_null=True)),
    Column("errors", JSON, nullable=False),
    Column("output_expires_after_s", BigInteger),
    Index("wordbound_batches_of_owner", "owner", "kind", "number"),
    sqlite_autoincrement=True,
)

# The key is what makes a line count once, whoever records it and however often.
results = Table(
    "wordbound_results",
    METADATA,
    Column("batch", BigInteger, primary_key=True, autoincrement=False),
    Column("line", BigInteger, primary_key=True, autoincrement=False),
    Column("is_error", Boolean, nullable=False),
    Column("record", Text, nullable=False),
)

attempts = Table(
    "wordbound_attempts",
    METADATA,
    Column("batch", BigInteger, primary_key=True, autoincrement=False),
    Column("line", BigInteger, primary_key=True, autoincrement=False),
    Column("attempts", Integer, nullable=False),
)


def to_file(row: Mapping[Any, Any]) -> FileRecord:
    return FileRecord.model_validate({name: row[name] for name in FileRecord.model_fields})


def to_batch(row: Mapping[Any, Any]) -> BatchRecord:
    return BatchRecord.model_validate({name: row[name] for name in BatchRecord.model_fields})
