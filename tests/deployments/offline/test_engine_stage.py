"""What the stage does with rows, over an engine that is made up: one that lives, one that dies, one that is slow."""

import asyncio
import json
import math
from types import SimpleNamespace
from typing import Any, NoReturn
from unittest.mock import AsyncMock

import pytest

from deployments.contract import LineAnswer, LineRequest
from deployments.errors import BadRequestError, EngineError
from deployments.fair_semaphore import FairSemaphore
from deployments.offline.engine import AnswerStage, Coordinator, engine_arguments, make_replica
from deployments.offline.output import ANSWER
from deployments.offline.row_requests import REQUEST
from deployments.settings.service import Settings
from deployments.vocabulary.deployment import Vocabulary
from tests.deployments.handles import Handle
from tests.deployments.offline.conftest import make_config

INDEX = AnswerStage.IDX_IN_BATCH_COLUMN


class Died(BaseException):
    """Stands for the end of the process."""


def never(*_: Any) -> asyncio.Future[Any]:
    return asyncio.get_running_loop().create_future()


class Replica:
    """Answers every row, and dies of those whose body is ``poison``."""

    def __init__(self) -> None:
        self.num_running = self.most_running = 0
        self.alone: list[str] = []
        self._engine = SimpleNamespace(errored=False)
        self.engine = SimpleNamespace(_engine_client=self._engine)

    async def answer_line(self, line: LineRequest) -> LineAnswer:
        self.num_running += 1
        self.most_running = max(self.most_running, self.num_running)
        was_alone = self.num_running == 1
        await asyncio.sleep(0.02)
        if was_alone and self.num_running == 1:
            self.alone.append(line.request_id)
        self.num_running -= 1
        if self._engine.errored:
            await never()
        if line.body == {"text": "poison"}:
            self._engine.errored = True
            return EngineError(500, "The engine failed.")
        return BadRequestError("No.") if line.body == {"text": "bad"} else line.body


class Stage(AnswerStage):
    """One engine of the run, without what starts it."""

    def __init__(self, coordinator: Coordinator) -> None:
        self._coordinator, self._turns = Handle(coordinator), FairSemaphore(8)
        self.replica: Any = Replica()

    async def _ready(self) -> Any:
        return self.replica

    def _end_process(self) -> NoReturn:
        # What still runs in a process that ended does nothing more.
        self._coordinator = Handle(SimpleNamespace(begin=never, begin_new=never, end=never))
        raise Died


@pytest.fixture
def coordinator() -> Coordinator:
    """The run's actor; it outlives engines."""
    return Coordinator(make_config().settings)


def batch(**texts: str) -> list[dict[str, Any]]:
    rows = enumerate(texts.items())
    return [{INDEX: index, REQUEST: json.dumps({"id": name, "body": {"text": text}})} for index, (name, text) in rows]


async def answers(stage: Stage, rows: list[dict[str, Any]]) -> dict[int, dict[str, Any]]:
    return {row[INDEX]: json.loads(row[ANSWER]) async for row in stage.udf(rows)}


async def test_rows_are_answered_together_whatever_becomes_of_them(coordinator: Coordinator) -> None:
    stage = Stage(coordinator)
    rows = batch(a="fine", b="bad", c="fine")
    rows.append({INDEX: 3, REQUEST: json.dumps({"answer": {"status": 400, "body": "no request"}})})
    found = await answers(stage, rows)
    assert [found[index]["status"] for index in range(4)] == [200, 400, 200, 400]
    assert found[3]["body"] == "no request"
    # Those that were answered are no suspects.
    again = Stage(coordinator)
    await answers(again, rows)
    assert stage.replica.most_running == again.replica.most_running == 3


@pytest.mark.fault(51)
async def test_a_row_that_kills_the_engine_is_isolated_and_the_others_are_answered(coordinator: Coordinator) -> None:
    rows = batch(a="fine", b="poison", c="fine")
    # Once together with the others, and twice alone.
    for _ in range(3):
        with pytest.raises(Died):
            await answers(Stage(coordinator), rows)
    found = await answers(Stage(coordinator), rows)
    assert [found[index]["status"] for index in range(3)] == [200, 500, 200]
    assert found[1]["body"]["error"]["code"] == "engine_died"


async def test_suspects_run_alone_and_others_meanwhile_wait(
    coordinator: Coordinator, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(Died):
        await answers(Stage(coordinator), batch(a="fine", b="poison"))
    stage = Stage(coordinator)
    with monkeypatch.context() as patch:
        patch.setattr("deployments.offline.engine.MAX_ATTEMPTS", 1)
        await asyncio.gather(answers(stage, batch(c="fine", d="fine")), answers(stage, batch(a="fine")))
    assert stage.replica.alone == []

    stage = Stage(coordinator)
    suspect, others = answers(stage, batch(b="fine")), answers(stage, batch(e="fine", f="fine"))
    found = (await asyncio.gather(suspect, others))[0]
    assert found[0]["status"] == 200
    assert "b" in stage.replica.alone


async def test_a_vocabulary_that_could_not_start_is_started_by_the_next_who_ask(
    coordinator: Coordinator, monkeypatch: pytest.MonkeyPatch
) -> None:
    create = AsyncMock(side_effect=[OSError("no space"), AsyncMock()])
    monkeypatch.setattr(Vocabulary, "create", create)
    with pytest.raises(OSError, match="no space"):
        await coordinator.fetch("ab")
    await asyncio.gather(coordinator.fetch("ab"), coordinator.fetch("ab"))
    assert create.await_count == 2


CPU = {"placement_bundles": [{"CPU": 1}]}


def test_the_engine_is_started_as_the_service_starts_it() -> None:
    settings = make_config({**CPU, "torch_dtype": "bfloat16", "engine_kwargs": {"max_num_seqs": 8}}).settings
    arguments = engine_arguments(settings)
    assert arguments["structured_outputs_config"]["backend"] == "xgrammar"
    assert "kv_transfer_config" in arguments
    assert (arguments["dtype"], arguments["max_num_seqs"]) == ("bfloat16", 8)
    assert arguments["served_model_name"] == ["toy"]
    # Ray's stage says these itself, the last one unless the configuration does.
    assert not {"model", "enable_log_requests", "distributed_executor_backend"} & arguments.keys()
    said = make_config({**CPU, "engine_kwargs": {"distributed_executor_backend": "mp"}}).settings
    assert engine_arguments(said)["distributed_executor_backend"] == "mp"


async def test_a_replica_waits_as_long_as_a_step_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    stalls: list[float] = []

    async def begin(self: Any, llm_config: Any, *, settings: Settings, vocabulary: Any) -> None:
        stalls.append(settings.engine_stall_s)

    # Without the engine that it would start.
    monkeypatch.setattr("deployments.replica.deployment.Replica.__init__", begin)
    monkeypatch.setattr("deployments.replica.deployment.Replica.__del__", lambda _: None)
    await make_replica(make_config({**CPU, "engine_stall_s": 60}).settings, vocabulary=None, client=None)
    assert stalls == [math.inf]
