"""Record files, batches and the results of their lines, so that whatever dies, every line counts exactly once.

Each method is one transaction. Safe to call from several threads, and beside other processes. A row that is no record,
because something else has written to the database, is left out wherever it would be found, and logged once.
"""

import logging
from collections.abc import Collection, Sequence
from typing import Any, Final

from pydantic import ValidationError
from sqlalchemy import Connection, Select, delete, func, insert, select, update

from deployments.batch.state import database
from deployments.batch.state.database import Database, StoreError
from deployments.batch.state.records import OPEN, TERMINAL, BatchRecord, FileRecord, Kind, LineResult, Status
from deployments.batch.state.statements import (
    Record,
    Row,
    UnknownCursorError,
    change_batch,
    count_batches,
    delete_lines,
    is_line_of,
    is_named,
    lock_additions,
    lock_batch,
    page_of,
    put_file,
    select_recorded,
    sum_bytes,
    to_record,
    upsert,
)

logger = logging.getLogger("ray.serve")

__all__ = ["BatchStore", "StoreError", "TooManyBytesError", "TooManyOpenError", "UnknownCursorError"]

DAMAGED: Final = "record_damaged"
"""The code of the error of a batch whose row was no record."""


class TooManyBytesError(Exception):
    """The owner's files would have more bytes together than they may."""


class TooManyOpenError(Exception):
    """As many batches are open as there may be, of the owner or, unless ``of_owner``, of all together."""

    def __init__(self, *, of_owner: bool) -> None:
        super().__init__("too many open batches" + (" of this owner" if of_owner else ""))
        self.of_owner = of_owner


class BatchStore:
    """The records of files, batches and their lines in the database.

    Every method may raise ``StoreError``; nothing of its transaction has happened then, or, where the connection to
    a server broke at its very end, all of it. Any may be repeated, except that ``add_batch`` fails then.

    Args:
        url: As ``Database`` takes it.

    Raises:
        StoreError: The database cannot be opened, or a newer release has written it.
    """

    def __init__(self, url: str) -> None:
        self._database = Database(url)
        self._logged = set[str]()

    def close(self) -> None:
        self._database.close()

    # Files

    def add_file(self, file: FileRecord, *, max_bytes_of_owner: int | None = None) -> None:
        """Add a file, or replace the one of the same id. Concurrent additions with a limit wait for each other.

        Raises:
            TooManyBytesError: It was not added.
        """
        with self._database.writing() as connection:
            if max_bytes_of_owner is not None:
                lock_additions(connection)
                others = database.files.c.id != file.id
                if sum_bytes(connection, file.owner, others) + file.num_bytes > max_bytes_of_owner:
                    raise TooManyBytesError
            put_file(connection, file)

    def file(self, owner: str | None, file_id: str) -> FileRecord | None:
        """Return the file if it is the owner's; with None, anyone's."""
        with self._database.reading() as connection:
            query = select(database.files).where(*is_named(database.files, owner, file_id))
            return self._one_of(connection, query, FileRecord)

    def has_file(self, file_id: str) -> bool:
        """Return whether there is a row for a file, whatever is in it."""
        with self._database.reading() as connection:
            query = select(database.files.c.id).where(*is_named(database.files, None, file_id))
            return connection.scalar(query) is not None

    def files(
        self, owner: str, *, purpose: str | None, after: str | None, limit: int, newest_first: bool = True
    ) -> tuple[list[FileRecord], bool]:
        """Return at most ``limit`` of the owner's files after the file ``after``, and whether there are more.

        Raises:
            UnknownCursorError: The owner has no file ``after``.
        """
        query = select(database.files).where(database.files.c.owner == owner)
        if purpose is not None:
            query = query.where(database.files.c.purpose == purpose)
        with self._database.reading() as connection:
            query = page_of(connection, query, database.files, owner, after, newest_first)
            return self._first_of(connection, query, limit, FileRecord)

    def delete_file(self, owner: str | None, file_id: str) -> bool:
        """Delete the record of a file; return whether there was one."""
        with self._database.writing() as connection:
            return (
                connection.execute(delete(database.files).where(*is_named(database.files, owner, file_id))).rowcount > 0
            )

    def expired_files(self, now: int) -> list[FileRecord]:
        """Return the files of all owners that have expired at ``now``."""
        with self._database.reading() as connection:
            query = select(database.files).where(database.files.c.expires_at <= now)
            return self._all_of(connection, query, FileRecord)

    def num_files_bytes(self, owner: str) -> int:
        """Return the bytes of all files of the owner, results included."""
        with self._database.reading() as connection:
            return sum_bytes(connection, owner)

    # Batches

    def add_batch(self, batch: BatchRecord, *, max_open: int, max_open_of_owner: int) -> None:
        """Add a batch unless too many are open. Concurrent additions wait for each other.

        Raises:
            TooManyOpenError: It was not added.
        """
        is_open = database.batches.c.status.in_(OPEN)
        with self._database.writing() as connection:
            lock_additions(connection)
            if count_batches(connection, is_open, database.batches.c.owner == batch.owner) >= max_open_of_owner:
                raise TooManyOpenError(of_owner=True)
            if count_batches(connection, is_open) >= max_open:
                raise TooManyOpenError(of_owner=False)
            connection.execute(insert(database.batches).values(batch.model_dump()))

    def batch(self, owner: str | None, batch_id: str) -> BatchRecord | None:
        """Return the batch if it is the owner's; with None, anyone's."""
        with self._database.reading() as connection:
            query = select(database.batches).where(*is_named(database.batches, owner, batch_id))
            return self._one_of(connection, query, BatchRecord)

    def batches(self, owner: str, kind: Kind, *, after: str | None, limit: int) -> tuple[list[BatchRecord], bool]:
        """Return at most ``limit`` of the owner's batches after ``after``, newest first, and whether there are more.

        Raises:
            UnknownCursorError: The owner has no batch ``after``.
        """
        query = select(database.batches).where(database.batches.c.owner == owner, database.batches.c.kind == kind)
        with self._database.reading() as connection:
            query = page_of(connection, query, database.batches, owner, after, newest_first=True)
            return self._first_of(connection, query, limit, BatchRecord)

    def open_batches(self) -> list[BatchRecord]:
        """Return the batches that have not ended, oldest first.

        One whose row is no record fails, so that it has ended.
        """
        of = database.batches.c
        query = select(database.batches).where(of.status.in_(OPEN)).order_by(of.number)
        with self._database.reading() as connection:
            rows = connection.execute(query).mappings().all()
        batches = []
        for row in rows:
            if (batch := self._read(row, BatchRecord)) is None:
                self._fail(row)
            else:
                batches.append(batch)
        return batches

    def old_batches(self, before: int) -> list[BatchRecord]:
        """Return the batches that ended before this time, oldest first."""
        of = database.batches.c
        ended_at = func.coalesce(of.completed_at, of.failed_at, of.expired_at, of.cancelled_at, of.created_at)
        query = select(database.batches).where(of.status.in_(TERMINAL), ended_at < before).order_by(of.number)
        with self._database.reading() as connection:
            return self._all_of(connection, query, BatchRecord)

    def delete_batch(self, batch_id: str) -> None:
        """Delete a batch, if it is there, with the records of its lines but without its files."""
        with self._database.writing() as connection:
            row = lock_batch(connection, batch_id, (*OPEN, *TERMINAL))
            if row is not None:
                delete_lines(connection, row["number"])
                connection.execute(delete(database.batches).where(database.batches.c.number == row["number"]))

    def update_batch(self, batch_id: str, *, only_from: Collection[Status], **changes: Any) -> BatchRecord | None:
        """Change fields of a batch that is in one of these statuses; return None where it is in another, or gone.

        Raises:
            ValueError: A change is no field of a batch, or has a value that the field cannot have.
        """
        with self._database.writing() as connection:
            row = lock_batch(connection, batch_id, only_from)
            return None if row is None else change_batch(connection, row, changes)

    def finish(
        self, batch_id: str, *, only_from: Collection[Status], files: Sequence[FileRecord], **changes: Any
    ) -> BatchRecord | None:
        """End a batch: add its files, change it, and delete its lines.

        Return None where it is in another status, or gone.

        Raises:
            ValueError: As ``update_batch``.
        """
        with self._database.writing() as connection:
            row = lock_batch(connection, batch_id, only_from)
            if row is None:
                return None
            for file in files:
                put_file(connection, file)
            delete_lines(connection, row["number"])
            return change_batch(connection, row, changes)

    # Lines

    def record(self, batch_id: str, results: Sequence[LineResult]) -> int:
        """Record results of lines of an open batch, and count them; a line keeps its first result.

        Returns:
            How many lines had none before; 0 where the batch has ended or is gone.
        """
        with self._database.writing() as connection:
            row = lock_batch(connection, batch_id, OPEN)
            if row is None:
                return 0
            # The batch is locked, so no result is added between the look and the insertion.
            new = {result.line: result for result in reversed(results)}
            for line in select_recorded(connection, row["number"], sorted(new)):
                del new[line]
            if new:
                rows = [{"batch": row["number"], **result.model_dump()} for result in new.values()]
                connection.execute(insert(database.results), rows)
                num_failed = sum(result.is_error for result in new.values())
                counts = {"completed": row["completed"] + len(new) - num_failed, "failed": row["failed"] + num_failed}
                connection.execute(update(database.batches).where(database.batches.c.id == batch_id).values(counts))
            return len(new)

    def recorded_lines(self, batch_id: str) -> set[int]:
        """Return the numbers of a batch's lines that have a result."""
        with self._database.reading() as connection:
            return set(
                connection.scalars(select(database.results.c.line).where(is_line_of(database.results, batch_id)))
            )

    def results(self, batch_id: str, *, after_line: int, limit: int) -> list[LineResult]:
        """Return at most ``limit`` results of lines after ``after_line``, in the order of the lines."""
        of = database.results.c
        query = select(of.line, of.is_error, of.record).where(
            is_line_of(database.results, batch_id), of.line > after_line
        )
        with self._database.reading() as connection:
            rows = connection.execute(query.order_by(of.line).limit(limit)).mappings()
            return [LineResult.model_validate(dict(row)) for row in rows]

    def attempts(self, batch_id: str) -> dict[int, int]:
        """Return how many attempts ``add_attempts`` counted for each line; others are left out."""
        of = database.attempts.c
        with self._database.reading() as connection:
            rows = connection.execute(select(of.line, of.attempts).where(is_line_of(database.attempts, batch_id)))
            return {row.line: row.attempts for row in rows}

    def add_attempts(self, batch_id: str, lines: Collection[int]) -> None:
        """Count one more attempt for each of these lines of an open batch."""
        with self._database.writing() as connection:
            row = lock_batch(connection, batch_id, OPEN)
            if row is not None and lines:
                one_more = {"attempts": database.attempts.c.attempts + 1}
                put = upsert(connection, database.attempts, ("batch", "line"), one_more)
                connection.execute(
                    put, [{"batch": row["number"], "line": line, "attempts": 1} for line in sorted(set(lines))]
                )

    # Rows that may be no records

    def _read(self, row: Row, kind: type[Record]) -> Record | None:
        """Return a row as a record; None where it is none, which is logged once."""
        try:
            return to_record(row, kind)
        except ValidationError as error:
            if row["id"] not in self._logged:
                self._logged.add(row["id"])
                fields = ", ".join(str(fault["loc"][0]) for fault in error.errors(include_input=False))
                logger.error("%s cannot be read from the database and is left out: see its %s", row["id"], fields)
            return None

    def _all_of(self, connection: Connection, query: Select[Any], kind: type[Record]) -> list[Record]:
        """Return the rows of a query as records, without those that are none."""
        records = (self._read(row, kind) for row in connection.execute(query).mappings())
        return [record for record in records if record is not None]

    def _one_of(self, connection: Connection, query: Select[Any], kind: type[Record]) -> Record | None:
        """Return the first record that a query finds, or None."""
        return next(iter(self._all_of(connection, query, kind)), None)

    def _first_of(
        self, connection: Connection, query: Select[Any], limit: int, kind: type[Record]
    ) -> tuple[list[Record], bool]:
        """Return the first ``limit`` records of a query, and whether there are more."""
        rows = connection.execute(query.limit(limit + 1)).mappings().all()
        records = (self._read(row, kind) for row in rows[:limit])
        return [record for record in records if record is not None], len(rows) > limit

    def _fail(self, row: Row) -> None:
        """Let an open batch whose row is no record fail, with defaults where these make it one."""
        message = "The record of the batch was damaged: send its lines in a new one."
        values: dict[str, Any] = {
            "status": "failed", "errors": [{"code": DAMAGED, "message": message, "param": None, "line": None}]
        }  # fmt: skip
        try:
            to_record({**row, **values}, BatchRecord)
        except ValidationError as error:
            for fault in error.errors(include_input=False):
                field = BatchRecord.model_fields[str(fault["loc"][0])]
                if not field.is_required():
                    values[str(fault["loc"][0])] = field.default
        with self._database.writing() as connection:
            connection.execute(
                update(database.batches).where(database.batches.c.number == row["number"]).values(values)
            )
