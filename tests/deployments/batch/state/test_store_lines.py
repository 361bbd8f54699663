"""What is remembered of lines, in both kinds of database: each counts once, whoever records it and whatever dies."""

import random
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from deployments.batch.state.records import OPEN, LineResult
from deployments.batch.state.store import BatchStore
from tests.deployments.batch.recorder import NUM_LINES
from tests.deployments.batch.remembered import a_batch, a_file, a_result

SOME_RESULTS = st.lists(st.builds(a_result, st.integers(1, 12), st.text("ab", min_size=1), is_error=st.booleans()))


@pytest.fixture
def store(database_url: str) -> Iterator[BatchStore]:
    store = BatchStore(database_url)
    add(store, "batch_1")
    yield store
    store.close()


def add(store: BatchStore, batch_id: str) -> None:
    store.add_batch(a_batch(batch_id), max_open=1000, max_open_of_owner=1000)


def all_results(store: BatchStore, batch_id: str = "batch_1") -> dict[int, LineResult]:
    return {result.line: result for result in store.results(batch_id, after_line=0, limit=10_000)}


def assert_counts_equal_rows(store: BatchStore, batch_id: str = "batch_1") -> None:
    """While nobody records, that is: they are read in two transactions."""
    rows = store.results(batch_id, after_line=0, limit=10_000)
    batch = store.batch(None, batch_id)
    assert batch is not None
    assert (batch.completed, batch.failed) == (
        sum(not result.is_error for result in rows),
        sum(result.is_error for result in rows),
    )
    assert len({result.line for result in rows}) == len(rows)


def test_results_come_back_in_the_order_of_the_lines(store: BatchStore) -> None:
    text = '{"words": "últimas 词 \\u0000"}'
    results = [a_result(line, text, is_error=line == 2) for line in (5, 2, 3, 1)]
    assert store.record("batch_1", results) == 4
    assert store.results("batch_1", after_line=0, limit=3) == [results[3], results[1], results[2]]
    assert store.results("batch_1", after_line=3, limit=3) == [results[0]]
    assert store.recorded_lines("batch_1") == {1, 2, 3, 5}
    assert_counts_equal_rows(store)


def test_a_line_keeps_its_first_result(store: BatchStore) -> None:
    assert store.record("batch_1", [a_result(1, "first"), a_result(1, "same call", is_error=True)]) == 1
    assert store.record("batch_1", [a_result(1, "later", is_error=True), a_result(2, "new", is_error=True)]) == 1
    assert store.record("batch_1", [a_result(1, "later")]) == 0
    assert store.record("batch_1", []) == 0
    assert [result.record for result in all_results(store).values()] == ["first", "new"]
    batch = store.batch(None, "batch_1")
    assert batch is not None
    assert (batch.completed, batch.failed) == (1, 1)


def test_many_lines_are_recorded_at_once(store: BatchStore) -> None:
    assert store.record("batch_1", [a_result(line) for line in range(1, 2001)]) == 2000
    assert store.record("batch_1", [a_result(line) for line in range(1000, 3001)]) == 1000
    assert_counts_equal_rows(store)


def test_nothing_is_recorded_for_a_batch_that_is_at_its_end_or_gone(store: BatchStore) -> None:
    store.update_batch("batch_1", only_from=OPEN, status="cancelling")
    assert store.record("batch_1", [a_result(1)]) == 1
    store.update_batch("batch_1", only_from=OPEN, status="cancelled")
    store.add_attempts("batch_1", [2])
    store.add_attempts("batch_2", [2])
    assert store.record("batch_1", [a_result(2)]) == 0
    assert store.record("batch_2", [a_result(2)]) == 0
    assert (store.recorded_lines("batch_1"), store.attempts("batch_1")) == ({1}, {})
    assert (store.recorded_lines("batch_2"), store.attempts("batch_2")) == (set(), {})


def test_attempts_are_counted_for_each_line(store: BatchStore) -> None:
    store.add_attempts("batch_1", [1, 2])
    store.add_attempts("batch_1", {2, 3})
    store.add_attempts("batch_1", [])
    assert store.attempts("batch_1") == {1: 1, 2: 2, 3: 1}


def test_a_finished_batch_has_its_files_and_no_lines(store: BatchStore) -> None:
    add(store, "batch_2")
    for batch_id in ("batch_1", "batch_2"):
        store.record(batch_id, [a_result(1), a_result(2, is_error=True)])
        store.add_attempts(batch_id, [1])
    files = [a_file("file-out", purpose="batch_output"), a_file("file-err", purpose="batch_output")]
    ended: dict[str, Any] = {
        "status": "completed",
        "completed_at": 200,
        "output_file_id": "file-out",
        "error_file_id": "file-err",
    }
    finished = store.finish("batch_1", only_from=["validating"], files=files, **ended)
    assert finished == a_batch(completed=1, failed=1, **ended)
    assert store.batch(None, "batch_1") == finished
    assert [store.file("anna", file.id) for file in files] == files
    assert (all_results(store), store.attempts("batch_1")) == ({}, {})
    assert (len(all_results(store, "batch_2")), store.attempts("batch_2")) == (2, {1: 1})
    # A second one, which was about to do the same, comes too late.
    assert store.finish("batch_1", only_from=["validating"], files=[a_file("file-3")], status="failed") is None
    assert store.file(None, "file-3") is None
    assert store.record("batch_1", [a_result(3)]) == 0


def test_a_batch_that_could_not_be_finished_is_as_it_was(store: BatchStore) -> None:
    store.record("batch_1", [a_result(1)])
    with pytest.raises(ValueError, match="status"):
        store.finish("batch_1", only_from=OPEN, files=[a_file("file-out")], status="finished")
    assert store.file(None, "file-out") is None
    assert store.batch(None, "batch_1") == a_batch(completed=1)
    assert store.recorded_lines("batch_1") == {1}


def test_a_process_that_dies_while_it_finishes_a_batch_has_done_nothing(store: BatchStore, database_url: str) -> None:
    store.record("batch_1", [a_result(1)])
    assert recorder(database_url, "finish").wait(timeout=60) == -9
    assert store.file(None, "file-out") is None
    assert store.batch(None, "batch_1") == a_batch(completed=1)
    # Nor does it keep others from it.
    assert store.record("batch_1", [a_result(2)]) == 1
    assert store.finish("batch_1", only_from=OPEN, files=[a_file("file-out")], status="completed") is not None


@settings(max_examples=settings().max_examples // 2, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=st.lists(st.lists(st.tuples(st.booleans(), SOME_RESULTS), min_size=1, max_size=3), max_size=6))
def test_a_line_counts_once_however_often_and_from_wherever_it_is_recorded(
    store: BatchStore, database_url: str, steps: list[list[tuple[bool, list[LineResult]]]]
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
            assert_counts_equal_rows(store, batch_id)
    store.delete_batch(batch_id)


def recorder(url: str, what: str) -> "subprocess.Popen[bytes]":
    return subprocess.Popen([sys.executable, "-m", "tests.deployments.batch.recorder", url, what])


@pytest.mark.slow
@pytest.mark.parallel
def test_processes_that_are_killed_at_any_time_leave_no_line_twice_and_none_half(
    store: BatchStore, database_url: str
) -> None:
    before: dict[int, LineResult] = {}
    for _ in range(4):
        processes = [recorder(database_url, "record") for _ in range(2)]
        wait_for = len(before) + random.randrange(1, 60)
        while len(store.recorded_lines("batch_1")) < wait_for:
            assert [process.poll() for process in processes] == [None, None]
            time.sleep(0.002)
        for process in processes:
            process.kill()
            process.wait()
        after = all_results(store)
        assert {line: after[line] for line in before} == before
        assert_counts_equal_rows(store)
        before = after
    assert recorder(database_url, "record").wait(timeout=60) == 0
    assert store.recorded_lines("batch_1") == set(range(1, NUM_LINES + 1))
    assert store.attempts("batch_1").keys() == set(range(1, NUM_LINES + 1))
    assert_counts_equal_rows(store)
