"""Batches and jobs on the real stack, asked for through the ``openai`` package and by plain HTTP."""

import json
import time
from typing import Any

import httpx2
import openai
import pytest

from tests.checker import assert_only_listed_words
from tests.e2e.batch_lines import assert_accounted, lines
from tests.e2e.service import KEY, MODEL, Service

pytestmark = pytest.mark.e2e

TIMEOUT_S = 600


def upload(service: Service, content: bytes) -> str:
    return str(service.client.files.create(file=("in.jsonl", content), purpose="batch").id)


def start(service: Service, content: bytes, **fields: Any) -> openai.types.Batch:
    fields = {"endpoint": "/v1/chat/completions", "completion_window": "24h", **fields}
    create: Any = service.client.batches.create
    made: openai.types.Batch = create(input_file_id=upload(service, content), **fields)
    return made


def wait(service: Service, batch_id: str, *, until: tuple[str, ...] = ("completed",)) -> openai.types.Batch:
    deadline = time.monotonic() + TIMEOUT_S
    while True:
        batch = service.client.batches.retrieve(batch_id)
        if batch.status in until:
            return batch
        assert batch.status in ("validating", "in_progress", "finalizing", "cancelling"), batch
        assert time.monotonic() < deadline, batch
        time.sleep(1)


def read(service: Service, file_id: str | None) -> list[dict[str, Any]]:
    if file_id is None:
        return []
    text = service.client.files.content(file_id).content
    assert text.endswith(b"\n")
    return [json.loads(line) for line in text.splitlines()]


@pytest.mark.fault(50)
def test_all_lines_are_accounted_for(service: Service) -> None:
    sent = lines(120)
    batch = start(service, b"\n".join(line.text for line in sent), metadata={"book": "one"})
    assert batch.status == "validating"
    batch = wait(service, batch.id)
    assert batch.request_counts is not None
    counts = batch.request_counts
    assert counts.total == 120 == counts.completed + counts.failed
    assert batch.metadata == {"book": "one"}
    output, errors = read(service, batch.output_file_id), read(service, batch.error_file_id)
    assert (len(output), len(errors)) == (counts.completed, counts.failed)
    assert_accounted(sent, output, errors)
    assert batch.id in [one.id for one in service.client.batches.list(limit=5)]


def test_a_job_of_forty_prompts_has_its_results_in_their_order(service: Service) -> None:
    prompts: list[Any] = [
        {"messages": [{"role": "user", "content": f"Tell me about number {number}."}], "max_tokens": 500}
        for number in range(40)
    ]
    prompts[7] = {"messages": "nothing"}
    prompts[9] = 3
    parameters: dict[str, Any] = {"max_tokens": 16, "num_beams": 2, "length_penalty": 0.9, "vocab_lang": "en",
                  "vocab_n_words": 1000}  # fmt: skip
    with httpx2.Client(base_url=service.url, headers={"X-API-Key": KEY}, timeout=60) as client:
        made = client.post(
            "/v1/batch/jobs", params=parameters, files={"file": ("in.json", json.dumps(prompts).encode())}
        )
        assert made.is_success, made.text
        job = made.json()
        assert job["status"] in ("pending", "processing")
        early = client.get(f"/v1/batch/jobs/{job['id']}/results")
        assert early.status_code == 409
        deadline = time.monotonic() + TIMEOUT_S
        while job["status"] in ("pending", "processing"):
            assert time.monotonic() < deadline, job
            time.sleep(1)
            job = client.get(f"/v1/batch/jobs/{job['id']}").json()
        assert job["status"] == "completed", job
        assert job["progress"] == {"total": 40, "completed": 38, "failed": 2}
        assert job["submitted_at"] <= job["started_at"] <= job["finished_at"]
        results = client.get(f"/v1/batch/jobs/{job['id']}/results").json()
    assert len(results) == 40
    for number, result in enumerate(results):
        if number in (7, 9):
            assert result["error"]["message"]
            continue
        assert_only_listed_words(result["choices"][0]["message"]["content"], "en", 1000)
        assert 1 <= result["usage"]["completion_tokens"] <= 16
        assert result["model"] == MODEL


def test_a_cancelled_batch_keeps_what_was_answered(service: Service) -> None:
    sent = lines(300, max_tokens=60)
    batch = start(service, b"\n".join(line.text for line in sent))
    while (batch.request_counts is None or batch.request_counts.completed < 5) and batch.status != "completed":
        time.sleep(0.5)
        batch = service.client.batches.retrieve(batch.id)
    assert service.client.batches.cancel(batch.id).status == "cancelling"
    batch = wait(service, batch.id, until=("cancelled",))
    assert batch.request_counts is not None
    assert batch.request_counts.total == 300 == batch.request_counts.completed + batch.request_counts.failed
    output, errors = read(service, batch.output_file_id), read(service, batch.error_file_id)
    assert len(output) >= 5
    cancelled = [error for error in errors if error["error"]["code"] == "batch_cancelled"]
    known = {line["custom_id"] for line in (*output, *cancelled)}
    assert known >= {line.custom_id for line in sent if line.fault is None}
    # The engine has nothing left to do for it, and answers at once.
    assert service.ask("Hello", ("en", 100), max_tokens=3).text


@pytest.mark.fault(55)
def test_no_interactive_request_waits_for_the_lines_that_wait(service: Service) -> None:
    sent = [line for line in lines(300, max_tokens=60) if line.fault is None]
    batch = start(service, b"\n".join(line.text for line in sent))

    def num_answered() -> int:
        counts = service.client.batches.retrieve(batch.id).request_counts
        return counts.completed if counts else 0

    while num_answered() == 0:
        time.sleep(0.2)
    before = num_answered()
    for number in range(3):
        assert service.ask("Hello", ("en", 100), max_tokens=4, seed=number).text
    # Those that ran beside it may have ended, and short ones that took their places; not the others, which came before.
    at_most = 2 * 48
    assert num_answered() - before <= at_most
    assert before + at_most < len(sent)
    service.client.batches.cancel(batch.id)
    wait(service, batch.id, until=("cancelled",))


def test_what_is_not_answered_in_time_expires(service: Service) -> None:
    sent = lines(300, max_tokens=60)
    batch = start(service, b"\n".join(line.text for line in sent), completion_window="5s")
    batch = wait(service, batch.id, until=("expired",))
    output, errors = read(service, batch.output_file_id), read(service, batch.error_file_id)
    assert len(output) + len(errors) == 300
    assert {"batch_expired"} <= {error["error"]["code"] for error in errors}


def test_a_file_can_be_read_listed_and_deleted(service: Service) -> None:
    file_id = upload(service, b"{}\n")
    assert service.client.files.retrieve(file_id).bytes == 3
    assert file_id in [file.id for file in service.client.files.list(purpose="batch")]
    assert service.client.files.content(file_id).content == b"{}\n"
    assert service.client.files.delete(file_id).deleted
    with pytest.raises(openai.NotFoundError):
        service.client.files.retrieve(file_id)
