"""Remembers files, batches and the results of their lines, so that whatever dies, every line counts exactly once.

Each method is one transaction. Knows what must change together; knows nothing of HTTP, of engines, of the clock, or of
what files hold. May be called from several threads, and while another process uses the same database.
"""

from collections.abc import Collection, Sequence
from typing import Any

from sqlalchemy import ColumnElement, delete, func, insert, select, update

from deployments.batch.state import queries, tables
from deployments.batch.state.database import Database, StoreError
from deployments.batch.state.queries import UnknownCursorError
from deployments.batch.state.records import OPEN, TERMINAL, BatchRecord, FileRecord, Kind, LineResult, Status

__all__ = ["Store", "StoreError", "TooManyOpenError", "UnknownCursorError"]


class TooManyOpenError(Exception):
    """As many batches are open as there may be.

    Attributes:
        of_owner: Whether it is the owner's number that is reached, or that of all together.
    """

    def __init__(self, *, of_owner: bool) -> None:
        super().__init__("too many open batches" + (" of this owner" if of_owner else ""))
        self.of_owner = of_owner


class Store:
    """What is remembered of batches.

    Every method may raise ``StoreError``; nothing of its transaction has happened then, or, where the connection to a
    server broke at its very end, all of it. Repeating any of them is harmless, except that ``add_batch`` fails then.

    Args:
        url: As ``Database`` takes it.

    Raises:
        StoreError: The database cannot be opened, or a newer release has written it.
    """

    def __init__(self, url: str) -> None:
        self._database = Database(url)

    def close(self) -> None:
        self._database.close()

    # Files

    def add_file(self, file: FileRecord) -> None:
        """Adds it, or replaces the one of the same id."""
        with self._database.writing() as connection:
            queries.put_file(connection, file)

    def file(self, owner: str | None, file_id: str) -> FileRecord | None:
        """The file if it is the owner's; with None, whoever's."""
        with self._database.reading() as connection:
            query = select(tables.files).where(*queries.is_named(tables.files, owner, file_id))
            row = connection.execute(query).mappings().one_or_none()
        return tables.to_file(row) if row else None

    def files(
        self, owner: str, *, purpose: str | None, after: str | None, limit: int, newest_first: bool = True
    ) -> tuple[list[FileRecord], bool]:
        """At most ``limit`` of the owner's files, those that come after the file ``after``, and whether there are more.

        Raises:
            UnknownCursorError: The owner has no file ``after``.
        """
        query = select(tables.files).where(tables.files.c.owner == owner)
        if purpose is not None:
            query = query.where(tables.files.c.purpose == purpose)
        with self._database.reading() as connection:
            query = queries.page_of(connection, query, tables.files, owner, after, newest_first)
            return queries.first_of(connection, query, limit, tables.to_file)

    def delete_file(self, owner: str | None, file_id: str) -> bool:
        """Whether there was one."""
        with self._database.writing() as connection:
            return (
                connection.execute(delete(tables.files).where(*queries.is_named(tables.files, owner, file_id))).rowcount
                > 0
            )

    def expired_files(self, now: int) -> list[FileRecord]:
        with self._database.reading() as connection:
            query = select(tables.files).where(tables.files.c.expires_at <= now)
            return [tables.to_file(row) for row in connection.execute(query).mappings()]

    def num_files_bytes(self, owner: str) -> int:
        """Bytes of all files of the owner, those that were made for it included."""
        with self._database.reading() as connection:
            query = select(func.sum(tables.files.c.num_bytes)).where(tables.files.c.owner == owner)
            return int(connection.scalar(query) or 0)

    # Batches

    def add_batch(self, batch: BatchRecord, *, max_open: int, max_open_of_owner: int) -> None:
        """Adds it unless too many are open; who adds another one meanwhile waits.

        Raises:
            TooManyOpenError: It was not added.
        """
        is_open = tables.batches.c.status.in_(OPEN)
        with self._database.writing() as connection:
            connection.execute(select(tables.schema.c.version).with_for_update())
            if queries.count_batches(connection, is_open, tables.batches.c.owner == batch.owner) >= max_open_of_owner:
                raise TooManyOpenError(of_owner=True)
            if queries.count_batches(connection, is_open) >= max_open:
                raise TooManyOpenError(of_owner=False)
            connection.execute(insert(tables.batches).values(batch.model_dump()))

    def batch(self, owner: str | None, batch_id: str) -> BatchRecord | None:
        """The batch if it is the owner's; with None, whoever's."""
        with self._database.reading() as connection:
            query = select(tables.batches).where(*queries.is_named(tables.batches, owner, batch_id))
            row = connection.execute(query).mappings().one_or_none()
        return tables.to_batch(row) if row else None

    def batches(self, owner: str, kind: Kind, *, after: str | None, limit: int) -> tuple[list[BatchRecord], bool]:
        """At most ``limit`` of the owner's batches, newest first, those after the batch ``after``, and whether more.

        Raises:
            UnknownCursorError: The owner has no batch ``after``.
        """
        query = select(tables.batches).where(tables.batches.c.owner == owner, tables.batches.c.kind == kind)
        with self._database.reading() as connection:
            query = queries.page_of(connection, query, tables.batches, owner, after, newest_first=True)
            return queries.first_of(connection, query, limit, tables.to_batch)

    def open_batches(self) -> list[BatchRecord]:
        """Those that are not at their end, oldest first."""
        return self._batches_where(tables.batches.c.status.in_(OPEN))

    def old_batches(self, before: int) -> list[BatchRecord]:
        """Those that came to their end before this time, oldest first."""
        of = tables.batches.c
        ended_at = func.coalesce(of.completed_at, of.failed_at, of.expired_at, of.cancelled_at, of.created_at)
        return self._batches_where(of.status.in_(TERMINAL), ended_at < before)

    def delete_batch(self, batch_id: str) -> None:
        """With what is remembered of its lines, but without its files. One that is gone is fine."""
        with self._database.writing() as connection:
            row = queries.lock_batch(connection, batch_id, (*OPEN, *TERMINAL))
            if row is not None:
                queries.delete_lines(connection, row["number"])
                connection.execute(delete(tables.batches).where(tables.batches.c.number == row["number"]))

    def update_batch(self, batch_id: str, *, only_from: Collection[Status], **changes: Any) -> BatchRecord | None:
        """Changes fields of a batch that is in one of these statuses; None where it is in another, or gone.

        Raises:
            ValueError: A change is no field of a batch, or has a value that the field cannot have.
        """
        with self._database.writing() as connection:
            row = queries.lock_batch(connection, batch_id, only_from)
            return None if row is None else queries.change_batch(connection, row, changes)

    def finish(
        self, batch_id: str, *, only_from: Collection[Status], files: Sequence[FileRecord], **changes: Any
    ) -> BatchRecord | None:
        """Adds the batch's files, changes it, and forgets its lines; None where it is in another status, or gone.

        Raises:
            ValueError: As ``update_batch``.
        """
        with self._database.writing() as connection:
            row = queries.lock_batch(connection, batch_id, only_from)
            if row is None:
                return None
            for file in files:
                queries.put_file(connection, file)
            queries.delete_lines(connection, row["number"])
            return queries.change_batch(connection, row, changes)

    # Lines

    def record(self, batch_id: str, results: Sequence[LineResult]) -> int:
        """Remembers results of lines of an open batch, and counts them; a line keeps the first result it got.

        Returns:
            How many lines had none before; 0 where the batch is at its end or gone.
        """
        with self._database.writing() as connection:
            row = queries.lock_batch(connection, batch_id, OPEN)
            if row is None:
                return 0
            # The batch is locked: nobody adds results between the look and the insertion.
            new = {result.line: result for result in reversed(results)}
            for line in queries.recorded_among(connection, row["number"], sorted(new)):
                del new[line]
            if new:
                rows = [{"batch": row["number"], **result.model_dump()} for result in new.values()]
                connection.execute(insert(tables.results), rows)
                num_failed = sum(result.is_error for result in new.values())
                counts = {"completed": row["completed"] + len(new) - num_failed, "failed": row["failed"] + num_failed}
                connection.execute(update(tables.batches).where(tables.batches.c.id == batch_id).values(counts))
            return len(new)

    def recorded_lines(self, batch_id: str) -> set[int]:
        with self._database.reading() as connection:
            return set(
                connection.scalars(select(tables.results.c.line).where(queries.is_line_of(tables.results, batch_id)))
            )

    def results(self, batch_id: str, *, after_line: int, limit: int) -> list[LineResult]:
        """At most ``limit`` results, in the order of the lines, those of lines after ``after_line``."""
        of = tables.results.c
        query = select(of.line, of.is_error, of.record).where(
            queries.is_line_of(tables.results, batch_id), of.line > after_line
        )
        with self._database.reading() as connection:
            rows = connection.execute(query.order_by(of.line).limit(limit)).mappings()
            return [LineResult.model_validate(dict(row)) for row in rows]

    def attempts(self, batch_id: str) -> dict[int, int]:
        """How often each line was counted by ``add_attempts``; lines that never were are left out."""
        of = tables.attempts.c
        with self._database.reading() as connection:
            rows = connection.execute(select(of.line, of.attempts).where(queries.is_line_of(tables.attempts, batch_id)))
            return {row.line: row.attempts for row in rows}

    def add_attempts(self, batch_id: str, lines: Collection[int]) -> None:
        """Counts one more attempt for each of these lines of an open batch."""
        with self._database.writing() as connection:
            row = queries.lock_batch(connection, batch_id, OPEN)
            if row is not None and lines:
                one_more = {"attempts": tables.attempts.c.attempts + 1}
                put = queries.upsert(connection, tables.attempts, ("batch", "line"), one_more)
                connection.execute(
                    put, [{"batch": row["number"], "line": line, "attempts": 1} for line in sorted(set(lines))]
                )

    def _batches_where(self, *conditions: ColumnElement[bool]) -> list[BatchRecord]:
        query = select(tables.batches).where(*conditions).order_by(tables.batches.c.number)
        with self._database.reading() as connection:
            return [tables.to_batch(row) for row in connection.execute(query).mappings()]
