"""What the replica puts around an answer."""

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ray.llm._internal.serve.core.server import llm_server
from ray.serve.llm.deployment import LLMServer
from transformers import AutoTokenizer

from deployments.contract import Answer
from deployments.replica.deployment import Replica, with_time_limit
from deployments.replica.engine import configuration
from deployments.settings.service import Settings


class Script:
    """An answer that yields some items and then stalls."""

    def __init__(self, *items: Answer, stalls: bool) -> None:
        self._items = items
        self._stalls = stalls
        self.is_closed = False

    async def answer(self) -> AsyncGenerator[Answer]:
        try:
            for item in self._items:
                yield item
            if self._stalls:
                await asyncio.sleep(3600)
        finally:
            self.is_closed = True


def test_only_what_is_meant_to_be_hides_a_method_of_rays_server() -> None:
    # It calls its own methods, such as ``tokenize``, and so do we.
    own = {name for name, value in vars(Replica).items() if callable(value) and not name.startswith("__")}
    assert own & set(dir(LLMServer)) == {"_start_engine", "record_routing_stats"}


async def test_an_answer_in_time_passes_unchanged() -> None:
    script = Script("one", "two", stalls=False)
    assert [item async for item in with_time_limit(9, script.answer())] == ["one", "two"]
    assert script.is_closed


async def test_an_answer_that_takes_too_long_is_ended() -> None:
    script, seen = Script("one", stalls=True), []
    with pytest.raises(TimeoutError):
        async for item in with_time_limit(0.05, script.answer()):
            seen.append(item)  # noqa: PERF401 - what came before the error counts
    assert seen == ["one"]
    assert script.is_closed


async def test_one_that_is_left_is_closed() -> None:
    script = Script("one", stalls=True)
    items = with_time_limit(9, script.answer())
    assert await anext(items) == "one"
    await items.aclose()
    assert script.is_closed


def refuse(*_: object, **__: object) -> None:
    raise OSError("You are trying to access a gated repo.")


@pytest.mark.parametrize(("token", "is_told"), [("", True), ("hf_x", False)])
def test_a_model_that_cannot_be_read_without_a_token_is_told_with_the_ways_to_give_one(
    monkeypatch: pytest.MonkeyPatch, token: str, is_told: bool
) -> None:
    monkeypatch.setattr(AutoTokenizer, "from_pretrained", refuse)
    monkeypatch.setenv("HF_TOKEN", token)
    settings = Settings.load({"secret_token": "k", "model_name": "some/model"}, {})
    with pytest.raises(OSError, match="gated repo") as error:
        configuration.read_tokenizer(settings)
    assert ("give HF_TOKEN in a file of that name in secrets_dir" in str(error.value)) is is_told


def test_a_folder_that_cannot_be_read_needs_no_token(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(AutoTokenizer, "from_pretrained", refuse)
    monkeypatch.delenv("HF_TOKEN", raising=False)
    with pytest.raises(OSError, match=r"^You are"):
        configuration.read_tokenizer(Settings.load({"secret_token": "k", "model_name": str(tmp_path)}, {}))


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
