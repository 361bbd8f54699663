"""How lines are fed to replicas; ``e2e/test_batch_feeder.py`` says the rest, with Ray Data."""

import asyncio
import json
from itertools import chain
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from ray.exceptions import RayActorError

from deployments.batch.worker.feeder import Feeder
from deployments.contract import ENGINE_DIED, LineAnswer, LineRequest


class Replica:
    """Answers a line after as many milliseconds as its body says, or dies of it."""

    def __init__(self) -> None:
        self.num_running = self.most_running = 0

    @property
    def answer_line(self) -> Any:
        return SimpleNamespace(remote=self._answer)

    async def _answer(self, line: LineRequest) -> LineAnswer:
        self.num_running += 1
        self.most_running = max(self.most_running, self.num_running)
        try:
            if line["body"] == "die":
                raise RayActorError
            if line["body"] == "engine dies":
                return {"status": ENGINE_DIED, "body": "null"}
            await asyncio.sleep(int(line["body"]) / 1000)
            return {"status": 200, "body": line["body"]}
        finally:
            self.num_running -= 1


@pytest.fixture
def replica(monkeypatch: pytest.MonkeyPatch) -> Replica:
    replica = Replica()
    monkeypatch.setattr("ray.serve.get_deployment_handle", lambda *_: replica)
    return replica


def feed(*bodies: str, num_lines: int = 3) -> list[list[int]]:
    """The numbers of the lines as they come together, negative for those that died."""
    lines = [
        json.dumps((number, {"body": body, "owner": "alice", "request_id": str(number)}))
        for number, body in enumerate(bodies)
    ]
    feeder = Feeder("app", "Replica", num_lines)
    rows = list(feeder({"line": np.array(lines, dtype=object)}))
    pairs = [json.loads(row["answers"][0]) for row in rows]
    return [[number if answer and answer["status"] == 200 else -number for number, answer in some] for some in pairs]


def test_every_line_is_answered_once_and_no_more_are_under_way_than_may_be(replica: Replica) -> None:
    assert sorted(chain.from_iterable(feed(*["5"] * 20))) == list(range(20))
    assert replica.most_running == 3


def test_a_place_that_gets_free_is_taken_at_once_and_answers_come_as_they_are_ready(replica: Replica) -> None:
    order = list(chain.from_iterable(feed("400", "1", "1", "1", "1")))
    assert order[-1] == 0
    assert sorted(order) == list(range(5))


@pytest.mark.parametrize("death", ["die", "engine dies"])
def test_what_was_under_way_at_a_death_is_told_and_nothing_more_is_sent(replica: Replica, death: str) -> None:
    assert sorted(chain.from_iterable(feed("50", death, "1", death, num_lines=2))) == [-1, 0]


def test_nothing_is_given_from_time_to_time_so_that_a_run_can_be_stopped(replica: Replica) -> None:
    assert feed("1200") == [[], [], [0]]
