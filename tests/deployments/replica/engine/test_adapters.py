"""Which adapters a running engine has, and which of them a request gets."""

import math
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from ray.serve.llm.deployment import LLMServer

from deployments.adapter_register import Register, Registered
from deployments.contract import AUTO_ADAPTER, ResolvedVocabulary
from deployments.errors import EngineError
from deployments.replica.engine.loaded_adapters import EngineAdapters, LoadedAdapters, name_of
from deployments.settings.service import Settings
from tests.tiny_adapters import write_adapter, write_model
from vocab.adapters import Adapter, AdapterError, Card


def adapter(name: str, *languages: str) -> Adapter:
    return Adapter(name, Path("/adapters") / name, "", {}, {}, (), Card(languages=languages))


def vocabulary(lang: str | None, n_words: int = 500) -> ResolvedVocabulary:
    return ResolvedVocabulary(digest="d", lang=lang, n_words=n_words, fewest_tokens=2)


class Engine:
    """vLLM's table of adapters; it refuses those of the name ``refused``, and ``overflowing`` makes no numbers."""

    def __init__(self, refused: str = "") -> None:
        self.lora_requests: dict[str, Any] = {}
        self.refused = refused

    async def load_lora_adapter(self, request: Any) -> Any:
        if request.lora_name.partition("@")[0] == self.refused:
            return SimpleNamespace(error=SimpleNamespace(message="no room"))
        self.lora_requests[request.lora_name] = request
        return "Success"

    async def unload_lora_adapter(self, request: Any) -> None:
        del self.lora_requests[request.lora_name]

    async def generate(self, prompt: str, params: Any, request_id: str, lora_request: Any) -> AsyncIterator[Any]:
        overflows = lora_request.lora_name.startswith("overflowing@")
        logprobs = [{0: SimpleNamespace(logprob=math.nan if overflows else -1.0)}]
        yield SimpleNamespace(outputs=[SimpleNamespace(logprobs=logprobs)])

    @property
    def server(self) -> LLMServer:
        return cast("LLMServer", SimpleNamespace(engine=SimpleNamespace(_oai_models=self, _engine_client=self)))


def beside() -> LoadedAdapters:
    return LoadedAdapters(Engine().server, EngineAdapters("base", {"a": adapter("a", "en"), "b": adapter("b", "es")}))


def merged(engine: Engine | None = None) -> LoadedAdapters:
    start = EngineAdapters("base", {"a": adapter("a", "en")}, merged="a", model=Path("/cache/a"))
    return LoadedAdapters((engine or Engine()).server, start)


@pytest.mark.parametrize(
    ("model", "asked", "lang", "expected"),
    [
        ("base", AUTO_ADAPTER, None, None),
        ("base", AUTO_ADAPTER, "en", "a"),
        ("base", AUTO_ADAPTER, "es", "b"),
        ("base", AUTO_ADAPTER, "de", None),
        ("base", "b", "en", "b"),
        ("base", None, "en", None),
        ("b", AUTO_ADAPTER, "en", "b"),
        ("b", AUTO_ADAPTER, None, "b"),
    ],
)
async def test_a_request_has_the_adapter_that_it_names_or_one_for_its_list(
    model: str, asked: str | None, lang: str | None, expected: str | None
) -> None:
    chosen = await beside().choose(model, asked, None if lang is None else vocabulary(lang))
    assert chosen == expected
    assert beside().engine_name(chosen) == (expected or "base")


@pytest.mark.parametrize("model", ["base", "a"])
@pytest.mark.parametrize("lang", [None, "en", "de"])
async def test_all_requests_have_what_is_merged(model: str, lang: str | None) -> None:
    chosen = await merged().choose(model, AUTO_ADAPTER, None if lang is None else vocabulary(lang))
    assert (chosen, merged().engine_name(chosen), merged().lora_request(chosen)) == ("a", "base", None)


async def test_each_adapter_is_loaded_and_a_refusal_names_it() -> None:
    engine = Engine("b")
    adapters = LoadedAdapters(engine.server, EngineAdapters("base", {"a": adapter("a"), "b": adapter("b")}))
    with pytest.raises(AdapterError, match="adapter b: the engine does not take it: no room"):
        await adapters.load()
    assert adapters.lora_request("a").lora_path == "/adapters/a"
    assert adapters.lora_request(None) is None
    engine = Engine()
    await merged(engine).load()
    assert not engine.lora_requests


class Registry:
    """An engine whose adapters are in a register."""

    def __init__(self, folder: Path) -> None:
        self.model = write_model(None, folder / "model")
        self.register = Register(folder / "lora")
        self.register.folder.mkdir()
        self.engine = Engine("refused")
        args = {"secret_token": "k", "model_name": str(self.model), "model_id": "base"}
        self.start = EngineAdapters.read(Settings.load({**args, "lora_dir": str(self.register.folder)}, {}))
        self.adapters = LoadedAdapters(self.engine.server, self.start)

    def copy(self, name: str, *languages: str, **options: Any) -> Registered:
        card = {"languages": list(languages)}
        written = write_adapter(self.model, self.register.folder.parent / f"{name}{options}", card, **options)
        return self.register.add_copy(name, str(written))

    async def key(self, model: str, lang: str | None = None, asked: str | None = AUTO_ADAPTER) -> str | None:
        return await self.adapters.choose(model, asked, None if lang is None else vocabulary(lang))


async def test_what_is_registered_is_served_and_what_is_not_is_not(tmp_path: Path) -> None:
    world = Registry(tmp_path)
    poet = world.copy("poet", "en")
    assert await world.adapters.preload("poet", poet) is None
    assert poet.key("poet") in world.engine.lora_requests
    assert await world.key("base", "en") is None
    with pytest.raises(EngineError, match="'poet' has just been unloaded"):
        await world.key("poet")
    world.register.write({"poet": poet})
    # A name that is not known is looked up, before this replica is told of it.
    assert await world.key("poet") == poet.key("poet")
    assert await world.key("base", "en") == await world.key("base", "de", "poet") == poet.key("poet")
    assert name_of(await world.key("base", "en")) == "poet"
    assert world.adapters.engine_name(poet.key("poet")) == poet.key("poet")
    assert world.adapters.is_trained_for(poet.key("poet"), vocabulary("en"))
    world.register.write({})
    await world.adapters.sync()
    assert await world.key("base", "en") is None
    with pytest.raises(EngineError):
        await world.key("poet")
    # A request that has several parts keeps it.
    assert await world.key("base", "en", poet.key("poet")) == poet.key("poet")
    assert world.adapters.lora_request(poet.key("poet")).lora_path


async def test_what_replaces_an_adapter_is_another_one_for_the_engine(tmp_path: Path) -> None:
    world = Registry(tmp_path)
    first, second = world.copy("poet"), world.copy("poet", r=8)
    for one in (first, second):
        world.register.write({"poet": one})
        await world.adapters.sync()
        assert await world.key("poet") == one.key("poet")
    assert first.key("poet") != second.key("poet")
    assert world.engine.lora_requests.keys() == {first.key("poet"), second.key("poet")}


async def test_a_replica_that_starts_has_what_is_registered_or_does_not_start(tmp_path: Path) -> None:
    world = Registry(tmp_path)
    poet, other = world.copy("poet"), world.copy("other")
    world.register.write({"poet": poet, "other": other})
    later = LoadedAdapters(Engine().server, world.start)
    await later.load()
    assert await later.choose("poet", None, None) == poet.key("poet")
    shutil.rmtree(world.register.folder / other.copy)
    later = LoadedAdapters(Engine().server, world.start)
    with pytest.raises(AdapterError, match=r"adapter other: there is no folder .* take it out there"):
        await later.load()
    assert await later.choose("poet", None, None) == poet.key("poet")


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("refused", {}, "adapter refused: the engine does not take it: no room"),
        ("overflowing", {}, "adapter overflowing: its weights overflow, the model computes no probabilities with them"),
        ("large", {"r": 32}, "adapter large: its rank is 32 and the engine's max_lora_rank 16: raise max_lora_rank, "),
    ],
)
async def test_one_that_cannot_be_loaded_leaves_nothing(
    tmp_path: Path, name: str, options: dict[str, Any], message: str
) -> None:
    world = Registry(tmp_path)
    result = await world.adapters.preload(name, world.copy(name, **options))
    assert result is not None and result.startswith(message)
    assert not world.engine.lora_requests


def test_names_of_keys() -> None:
    assert (name_of(None), name_of("a"), name_of("a/b@123")) == (None, "a", "a/b")
