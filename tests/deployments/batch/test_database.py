"""How databases are opened, refused and found gone, and what earlier releases wrote into them."""

import shutil
import sqlite3
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import psycopg
import pytest
from sqlalchemy import text

from deployments.batch.database import StoreError
from deployments.batch.store import BatchStore, DamagedRecordError
from tests.deployments.batch.full_disk import no_room
from tests.deployments.batch.postgresql_server import PASSWORD, PostgresqlServer
from tests.deployments.batch.world import (
    BatchWorld,
    a_batch,
    a_file,
    a_result,
    add,
    another_program,
    assert_every_line_once,
    found,
    until,
)

BEFORE: Final = Path(__file__).parent / "written_before"
"""Dumps of databases, and the files, that commit 01a90e63 wrote, the last one with tables of SQLAlchemy Core."""
DONE, HALF, DAMAGED, OTHER = (f"batch_{number:032x}" for number in (1, 2, 4, 5))
JOB = "job_" + "3" * 32


def test_a_database_of_a_newer_release_is_refused_and_left_alone(database_url: str) -> None:
    with closing(BatchStore(database_url)), another_program(database_url) as connection:
        connection.execute(text("UPDATE wordbound_schema SET version = version + 1"))
        connection.execute(text("DROP TABLE wordbound_files"))
    for _ in range(2):
        with pytest.raises(StoreError, match=r"newer release .* version is 2, .* knows version 1"):
            BatchStore(database_url)
    with another_program(database_url) as connection:
        assert connection.dialect.has_table(connection, "wordbound_results")
        assert not connection.dialect.has_table(connection, "wordbound_files")


def test_threads_and_processes_that_open_a_new_database_at_once_make_one(database_url: str) -> None:
    program = "import sys; from deployments.batch.store import BatchStore; BatchStore(sys.argv[1])"
    processes = [subprocess.Popen([sys.executable, "-c", program, database_url]) for _ in range(3)]
    with ThreadPoolExecutor(8) as threads:
        for store in threads.map(BatchStore, [database_url] * 16):
            store.close()
    assert [process.wait(timeout=60) for process in processes] == [0, 0, 0]
    with another_program(database_url) as connection:
        assert connection.scalars(text("SELECT version FROM wordbound_schema")).all() == [1]


def test_a_new_database_that_another_process_writes_to_is_waited_for(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "new.db", isolation_level=None)) as other, ThreadPoolExecutor(1) as threads:
        other.execute("BEGIN IMMEDIATE")
        opening = threads.submit(BatchStore, f"sqlite:///{tmp_path}/new.db")
        assert wait([opening], timeout=0.3).not_done
        other.execute("COMMIT")
        opening.result(timeout=10).close()


def test_an_error_tells_nothing_of_what_clients_sent(store: BatchStore) -> None:
    add(store, metadata_={"a": "secret"})
    with pytest.raises(StoreError, match="batch") as caught:
        add(store, metadata_={"a": "secret"})
    assert "secret" not in str(caught.value)
    assert caught.value.__suppress_context__


def test_a_transaction_that_fails_is_undone_as_a_whole(store: BatchStore) -> None:
    store.add_file(a_file("file-2"))
    add(store)
    store.record("batch_1", [a_result(1)])
    with pytest.raises(StoreError):
        store.finish("batch_1", only_from=["validating"], files=[a_file("file-3"), a_file("file-2")], status="failed")
    assert store.file(None, "file-3") is None
    batch = found(store)
    assert batch == a_batch(completed=1)
    assert len(store.results(batch, after_line=0, limit=9)) == 1


def test_a_sqlite_file_is_for_its_owner_only_and_survives_a_power_cut(tmp_path: Path) -> None:
    with closing(BatchStore(f"sqlite:///{tmp_path}/state/batches.sqlite")) as store:
        assert (tmp_path / "state").stat().st_mode & 0o777 == 0o700
        with store._engine.connect() as connection:
            names = ("journal_mode", "synchronous")
            assert [connection.exec_driver_sql(f"PRAGMA {name}").scalar() for name in names] == ["wal", 2]


def test_a_reader_does_not_wait_for_a_writer(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/batches.sqlite"
    with closing(BatchStore(url)) as store, another_program(url) as writer:
        writer.execute(text("UPDATE wordbound_schema SET version = 0"))
        assert store.file(None, "file-1") is None


BAD_URLS = [
    ("batches.sqlite", "expected sqlite:///<file> or postgresql"),
    ("postgresql+psycopg://anna:sesame@host:port/name", "expected sqlite:///<file> or postgresql"),
    ("mysql+pymysql://anna:sesame@host/name", "'mysql+pymysql' is not known"),
    ("sqlite+aiosqlite:///file", "'sqlite+aiosqlite' is not known"),
    *((url, "a file that stays") for url in ("sqlite://", "sqlite:///:memory:", "sqlite:///file::memory:?uri=true")),
    ("sqlite:////proc/batches/state.sqlite", "the database's folder cannot be made"),
    ("postgresql://anna:sesame@127.0.0.1:1/name", "port 1 failed"),
    ("postgresql://anna:sesame@127.0.0.1:1/name?no_such_option=sesame", "no_such_option"),
]


def test_what_cannot_be_opened_is_refused_without_its_password() -> None:
    told = {}
    for url, _ in BAD_URLS:
        with pytest.raises(StoreError) as caught:
            BatchStore(url)
        told[url] = str(caught.value)
    assert [told[url] for url, cause in BAD_URLS if cause not in told[url] or "sesame" in told[url]] == []


def test_without_postgresqls_driver_the_message_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(StoreError, match=r"pip install \"psycopg\[binary\]"):
        BatchStore("postgresql+psycopg://anna@host/name")


def test_a_file_that_is_no_database_is_refused_and_kept(tmp_path: Path) -> None:
    file = tmp_path / "letters.txt"
    file.write_text("Dear Anna, " * 1000)
    with pytest.raises(StoreError, match="not a database"):
        BatchStore(f"sqlite:///{file}")
    assert file.read_text().startswith("Dear Anna, ")


@pytest.mark.fault(47)
def test_a_full_disk_is_an_error_and_what_was_there_stays(tmp_path: Path) -> None:
    with closing(BatchStore(f"sqlite:///{tmp_path}/batches.sqlite")) as store:
        add(store)
        assert store.record("batch_1", [a_result(1)]) == 1
        with no_room(2**18), pytest.raises(StoreError, match="disk"):
            store.record("batch_1", [a_result(line, "x" * 2**17) for line in range(2, 10)])
        batch = found(store)
        assert batch == a_batch(completed=1)
        assert store.recorded_lines(batch, 1, 10) == {1}
        assert store.record("batch_1", [a_result(2)]) == 1


def test_a_sqlite_file_that_another_program_holds_is_an_error_after_a_while(tmp_path: Path) -> None:
    with closing(BatchStore(f"sqlite:///{tmp_path}/batches.sqlite", lock_wait_s=0.2)) as store:
        with closing(sqlite3.connect(tmp_path / "batches.sqlite", isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            with pytest.raises(StoreError, match="locked"):
                store.add_file(a_file())
            other.execute("ROLLBACK")
        store.add_file(a_file())


@pytest.mark.postgres
def test_a_wrong_password_is_an_error_that_does_not_tell_it(postgresql: PostgresqlServer) -> None:
    url = postgresql.new_database().replace(PASSWORD, "close-sesame")
    with pytest.raises(StoreError, match="password authentication failed") as caught:
        BatchStore(url)
    assert "close-sesame" not in str(caught.value)


@pytest.mark.postgres
def test_a_server_may_be_restarted(postgresql: PostgresqlServer) -> None:
    with closing(BatchStore(postgresql.new_database())) as store:
        store.add_file(a_file())
        postgresql.stop()
        with pytest.raises(StoreError, match="failed"):
            store.file(None, "file-1")
        postgresql.start()
        assert store.file(None, "file-1") == a_file()


@pytest.mark.postgres
def test_a_batch_that_somebody_holds_and_a_connection_that_breaks_are_errors_that_pass(
    postgresql: PostgresqlServer,
) -> None:
    url = postgresql.new_database()
    with closing(BatchStore(url, lock_wait_s=1)) as store:
        add(store)
        with another_program(url) as other, ThreadPoolExecutor(1) as threads:
            other.execute(text("SELECT * FROM wordbound_batches FOR UPDATE"))
            with pytest.raises(StoreError, match="lock timeout"):
                store.record("batch_1", [a_result(1)])
            recording = threads.submit(store.record, "batch_1", [a_result(1)])
            waits = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
            with psycopg.connect(url.replace("+psycopg", ""), autocommit=True) as watcher:
                while not watcher.execute(waits).fetchall():
                    assert not recording.done()
            with pytest.raises(StoreError, match="terminating connection"):
                recording.result()
        assert store.record("batch_1", [a_result(1)]) == 1


# What an earlier release wrote


def written_before(folder: Path, url: str) -> BatchWorld:
    """The state of the earlier release, opened by this one; its clock begins when that one ended."""
    shutil.copytree(BEFORE / "files", folder / "files")
    if url.startswith("sqlite"):
        file = Path(url.removeprefix("sqlite:///"))
        file.parent.mkdir(exist_ok=True)
        with closing(sqlite3.connect(file)) as connection:
            connection.executescript((BEFORE / "sqlite.sql").read_text())
    else:
        with psycopg.connect(url.replace("+psycopg", "")) as server:
            server.execute((BEFORE / "postgresql.sql").read_bytes())
    world = BatchWorld(folder, database=url)
    world.now = 1_000_000.0
    world.clock = world.new_clock()
    return world


async def test_what_an_earlier_release_wrote_is_finished_and_each_line_is_there_once(
    tmp_path: Path, database_url: str
) -> None:
    world = written_before(tmp_path, database_url)
    done, half, other = (found(world.store, batch_id) for batch_id in (DONE, HALF, OTHER))
    assert (done.owner, done.status) == ("anna", "completed")
    assert (done.metadata_, done.errors) == ({"für": "wen 词"}, [])
    assert world.store.file("anna", done.output_file_id or "") is not None
    assert (half.total, half.completed, half.failed, world.store.attempts(half)) == (5, 1, 1, {3: 1})
    async with world.running():
        await until(lambda: [batch.id for batch in world.store.open_batches()] == [DAMAGED])
    output, errors = assert_every_line_once(world, half, 5)
    assert (sorted(output), len(errors)) == (["row-1", "row-3", "row-4", "row-5"], 0)  # that of line 2 has no name
    assert_every_line_once(world, other, 1)
    # What had a result was not asked again, and a new batch comes after the old ones.
    assert world.engines.asked == {"three": 1, "four": 1, "five": 1, "zero": 1, "good": 1}
    job = found(world.store, JOB)
    assert world.files.child(job.output_file_id or "").read(0, 100) == b'[{"object":"chat.completion","text":"zero"}]'
    add(world.store, "batch_new")
    assert [batch.id for batch in world.store.open_batches()] == [DAMAGED, "batch_new"]
    world.close()


async def test_a_damaged_row_is_an_error_that_says_what_to_do_and_stops_no_other_batch(
    tmp_path: Path, database_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    world = written_before(tmp_path, database_url)
    for read in (
        lambda: world.store.batch("anna", DAMAGED),
        lambda: world.store.update_batch(DAMAGED, only_from=["validating"], status="cancelling"),
        lambda: world.store.record(DAMAGED, [a_result(1)]),
    ):
        with pytest.raises(DamagedRecordError, match=rf"{DAMAGED} .* is damaged: 'other' .* Mend its row, delete it"):
            read()
    await world_runs(world, lambda: f"{DAMAGED} of anna is tried again" in caplog.text)
    assert "Mend its row" in caplog.text
    await world_runs(world, lambda: [batch.id for batch in world.store.open_batches()] == [DAMAGED])
    assert "never" not in world.engines.asked
    # Mended, it runs; deleted, it is gone.
    with another_program(database_url) as connection:
        mended = "UPDATE wordbound_batches SET kind = 'batch', status = 'in_progress', total = {} WHERE id = '{}'"
        connection.execute(text(mended.format(-1, DAMAGED)))
    await world_runs(world, lambda: "it says that it has -1 lines" in caplog.text)
    with another_program(database_url) as connection:
        connection.execute(text(mended.format(1, DAMAGED)))
    await world_runs(world, lambda: not world.store.open_batches())
    assert world.engines.asked["never"] == 1
    world.close()


async def world_runs(world: BatchWorld, is_so: Any) -> None:
    async with world.running(retry_s=(0.01,)):
        await until(is_so)


def test_damage_holds_up_neither_lists_of_others_nor_what_is_deleted(store: BatchStore, database_url: str) -> None:
    for index in range(3):
        store.add_file(a_file(f"file-{index}", expires_at=5))
        add(store, f"batch_{index}", owner=f"owner-{index}", status="completed", completed_at=9)
    with another_program(database_url) as connection:
        connection.execute(text("UPDATE wordbound_files SET purpose = 'assistants' WHERE id = 'file-1'"))
        connection.execute(text("UPDATE wordbound_batches SET kind = 'other' WHERE id = 'batch_1'"))
    for damaged in (
        lambda: store.file("anna", "file-1"),
        lambda: store.files("anna", purpose=None, after=None, limit=2),
        lambda: store.batch("owner-1", "batch_1"),
    ):
        with pytest.raises(DamagedRecordError, match="is damaged"):
            damaged()
    assert len(store.batches("owner-2", "batch", after=None, limit=2)[0]) == 1
    assert store.has_file("file-1")
    assert sorted(file_id for file_id, *_ in store.expired_files(10)) == ["file-0", "file-1", "file-2"]
    assert [batch_id for batch_id, _ in store.old_batches(10)] == ["batch_0", "batch_1", "batch_2"]
    store.delete_file("file-1")
    store.delete_batch("batch_1")
    assert store.file(None, "file-1") is None
    assert store.batch(None, "batch_1") is None


def test_a_new_database_has_the_tables_of_the_earlier_release(tmp_path: Path) -> None:
    schemas = []
    for folder, open_it in ((tmp_path / "old", written_before), (tmp_path / "new", lambda _, url: BatchStore(url))):
        url = f"sqlite:///{folder}/batches.sqlite"
        open_it(folder, url).close()
        with another_program(url) as connection:
            schemas.append(connection.execute(text("SELECT sql FROM sqlite_master ORDER BY name")).scalars().all())
    assert schemas[0] == schemas[1]
