"""What the engine's refusals become for a client, its steps, and whether it tells what a list costs."""

from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

from vllm.v1.metrics.loggers import StatLoggerBase
from vllm.v1.metrics.stats import IterationStats, SchedulerStats

from deployments.replica.engine import engine
from deployments.replica.engine.health import reports_log_mass
from vocab.matching.log_mass import pack


def test_the_engines_own_failures_tell_nothing_and_refusals_keep_their_message_without_its_suffix() -> None:
    error = engine.refusal({"message": "at 0x7f secret", "code": 500})
    assert (error.status, error.type, error.code) == (500, "server_error", "engine_error")
    assert "secret" not in error.message
    error = engine.refusal({"message": "too hot (parameter=temperature, value=9)", "code": 400, "param": "t"})
    assert str(error) == "too hot"


def test_no_client_is_told_of_an_option_of_vllms_server() -> None:
    for message, param in (
        ('"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set', "tool_choice"),
        ('tool_choice="required" requires --tool-call-parser to be set', "tool_choice"),
        ("thinking_token_budget is set but reasoning_config is not. Please set --reasoning-parser",
         "thinking_token_budget"),
        ("Start the server with --some-new-option.", None),
    ):  # fmt: skip
        refused = engine.refusal({"code": 400, "message": message, "param": None})
        assert (refused.status, refused.param) == (400, param)
        assert "--" not in refused.message
        assert refused.message.startswith("A field" if param is None else f"'{param}'")


def test_steps_that_only_wait_are_not_counted_nor_any_where_the_engine_keeps_no_statistics() -> None:
    counter = engine.StepCounter()
    idle, reading = SchedulerStats(num_waiting_reqs=1), SchedulerStats(num_running_reqs=1)
    for scheduler, iteration in ((idle, None), (None, None), (reading, None), (idle, IterationStats())):
        counter.record(scheduler, iteration)
    assert counter.num_steps == 2
    loggers: list[StatLoggerBase] = []
    for manager in (SimpleNamespace(stat_loggers=loggers), None):
        served: Any = SimpleNamespace(engine=SimpleNamespace(_engine_client=SimpleNamespace(logger_manager=manager)))
        assert (engine.count_steps(served) is None) is (manager is None)
    assert len(loggers) == 1


class Client:
    """Answers with one token of this rank, or with nothing, or fails."""

    def __init__(self, *ranks: int | None, error: Exception | None = None) -> None:
        self._ranks = ranks
        self._error = error
        self.params: Any = None

    async def generate(self, prompt: str, params: Any, request_id: str, *, reasoning_ended: bool) -> AsyncIterator[Any]:
        # Else an engine would wait for a model that thinks to be done with it.
        assert reasoning_ended and prompt and request_id
        self.params = params
        if self._error is not None:
            raise self._error
        for rank in self._ranks:
            yield SimpleNamespace(outputs=[SimpleNamespace(logprobs=[{7: SimpleNamespace(rank=rank, logprob=-1.0)}])])


async def test_an_engine_that_reports_masses_tells_the_cost_and_no_other() -> None:
    client = Client(pack(-0.5, -0.5))
    assert await reports_log_mass(client, "the grammar")
    assert client.params.structured_outputs.grammar == "the grammar"
    assert (client.params.max_tokens, client.params.logprobs) == (1, 0)
    for other in (Client(1), Client(None), Client(), Client(error=ValueError("no logprobs"))):
        assert not await reports_log_mass(other, "the grammar")
