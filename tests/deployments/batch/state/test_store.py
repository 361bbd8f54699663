"""Files and batches, in both kinds of database; their lines are in ``test_store_lines``."""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy import Table, update

from deployments.batch.state import database
from deployments.batch.state.records import OPEN, TERMINAL, BatchRecord, FileRecord
from deployments.batch.state.statements import UnknownCursorError
from deployments.batch.state.store import DAMAGED, BatchStore, TooManyBytesError, TooManyOpenError
from tests.deployments.batch.remembered import a_batch, a_file, a_result


@pytest.fixture
def store(database_url: str) -> Iterator[BatchStore]:
    store = BatchStore(database_url)
    yield store
    store.close()


def add(store: BatchStore, *batch_ids: str, **fields: object) -> None:
    for batch_id in batch_ids:
        store.add_batch(a_batch(batch_id, **fields), max_open=1000, max_open_of_owner=1000)


def ids(page: tuple[Sequence[FileRecord | BatchRecord], bool]) -> tuple[list[str], bool]:
    records, has_more = page
    return [record.id for record in records], has_more


def test_a_file_comes_back_as_it_was(store: BatchStore) -> None:
    file = a_file(filename="últimas 词\N{PILE OF POO}.jsonl", num_bytes=2**40, expires_at=2**33)
    store.add_file(file)
    assert store.file("anna", "file-1") == file
    assert store.file(None, "file-1") == file


def test_a_file_of_another_owner_is_as_good_as_none(store: BatchStore) -> None:
    store.add_file(a_file())
    assert store.file("bert", "file-1") is None
    assert not store.delete_file("bert", "file-1")
    assert store.files("bert", purpose=None, after=None, limit=10) == ([], False)
    with pytest.raises(UnknownCursorError):
        store.files("bert", purpose=None, after="file-1", limit=10)


def test_a_file_added_again_is_replaced_where_it_stands(store: BatchStore) -> None:
    store.add_file(a_file("file-1", num_bytes=5))
    store.add_file(a_file("file-2", num_bytes=7))
    store.add_file(a_file("file-1", num_bytes=6))
    assert [file.num_bytes for file in store.files("anna", purpose=None, after=None, limit=10)[0]] == [7, 6]
    assert store.num_files_bytes("anna") == 13


def test_a_deleted_file_is_gone(store: BatchStore) -> None:
    store.add_file(a_file("file-1"))
    store.add_file(a_file("file-2"))
    assert store.delete_file("anna", "file-1")
    assert store.delete_file(None, "file-2")
    assert not store.delete_file("anna", "file-1")
    assert store.file("anna", "file-1") is None
    assert store.num_files_bytes("anna") == 0


def test_an_id_that_no_database_could_hold_is_nobodys(store: BatchStore) -> None:
    for strange in ("file-\0", "file-\ud800", "file-ü", "x" * 10_000):
        assert store.file("anna", strange) is None
        assert store.batch("anna", strange) is None
        assert not store.delete_file("anna", strange)
        with pytest.raises(UnknownCursorError):
            store.batches("anna", "batch", after=strange, limit=1)


def test_files_come_in_pages_in_the_order_in_which_they_were_added(store: BatchStore) -> None:
    # All in one second, so that the time does not order them.
    for index in range(5):
        store.add_file(a_file(f"file-{index}", purpose="batch_output" if index == 3 else "batch"))

    def page(after: str | None, **choice: object) -> tuple[list[str], bool]:
        choices = {"purpose": None, "limit": 2, **choice}
        return ids(store.files("anna", after=after, **choices))  # type: ignore[arg-type]

    assert page(None) == (["file-4", "file-3"], True)
    assert page("file-3") == (["file-2", "file-1"], True)
    assert page("file-1") == (["file-0"], False)
    assert page("file-0") == ([], False)
    assert page(None, newest_first=False, limit=3) == (["file-0", "file-1", "file-2"], True)
    assert page("file-2", newest_first=False) == (["file-3", "file-4"], False)
    assert page(None, purpose="batch") == (["file-4", "file-2"], True)
    assert page("file-2", purpose="batch") == (["file-1", "file-0"], False)
    assert page(None, purpose="batch_output", limit=1) == (["file-3"], False)


def test_a_page_after_what_was_deleted_is_an_error(store: BatchStore) -> None:
    with pytest.raises(UnknownCursorError):
        store.files("anna", purpose=None, after="file-1", limit=10)


def test_files_expire_when_their_time_has_come(store: BatchStore) -> None:
    for file_id, expires_at in (("file-1", 10), ("file-2", 11), ("file-3", None)):
        store.add_file(a_file(file_id, expires_at=expires_at, owner=file_id))
    assert [file.id for file in store.expired_files(10)] == ["file-1"]
    assert [file.id for file in store.expired_files(2**40)] == ["file-1", "file-2"]


def test_a_batch_comes_back_as_it_was(store: BatchStore) -> None:
    batch = a_batch(
        kind="job",
        metadata={"für": "wen \N{PILE OF POO}\0"},
        errors=[{"code": "bad", "message": "m", "param": None, "line": 3}],
        output_expires_after_s=3600,
        deadline=2**40,
    )
    store.add_batch(batch, max_open=1, max_open_of_owner=1)
    assert store.batch("anna", "batch_1") == batch
    assert store.batch(None, "batch_1") == batch
    assert store.batch("bert", "batch_1") is None


def test_only_so_many_batches_are_open(store: BatchStore) -> None:
    add(store, "batch_1", "batch_2")
    add(store, "batch_3", owner="bert")
    with pytest.raises(TooManyOpenError) as own:
        store.add_batch(a_batch("batch_4"), max_open=10, max_open_of_owner=2)
    with pytest.raises(TooManyOpenError) as all_together:
        store.add_batch(a_batch("batch_4"), max_open=3, max_open_of_owner=3)
    assert (own.value.of_owner, all_together.value.of_owner) == (True, False)
    assert store.batch(None, "batch_4") is None
    store.update_batch("batch_1", only_from=OPEN, status="completed")
    store.add_batch(a_batch("batch_4"), max_open=3, max_open_of_owner=2)


def test_as_many_threads_as_like_add_only_so_many_batches(store: BatchStore) -> None:
    def try_to_add(index: int) -> bool:
        try:
            store.add_batch(a_batch(f"batch_{index}"), max_open=10, max_open_of_owner=5)
        except TooManyOpenError:
            return False
        return True

    with ThreadPoolExecutor(8) as threads:
        added = list(threads.map(try_to_add, range(24)))
    assert (sum(added), len(store.open_batches())) == (5, 5)


def test_as_many_threads_as_like_add_only_so_many_bytes(store: BatchStore) -> None:
    store.add_file(a_file("file-of-another", owner="bert", num_bytes=100))

    def try_to_add(index: int) -> bool:
        try:
            store.add_file(a_file(f"file-{index}", num_bytes=5), max_bytes_of_owner=25)
        except TooManyBytesError:
            return False
        return True

    with ThreadPoolExecutor(8) as threads:
        added = list(threads.map(try_to_add, range(24)))
    assert (sum(added), store.num_files_bytes("anna")) == (5, 25)
    store.add_file(a_file(f"file-{added.index(True)}", num_bytes=4), max_bytes_of_owner=25)


def test_batches_come_in_pages_newest_first_each_kind_for_itself(store: BatchStore) -> None:
    add(store, "batch_1", "batch_2", "batch_3")
    add(store, "job_1", kind="job")
    add(store, "batch_4", owner="bert")
    assert ids(store.batches("anna", "batch", after=None, limit=2)) == (["batch_3", "batch_2"], True)
    assert ids(store.batches("anna", "batch", after="batch_2", limit=2)) == (["batch_1"], False)
    assert ids(store.batches("anna", "job", after=None, limit=2)) == (["job_1"], False)
    with pytest.raises(UnknownCursorError):
        store.batches("anna", "batch", after="batch_4", limit=2)


def test_open_batches_come_oldest_first(store: BatchStore) -> None:
    add(store, *(f"batch_{status}" for status in (*TERMINAL, *OPEN)))
    for status in (*TERMINAL, *OPEN):
        store.update_batch(f"batch_{status}", only_from=["validating"], status=status)
    assert [batch.status for batch in store.open_batches()] == list(OPEN)


def test_a_batch_is_old_by_the_time_of_its_end(store: BatchStore) -> None:
    add(store, "batch_1", "batch_2", "batch_3", "batch_4", "batch_5")
    store.update_batch("batch_1", only_from=OPEN, status="completed", completed_at=200)
    store.update_batch("batch_2", only_from=OPEN, status="failed", failed_at=201)
    store.update_batch("batch_3", only_from=OPEN, status="expired", expired_at=199)
    store.update_batch("batch_4", only_from=OPEN, status="cancelled", cancelling_at=100, cancelled_at=202)
    assert [batch.id for batch in store.old_batches(100)] == []
    assert [batch.id for batch in store.old_batches(201)] == ["batch_1", "batch_3"]
    assert len(store.old_batches(2**40)) == 4


def test_a_batch_changes_from_the_statuses_it_may_have(store: BatchStore) -> None:
    add(store, "batch_1")
    changed = store.update_batch("batch_1", only_from=["validating"], status="in_progress", in_progress_at=101, total=3)
    assert changed == a_batch(status="in_progress", in_progress_at=101, total=3)
    assert store.batch("anna", "batch_1") == changed
    assert store.update_batch("batch_1", only_from=["in_progress"]) == changed
    assert store.update_batch("batch_1", only_from=["validating"], status="failed") is None
    assert store.update_batch("batch_1", only_from=[], status="failed") is None
    assert store.update_batch("batch_2", only_from=OPEN, status="failed") is None
    assert store.batch("anna", "batch_1") == changed


def test_a_change_that_no_batch_can_have_is_refused(store: BatchStore) -> None:
    add(store, "batch_1")
    for change in ({"state": "failed"}, {"status": "done"}, {"total": -1}):
        with pytest.raises(ValueError, match=next(iter(change))):
            store.update_batch("batch_1", only_from=OPEN, **change)
    assert store.batch("anna", "batch_1") == a_batch()


def test_of_many_that_change_a_batch_from_one_status_one_does(store: BatchStore) -> None:
    add(store, "batch_1")
    with ThreadPoolExecutor(8) as threads:
        changed = threads.map(
            lambda at: store.update_batch("batch_1", only_from=["validating"], status="cancelling", cancelling_at=at),
            range(16),
        )
    assert [batch for batch in changed if batch] == [store.batch(None, "batch_1")]


def test_a_deleted_batch_leaves_nothing_to_a_new_one(store: BatchStore) -> None:
    add(store, "batch_1")
    store.record("batch_1", [a_result(1)])
    store.add_attempts("batch_1", [1, 2])
    store.delete_batch("batch_1")
    store.delete_batch("batch_1")
    assert store.batch(None, "batch_1") is None
    add(store, "batch_1")
    assert (store.recorded_lines("batch_1"), store.attempts("batch_1")) == (set(), {})


def damage(store: BatchStore, table: Table, record_id: str, **values: object) -> None:
    with store._database.writing() as connection:
        connection.execute(update(table).where(table.c.id == record_id).values(values))


def test_a_damaged_record_is_left_out_wherever_it_would_be_found_and_logged_once(
    store: BatchStore, caplog: pytest.LogCaptureFixture
) -> None:
    for index in range(3):
        store.add_file(a_file(f"file-{index}", expires_at=5))
    add(store, *(f"batch_{index}" for index in range(3)), status="completed")
    damage(store, database.files, "file-1", purpose="assistants")
    damage(store, database.batches, "batch_1", total=-1)
    assert store.file("anna", "file-1") is None
    assert store.has_file("file-1")
    assert not store.has_file("file-3")
    assert ids(store.files("anna", purpose=None, after=None, limit=2)) == (["file-2"], True)
    assert ids(store.files("anna", purpose=None, after="file-1", limit=2)) == (["file-0"], False)
    assert [file.id for file in store.expired_files(10)] == ["file-0", "file-2"]
    assert store.batch("anna", "batch_1") is None
    assert ids(store.batches("anna", "batch", after=None, limit=3)) == (["batch_2", "batch_0"], False)
    assert [batch.id for batch in store.old_batches(2**40)] == ["batch_0", "batch_2"]
    messages = [record.message for record in caplog.records]
    assert messages == [
        f"{name} cannot be read from the database and is left out: see its {column}"
        for name, column in (("file-1", "purpose"), ("batch_1", "total"))
    ]


@pytest.mark.parametrize("values", [{"total": -1, "failed": -2}, {"kind": "other"}])
def test_an_open_batch_with_a_damaged_record_fails(store: BatchStore, values: dict[str, object]) -> None:
    add(store, "batch_0", "batch_1")
    damage(store, database.batches, "batch_0", **values)
    for _ in range(2):
        assert [batch.id for batch in store.open_batches()] == ["batch_1"]
    failed = store.batch("anna", "batch_0")
    if "kind" in values:
        assert failed is None
    else:
        assert failed is not None
        assert (failed.status, failed.total, failed.failed) == ("failed", 0, 0)
        assert failed.errors[0]["code"] == DAMAGED
    # It takes no place among the open ones.
    store.add_batch(a_batch("batch_2"), max_open=2, max_open_of_owner=2)
