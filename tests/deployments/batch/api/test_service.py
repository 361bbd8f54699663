"""What may be done with batches and jobs."""

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from deployments.batch.state.records import FileRecord
from deployments.errors import (
    ApiError,
    BadRequestError,
    ConflictError,
    NotFoundError,
    OverloadedError,
    PayloadTooLargeError,
    TooManyRequestsError,
)
from deployments.settings.limits import BatchLimits
from deployments.storage import StorageError
from tests.deployments.batch.served import ENDPOINT, FEW, ME, NOW, World, jsonl
from tests.deployments.front import MODEL, chat_body

CHAT = {"messages": chat_body()["messages"]}
DAY = 86400


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    world = World(tmp_path)
    yield world
    world.close()


def test_a_new_batch_waits_with_what_was_asked_for(world: World) -> None:
    file_id = world.upload()
    batch = world.batch(
        file_id=file_id,
        completion_window="2h",
        metadata={"a": "b"},
        output_expires_after={"anchor": "created_at", "seconds": 3600},
    )
    assert batch["id"].startswith("batch_")
    assert batch["object"] == "batch"
    assert (batch["status"], batch["input_file_id"], batch["endpoint"]) == ("validating", file_id, ENDPOINT)
    assert (batch["created_at"], batch["expires_at"], batch["completion_window"]) == (NOW, NOW + 7200, "2h")
    assert batch["metadata"] == {"a": "b"}
    assert batch["request_counts"] == {"total": 0, "completed": 0, "failed": 0}
    assert world.service.get_batch(ME, batch["id"]) == batch
    record = world.store.batch(ME, batch["id"])
    assert record is not None
    assert record.output_expires_after_s == 3600
    assert world.num_changes == 1


def test_a_batch_of_a_file_that_is_not_ones_own_or_no_input_is_refused(world: World) -> None:
    theirs = world.upload(owner="other")
    for file_id in (theirs, "file-" + "0" * 32, "file-\0", "../x", "' or 1=1"):
        with pytest.raises(NotFoundError) as caught:
            world.batch(file_id=file_id)
        assert caught.value.param == "input_file_id"
    output = FileRecord(
        id="file-1", owner=ME, purpose="batch_output", filename="out.jsonl", num_bytes=1, created_at=NOW
    )
    world.store.add_file(output)
    with pytest.raises(BadRequestError, match="uploaded"):
        world.batch(file_id="file-1")
    assert world.num_changes == 0


def test_bad_fields_are_refused_before_anything_is_kept(world: World) -> None:
    with pytest.raises(BadRequestError) as caught:
        world.batch(completion_window="99d")
    assert caught.value.param == "completion_window"
    assert world.service.list_batches(ME)["data"] == []


def test_batches_are_listed_newest_first_in_pages(world: World) -> None:
    ids = [world.batch()["id"] for _ in range(3)]
    first = world.service.list_batches(ME, None, 2)
    assert [batch["id"] for batch in first["data"]] == [ids[2], ids[1]]
    assert first["has_more"]
    assert (first["first_id"], first["last_id"]) == (ids[2], ids[1])
    rest = world.service.list_batches(ME, first["last_id"], 2)
    assert [batch["id"] for batch in rest["data"]] == [ids[0]]
    assert not rest["has_more"]
    assert world.service.list_batches("other")["data"] == []


@pytest.mark.parametrize("after", ["x", "batch_" + "0" * 32, "\0", ""])
def test_a_cursor_that_is_none_is_refused(world: World, after: str) -> None:
    for listed in (world.service.list_batches, lambda owner, cursor: world.service.list_files(owner, None, cursor)):
        with pytest.raises(BadRequestError) as caught:
            listed(ME, after)
        assert caught.value.param == "after"


@pytest.mark.parametrize("limit", [0, -1, 101])
def test_a_page_has_a_size(world: World, limit: int) -> None:
    with pytest.raises(BadRequestError, match="1 to 100"):
        world.service.list_batches(ME, None, limit)


def test_another_owner_finds_no_batch_file_or_job_and_neither_kind_is_the_other(world: World) -> None:
    batch, job = world.batch()["id"], world.job(json.dumps([CHAT]).encode())["id"]
    service = world.service
    for operation, owner, name in [
        (service.get_batch, "other", batch),
        (service.cancel_batch, "other", batch),
        (service.get_job, "other", job),
        (service.job_results, "other", job),
        (service.get_batch, ME, job),
        (service.cancel_batch, ME, job),
        (service.get_job, ME, batch),
        (service.job_results, ME, batch),
        (service.get_batch, ME, "batch_\0"),
    ]:
        with pytest.raises(NotFoundError):
            operation(owner, name)
    assert [listed["id"] for listed in service.list_batches(ME)["data"]] == [batch]


def test_a_batch_is_cancelled_once_and_a_second_time_is_fine(world: World) -> None:
    batch = world.batch()["id"]
    for _ in range(2):
        cancelled = world.service.cancel_batch(ME, batch)
        assert (cancelled["status"], cancelled["cancelling_at"]) == ("cancelling", NOW)
    assert world.num_changes == 2


@pytest.mark.parametrize("status", ["finalizing", "completed", "failed", "expired"])
def test_a_batch_that_ended_cannot_be_cancelled(world: World, status: str) -> None:
    batch = world.batch()["id"]
    world.set_status(batch, status)
    with pytest.raises(ConflictError, match=status):
        world.service.cancel_batch(ME, batch)


def test_the_number_of_open_batches_is_bounded_for_one_key_and_for_all(world: World) -> None:
    batches = [world.batch()["id"] for _ in range(FEW.max_open_per_key)]
    num_contents = world.num_contents()
    with pytest.raises(TooManyRequestsError) as caught:
        world.job(json.dumps([CHAT]).encode())
    assert caught.value.code == "too_many_batches"
    assert world.num_contents() == num_contents
    world.batch(owner="other")
    with pytest.raises(OverloadedError):
        world.batch(owner="third")
    world.end(batches[0])
    world.batch()


def test_the_file_of_an_open_batch_stays(world: World) -> None:
    file_id = world.upload()
    batch = world.batch(file_id=file_id)["id"]
    with pytest.raises(ConflictError, match=batch) as caught:
        world.service.delete_file(ME, file_id)
    assert caught.value.code == "file_in_use"
    world.end(batch)
    world.service.delete_file(ME, file_id)


def test_no_file_goes_while_a_batch_is_made_of_it(tmp_path: Path) -> None:
    world = World(tmp_path, limits=BatchLimits())
    for _ in range(10):
        file_id = world.upload()

        def attempt(operation: Any, file_id: str = file_id) -> bool:
            try:
                operation(file_id)
            except ApiError:
                return False
            return True

        with ThreadPoolExecutor(2) as pool:
            deleted = pool.submit(attempt, lambda name: world.service.delete_file(ME, name))
            made = pool.submit(attempt, lambda name: world.batch(file_id=name))
        assert deleted.result() != made.result()
    world.close()


def test_a_job_keeps_its_list_as_lines_of_a_batch(world: World) -> None:
    job = world.job(json.dumps([CHAT, CHAT]).encode(), max_tokens=5)
    assert job == {
        "id": job["id"],
        "job_id": job["id"],
        "message": "The job was taken and waits for its turn.",
        "object": "batch.job",
        "status": "pending",
        "submitted_at": NOW,
        "started_at": None,
        "finished_at": None,
        "error": None,
        "progress": {"total": 0, "completed": 0, "failed": 0},
    }
    assert world.service.get_job(ME, job["id"]) == job
    assert world.num_changes == 1
    record = world.store.batch(ME, job["id"])
    assert record is not None
    assert (record.kind, record.deadline, record.endpoint) == ("job", NOW + 7 * DAY, ENDPOINT)
    lines = world.service.read_file(ME, record.input_file_id, 0, 2**20).splitlines()
    assert [json.loads(line)["custom_id"] for line in lines] == ["0", "1"]
    assert json.loads(lines[0])["body"] == {**CHAT, "model": MODEL, "max_tokens": 5}


@pytest.mark.parametrize("content", [b"{}", b"[]", b"[{},", b"[{},nan]", json.dumps([CHAT] * 6).encode()])
def test_of_a_list_that_is_none_nothing_is_kept(world: World, content: bytes) -> None:
    with pytest.raises(BadRequestError):
        world.job(content)
    assert world.num_contents() == 0
    assert world.service.list_files(ME)["data"] == []
    assert world.store.open_batches() == []


def test_the_results_of_a_job_are_there_when_it_has_ended(world: World) -> None:
    job = world.job(json.dumps([CHAT]).encode())["id"]
    with pytest.raises(ConflictError) as caught:
        world.service.job_results(ME, job)
    assert caught.value.code == "job_not_finished"
    file_id = world.end(job, output_file_id="file-" + f"{2:032x}", completed_at=NOW + 5)
    assert world.service.job_results(ME, job) == file_id
    assert world.service.read_file(ME, file_id, 0, 10) == b"[]"
    assert world.service.get_job(ME, job)["finished_at"] == NOW + 5


def test_the_message_of_a_job_says_how_far_it_is(world: World) -> None:
    job = world.job(json.dumps([CHAT] * 3).encode())["id"]
    world.set_status(job, "in_progress", total=3, completed=1, failed=1)
    assert world.service.get_job(ME, job)["message"] == "At work: 2 of 3 requests."
    world.set_status(job, "completed", completed=2)
    assert world.service.get_job(ME, job)["message"] == "The job has ended: 3 of 3 requests, 1 with an error."


def test_a_job_that_failed_says_why(world: World) -> None:
    job = world.job(json.dumps([CHAT]).encode())["id"]
    error = {"code": "input_missing", "message": "The input is gone.", "param": None, "line": None}
    world.set_status(job, "failed", failed_at=NOW, errors=(error,))
    with pytest.raises(ConflictError, match="The input is gone") as caught:
        world.service.job_results(ME, job)
    assert caught.value.code == "input_missing"
    answer = world.service.get_job(ME, job)
    assert answer["error"] == {"message": "The input is gone.", "code": "input_missing"}
    assert answer["message"] == "The input is gone."


def test_a_job_of_a_service_that_keeps_files_shortly_ends_before_they_go(tmp_path: Path) -> None:
    world = World(tmp_path, limits=BatchLimits(retention_s=DAY))
    job = world.job(json.dumps([CHAT]).encode())["id"]
    record = world.store.batch(ME, job)
    assert record is not None
    assert record.deadline == NOW + DAY
    world.close()


def test_where_nothing_can_be_written_nothing_is_promised(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Row 47 of the faults."""

    def full(*_: object) -> int:
        raise StorageError("no space left on device")

    for name in ("begin", "write"):
        monkeypatch.setattr(world.contents, name, full)
    with pytest.raises(StorageError):
        world.upload(jsonl())
    with pytest.raises(StorageError):
        world.job(json.dumps([CHAT]).encode())
    assert world.service.list_files(ME)["data"] == []
    assert world.store.open_batches() == []


def test_a_list_that_is_too_large_for_a_job_is_refused_with_the_way_for_it(tmp_path: Path) -> None:
    world = World(tmp_path, limits=BatchLimits())
    upload_id = world.send(b"[" + b" " * 20 * 2**20 + b"{}]", piece_bytes=2**20)
    with pytest.raises(PayloadTooLargeError, match=r"more than 20 MiB.*POST /v1/batches") as refused:
        world.service.create_job(ME, upload_id, {})
    assert refused.value.param == "file"
    assert world.num_contents() == 0
    world.close()
