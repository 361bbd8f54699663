"""Ray Data and Serve carry lines to a deployment that stands in for the engines: it can die when it is told to."""

import asyncio
import json
import os
import signal
import time
from collections.abc import Iterator
from itertools import chain
from typing import Any

import pytest
import ray
from ray import serve

from deployments.batch.worker.feeder import FeederDiedError, ServeEngines
from deployments.contract import NOT_STARTED, LineAnswer, LineRequest
from tests.e2e.processes import our_processes_named

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.slow,
    pytest.mark.parallel,
    pytest.mark.filterwarnings("ignore:`ray_remote_args` is deprecated"),
]

NUM_LINES_AT_ONCE = 8

FEEDER = "ray::MapWorker(MapBatches(Feeder))"


class Answers:
    """Answers each line after a moment, or does what its body says."""

    def __init__(self) -> None:
        self._running = self._most = self._num_asked = 0

    async def answer_line(self, request: LineRequest) -> LineAnswer:
        self._running += 1
        self._num_asked += 1
        self._most = max(self._most, self._running)
        try:
            await asyncio.sleep(0.3 if request["body"] != "stall" else 3600)
            if request["body"] == "die":
                os.kill(os.getpid(), signal.SIGKILL)
            return {"status": 200, "body": json.dumps({"text": request["body"], "id": request["request_id"]})}
        finally:
            self._running -= 1

    async def counts(self) -> tuple[int, int]:
        return self._most, self._num_asked


@pytest.fixture(scope="module")
def engines() -> Iterator[ServeEngines]:
    ray.init(address="local", num_cpus=2, include_dashboard=False, log_to_driver=False, configure_logging=False)
    try:
        deployment = serve.deployment(Answers, max_ongoing_requests=100, ray_actor_options={"num_cpus": 0.1})
        serve.run(deployment.bind(), name="app", route_prefix=None)
        yield ServeEngines("app", "Answers", NUM_LINES_AT_ONCE)
    finally:
        serve.shutdown()
        ray.shutdown()


def lines(*bodies: str) -> list[tuple[int, LineRequest]]:
    return [
        (number, {"body": body, "owner": "alice", "request_id": f"line-{number}"}) for number, body in enumerate(bodies)
    ]


def counts() -> Any:
    return serve.get_deployment_handle("Answers", "app").counts.remote().result()


def test_every_line_is_answered_as_many_at_once_as_there_may_be(engines: ServeEngines) -> None:
    asked = lines(*(f"text {number}" for number in range(60)))
    sizes: list[int] = []
    answers: dict[int, LineAnswer | None] = {}
    num_stop_asked = 0

    def should_stop() -> bool:
        nonlocal num_stop_asked
        num_stop_asked += 1
        return False

    started = time.monotonic()
    for some in engines.answer_many(asked, should_stop):
        sizes.append(len(some))
        answers.update(some)
    assert {number: answer and json.loads(answer["body"])["text"] for number, answer in answers.items()} == {
        number: request["body"] for number, request in asked
    }
    most, num_asked = counts()
    assert most == NUM_LINES_AT_ONCE
    assert num_asked == 60
    assert max(sizes) <= NUM_LINES_AT_ONCE, "answers do not come as they are ready"
    assert num_stop_asked <= 2 * (time.monotonic() - started) + 1, "asked more often than twice a second"


def test_a_death_costs_only_what_was_under_way_and_nothing_is_sent_after_it(engines: ServeEngines) -> None:
    asked = lines(*(f"text {number}" for number in range(40)))
    asked[11] = (11, {**asked[11][1], "body": "die"})
    answers = dict(chain.from_iterable(engines.answer_many(asked, lambda: False)))
    assert answers.keys() < set(range(40))
    missing = {number for number, answer in answers.items() if answer is None}
    assert 11 in missing
    assert len(missing) <= NUM_LINES_AT_ONCE
    assert engines.answer_one(asked[11][1], lambda: False) is None
    unanswered = missing.union(range(40)) - {number for number, answer in answers.items() if answer} - {11}
    again = [asked[number] for number in unanswered]
    answers = dict(chain.from_iterable(engines.answer_many(again, lambda: False)))
    assert {number for number, answer in answers.items() if answer} == unanswered
    alone = engines.answer_one(asked[0][1], lambda: False)
    assert alone is not None
    assert alone["status"] == 200
    assert engines.are_ready()


def test_what_is_not_wanted_any_more_is_given_up(engines: ServeEngines) -> None:
    asked = lines(*(f"text {number}" for number in range(200)))
    answered: list[int] = []
    answers = engines.answer_many(asked, lambda: len(answered) >= 10)
    for some in answers:
        answered.extend(number for number, _ in some)
    assert 10 <= len(answered) < 100
    deadline = time.monotonic() + 60
    while our_processes_named(FEEDER) and time.monotonic() < deadline:
        time.sleep(0.2)
    assert not our_processes_named(FEEDER), "what was given up is still asked for"
    reasons_to_stop = iter((False, True))
    alone = engines.answer_one(lines("stall")[0][1], lambda: next(reasons_to_stop))
    assert alone is not None
    assert alone["status"] == NOT_STARTED


def test_the_death_of_the_feeder_is_told(engines: ServeEngines) -> None:
    answers = engines.answer_many(lines(*(f"text {number}" for number in range(100))), lambda: False)
    next(answers)
    [feeder] = our_processes_named(FEEDER)
    os.kill(feeder, signal.SIGKILL)
    with pytest.raises(FeederDiedError):
        list(answers)
