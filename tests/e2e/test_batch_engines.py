"""Lines of batches over a handle of Serve, to a deployment that stands in for the engines: it can die when told to."""

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest
import ray
from ray import serve

from deployments.batch.deployment import ServeEngines
from deployments.contract import LineAnswer, LineRequest
from deployments.errors import EngineDiedError

pytestmark = [pytest.mark.e2e, pytest.mark.slow, pytest.mark.parallel]


class Answers:
    """Answers each line after a moment, or does what its body says."""

    def __init__(self) -> None:
        self._num_running = 0

    async def answer_line(self, request: LineRequest) -> LineAnswer:
        self._num_running += 1
        try:
            await asyncio.sleep(0.3 if request.body != {"text": "stall"} else 3600)
            if request.body == {"text": "die"}:
                os.kill(os.getpid(), signal.SIGKILL)
            return request.body
        finally:
            self._num_running -= 1

    async def num_running(self) -> int:
        return self._num_running


@pytest.fixture(scope="module")
def engines() -> Iterator[ServeEngines]:
    ray.init(address="local", num_cpus=2, include_dashboard=False, log_to_driver=False, configure_logging=False)
    try:
        deployment = serve.deployment(Answers, max_ongoing_requests=100, ray_actor_options={"num_cpus": 0.1})
        serve.run(deployment.bind(), name="app", route_prefix=None)
        yield ServeEngines("app", "Answers", 8)
    finally:
        serve.shutdown()
        ray.shutdown()


def line(body: str) -> LineRequest:
    return LineRequest({"text": body}, "alice", f"line-{body}")


def text_of(answer: LineAnswer) -> Any:
    return answer["text"] if isinstance(answer, dict) else type(answer)


async def until(is_so: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(60):
        while not await is_so():  # noqa: ASYNC110 - another process says so
            await asyncio.sleep(0.1)


async def test_a_line_that_is_given_up_is_given_up_in_the_replica_too(engines: ServeEngines) -> None:
    async def is_at_work() -> bool:
        return bool(await serve.get_deployment_handle("Answers", "app").num_running.remote())

    async def is_idle() -> bool:
        return not await is_at_work()

    stalled = asyncio.create_task(engines.answer(line("stall")))
    await until(is_at_work)
    stalled.cancel()
    await until(is_idle)
    assert text_of(await engines.answer(line("a text"))) == "a text"


async def test_a_death_is_told_for_each_line_in_progress_and_another_replica_answers_later(
    engines: ServeEngines,
) -> None:
    bodies = ["die", *(f"text {number}" for number in range(7))]
    answers = await asyncio.gather(*(engines.answer(line(body)) for body in bodies))
    assert [text_of(answer) for answer in answers] == [EngineDiedError] * 8

    async def answers_again() -> bool:
        return bool(text_of(await engines.answer(line("again"))) == "again")

    await until(answers_again)
    await until(engines.are_ready)
