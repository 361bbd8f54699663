"""Batches and jobs over HTTP."""

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx2
import openai
import openai.types
import pytest

from deployments.batch.models import OPEN, TERMINAL
from deployments.errors import ApiError, PayloadTooLargeError
from deployments.settings.limits import BatchLimits
from tests.deployments.batch.world import FEW, NOW, OWNER, BatchWorld, a_file, another_program, found
from tests.deployments.front import CHAT, KEY, MODEL, assert_error, chat_body

JOBS = "/v1/batch/jobs"
ITEM = {"messages": chat_body()["messages"]}
DAY = 86400
NONE_YET = {"total": 0, "completed": 0, "failed": 0}
GONE = [{"code": "input_missing", "message": "The input is gone.", "param": None, "line": None}]


def create(client: httpx2.Client, file_id: str, **fields: Any) -> httpx2.Response:
    body = {"input_file_id": file_id, "endpoint": CHAT, "completion_window": "24h", **fields}
    return client.post("/v1/batches", json=body)


def create_job(client: httpx2.Client, items: list[Any] | bytes, **query: Any) -> httpx2.Response:
    content = items if isinstance(items, bytes) else json.dumps(items).encode()
    return client.post(JOBS, params=query, files={"file": ("list.json", content)})


def listed(client: httpx2.Client) -> list[str]:
    return [batch["id"] for batch in client.get("/v1/batches").json()["data"]]


def change(world: BatchWorld, batch_id: str, **changes: Any) -> None:
    assert world.store.update_batch(batch_id, only_from=OPEN, **changes)


def test_a_new_batch_waits_with_what_was_asked_for(client: httpx2.Client, small: BatchWorld) -> None:
    file_id, fields = small.upload(), {"completion_window": "2h", "metadata": {"a": "b"}}
    expiry = {"anchor": "created_at", "seconds": 3600}
    batch = create(client, file_id, output_expires_after=expiry, **fields).json()
    expected: dict[str, Any] = {"object": "batch", "status": "validating", "input_file_id": file_id, "endpoint": CHAT}
    expected |= {**fields, "created_at": NOW, "expires_at": NOW + 7200, "request_counts": NONE_YET, "errors": None}
    assert {name: batch[name] for name in expected} == expected
    assert batch["id"].startswith("batch_")
    assert client.get(f"/v1/batches/{batch['id']}").json() == batch
    assert found(small.store, batch["id"]).output_expires_after_s == 3600
    assert small.num_changes == 1


def test_a_batch_and_a_job_are_shown_in_each_status(client: httpx2.Client, small: BatchWorld) -> None:
    words = {"validating": "pending", "completed": "completed", "in_progress": "processing", "finalizing": "processing"}
    words["cancelling"] = "processing"
    for status in (*OPEN, *TERMINAL):
        changes: dict[str, Any] = {"status": status, "total": 3, "completed": 1, "failed": 2}
        batch, job = small.batch_of([], metadata_={"a": "b"}), small.batch_of([], kind="job")
        change(small, batch.id, **changes, errors=GONE)
        shown = client.get(f"/v1/batches/{batch.id}").json()
        read = openai.types.Batch.model_validate(shown, strict=True)
        assert read.to_dict() == shown
        assert shown["request_counts"] == {"total": 3, "completed": 1, "failed": 2}
        assert shown["errors"] == {"object": "list", "data": GONE}
        assert shown["expires_at"] == NOW + DAY
        change(small, job.id, **changes)
        shown = client.get(f"{JOBS}/{job.id}").json()
        assert shown["status"] == words.get(status, "failed")
        assert (shown["error"] is not None) == (shown["status"] == "failed")


def test_bad_bodies_are_refused_and_nothing_is_kept(client: httpx2.Client, small: BatchWorld) -> None:
    for body, param in [
        (b"", None), (b"{", None), (b"[]", None), (b"{}", "input_file_id"),
        (json.dumps({"input_file_id": "file-1", "endpoint": "x", "completion_window": "24h"}).encode(), "endpoint"),
    ]:  # fmt: skip
        response = client.post("/v1/batches", content=body, headers={"Content-Type": "application/json"})
        assert_error(response, 400, param=param)
    assert_error(client.post("/v1/batches", data={"a": "b"}), 415)
    file_id = small.upload()
    for window in ("99d", "1w"):
        error = assert_error(create(client, file_id, completion_window=window), 400, param="completion_window")
        assert "completion_window" in error["message"]
    assert listed(client) == []


def test_a_batch_of_a_file_that_is_not_ones_own_or_no_input_is_refused(
    client: httpx2.Client, small: BatchWorld
) -> None:
    for file_id in (small.upload(owner="other"), f"file-{'0' * 32}", "file-ü", "../x", "' or 1=1"):
        assert_error(create(client, file_id), 404, param="input_file_id")
    small.store.add_file(a_file("file-1", owner=OWNER, purpose="batch_output"))
    assert "uploaded" in assert_error(create(client, "file-1"), 400, param="input_file_id")["message"]
    assert small.num_changes == 0


def test_another_key_finds_no_batch_or_job_and_neither_kind_is_the_other(
    client: httpx2.Client, other: httpx2.Client, small: BatchWorld
) -> None:
    batch, job = small.batch()["id"], create_job(client, [ITEM]).json()["id"]
    for as_batch, as_job, one in ((batch, job, other), (job, batch, client), ("batch_0", "batch_%00", client)):
        assert_error(one.get(f"/v1/batches/{as_batch}"), 404)
        assert_error(one.post(f"/v1/batches/{as_batch}/cancel"), 404)
        assert one.get(f"{JOBS}/{as_job}").status_code == 404
        assert one.get(f"{JOBS}/{as_job}/results").status_code == 404
    assert (listed(client), listed(other)) == ([batch], [])
    newest = small.batch()["id"]
    page = client.get("/v1/batches?limit=1").json()
    assert ([one["id"] for one in page["data"]], page["has_more"]) == ([newest], True)
    assert client.get(f"/v1/batches/{batch}").json()["status"] == "validating"


@pytest.mark.fault(53)
def test_a_batch_is_cancelled_once_and_a_second_time_is_fine(client: httpx2.Client, small: BatchWorld) -> None:
    batch = small.batch()["id"]
    for _ in range(2):
        cancelled = client.post(f"/v1/batches/{batch}/cancel").json()
        assert (cancelled["status"], cancelled["cancelling_at"]) == ("cancelling", NOW)
    assert small.num_changes == 2
    change(small, batch, status="cancelled")
    assert client.post(f"/v1/batches/{batch}/cancel").json()["status"] == "cancelled"


def test_a_batch_that_ended_cannot_be_cancelled(client: httpx2.Client, small: BatchWorld) -> None:
    for status in ("finalizing", "completed", "failed", "expired"):
        batch = small.batch_of([], status=status)
        error = assert_error(client.post(f"/v1/batches/{batch.id}/cancel"), 409, code="batch_ended")
        assert status in error["message"]


def test_the_number_of_open_batches_is_bounded_for_one_key_and_for_all(
    client: httpx2.Client, other: httpx2.Client, small: BatchWorld
) -> None:
    file_id = small.upload()
    batches = [create(client, file_id).json()["id"] for _ in range(FEW.max_open_per_key)]
    num_contents = small.num_contents()
    for refused in (create_job(client, [ITEM]), create(client, file_id)):
        assert "as many as this key may" in assert_error(refused, 429, code="too_many_batches")["message"]
        assert refused.headers["retry-after"] == "1"
    assert small.num_contents() == num_contents
    theirs = small.upload(owner="other")
    assert create(other, theirs).status_code == 200
    assert_error(create(other, theirs), 503, code="overloaded")
    small.end(batches[0])
    assert create(client, file_id).status_code == 200


def test_the_file_of_an_open_batch_stays(client: httpx2.Client, small: BatchWorld) -> None:
    file_id = small.upload()
    batch = small.batch(file_id=file_id)["id"]
    error = assert_error(client.delete(f"/v1/files/{file_id}"), 409, code="file_in_use")
    assert batch in error["message"]
    assert "has not ended" in error["message"]
    small.end(batch)
    assert client.delete(f"/v1/files/{file_id}").status_code == 200


def test_no_file_goes_while_a_batch_is_made_of_it(tmp_path: Path) -> None:
    world = BatchWorld(tmp_path)
    for _ in range(10):
        file_id = world.upload()

        def attempt(operation: Any, file_id: str = file_id) -> bool:
            try:
                operation(file_id)
            except ApiError:
                return False
            return True

        with ThreadPoolExecutor(2) as pool:
            deleted = pool.submit(attempt, lambda name: world.service.delete_file(OWNER, name))
            made = pool.submit(attempt, world.batch)
        assert deleted.result() != made.result()
    world.close()


def test_a_damaged_record_is_an_error_of_its_own(
    client: httpx2.Client, small: BatchWorld, caplog: pytest.LogCaptureFixture
) -> None:
    damaged, whole = small.batch()["id"], small.batch()["id"]
    with another_program(small.settings.resolved_database()) as connection:
        connection.exec_driver_sql("UPDATE wordbound_batches SET metadata = '{' WHERE number = 1")
    for response in (client.get(f"/v1/batches/{damaged}"), client.post(f"/v1/batches/{damaged}/cancel")):
        error = assert_error(response, 500, code="record_damaged")
        assert error["message"].startswith("What the server recorded of it is damaged. Ask the operator")
    assert f"{damaged} in the database is damaged: Expecting property name" in caplog.text
    assert "Mend its row, delete it, or restore the database from a backup." in caplog.text
    assert client.get(f"/v1/batches/{whole}").json()["status"] == "validating"


class TestJobs:
    def test_a_job_keeps_its_list_as_lines_of_a_batch(self, client: httpx2.Client, small: BatchWorld) -> None:
        response = create_job(client, [ITEM, ITEM], max_tokens=5, vocab_lang="es", vocab_n_words=100)
        job = response.json()
        told = {"message": "The job was taken and waits for its turn.", "object": "batch.job", "status": "pending"}
        times = {"submitted_at": NOW, "started_at": None, "finished_at": None}
        assert job == {"id": job["id"], "job_id": job["id"], **told, **times, "error": None, "progress": NONE_YET}
        assert client.get(f"{JOBS}/{job['id']}").json() == job
        assert small.num_changes == 1
        record = found(small.store, job["id"])
        assert (record.owner, record.kind, record.deadline, record.endpoint) == (OWNER, "job", NOW + 7 * DAY, CHAT)
        lines = [json.loads(line) for line in small.files.child(record.input_file_id).read(0, 2**20).splitlines()]
        assert [line["custom_id"] for line in lines] == ["0", "1"]
        body = {**ITEM, "model": MODEL, "max_tokens": 5, "vocab_lang": "es", "vocab_n_words": 100}
        assert [line["body"] for line in lines] == [body, body]

    def test_the_results_of_a_job_are_there_when_it_has_ended(self, client: httpx2.Client, small: BatchWorld) -> None:
        job = create_job(client, [ITEM] * 3).json()["id"]
        assert_error(client.get(f"{JOBS}/{job}/results"), 409, code="job_not_finished")
        change(small, job, status="in_progress", total=3, completed=1, failed=1)
        assert client.get(f"{JOBS}/{job}").json()["message"] == "At work: 2 of 3 requests."
        list_of_two = b'[{"a":1},\n{"b":2}]'
        small.end(job, list_of_two, output_file_id=f"file-{18:032x}", completed=2, completed_at=NOW + 5)
        results = client.get(f"{JOBS}/{job}/results")
        assert (results.headers["content-type"], results.content) == ("application/json", list_of_two)
        ended = client.get(f"{JOBS}/{job}").json()
        assert (ended["status"], ended["finished_at"]) == ("completed", NOW + 5)
        assert ended["message"] == "The job has ended: 3 of 3 requests, 1 with an error."

    def test_a_job_that_failed_says_why(self, client: httpx2.Client, small: BatchWorld) -> None:
        job = create_job(client, [ITEM]).json()["id"]
        change(small, job, status="failed", failed_at=NOW + 9, in_progress_at=NOW + 5, errors=GONE)
        error = assert_error(client.get(f"{JOBS}/{job}/results"), 409, code="input_missing")
        assert "The input is gone" in error["message"]
        shown = client.get(f"{JOBS}/{job}").json()
        assert shown["error"] == {"message": "The input is gone.", "code": "input_missing"}
        assert (shown["message"], shown["started_at"], shown["finished_at"]) == ("The input is gone.", NOW + 5, NOW + 9)

    def test_a_bad_job_is_refused_by_name_and_nothing_is_kept(self, client: httpx2.Client, small: BatchWorld) -> None:
        for items, query, param in [
            (b"{}", {}, "file"), ([ITEM] * 6, {}, "file"), ([ITEM], {"max_tokens": "many"}, "max_tokens"),
        ]:  # fmt: skip
            assert_error(create_job(client, items, **query), 400, param=param)  # type: ignore[arg-type]
        assert small.num_contents() == 0
        assert small.store.open_batches() == []

    def test_the_key_in_the_query_is_no_parameter(self, client: httpx2.Client) -> None:
        del client.headers["authorization"]
        assert create_job(client, [ITEM], token=KEY, max_tokens=5).status_code == 200

    def test_one_of_a_service_that_keeps_files_shortly_ends_before_they_go(self, tmp_path: Path) -> None:
        world = BatchWorld(tmp_path, limits=BatchLimits(retention_s=DAY))
        job = world.service.create_job(OWNER, world.send(json.dumps([ITEM]).encode()), {})
        assert found(world.store, job["id"]).deadline == NOW + DAY
        world.close()

    def test_a_list_that_is_too_large_is_refused_with_the_way_for_it(self, tmp_path: Path) -> None:
        world = BatchWorld(tmp_path)
        upload_id = world.send(b"[" + b" " * 20 * 2**20 + b"{}]", piece_bytes=2**20)
        with pytest.raises(PayloadTooLargeError, match=r"more than 20 MiB.*POST /v1/batches") as refused:
            world.service.create_job(OWNER, upload_id, {})
        assert refused.value.param == "file"
        assert world.num_contents() == 0
        world.close()
