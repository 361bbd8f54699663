"""The database of batches, SQLite or PostgreSQL: its tables, and transactions that behave the same in both.

Every failure is a ``StoreError``. The tables' names begin with ``wordbound_``, as a server's database may hold
others.
"""

import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, cast

from sqlalchemy import (
    JSON,
    URL,
    BigInteger,
    Boolean,
    Column,
    Connection,
    Engine,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    create_engine,
    event,
    inspect,
    make_url,
    select,
    text,
)
from sqlalchemy.engine.interfaces import DBAPIConnection, DBAPICursor
from sqlalchemy.exc import ArgumentError, DBAPIError, SQLAlchemyError
from sqlalchemy.pool import ConnectionPoolEntry

_LOCK_WAIT_S: Final = 30
"""The longest transaction is the end of a batch of 100,000 lines, which deletes its rows."""

_SERVER_OPTIONS: Final = {"connect_timeout": 10, "keepalives_idle": 30, "tcp_user_timeout": 30_000}
"""libpq's, in seconds and milliseconds: a server that has vanished is an error within a minute. A URL may override."""

_ON_CREATION: Final = 0x776F7264626E64
"""The advisory lock that lets one process at a time create tables in a PostgreSQL database; any number would do."""


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
"""One row: the version of all of these tables. Locked while a batch or a client's file is added."""

# ``number`` orders what was made within one second.
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

# The key makes a line count once, however often it is recorded.
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


class StoreError(Exception):
    """The database failed; the text is for the log, and holds neither password nor contents."""


class Database:
    """A database whose tables exist. Safe to use from several threads, beside other processes.

    ``url`` is ``sqlite:///<file>``, whose folder is made, or ``postgresql+psycopg://user:password@host/name``.

    Raises:
        StoreError: It cannot be opened, or a newer release has written it.
    """

    def __init__(self, url: str) -> None:
        parsed = _parse_url(url)
        self._password = str(parsed.password or "")
        with self._errors():
            self._engine = _engine(parsed)
        # A reading transaction of SQLite's that wants to write later fails at once if another one writes first.
        self._writer = self._engine.execution_options(writing=True)
        try:
            self._create_tables()
        except BaseException:
            self.close()
            raise

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """Begin a transaction that only reads."""
        with self._errors(), self._engine.begin() as connection:
            yield connection

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """Begin a transaction that is undone if the body raises; in SQLite the only one that writes."""
        with self._errors(), self._writer.begin() as connection:
            yield connection

    def close(self) -> None:
        self._engine.dispose()

    def _create_tables(self) -> None:
        """Create the tables that are missing; refuse a database that a newer release has written."""
        with self.writing() as connection:
            if connection.dialect.name == "postgresql":
                connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _ON_CREATION})
            version = None
            if inspect(connection).has_table(schema.name):
                version = connection.scalar(select(schema.c.version))
            if version is not None and version > SCHEMA_VERSION:
                raise StoreError(
                    f"a newer release of wordbound has written this database: its version is {version}, and this"
                    f" release knows version {SCHEMA_VERSION}. Install the newer release, or name another database."
                )
            METADATA.create_all(connection)
            if version is None:
                connection.execute(schema.insert().values(id=1, version=SCHEMA_VERSION))

    @contextmanager
    def _errors(self) -> Iterator[None]:
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


def _parse_url(url: str) -> URL:
    """Parse a database's URL; refuse other kinds, and SQLite without a file."""
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError):
        raise StoreError(
            "the database's URL cannot be read; expected sqlite:///<file> or postgresql+psycopg://user:password@host/name"
        ) from None
    if parsed.drivername in ("postgresql", "postgres"):
        parsed = parsed.set(drivername="postgresql+psycopg")
    if parsed.drivername not in ("sqlite", "sqlite+pysqlite", "postgresql+psycopg"):
        raise StoreError(f"a database of the kind {parsed.drivername!r} is not known; use sqlite or postgresql+psycopg")
    if parsed.drivername != "postgresql+psycopg" and (parsed.database or ":").startswith((":", "file:")):
        raise StoreError("batches need a file that stays: name the database as sqlite:///<file>")
    return parsed


def _engine(url: URL) -> Engine:
    """Create SQLAlchemy's engine for SQLite, with the folder of its file, or for PostgreSQL."""
    # The parameters of a statement are what clients sent; they are kept out of every message.
    if url.drivername == "postgresql+psycopg":
        return _postgresql(url)
    try:
        # What clients wrote is private.
        Path(str(url.database)).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise StoreError(f"the database's folder cannot be made: {error}") from None
    engine = create_engine(url, hide_parameters=True, connect_args={"timeout": _LOCK_WAIT_S})
    event.listen(engine, "connect", _prepare_sqlite)
    event.listen(engine, "begin", _begin_sqlite)
    return engine


def _postgresql(url: URL) -> Engine:
    """Create SQLAlchemy's engine for PostgreSQL, with timeouts."""
    options = {name: value for name, value in _SERVER_OPTIONS.items() if name not in url.query}
    try:
        # Statements prepared on the server would not survive a pooler between us and it.
        engine = create_engine(
            url, hide_parameters=True, pool_pre_ping=True, connect_args={**options, "prepare_threshold": None}
        )
    except ModuleNotFoundError:
        raise StoreError('PostgreSQL needs a driver: pip install "psycopg[binary]>=3.2,<4"') from None
    event.listen(engine, "connect", _prepare_postgresql)
    return engine


def _prepare_sqlite(connection: DBAPIConnection, _entry: ConnectionPoolEntry) -> None:
    """Set up a new connection of SQLite: write-ahead log, and an fsync for each transaction."""
    # Otherwise Python's module begins transactions where it thinks fit.
    cast("sqlite3.Connection", connection).isolation_level = None
    cursor = connection.cursor()
    _write_ahead(cursor)
    # What a client was told to exist survives a power cut too. Costs an fsync per transaction, 1 to 10 ms; NORMAL
    # would save it, and survive the death of processes only.
    cursor.execute("PRAGMA synchronous=FULL")
    # The log is truncated after a large transaction.
    cursor.execute(f"PRAGMA journal_size_limit={64 * 2**20}")
    cursor.close()


def _write_ahead(cursor: DBAPICursor) -> None:
    """Choose SQLite's write-ahead log, with which readers and the writer do not wait for each other.

    Of several connections that change the mode of a new file at once, SQLite refuses some without their timeout.
    """
    deadline = time.monotonic() + _LOCK_WAIT_S
    while True:
        try:
            cursor.execute("PRAGMA journal_mode=WAL")
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
        time.sleep(0.01)


def _begin_sqlite(connection: Connection) -> None:
    """Begin a transaction of SQLite; one that is to write takes the lock at once."""
    writing = connection.get_execution_options().get("writing", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writing else "BEGIN")


def _prepare_postgresql(connection: DBAPIConnection, _entry: ConnectionPoolEntry) -> None:
    """Set the timeouts of a new connection of PostgreSQL."""
    cursor = connection.cursor()
    cursor.execute(f"SET lock_timeout = '{_LOCK_WAIT_S}s'")
    # A node that lost its network inside a transaction must not hold a batch for the hours that TCP takes to notice.
    cursor.execute("SET idle_in_transaction_session_timeout = '60s'")
    cursor.close()
    connection.commit()
