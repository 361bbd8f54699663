"""Record files, batches and the results of their lines, so that whatever dies, every line counts exactly once.

Each method is one transaction. Safe to call from several threads, and beside other processes. A row that is no record,
because something else has written to the database, is left out wherever it would be found, and logged once.
"""

import logging
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias, TypeVar

from pydantic import ValidationError
from sqlalchemy import ColumnElement, Connection, Select, Table, delete, false, func, insert, select, update
from sqlalchemy.dialects import postgresql, sqlite

from deployments.batch.state import database
from deployments.batch.state.database import Database, StoreError
from deployments.batch.state.records import OPEN, TERMINAL, BatchRecord, FileRecord, Kind, LineResult, Status

logger = logging.getLogger("ray.serve")

__all__ = ["Store", "StoreError", "TooManyBytesError", "TooManyOpenError", "UnknownCursorError"]

DAMAGED: Final = "record_damaged"
"""The code of the error of a batch whose row was no record."""

_CHUNK: Final = 500
"""Values looked for in one statement; SQLite took 999 before 2020."""

Record = TypeVar("Record", FileRecord, BatchRecord)
Row: TypeAlias = Mapping[Any, Any]


class UnknownCursorError(Exception):
    """The owner has no record of the id after which a list was to continue."""


class TooManyBytesError(Exception):
    """The owner's files would have more bytes together than they may."""


class TooManyOpenError(Exception):
    """As many batches are open as there may be, of the owner or, unless ``of_owner``, of all together."""

    def __init__(self, *, of_owner: bool) -> None:
        super().__init__("too many open batches" + (" of this owner" if of_owner else ""))
        self.of_owner = of_owner


class Store:
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
                _lock_additions(connection)
                others = database.files.c.id != file.id
                if _sum_bytes(connection, file.owner, others) + file.num_bytes > max_bytes_of_owner:
                    raise TooManyBytesError
            _put_file(connection, file)

    def file(self, owner: str | None, file_id: str) -> FileRecord | None:
        """Return the file if it is the owner's; with None, anyone's."""
        with self._database.reading() as connection:
            query = select(database.files).where(*_is_named(database.files, owner, file_id))
            return self._one_of(connection, query, FileRecord)

    def has_file(self, file_id: str) -> bool:
        """Return whether there is a row for a file, whatever is in it."""
        with self._database.reading() as connection:
            query = select(database.files.c.id).where(*_is_named(database.files, None, file_id))
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
            query = _page_of(connection, query, database.files, owner, after, newest_first)
            return self._first_of(connection, query, limit, FileRecord)

    def delete_file(self, owner: str | None, file_id: str) -> bool:
        """Delete the record of a file; return whether there was one."""
        with self._database.writing() as connection:
            return (
                connection.execute(delete(database.files).where(*_is_named(database.files, owner, file_id))).rowcount
                > 0
            )

    def expired_files(self, now: int) -> list[FileRecord]:
        """Return the files of all owners that have expired at ``now``."""
        with self._database.reading() as connection:
            query = select(database.files).where(database.files.c.expires_at <= now)
            return self._all_of(connection, query, FileRecord)

    def num_files_bytes(self, owner: str) -> int:
        """Return the bytes of all files of the owner, results included."""
        with self._database.reading() as connection:
            return _sum_bytes(connection, owner)

    # Batches

    def add_batch(self, batch: BatchRecord, *, max_open: int, max_open_of_owner: int) -> None:
        """Add a batch unless too many are open. Concurrent additions wait for each other.

        Raises:
            TooManyOpenError: It was not added.
        """
        is_open = database.batches.c.status.in_(OPEN)
        with self._database.writing() as connection:
            _lock_additions(connection)
            if _count_batches(connection, is_open, database.batches.c.owner == batch.owner) >= max_open_of_owner:
                raise TooManyOpenError(of_owner=True)
            if _count_batches(connection, is_open) >= max_open:
                raise TooManyOpenError(of_owner=False)
            connection.execute(insert(database.batches).values(batch.model_dump()))

    def batch(self, owner: str | None, batch_id: str) -> BatchRecord | None:
        """Return the batch if it is the owner's; with None, anyone's."""
        with self._database.reading() as connection:
            query = select(database.batches).where(*_is_named(database.batches, owner, batch_id))
            return self._one_of(connection, query, BatchRecord)

    def batches(self, owner: str, kind: Kind, *, after: str | None, limit: int) -> tuple[list[BatchRecord], bool]:
        """Return at most ``limit`` of the owner's batches after ``after``, newest first, and whether there are more.

        Raises:
            UnknownCursorError: The owner has no batch ``after``.
        """
        query = select(database.batches).where(database.batches.c.owner == owner, database.batches.c.kind == kind)
        with self._database.reading() as connection:
            query = _page_of(connection, query, database.batches, owner, after, newest_first=True)
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
            row = _lock_batch(connection, batch_id, (*OPEN, *TERMINAL))
            if row is not None:
                _delete_lines(connection, row["number"])
                connection.execute(delete(database.batches).where(database.batches.c.number == row["number"]))

    def update_batch(self, batch_id: str, *, only_from: Collection[Status], **changes: Any) -> BatchRecord | None:
        """Change fields of a batch that is in one of these statuses; return None where it is in another, or gone.

        Raises:
            ValueError: A change is no field of a batch, or has a value that the field cannot have.
        """
        with self._database.writing() as connection:
            row = _lock_batch(connection, batch_id, only_from)
            return None if row is None else _change_batch(connection, row, changes)

    def finish(
        self, batch_id: str, *, only_from: Collection[Status], files: Sequence[FileRecord], **changes: Any
    ) -> BatchRecord | None:
        """End a batch: add its files, change it, and delete its lines.

        Return None where it is in another status, or gone.

        Raises:
            ValueError: As ``update_batch``.
        """
        with self._database.writing() as connection:
            row = _lock_batch(connection, batch_id, only_from)
            if row is None:
                return None
            for file in files:
                _put_file(connection, file)
            _delete_lines(connection, row["number"])
            return _change_batch(connection, row, changes)

    # Lines

    def record(self, batch_id: str, results: Sequence[LineResult]) -> int:
        """Record results of lines of an open batch, and count them; a line keeps its first result.

        Returns:
            How many lines had none before; 0 where the batch has ended or is gone.
        """
        with self._database.writing() as connection:
            row = _lock_batch(connection, batch_id, OPEN)
            if row is None:
                return 0
            # The batch is locked, so no result is added between the look and the insertion.
            new = {result.line: result for result in reversed(results)}
            for line in _select_recorded(connection, row["number"], sorted(new)):
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
                connection.scalars(select(database.results.c.line).where(_is_line_of(database.results, batch_id)))
            )

    def results(self, batch_id: str, *, after_line: int, limit: int) -> list[LineResult]:
        """Return at most ``limit`` results of lines after ``after_line``, in the order of the lines."""
        of = database.results.c
        query = select(of.line, of.is_error, of.record).where(
            _is_line_of(database.results, batch_id), of.line > after_line
        )
        with self._database.reading() as connection:
            rows = connection.execute(query.order_by(of.line).limit(limit)).mappings()
            return [LineResult.model_validate(dict(row)) for row in rows]

    def attempts(self, batch_id: str) -> dict[int, int]:
        """Return how many attempts ``add_attempts`` counted for each line; others are left out."""
        of = database.attempts.c
        with self._database.reading() as connection:
            rows = connection.execute(select(of.line, of.attempts).where(_is_line_of(database.attempts, batch_id)))
            return {row.line: row.attempts for row in rows}

    def add_attempts(self, batch_id: str, lines: Collection[int]) -> None:
        """Count one more attempt for each of these lines of an open batch."""
        with self._database.writing() as connection:
            row = _lock_batch(connection, batch_id, OPEN)
            if row is not None and lines:
                one_more = {"attempts": database.attempts.c.attempts + 1}
                put = _upsert(connection, database.attempts, ("batch", "line"), one_more)
                connection.execute(
                    put, [{"batch": row["number"], "line": line, "attempts": 1} for line in sorted(set(lines))]
                )

    # Rows that may be no records

    def _read(self, row: Row, kind: type[Record]) -> Record | None:
        """Return a row as a record; None where it is none, which is logged once."""
        try:
            return _to_record(row, kind)
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
            _to_record({**row, **values}, BatchRecord)
        except ValidationError as error:
            for fault in error.errors(include_input=False):
                field = BatchRecord.model_fields[str(fault["loc"][0])]
                if not field.is_required():
                    values[str(fault["loc"][0])] = field.default
        with self._database.writing() as connection:
            connection.execute(
                update(database.batches).where(database.batches.c.number == row["number"]).values(values)
            )


# Parts of transactions: each takes the connection of one.


def _is_named(table: Table, owner: str | None, record_id: str) -> list[ColumnElement[bool]]:
    """Return the conditions for the record of an id: the owner's, or anyone's with None."""
    if not (record_id.isascii() and record_id.isprintable()):
        return [false()]  # comes from a client; PostgreSQL refuses a statement with a NUL in it
    return [table.c.id == record_id, *([] if owner is None else [table.c.owner == owner])]


def _page_of(
    connection: Connection, query: Select[Any], table: Table, owner: str, after: str | None, newest_first: bool
) -> Select[Any]:
    """Return the query ordered by age, continued after the owner's record ``after``."""
    number = table.c.number
    if after is not None:
        cursor = connection.scalar(select(number).where(*_is_named(table, owner, after)))
        if cursor is None:
            raise UnknownCursorError
        query = query.where(number < cursor if newest_first else number > cursor)
    return query.order_by(number.desc() if newest_first else number)


def _lock_additions(connection: Connection) -> None:
    """Wait until no other transaction counts before it adds. SQLite has one that writes at a time anyway."""
    connection.execute(select(database.schema.c.version).with_for_update())


def _sum_bytes(connection: Connection, owner: str, *conditions: ColumnElement[bool]) -> int:
    """Return the bytes of the owner's files that meet the conditions, together."""
    query = select(func.sum(database.files.c.num_bytes)).where(database.files.c.owner == owner, *conditions)
    return int(connection.scalar(query) or 0)


def _count_batches(connection: Connection, *conditions: ColumnElement[bool]) -> int:
    return connection.scalar(select(func.count()).select_from(database.batches).where(*conditions)) or 0


def _lock_batch(connection: Connection, batch_id: str, statuses: Collection[Status]) -> Row | None:
    """Return the batch's row if it has one of these statuses, locked until the transaction ends."""
    of = database.batches.c
    query = select(database.batches).where(of.id == batch_id, of.status.in_(statuses)).with_for_update()
    return connection.execute(query).mappings().one_or_none()


def _change_batch(connection: Connection, row: Row, changes: Mapping[str, Any]) -> BatchRecord:
    """Validate the batch with the changes, and write them."""
    changed = BatchRecord.model_validate({**_to_record(row, BatchRecord).model_dump(), **changes})
    values = {name: value for name, value in changed.model_dump().items() if name in changes}
    if values:
        connection.execute(update(database.batches).where(database.batches.c.number == row["number"]).values(values))
    return changed


def _put_file(connection: Connection, file: FileRecord) -> None:
    values = file.model_dump()
    connection.execute(_upsert(connection, database.files, ("id",), values), values)


def _upsert(connection: Connection, table: Table, key: Sequence[str], changes: Mapping[str, Any]) -> Any:
    """Return an insertion that makes these changes where a row has the key already."""
    is_sqlite = connection.dialect.name == "sqlite"
    into: Any = sqlite.insert(table) if is_sqlite else postgresql.insert(table)
    return into.on_conflict_do_update(index_elements=list(key), set_=dict(changes))


def _select_recorded(connection: Connection, number: int, lines: Sequence[int]) -> Iterator[int]:
    """Yield those of the lines that have a result already."""
    of = database.results.c
    for start in range(0, len(lines), _CHUNK):
        query = select(of.line).where(of.batch == number, of.line.in_(lines[start : start + _CHUNK]))
        yield from connection.scalars(query)


def _is_line_of(table: Table, batch_id: str) -> ColumnElement[bool]:
    """Return the condition for the rows of a batch's lines."""
    number = select(database.batches.c.number).where(database.batches.c.id == batch_id).scalar_subquery()
    return table.c.batch == number


def _delete_lines(connection: Connection, number: int) -> None:
    """Delete the results and the attempts of a batch's lines."""
    for table in (database.results, database.attempts):
        connection.execute(delete(table).where(table.c.batch == number))


def _to_record(row: Row, kind: type[Record]) -> Record:
    return kind.model_validate({name: row[name] for name in kind.model_fields})
