"""Open the database of batches, SQLite or PostgreSQL, so that transactions behave the same in both."""

import sqlite3
import time
from functools import partial
from pathlib import Path
from typing import Final, cast

from sqlalchemy import URL, Connection, Engine, create_engine, event, make_url
from sqlalchemy.engine.interfaces import DBAPIConnection, DBAPICursor
from sqlalchemy.exc import ArgumentError
from sqlalchemy.pool import ConnectionPoolEntry

_SERVER_OPTIONS: Final = {"connect_timeout": 10, "keepalives_idle": 30, "tcp_user_timeout": 30_000}
"""libpq's, in seconds and milliseconds: a server that has vanished is an error within a minute. A URL may override."""


class StoreError(Exception):
    """The database failed; the text is for the log, and holds neither password nor contents."""


def parse_url(url: str) -> URL:
    """Parse a database's URL.

    Raises:
        StoreError: It is of another kind, or SQLite without a file.
    """
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


def open_engine(url: URL, lock_wait_s: float) -> Engine:
    """Create SQLAlchemy's engine for SQLite, with the folder of its file, or for PostgreSQL.

    A connection with the execution option ``writing`` takes SQLite's lock at the begin of its transaction. Whatever
    waits longer than ``lock_wait_s`` for another transaction fails.

    Raises:
        StoreError: The folder cannot be made, or there is no driver.
    """
    # The parameters of a statement are what clients sent; they are kept out of every message.
    if url.drivername == "postgresql+psycopg":
        return _postgresql(url, lock_wait_s)
    try:
        # What clients wrote is private.
        Path(str(url.database)).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise StoreError(f"the database's folder cannot be made: {error}") from None
    engine = create_engine(url, hide_parameters=True, connect_args={"timeout": lock_wait_s})
    event.listen(engine, "connect", partial(_prepare_sqlite, lock_wait_s))
    event.listen(engine, "begin", _begin_sqlite)
    return engine


def _postgresql(url: URL, lock_wait_s: float) -> Engine:
    """Create SQLAlchemy's engine for PostgreSQL, with timeouts."""
    options = {name: value for name, value in _SERVER_OPTIONS.items() if name not in url.query}
    try:
        # Statements prepared on the server would not survive a pooler between us and it.
        engine = create_engine(
            url, hide_parameters=True, pool_pre_ping=True, connect_args={**options, "prepare_threshold": None}
        )
    except ModuleNotFoundError:
        raise StoreError('PostgreSQL needs a driver: pip install "psycopg[binary]>=3.2,<4"') from None
    event.listen(engine, "connect", partial(_prepare_postgresql, lock_wait_s))
    return engine


def _prepare_sqlite(lock_wait_s: float, connection: DBAPIConnection, _entry: ConnectionPoolEntry) -> None:
    """Set up a new connection of SQLite: write-ahead log, and an fsync for each transaction."""
    # Otherwise Python's module begins transactions where it thinks fit.
    cast("sqlite3.Connection", connection).isolation_level = None
    cursor = connection.cursor()
    _write_ahead(cursor, lock_wait_s)
    # What a client was told to exist survives a power cut too. Costs an fsync per transaction, 1 to 10 ms; NORMAL
    # would save it, and survive the death of processes only.
    cursor.execute("PRAGMA synchronous=FULL")
    # The log is truncated after a large transaction.
    cursor.execute(f"PRAGMA journal_size_limit={64 * 2**20}")
    cursor.close()


def _write_ahead(cursor: DBAPICursor, lock_wait_s: float) -> None:
    """Choose SQLite's write-ahead log, with which readers and the writer do not wait for each other.

    Of several connections that change the mode of a new file at once, SQLite refuses some without their timeout.
    """
    deadline = time.monotonic() + lock_wait_s
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


def _prepare_postgresql(lock_wait_s: float, connection: DBAPIConnection, _entry: ConnectionPoolEntry) -> None:
    """Set the timeouts of a new connection of PostgreSQL."""
    cursor = connection.cursor()
    cursor.execute(f"SET lock_timeout = {round(lock_wait_s * 1000)}")
    # A node that lost its network inside a transaction must not hold a batch for the hours that TCP takes to notice.
    cursor.execute("SET idle_in_transaction_session_timeout = '60s'")
    cursor.close()
    connection.commit()
