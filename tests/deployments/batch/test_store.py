"""Files, batches and lines in both kinds of database: each line counts once, whoever records it and whatever dies."""

import random
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from deployments.batch.models import OPEN, TERMINAL, Batch, File, LineResult
from deployments.batch.store import BatchStore, TooManyBytesError, TooManyOpenError, UnknownCursorError
from tests.deployments.batch.recorder import NUM_LINES
from tests.deployments.batch.world import a_batch, a_file, a_result, add, found

SOME_RESULTS = st.lists(st.builds(a_result, st.integers(1, 12), st.text("ab", min_size=1), is_error=st.booleans()))


def ids(page: tuple[Sequence[File | Batch], bool]) -> tuple[list[str], bool]:
    records, has_more = page
    return [record.id for record in records], has_more


def in_threads(function: Callable[[int], object], num_calls: int = 24) -> list[Any]:
    """What eight threads get for 0, 1, …; None for what is refused."""

    def attempt(index: int) -> object:
        try:
            return function(index) or index
        except (TooManyOpenError, TooManyBytesError):
            return None

    with ThreadPoolExecutor(8) as threads:
        return list(threads.map(attempt, range(num_calls)))


class TestFiles:
    def test_a_file_comes_back_as_it_was_to_its_owner_only_until_it_is_deleted(self, store: BatchStore) -> None:
        values: dict[str, Any] = {
            "filename": "új 词\N{PILE OF POO}.jsonl",
            "num_bytes": 2**40,
            "expires_at": 2**33,
        }
        store.add_file(a_file(**values))
        assert store.file("anna", "file-1") == store.file(None, "file-1") == a_file(**values)
        assert store.has_file("file-1")
        assert store.file("bert", "file-1") is None
        assert store.files("bert", purpose=None, after=None, limit=10) == ([], False)
        with pytest.raises(UnknownCursorError):
            store.files("bert", purpose=None, after="file-1", limit=10)
        for _ in range(2):
            store.delete_file("file-1")
        assert store.file("anna", "file-1") is None
        assert not store.has_file("file-1")
        assert store.num_files_bytes("anna") == 0

    def test_files_come_in_pages_in_the_order_in_which_they_were_added(self, store: BatchStore) -> None:
        # All in one second, so that the time does not order them.
        purposes = {f"file-{index}": "batch_output" if index == 3 else "batch" for index in range(5)}
        for file_id, purpose in purposes.items():
            store.add_file(a_file(file_id, purpose=purpose))
        for wanted, newest_first, limit in product((None, "batch", "batch_output"), (True, False), (1, 2, 3)):
            listed = [file_id for file_id, purpose in purposes.items() if wanted in (None, purpose)]
            listed = listed[::-1] if newest_first else listed
            for at, after in enumerate([None, *listed]):
                page = store.files("anna", purpose=wanted, after=after, limit=limit, newest_first=newest_first)
                assert ids(page) == (listed[at : at + limit], at + limit < len(listed))

    def test_files_expire_when_their_time_has_come(self, store: BatchStore) -> None:
        for file_id, expires_at in (("file-1", 10), ("file-2", 11), ("file-3", None)):
            store.add_file(a_file(file_id, expires_at=expires_at, owner=file_id))
        assert store.expired_files(10) == [("file-1", 100, 10)]
        assert [file_id for file_id, *_ in store.expired_files(2**40)] == ["file-1", "file-2"]

    def test_as_many_threads_as_like_add_only_so_many_bytes(self, store: BatchStore) -> None:
        store.add_file(a_file("file-of-another", owner="bert", num_bytes=100))
        added = in_threads(lambda i: store.add_file(a_file(f"file-{i + 1}", num_bytes=5), max_bytes_of_owner=25))
        assert (len(added) - added.count(None), store.num_files_bytes("anna")) == (5, 25)


class TestBatches:
    def test_a_batch_comes_back_as_it_was_to_its_owner_only(self, store: BatchStore) -> None:
        values: dict[str, Any] = {
            "kind": "job",
            "metadata_": {"für": "wen \N{PILE OF POO}\0"},
            "errors": [{"code": "bad", "message": "m", "param": None, "line": 3}],
            "output_expires_after_s": 3600,
            "deadline": 2**40,
        }
        add(store, **values)
        assert store.batch("anna", "batch_1") == found(store) == a_batch(**values)
        assert store.batch("bert", "batch_1") is None

    def test_as_many_threads_as_like_add_only_so_many_batches(self, store: BatchStore) -> None:
        added = in_threads(lambda i: store.add_batch(a_batch(f"batch_{i}"), max_open=10, max_open_of_owner=5))
        assert (len(added) - added.count(None), len(store.open_batches())) == (5, 5)

    def test_batches_come_in_pages_newest_first_each_kind_for_itself(self, store: BatchStore) -> None:
        add(store, "batch_1", "batch_2", "batch_3")
        add(store, "job_1", kind="job")
        add(store, "batch_4", owner="bert")
        assert ids(store.batches("anna", "batch", after=None, limit=2)) == (["batch_3", "batch_2"], True)
        assert ids(store.batches("anna", "batch", after="batch_2", limit=2)) == (["batch_1"], False)
        assert ids(store.batches("anna", "job", after=None, limit=2)) == (["job_1"], False)
        with pytest.raises(UnknownCursorError):
            store.batches("anna", "batch", after="batch_4", limit=2)

    def test_open_batches_come_oldest_first(self, store: BatchStore) -> None:
        for status in (*TERMINAL, *OPEN):
            add(store, f"batch_{status}", status=status, total=5, completed=1, failed=2)
        assert [batch.status for batch in store.open_batches()] == list(OPEN)
        assert {batch.num_left for batch in store.open_batches()} == {2}

    def test_a_batch_is_old_by_the_time_of_its_end(self, store: BatchStore) -> None:
        add(store, "batch_1", status="completed", completed_at=200)
        add(store, "batch_2", status="failed", failed_at=201)
        add(store, "batch_3", status="expired", expired_at=199)
        add(store, "batch_4", status="cancelled", cancelling_at=100, cancelled_at=202)
        add(store, "batch_5")
        assert store.old_batches(100) == []
        assert store.old_batches(201) == [("batch_1", 200), ("batch_3", 199)]
        assert len(store.old_batches(2**40)) == 4

    def test_a_batch_changes_from_the_statuses_it_may_have(self, store: BatchStore) -> None:
        add(store)
        changes: dict[str, Any] = {"status": "in_progress", "in_progress_at": 101, "total": 3}
        changed = store.update_batch("batch_1", only_from=["validating"], **changes)
        assert found(store) == changed == a_batch(**changes)
        assert store.update_batch("batch_1", only_from=["validating"], status="failed") is None
        assert store.update_batch("batch_1", only_from=[], status="failed") is None
        assert store.update_batch("batch_2", only_from=OPEN, status="failed") is None
        assert found(store) == changed

    def test_of_many_that_change_a_batch_from_one_status_one_does(self, store: BatchStore) -> None:
        add(store)
        with ThreadPoolExecutor(8) as threads:
            changed = threads.map(
                lambda at: store.update_batch("batch_1", only_from=["validating"], status="failed", failed_at=at),
                range(16),
            )
        assert [batch for batch in changed if batch] == [found(store)]

    def test_a_deleted_batch_leaves_nothing_to_a_new_one(self, store: BatchStore) -> None:
        add(store)
        store.record("batch_1", [a_result(1)])
        store.add_attempt("batch_1", 2)
        for _ in range(2):
            store.delete_batch("batch_1")
        assert store.batch(None, "batch_1") is None
        add(store)
        assert (all_results(store), store.attempts(found(store))) == ({}, {})


def all_results(store: BatchStore, batch_id: str = "batch_1") -> dict[int, LineResult]:
    """By line, while nobody records: they and the counts are read in two transactions."""
    batch = found(store, batch_id)
    results = store.results(batch, after_line=0, limit=10_000)
    if batch.status in OPEN:
        num_failed = sum(result.is_error for result in results)
        assert (batch.completed, batch.failed) == (len(results) - num_failed, num_failed)
    by_line = {result.line: result for result in results}
    assert list(by_line) == sorted(by_line)
    assert len(by_line) == len(results)
    assert store.recorded_lines(batch, 1, 10_000) == by_line.keys()
    return by_line


class TestLines:
    @pytest.fixture(autouse=True)
    def _batch(self, store: BatchStore) -> None:
        add(store)

    def test_results_come_back_in_the_order_of_the_lines(self, store: BatchStore) -> None:
        text = '{"words": "últimas 词 \\u0000"}'
        assert store.record("batch_1", [a_result(line, text, is_error=line == 2) for line in (5, 2, 3, 1)]) == 4
        expected = {line: a_result(line, text, is_error=line == 2) for line in (1, 2, 3, 5)}
        assert all_results(store) == expected
        batch = found(store)
        assert store.results(batch, after_line=0, limit=3) == [expected[line] for line in (1, 2, 3)]
        assert store.results(batch, after_line=3, limit=3) == [expected[5]]
        assert store.recorded_lines(batch, 2, 4) == {2, 3}

    def test_a_line_keeps_its_first_result(self, store: BatchStore) -> None:
        assert store.record("batch_1", [a_result(1, "first"), a_result(1, "same call", is_error=True)]) == 1
        assert store.record("batch_1", [a_result(1, "later", is_error=True), a_result(2, "new", is_error=True)]) == 1
        assert store.record("batch_1", [a_result(1, "later")]) == 0
        assert store.record("batch_1", []) == 0
        assert [result.record for result in all_results(store).values()] == ["first", "new"]
        # Many at once, of which some are known.
        assert store.record("batch_1", [a_result(line) for line in range(1, 2001)]) == 1998
        assert store.record("batch_1", [a_result(line) for line in range(1000, 3001)]) == 1000
        assert len(all_results(store)) == 3000

    def test_nothing_is_recorded_for_a_batch_that_is_at_its_end_or_gone(self, store: BatchStore) -> None:
        store.update_batch("batch_1", only_from=OPEN, status="cancelling")
        assert store.record("batch_1", [a_result(1)]) == 1
        store.update_batch("batch_1", only_from=OPEN, status="cancelled")
        for batch_id in ("batch_1", "batch_2"):
            store.add_attempt(batch_id, 2)
            assert store.record(batch_id, [a_result(2)]) == 0
        assert (list(all_results(store)), store.attempts(found(store))) == ([1], {})

    def test_attempts_are_counted_for_each_line_without_a_result(self, store: BatchStore) -> None:
        for line in (1, 2, 2, 3, 4):
            store.add_attempt("batch_1", line)
        store.record("batch_1", [a_result(4)])
        assert store.attempts(found(store)) == {1: 1, 2: 2, 3: 1}

    def test_a_finished_batch_has_its_files_and_no_lines(self, store: BatchStore) -> None:
        add(store, "batch_2")
        for batch_id in ("batch_1", "batch_2"):
            store.record(batch_id, [a_result(1), a_result(2, is_error=True)])
            store.add_attempt(batch_id, 3)
        names = ("file-out", "file-err")
        ended: dict[str, Any] = {"status": "completed", "completed_at": 200, "output_file_id": "file-out"}
        files = [a_file(name, purpose="batch_output") for name in names]
        finished = store.finish("batch_1", only_from=["validating"], files=files, **ended)
        assert found(store) == finished == a_batch(completed=1, failed=1, **ended)
        assert [store.file("anna", name) for name in names] == [a_file(name, purpose="batch_output") for name in names]
        assert (all_results(store), store.attempts(finished)) == ({}, {})
        assert (len(all_results(store, "batch_2")), store.attempts(found(store, "batch_2"))) == (2, {3: 1})
        # A second one, which was about to do the same, comes too late.
        assert store.finish("batch_1", only_from=["validating"], files=[a_file("file-3")], status="failed") is None
        assert store.file(None, "file-3") is None
        assert store.record("batch_1", [a_result(3)]) == 0

    def test_a_process_that_dies_while_it_finishes_a_batch_has_done_nothing(
        self, store: BatchStore, database_url: str
    ) -> None:
        store.record("batch_1", [a_result(1)])
        assert recorder(database_url, "finish").wait(timeout=60) == -9
        assert store.file(None, "file-out") is None
        assert found(store) == a_batch(completed=1)
        # Nor does it keep others from it.
        assert store.record("batch_1", [a_result(2)]) == 1
        assert all_results(store).keys() == {1, 2}
        assert store.finish("batch_1", only_from=OPEN, files=[a_file("file-out")], status="completed") is not None

    @settings(max_examples=settings().max_examples // 2, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(steps=st.lists(st.lists(st.tuples(st.booleans(), SOME_RESULTS), min_size=1, max_size=3), max_size=6))
    def test_a_line_counts_once_however_often_and_from_wherever_it_is_recorded(
        self, store: BatchStore, database_url: str, steps: list[list[tuple[bool, list[LineResult]]]]
    ) -> None:
        """Each step records several lists at once, from here or through a store of its own that is opened for it."""
        batch_id = f"batch_{uuid.uuid4().hex}"
        add(store, batch_id)

        def record(call: tuple[bool, list[LineResult]]) -> int:
            is_elsewhere, results = call
            recorder = BatchStore(database_url) if is_elsewhere else store
            try:
                return recorder.record(batch_id, results)
            finally:
                if is_elsewhere:
                    recorder.close()

        with ThreadPoolExecutor(3) as threads:
            for step in steps:
                before = all_results(store, batch_id)
                num_new = sum(threads.map(record, step))
                after = all_results(store, batch_id)
                offered = [result for _, results in step for result in results]
                assert num_new == len(after) - len(before)
                assert after.keys() == before.keys() | {result.line for result in offered}
                assert all(
                    result == before[line] if line in before else result in offered for line, result in after.items()
                )
        store.delete_batch(batch_id)

    @pytest.mark.slow
    @pytest.mark.parallel
    def test_processes_that_are_killed_at_any_time_leave_no_line_twice_and_none_half(
        self, store: BatchStore, database_url: str
    ) -> None:
        before: dict[int, LineResult] = {}
        for _ in range(4):
            processes = [recorder(database_url, "record") for _ in range(2)]
            wait_for = len(before) + random.randrange(1, 60)
            while len(store.recorded_lines(found(store), 1, NUM_LINES)) < wait_for:
                assert [process.poll() for process in processes] == [None, None]
                time.sleep(0.002)
            for process in processes:
                process.kill()
                process.wait()
            after = all_results(store)
            assert {line: after[line] for line in before} == before
            before = after
        assert recorder(database_url, "record").wait(timeout=60) == 0
        assert all_results(store).keys() == set(range(1, NUM_LINES + 1))
        assert store.attempts(found(store)) == {}


def recorder(url: str, what: str) -> "subprocess.Popen[bytes]":
    return subprocess.Popen([sys.executable, "-m", "tests.deployments.batch.recorder", url, what])
