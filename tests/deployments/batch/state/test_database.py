"""How databases are opened, refused and found gone."""

import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from sqlalchemy import select, text, update

from deployments.batch.state.database import SCHEMA_VERSION, Database, StoreError, schema
from deployments.batch.state.store import BatchStore
from tests.deployments.batch.full_disk import no_room
from tests.deployments.batch.postgresql_server import PASSWORD, PostgresqlServer
from tests.deployments.batch.remembered import a_batch, a_file, a_result


@contextmanager
def opened(url: str) -> Iterator[Database]:
    database = Database(url)
    try:
        yield database
    finally:
        database.close()


def test_what_was_remembered_is_there_when_it_is_opened_again(database_url: str) -> None:
    for expected in (None, a_file()):
        store = BatchStore(database_url)
        assert store.file("anna", "file-1") == expected
        store.add_file(a_file())
        store.close()


def test_a_database_of_a_newer_release_is_refused_and_left_alone(database_url: str) -> None:
    with opened(database_url) as database, database.writing() as connection:
        connection.execute(update(schema).values(version=SCHEMA_VERSION + 1))
        connection.execute(text("DROP TABLE wordbound_files"))
    for _ in range(2):
        with pytest.raises(StoreError, match=r"newer release .* version is 2, .* knows version 1"):
            Database(database_url)
    with opened_as_it_is(database_url) as database, database.reading() as connection:
        assert connection.dialect.has_table(connection, "wordbound_results")
        assert not connection.dialect.has_table(connection, "wordbound_files")


@contextmanager
def opened_as_it_is(url: str) -> Iterator[Database]:
    class AsItIs(Database):
        def _create_tables(self) -> None:
            pass

    database = AsItIs(url)
    try:
        yield database
    finally:
        database.close()


def test_threads_that_open_a_new_database_at_once_make_one(database_url: str) -> None:
    def open_and_look(_: int) -> int | None:
        with opened(database_url) as database, database.reading() as connection:
            return connection.scalar(select(schema.c.version))

    with ThreadPoolExecutor(8) as threads:
        assert set(threads.map(open_and_look, range(16))) == {SCHEMA_VERSION}


def test_processes_that_open_a_new_database_at_once_make_one(database_url: str) -> None:
    use = "BatchStore(sys.argv[1]).num_files_bytes('anna')"
    program = f"import sys; from deployments.batch.state.store import BatchStore; {use}"
    processes = [subprocess.Popen([sys.executable, "-c", program, database_url]) for _ in range(4)]
    assert [process.wait(timeout=60) for process in processes] == [0, 0, 0, 0]


def test_a_new_database_that_another_process_writes_to_is_waited_for(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "new.db", isolation_level=None)) as other, ThreadPoolExecutor(1) as threads:
        other.execute("BEGIN IMMEDIATE")
        opening = threads.submit(Database, f"sqlite:///{tmp_path}/new.db")
        assert wait([opening], timeout=0.3).not_done
        other.execute("COMMIT")
        opening.result(timeout=10).close()


def test_a_transaction_that_fails_is_undone_as_a_whole(database_url: str) -> None:
    with opened(database_url) as database:
        with pytest.raises(ZeroDivisionError), database.writing() as connection:
            connection.execute(text("DELETE FROM wordbound_schema"))
            raise ZeroDivisionError
        with database.reading() as connection:
            assert connection.scalar(select(schema.c.version)) == SCHEMA_VERSION


def test_an_error_tells_nothing_of_what_clients_sent(database_url: str) -> None:
    store = BatchStore(database_url)
    store.add_batch(a_batch(metadata={"a": "secret"}), max_open=9, max_open_of_owner=9)
    with pytest.raises(StoreError, match="batch") as caught:
        store.add_batch(a_batch(metadata={"a": "secret"}), max_open=9, max_open_of_owner=9)
    store.close()
    assert "secret" not in str(caught.value)
    assert caught.value.__suppress_context__


def test_a_sqlite_file_is_for_its_owner_only_and_survives_a_power_cut(tmp_path: Path) -> None:
    with opened(f"sqlite:///{tmp_path}/state/batches.sqlite") as database:
        assert (tmp_path / "state").stat().st_mode & 0o777 == 0o700
        with database.reading() as connection:
            pragmas = [
                connection.exec_driver_sql(f"PRAGMA {name}").scalar() for name in ("journal_mode", "synchronous")
            ]
    assert pragmas == ["wal", 2]


def test_a_reader_does_not_wait_for_a_writer(tmp_path: Path) -> None:
    with opened(f"sqlite:///{tmp_path}/batches.sqlite") as database, database.writing() as writer:
        writer.execute(update(schema).values(version=0))
        with database.reading() as reader:
            assert reader.scalar(select(schema.c.version)) == SCHEMA_VERSION


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("batches.sqlite", "expected sqlite:///<file> or postgresql"),
        ("postgresql+psycopg://anna:sesame@host:port/name", "expected sqlite:///<file> or postgresql"),
        ("mysql+pymysql://anna:sesame@host/name", r"'mysql\+pymysql' is not known"),
        ("sqlite+aiosqlite:///file", r"'sqlite\+aiosqlite' is not known"),
        ("sqlite://", "a file that stays"),
        ("sqlite:///:memory:", "a file that stays"),
        ("sqlite:///file::memory:?uri=true", "a file that stays"),
        ("sqlite:////proc/batches/state.sqlite", "the database's folder cannot be made"),
        ("postgresql://anna:sesame@127.0.0.1:1/name", "OperationalError: .* port 1 failed"),
        ("postgresql://anna:sesame@127.0.0.1:1/name?no_such_option=sesame", r"invalid .*option .*no_such_option"),
    ],
)
def test_what_cannot_be_opened_is_refused_without_its_password(url: str, message: str) -> None:
    with pytest.raises(StoreError, match=message) as caught:
        Database(url)
    assert "sesame" not in str(caught.value)


def test_without_postgresqls_driver_the_message_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(StoreError, match=r"pip install \"psycopg\[binary\]"):
        Database("postgresql+psycopg://anna@host/name")


def test_a_file_that_is_no_database_is_refused_and_kept(tmp_path: Path) -> None:
    file = tmp_path / "letters.txt"
    file.write_text("Dear Anna, " * 1000)
    with pytest.raises(StoreError, match="not a database"):
        Database(f"sqlite:///{file}")
    assert file.read_text().startswith("Dear Anna, ")


def test_a_full_disk_is_an_error_and_what_was_there_stays(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/batches.sqlite"
    store = BatchStore(url)
    store.add_batch(a_batch(), max_open=1, max_open_of_owner=1)
    assert store.record("batch_1", [a_result(1)]) == 1
    with no_room(2**18), pytest.raises(StoreError, match="disk"):
        store.record("batch_1", [a_result(line, "x" * 2**17) for line in range(2, 10)])
    assert store.recorded_lines("batch_1") == {1}
    assert store.record("batch_1", [a_result(2)]) == 1
    batch = store.batch(None, "batch_1")
    store.close()
    assert batch == a_batch(completed=2)


def test_a_sqlite_file_that_another_program_holds_is_an_error_after_a_while(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("deployments.batch.state.database._LOCK_WAIT_S", 0.2)
    store = BatchStore(f"sqlite:///{tmp_path}/batches.sqlite")
    with closing(sqlite3.connect(tmp_path / "batches.sqlite", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreError, match="locked"):
            store.add_file(a_file())
        other.execute("ROLLBACK")
    store.add_file(a_file())
    store.close()


@pytest.mark.postgres
def test_a_wrong_password_is_an_error_that_does_not_tell_it(postgresql: PostgresqlServer) -> None:
    url = postgresql.new_database().replace(PASSWORD, "close-sesame")
    with pytest.raises(StoreError, match="password authentication failed") as caught:
        Database(url)
    assert "close-sesame" not in str(caught.value)


@pytest.mark.postgres
def test_a_server_may_be_restarted(postgresql: PostgresqlServer) -> None:
    store = BatchStore(postgresql.new_database())
    store.add_file(a_file())
    postgresql.stop()
    with pytest.raises(StoreError, match="failed"):
        store.file(None, "file-1")
    postgresql.start()
    assert store.file(None, "file-1") == a_file()
    store.close()


@pytest.mark.postgres
def test_a_connection_that_breaks_in_a_transaction_is_an_error_and_the_next_one_works(
    postgresql: PostgresqlServer,
) -> None:
    with opened(postgresql.new_database()) as database:
        with pytest.raises(StoreError), database.writing() as connection:
            connection.execute(update(schema).values(version=0))
            pid = connection.scalar(text("SELECT pg_backend_pid()"))
            with database.reading() as other:
                other.execute(text("SELECT pg_terminate_backend(:pid)"), {"pid": pid})
            connection.execute(select(schema))
        with database.reading() as connection:
            assert connection.scalar(select(schema.c.version)) == SCHEMA_VERSION


@pytest.mark.postgres
def test_a_batch_that_somebody_holds_is_an_error_after_a_while(
    postgresql: PostgresqlServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("deployments.batch.state.database._LOCK_WAIT_S", 1)
    url = postgresql.new_database()
    store = BatchStore(url)
    store.add_batch(a_batch(), max_open=1, max_open_of_owner=1)
    with opened(url) as other, other.writing() as connection:
        connection.execute(text("SELECT * FROM wordbound_batches FOR UPDATE"))
        with pytest.raises(StoreError, match="lock timeout"):
            store.record("batch_1", [a_result(1)])
    assert store.record("batch_1", [a_result(1)]) == 1
    store.close()
