"""Record files, batches and the results of their lines in a database, so that whatever dies, every line counts once.

The database is SQLite or PostgreSQL. Each method of ``BatchStore`` is one transaction.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final, TypeVar

from sqlalchemy import ColumnElement, Select, delete, func, inspect, select, text
from sqlalchemy.exc import DBAPIError, SQLAlchemyError
from sqlalchemy.orm import Session

from deployments.batch.database import StoreError, open_engine, parse_url
from deployments.batch.models import (
    OPEN,
    SCHEMA_VERSION,
    TERMINAL,
    Attempts,
    Batch,
    File,
    Kind,
    LineResult,
    Model,
    OpenBatch,
    Schema,
    Status,
)

Named = TypeVar("Named", File, Batch)

_ON_CREATION: Final = 0x776F7264626E64
"""The advisory lock that lets one process at a time create tables in a PostgreSQL database; any number would do."""


class DamagedRecordError(StoreError):
    """A row is no record, because something else has written to the database; the text says what the operator does."""

    def __init__(self, what: str, cause: object) -> None:
        text = f"{what} in the database is damaged: {cause}"[:400]
        super().__init__(f"{text}. Mend its row, delete it, or restore the database from a backup.")


class UnknownCursorError(Exception):
    """The owner has no record of the id after which a list was to continue."""


class TooManyBytesError(Exception):
    """The owner's files would have more bytes together than they may."""


class TooManyOpenError(Exception):
    """As many batches are open as there may be, of the owner or, unless ``of_owner``, of all together."""

    def __init__(self, *, of_owner: bool) -> None:
        super().__init__("too many open batches" + (" of this owner" if of_owner else ""))
        self.of_owner = of_owner


class BatchStore:
    """The records of files, batches and their lines. May be used from several threads, beside other processes.

    Every method may raise ``StoreError``; nothing of its transaction has happened then, or, where the connection to
    a server broke at its very end, all of it. Any may be repeated, except that what adds a file or a batch fails then.

    Args:
        url: ``sqlite:///<file>``, whose folder is made, or ``postgresql+psycopg://user:password@host/name``.
        lock_wait_s: How long a transaction waits for another one. The longest is the end of a batch of 100,000 lines,
            which deletes its rows.

    Raises:
        StoreError: The database cannot be opened, or a newer release has written it.
    """

    def __init__(self, url: str, *, lock_wait_s: float = 30.0) -> None:
        parsed = parse_url(url)
        self._password = str(parsed.password or "")
        with self._failures("the database"):
            self._engine = open_engine(parsed, lock_wait_s)
        # A reading transaction of SQLite's that wants to write later fails at once if another one writes first.
        self._writer = self._engine.execution_options(writing=True)
        try:
            self._create_tables()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        self._engine.dispose()

    # Files

    def add_file(self, file: File, *, max_bytes_of_owner: int | None = None) -> None:
        """Add a file. Concurrent additions with a limit wait for each other.

        Raises:
            TooManyBytesError: It was not added.
        """
        with self._writing(file.id) as session:
            if max_bytes_of_owner is not None:
                _lock_additions(session)
                if _num_bytes(session, file.owner) + file.num_bytes > max_bytes_of_owner:
                    raise TooManyBytesError
            session.add(file)

    def file(self, owner: str | None, file_id: str) -> File | None:
        """Return the file if it is the owner's; with None, anyone's."""
        with self._reading(file_id) as session:
            return session.scalar(select(File).where(*_is_named(File, owner, file_id)))

    def has_file(self, file_id: str) -> bool:
        """Return whether there is a row for a file, whatever is in it."""
        with self._reading(file_id) as session:
            return session.scalar(select(File.number).where(File.id == file_id)) is not None

    def files(
        self, owner: str, *, purpose: str | None, after: str | None, limit: int, newest_first: bool = True
    ) -> tuple[list[File], bool]:
        """Return at most ``limit`` of the owner's files after the file ``after``, and whether there are more.

        Raises:
            UnknownCursorError: The owner has no file ``after``.
        """
        conditions = [] if purpose is None else [File.purpose == purpose]
        return self._page(File, owner, conditions, after, limit, newest_first)

    def delete_file(self, file_id: str) -> None:
        """Delete the record of a file, if it is there."""
        with self._writing(file_id) as session:
            session.execute(delete(File).where(File.id == file_id))

    def expired_files(self, now: int) -> list[tuple[str, int, int]]:
        """Return the files of all owners that have expired at ``now``: id, and when it was made and expired."""
        query = select(File.id, File.created_at, File.expires_at).where(File.expires_at <= now)
        with self._reading("a file") as session:
            return [(file_id, made, expired or now) for file_id, made, expired in session.execute(query)]

    def num_files_bytes(self, owner: str) -> int:
        """Return the bytes of all files of the owner, results included."""
        with self._reading(f"a file of {owner}") as session:
            return _num_bytes(session, owner)

    # Batches

    def add_batch(self, batch: Batch, *, max_open: int, max_open_of_owner: int) -> None:
        """Add a batch unless too many are open. Concurrent additions wait for each other.

        Raises:
            TooManyOpenError: It was not added.
        """
        query = select(func.count()).select_from(Batch).where(Batch.status.in_(OPEN))
        with self._writing(batch.id) as session:
            _lock_additions(session)
            if (session.scalar(query.where(Batch.owner == batch.owner)) or 0) >= max_open_of_owner:
                raise TooManyOpenError(of_owner=True)
            if (session.scalar(query) or 0) >= max_open:
                raise TooManyOpenError(of_owner=False)
            session.add(batch)

    def batch(self, owner: str | None, batch_id: str) -> Batch | None:
        """Return the batch if it is the owner's; with None, anyone's."""
        with self._reading(batch_id) as session:
            return session.scalar(select(Batch).where(*_is_named(Batch, owner, batch_id)))

    def batches(self, owner: str, kind: Kind, *, after: str | None, limit: int) -> tuple[list[Batch], bool]:
        """Return at most ``limit`` of the owner's batches after ``after``, newest first, and whether there are more.

        Raises:
            UnknownCursorError: The owner has no batch ``after``.
        """
        return self._page(Batch, owner, [Batch.kind == kind], after, limit, newest_first=True)

    def open_batches(self) -> list[OpenBatch]:
        """Return the batches that have not ended, oldest first, also those whose row is damaged."""
        num_left = Batch.total - Batch.completed - Batch.failed
        of = Batch.id, Batch.owner, Batch.status, Batch.input_file_id, Batch.created_at, Batch.deadline, num_left
        with self._reading("an open batch") as session:
            rows = session.execute(select(*of).where(Batch.status.in_(OPEN)).order_by(Batch.number))
            return [OpenBatch(*row) for row in rows]

    def old_batches(self, before: int) -> list[tuple[str, int]]:
        """Return the batches that ended before this time, oldest first: id and end."""
        ended_at = func.coalesce(
            Batch.completed_at, Batch.failed_at, Batch.expired_at, Batch.cancelled_at, Batch.created_at
        )
        query = select(Batch.id, ended_at).where(Batch.status.in_(TERMINAL), ended_at < before).order_by(Batch.number)
        with self._reading("a batch") as session:
            return [(batch_id, at) for batch_id, at in session.execute(query)]

    def delete_batch(self, batch_id: str) -> None:
        """Delete a batch, if it is there, with the records of its lines but without its files."""
        with self._writing(batch_id) as session:
            number = session.scalar(select(Batch.number).where(Batch.id == batch_id).with_for_update())
            if number is not None:
                _delete_lines(session, number)
                session.execute(delete(Batch).where(Batch.number == number))

    def update_batch(self, batch_id: str, *, only_from: Collection[Status], **changes: Any) -> Batch | None:
        """Change a batch that is in one of these statuses; return None where it is in another, or gone."""
        with self._writing(batch_id) as session:
            batch = _lock_batch(session, batch_id, only_from)
            if batch is not None:
                _change(batch, changes)
            return batch

    def finish(
        self, batch_id: str, *, only_from: Collection[Status], files: Sequence[File], **changes: Any
    ) -> Batch | None:
        """End a batch: add its files, change it, and delete its lines.

        Return None where it is in another status, or gone.
        """
        with self._writing(batch_id) as session:
            batch = _lock_batch(session, batch_id, only_from)
            if batch is not None:
                session.add_all(files)
                _delete_lines(session, batch.number)
                _change(batch, changes)
            return batch

    # Lines

    def record(self, batch_id: str, results: Sequence[LineResult]) -> int:
        """Record results of lines of an open batch, and count them; a line keeps its first result.

        Returns:
            How many lines had none before; 0 where the batch has ended or is gone.
        """
        if not results:
            return 0
        with self._writing(batch_id) as session:
            batch = _lock_batch(session, batch_id, OPEN)
            if batch is None:
                return 0
            # The batch is locked, so no result is added between the look and the insertion.
            new = {result.line: result for result in reversed(results)}
            for line in session.scalars(_recorded(batch.number, min(new), max(new))):
                new.pop(line, None)
            for result in new.values():
                result.batch = batch.number
                session.add(result)
            num_failed = sum(result.is_error for result in new.values())
            batch.completed += len(new) - num_failed
            batch.failed += num_failed
            return len(new)

    def recorded_lines(self, batch: Batch, first: int, last: int) -> set[int]:
        """Return the lines of a batch that have a result, of those from ``first`` to ``last``."""
        with self._reading(batch.id) as session:
            return set(session.scalars(_recorded(batch.number, first, last)))

    def results(self, batch: Batch, *, after_line: int, limit: int) -> list[LineResult]:
        """Return at most ``limit`` results of lines after ``after_line``, in the order of the lines."""
        query = select(LineResult).where(LineResult.batch == batch.number, LineResult.line > after_line)
        with self._reading(batch.id) as session:
            return list(session.scalars(query.order_by(LineResult.line).limit(limit)))

    def attempts(self, batch: Batch) -> dict[int, int]:
        """Return how many attempts ``add_attempt`` counted for each line that has no result; others are left out."""
        is_recorded = select(LineResult).where(LineResult.batch == Attempts.batch, LineResult.line == Attempts.line)
        query = select(Attempts.line, Attempts.attempts).where(Attempts.batch == batch.number, ~is_recorded.exists())
        with self._reading(batch.id) as session:
            return {row.line: row.attempts for row in session.execute(query)}

    def add_attempt(self, batch_id: str, line: int) -> None:
        """Count one more attempt for a line of an open batch."""
        with self._writing(batch_id) as session:
            batch = _lock_batch(session, batch_id, OPEN)
            if batch is not None:
                known = session.get(Attempts, (batch.number, line))
                attempts = known or Attempts(batch=batch.number, line=line, attempts=0)
                attempts.attempts += 1
                session.add(attempts)

    def _page(
        self,
        model: type[Named],
        owner: str,
        conditions: Sequence[ColumnElement[bool]],
        after: str | None,
        limit: int,
        newest_first: bool,
    ) -> tuple[list[Named], bool]:
        query = select(model).where(model.owner == owner, *conditions)
        with self._reading(f"a record of {owner}") as session:
            if after is not None:
                cursor = session.scalar(select(model.number).where(*_is_named(model, owner, after)))
                if cursor is None:
                    raise UnknownCursorError
                query = query.where(model.number < cursor if newest_first else model.number > cursor)
            query = query.order_by(model.number.desc() if newest_first else model.number)
            found = session.scalars(query.limit(limit + 1)).all()
        return list(found[:limit]), len(found) > limit

    @contextmanager
    def _reading(self, what: str) -> Iterator[Session]:
        """Begin a transaction that only reads, about what an error names."""
        with self._failures(what), Session(self._engine, expire_on_commit=False) as session, session.begin():
            yield session

    @contextmanager
    def _writing(self, what: str) -> Iterator[Session]:
        """Begin a transaction that is undone if the body raises; in SQLite the only one that writes."""
        with self._failures(what), Session(self._writer, expire_on_commit=False) as session, session.begin():
            yield session

    @contextmanager
    def _failures(self, what: str) -> Iterator[None]:
        """Turn every failure of the database into a ``StoreError`` without password or contents."""
        try:
            yield
        except SQLAlchemyError as error:
            # Its own text holds the statement, and could hold what a client sent.
            cause = error.orig if isinstance(error, DBAPIError) and error.orig is not None else error
            message = " ".join(f"{type(cause).__name__}: {cause}".split())
            if self._password:
                message = message.replace(self._password, "***")
            raise StoreError(message[:500]) from None
        except (LookupError, ValueError) as error:
            raise DamagedRecordError(what, error) from None

    def _create_tables(self) -> None:
        """Create the tables that are missing; refuse a database that a newer release has written."""
        with self._writing("the version") as session:
            connection = session.connection()
            if connection.dialect.name == "postgresql":
                connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _ON_CREATION})
            version = None
            if inspect(connection).has_table(Schema.__tablename__):
                version = session.scalar(select(Schema.version))
            if version is not None and version > SCHEMA_VERSION:
                raise StoreError(
                    f"a newer release of wordbound has written this database: its version is {version}, and this"
                    f" release knows version {SCHEMA_VERSION}. Install the newer release, or name another database."
                )
            Model.metadata.create_all(connection)
            if version is None:
                session.add(Schema(id=1, version=SCHEMA_VERSION))


def _is_named(model: type[File] | type[Batch], owner: str | None, record_id: str) -> list[ColumnElement[bool]]:
    return [model.id == record_id, *([] if owner is None else [model.owner == owner])]


def _lock_additions(session: Session) -> None:
    """Wait until no other transaction counts before it adds. SQLite has one that writes at a time anyway."""
    session.execute(select(Schema.version).with_for_update())


def _num_bytes(session: Session, owner: str) -> int:
    return int(session.scalar(select(func.sum(File.num_bytes)).where(File.owner == owner)) or 0)


def _lock_batch(session: Session, batch_id: str, statuses: Collection[Status]) -> Batch | None:
    """Return the batch if it has one of these statuses, locked until the transaction ends."""
    return session.scalar(select(Batch).where(Batch.id == batch_id, Batch.status.in_(statuses)).with_for_update())


def _change(batch: Batch, changes: Mapping[str, Any]) -> None:
    for name, value in changes.items():
        setattr(batch, name, value)


def _recorded(number: int, first: int, last: int) -> Select[int]:
    return select(LineResult.line).where(LineResult.batch == number, LineResult.line.between(first, last))


def _delete_lines(session: Session, number: int) -> None:
    for model in (LineResult, Attempts):
        session.execute(delete(model).where(model.batch == number))
