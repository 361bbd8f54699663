import asyncio
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ray.llm._internal.serve.core.server import llm_server
from ray.serve.llm.deployment import LLMServer
from transformers import AutoTokenizer

from deployments.contract import BEGUN, ENGINE_DEAD, Caller, Decoding, RowsRequest, TextRequest
from deployments.errors import ApiError
from deployments.replica.deployment import Replica
from deployments.replica.engine import configuration
from deployments.settings.service import Settings
from tests.deployments.replica.world import MODEL, ReplicaWorld


def test_only_what_is_meant_to_be_hides_a_method_of_rays_server() -> None:
    # It calls its own methods, such as ``tokenize``, and so do we.
    own = {name for name, value in vars(Replica).items() if callable(value) and not name.startswith("__")}
    assert own & set(dir(LLMServer)) == {"_start_engine", "record_routing_stats"}


@pytest.fixture
def world(world_of: Callable[..., ReplicaWorld]) -> ReplicaWorld:
    """A replica of one sequence, whose answers may take two seconds."""
    return world_of("of one sequence", max_sequences=1, max_queued_requests=0, max_answer_s=2)


@pytest.fixture
def stalled(world: ReplicaWorld) -> ReplicaWorld:
    """The same while its engine stops before the last piece of each answer."""
    world.engine.stalls = True
    return world


ALICE = Caller("alice", "req-1")
CHAT = {"model": MODEL, "messages": [{"role": "user", "content": "Hello"}], "max_tokens": 6, "stream": True}
ROWS = {"prompt": "The cat", "dtype": "float32"}


def chat_of(world: ReplicaWorld) -> TextRequest:
    return TextRequest(CHAT, world.vocabulary, Decoding(), ALICE)


async def test_an_answer_begins_with_its_turn_and_frees_its_sequence(world: ReplicaWorld) -> None:
    items = [item async for item in world.replica.answer(chat_of(world))]
    assert (items[0], items[-1]) == (BEGUN, "data: [DONE]\n\n")
    assert await sequences(world) == 0


@pytest.mark.parametrize(("kind", "what", "param"), [("text", "tokens", "max_tokens"), ("rows", "prompts", "prompt")])
async def test_an_answer_that_takes_too_long_is_ended_and_says_what_to_ask_for_less_of(
    stalled: ReplicaWorld, kind: str, what: str, param: str
) -> None:
    items = await stalled.items(chat_of(stalled) if kind == "text" else RowsRequest(ROWS, ALICE))
    assert len(items) > 1 if kind == "text" else True
    error = items[-1]
    assert isinstance(error, ApiError)
    assert (error.status, error.code, error.param) == (504, "answer_timeout", param)
    assert error.message == f"The answer took longer than 2 s: ask for fewer {what}."
    assert (stalled.engine.num_running, await sequences(stalled)) == (0, 0)


async def test_who_finds_no_sequence_free_is_told_to_come_back_and_one_that_is_left_frees_its_own(
    stalled: ReplicaWorld,
) -> None:
    answer = stalled.replica.answer(chat_of(stalled))
    assert [await anext(answer), isinstance(await anext(answer), str)] == [BEGUN, True]
    assert (stalled.engine.num_running, await sequences(stalled)) == (1, 1)
    [error] = await stalled.items(chat_of(stalled))
    assert isinstance(error, ApiError)
    assert (error.status, error.code) == (503, "overloaded")
    assert int(dict(error.headers)["Retry-After"]) >= 1
    await answer.aclose()
    assert await sequences(stalled) == 0
    async with asyncio.timeout(30):
        while stalled.engine.num_running:  # noqa: ASYNC110 - vLLM's server gives it up when it is collected
            await asyncio.sleep(0.01)


async def test_a_dead_engine_answers_nothing(world: ReplicaWorld) -> None:
    world.engine.errored = True
    [error] = await world.items(chat_of(world))
    assert isinstance(error, ApiError)
    assert (error.status, error.code) == (503, ENGINE_DEAD)


async def sequences(world: ReplicaWorld) -> float:
    [number] = (await world.replica.record_autoscaling_stats()).values()
    return number


@pytest.mark.fault(49)
def test_a_model_that_cannot_be_read_without_a_token_is_told_with_the_ways_to_give_one(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError("You are trying to access a gated repo.")

    monkeypatch.setattr(AutoTokenizer, "from_pretrained", refuse)
    for model, token, is_told in (("some/model", "", True), ("some/model", "hf_x", False), (str(tmp_path), "", False)):
        monkeypatch.setenv("HF_TOKEN", token)
        settings = Settings.load({"secret_token": "k", "model_name": model}, {})
        with pytest.raises(OSError, match="gated repo") as error:
            configuration.read_tokenizer(settings)
        assert ("give HF_TOKEN in a file of that name in secrets_dir" in str(error.value)) is is_told


async def test_an_engine_starts_without_a_process_for_rays_usage_statistics(monkeypatch: pytest.MonkeyPatch) -> None:
    recorded: list[object] = []
    monkeypatch.setattr(llm_server, "push_telemetry_report_for_all_models", lambda **models: recorded.append(models))
    started = asyncio.Event()

    class Engine:
        async def start(self) -> None:
            started.set()

    # Not a replica: one that is collected leaves its coroutine ``__del__`` unawaited.
    replica: Any = SimpleNamespace(engine=Engine(), _llm_config=None)
    await Replica._start_engine(replica)
    assert started.is_set()
    assert recorded == []
