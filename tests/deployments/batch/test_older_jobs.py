"""Jobs as the clients of the wordlist server know them, and what they see without ``compatibility``."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from deployments.batch.models import Batch
from deployments.errors import BadRequestError, NotFoundError
from tests.deployments.batch.world import OWNER, BatchWorld, found

MESSAGES = [{"role": "user", "content": "Hello"}]


@pytest.fixture
def old(tmp_path: Path) -> Iterator[BatchWorld]:
    world = BatchWorld(tmp_path, compatibility="wordlist-server")
    yield world
    world.close()


def create(world: BatchWorld, content: Any, **parameters: Any) -> dict[str, Any]:
    data = content if isinstance(content, bytes) else json.dumps(content).encode()
    job: dict[str, Any] = world.service.create_job(OWNER, world.send(data), parameters)
    assert job.keys() >= {"job_id", "status", "message"}
    return job


async def end(world: BatchWorld, job: dict[str, Any]) -> dict[str, Any]:
    """The job once it has ended."""
    await world.run(found(world.store, job["job_id"]))
    shown: dict[str, Any] = world.service.get_job(OWNER, job["job_id"])
    assert shown.keys() >= {"job_id", "status", "submitted_at", "error"}
    return shown


def results(world: BatchWorld, job_id: str) -> Any:
    return json.loads(world.service.read_file(OWNER, world.service.job_results(OWNER, job_id), 0, 10**6))


def lines(world: BatchWorld, job: dict[str, Any]) -> list[dict[str, Any]]:
    batch: Batch = found(world.store, job["job_id"])
    return [line["body"] for line in world.lines_of(batch.input_file_id)]


async def test_a_job_is_pending_and_then_completed_with_numbered_results(old: BatchWorld) -> None:
    job = create(old, [{"messages": MESSAGES}] * 2 + [{"messages": "none"}])
    assert (job["status"], job["error"]) == ("pending", None)
    with pytest.raises(NotFoundError):
        old.service.job_results(OWNER, job["job_id"])
    shown = await end(old, job)
    assert (shown["status"], shown["error"]) == ("completed", None)
    one, two, faulty = results(old, job["job_id"])
    assert [one["id"], two["id"]] == [f"chatcmpl-batch-{job['job_id']}-{index}" for index in range(2)]
    assert (one["object"], faulty.keys()) == ("chat.completion", {"error"})


def test_the_parameters_of_a_job_are_those_of_the_query_alone_but_a_list_is_never_dropped(old: BatchWorld) -> None:
    item = {"messages": MESSAGES, "max_tokens": 7, "max_completion_tokens": 7, "num_beams": 2, "length_penalty": 2.0}
    listed = {**item, "vocab_lang": "en", "vocab_n_words": 50}
    assert lines(old, create(old, [item], max_tokens=64)) == [
        {"messages": MESSAGES, "max_tokens": 64, "model": "stand-in"}
    ]
    [line] = lines(old, create(old, [listed]))
    assert line == {"messages": MESSAGES, "vocab_lang": "en", "vocab_n_words": 50, "model": "stand-in"}
    [line] = lines(old, create(old, [listed], vocab_lang="es", vocab_n_words=9))
    assert (line["vocab_lang"], line["vocab_n_words"]) == ("es", 9)


@pytest.mark.parametrize("content", [b"{}", b"no list", b"[]", b'{"messages": []}\n'])
async def test_a_file_that_is_no_list_is_a_job_that_fails(old: BatchWorld, content: bytes) -> None:
    job = create(old, content)
    assert (job["status"], job["error"]) == ("pending", None)
    shown = old.service.get_job(OWNER, job["job_id"])
    assert (shown["status"], "list" in shown["error"]) == ("failed", True)
    with pytest.raises(NotFoundError):
        old.service.job_results(OWNER, job["job_id"])
    assert not old.store.open_batches()


async def test_a_model_that_is_not_there_fails_all_of_a_job_before_any_line_is_answered(old: BatchWorld) -> None:
    shown = await end(old, create(old, [{"messages": MESSAGES}, {"messages": MESSAGES, "model": "gone"}]))
    assert (shown["status"], "gone" in shown["error"]) == ("failed", True)
    assert not old.engines.asked


async def test_a_list_that_is_not_there_fails_all_of_a_job(old: BatchWorld) -> None:
    shown = await end(
        old, create(old, [{"messages": [{"role": "user", "content": "no list"}]}, {"messages": MESSAGES}])
    )
    assert (shown["status"], shown["error"]) == ("failed", "Line 1: There is no list 'xx'.")
    with pytest.raises(NotFoundError):
        old.service.job_results(OWNER, shown["job_id"])


async def test_without_compatibility_each_item_has_its_own_answer_or_error(tmp_path: Path) -> None:
    world = BatchWorld(tmp_path)
    with pytest.raises(BadRequestError, match="JSON list"):
        create(world, b"{}")
    job = create(world, [{"messages": MESSAGES, "max_tokens": 7}, {"messages": MESSAGES, "model": "gone"}])
    assert lines(world, job)[0]["max_tokens"] == 7
    shown = await end(world, job)
    assert (shown["status"], shown["progress"]) == ("completed", {"total": 2, "completed": 1, "failed": 1})
    one, other = results(world, job["job_id"])
    assert ("id" in one, other["error"]["code"]) == (False, "model_not_found")
    world.close()
