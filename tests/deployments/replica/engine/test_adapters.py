"""The adapters that an engine starts with, merged or not, those that it has later, and which of them a request gets."""

import math
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch
import vllm
from peft import PeftModel
from ray.serve.llm.deployment import LLMServer
from transformers import AutoModelForCausalLM, AutoTokenizer

from deployments.adapter_files import Adapter, AdapterError, Card
from deployments.adapter_register import Register, Registered
from deployments.contract import AUTO_ADAPTER, ResolvedVocabulary
from deployments.errors import EngineError
from deployments.replica.engine.configuration import engine_config
from deployments.replica.engine.engine_adapters import (
    EngineAdapters,
    adaptable_layers,
    lora_arguments,
    merge_model,
    outline,
)
from deployments.replica.engine.loaded_adapters import LoadedAdapters, name_of
from deployments.settings.service import Settings, SettingsError
from tests.tiny_adapters import write_adapter, write_model


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


async def test_a_request_has_the_adapter_that_it_names_or_one_for_its_list_and_all_have_what_is_merged() -> None:
    faults = []
    for model, asked, lang, expected in (
        ("base", AUTO_ADAPTER, None, None),
        ("base", AUTO_ADAPTER, "en", "a"),
        ("base", AUTO_ADAPTER, "es", "b"),
        ("base", AUTO_ADAPTER, "de", None),
        ("base", "b", "en", "b"),
        ("base", None, "en", None),
        ("b", AUTO_ADAPTER, "en", "b"),
        ("b", AUTO_ADAPTER, None, "b"),
    ):
        listed = None if lang is None else vocabulary(lang)
        chosen = await beside().choose(model, asked, listed)
        if (chosen, beside().engine_name(chosen)) != (expected, expected or "base"):
            faults.append((model, asked, lang, chosen))
        chosen = await merged().choose("a" if model == "b" else model, AUTO_ADAPTER, listed)
        if (chosen, merged().engine_name(chosen), merged().lora_request(chosen)) != ("a", "base", None):
            faults.append(("merged", model, lang, chosen))
    assert not faults


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
    # A request that has several parts keeps it, also beside what replaces it.
    second = world.copy("poet", r=8)
    world.register.write({"poet": second})
    await world.adapters.sync()
    assert await world.key("poet") == second.key("poet")
    assert await world.key("base", "en", poet.key("poet")) == poet.key("poet")
    assert world.engine.lora_requests.keys() == {poet.key("poet"), second.key("poet")}


@pytest.mark.fault(65)
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


async def test_one_that_cannot_be_loaded_leaves_nothing(tmp_path: Path) -> None:
    world = Registry(tmp_path)
    options: dict[str, Any]
    for name, options, message in (
        ("refused", {}, "adapter refused: the engine does not take it: no room"),
        ("overflowing", {}, "adapter overflowing: its weights overflow, the model computes no probabilities with them"),
        ("large", {"r": 32}, "adapter large: its rank is 32 and the engine's max_lora_rank 16: raise max_lora_rank, "),
    ):
        result = await world.adapters.preload(name, world.copy(name, **options))
        assert result is not None and result.startswith(message)
        assert not world.engine.lora_requests


def shaped(name: str, rank: int = 16, module: str = "layers.0.q_proj") -> Adapter:
    return Adapter(name, Path("/adapters") / name, "", {}, {module: {"A": (rank, 64), "B": (64, rank)}}, (), None)


def settings(**args: Any) -> Settings:
    return Settings.load({"secret_token": "k", "model_name": "some/base", "model_id": "base", **args}, {})


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_model(None, tmp_path_factory.mktemp("model"))


def test_the_engine_takes_adapters_of_their_rank_and_modules() -> None:
    given = settings(engine_kwargs={"max_loras": 1})
    adapters = {"a": shaped("a"), "b": shaped("b", rank=20, module="layers.0.down_proj")}
    config = engine_config(given)
    EngineAdapters("base", adapters, arguments=lora_arguments(given, adapters.values(), None)).configure(config)
    result = config.get_engine_config().get_initialization_kwargs()
    assert {name: result[name] for name in result if "lora" in name} == {
        "enable_lora": True,
        "lora_target_modules": ["down_proj", "q_proj"],
        "max_cpu_loras": 2,
        "max_lora_rank": 32,
        "max_loras": 1,
    }
    assert result["model"] == "some/base"


def test_an_engine_that_may_load_some_later_takes_all_linear_layers_and_what_the_settings_say(
    model: Path, tmp_path: Path
) -> None:
    given = settings(engine_kwargs={"max_loras": 12, "max_lora_rank": 64, "lora_target_modules": ["x"]})
    result = lora_arguments(given, [], ["q_proj"])
    assert (result["max_loras"], result["max_lora_rank"], result["max_cpu_loras"]) == (12, 64, 16)
    assert result["lora_target_modules"] == ["q_proj"]
    given = settings(model_name=str(model), lora_dir=str(tmp_path))
    start = EngineAdapters.read(given)
    assert start.register == Register(tmp_path)
    assert start.arguments == {
        "enable_lora": True,
        "lora_target_modules": adaptable_layers(outline(str(model))),
        "max_cpu_loras": 16,
        "max_lora_rank": 16,
        "max_loras": 4,
    }
    start.check(Adapter.read("a", str(write_adapter(model, tmp_path / "a"))))
    for options, message in (
        ({"r": 32}, "its rank is 32 and the engine's max_lora_rank 16: raise max_lora_rank"),
        ({"target_modules": ["embed_tokens"]}, "the engine does not apply base_model.*embed_tokens"),
    ):
        with pytest.raises(AdapterError, match=message):
            start.check(Adapter.read("b", str(write_adapter(model, tmp_path / "b", **options))))


def test_the_engine_loads_the_merged_model_under_the_models_name() -> None:
    config = engine_config(settings())
    EngineAdapters("base", {"a": shaped("a")}, merged="a", model=Path("/cache/a")).configure(config)
    given = config.get_engine_config().get_initialization_kwargs()
    assert (given["model"], given["served_model_name"]) == ("/cache/a", ["base"])
    assert "enable_lora" not in given


def test_no_replica_starts_on_a_cpu_whose_vllm_mixes_adapters_up(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vllm, "__version__", "0.1")
    with pytest.raises(AdapterError, match=r"vLLM 0\.1 cannot keep adapters away .* on a CPU: install 0\.29, or serve"):
        EngineAdapters.read(settings(model_name=str(model), lora_dir=str(tmp_path)))
    assert not EngineAdapters.read(settings(model_name=str(model))).arguments


def test_bad_names_and_a_merge_of_several_are_refused_and_one_is_merged_where_that_is_said() -> None:
    assert settings(lora={"a": "/a"}, lora_merge=True).merged_adapter == "a"
    assert settings(lora={"a": "/a"}).merged_adapter is None
    for args, message in (
        ({"lora": {"base": "/a"}}, "is the model's own name"),
        ({"lora": {"auto": "/a"}}, "expected names"),
        ({"lora": {"a b": "/a"}}, "expected names"),
        ({"lora": {"a": "/a", "b": "/b"}, "lora_merge": True}, "expected one adapter"),
    ):
        with pytest.raises(SettingsError, match=message):
            settings(**args)


@pytest.fixture(scope="module")
def spelling_model(smollm2_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One with a tokenizer."""
    return write_model(smollm2_path, tmp_path_factory.mktemp("model") / "tiny")


def test_a_merged_model_is_a_whole_one_made_once_and_computes_what_peft_does(
    spelling_model: Path, tmp_path: Path
) -> None:
    cache, base = tmp_path / "cache", AutoModelForCausalLM.from_pretrained(spelling_model)
    adapter, other = (
        Adapter.read(f"some/{name}", str(write_adapter(spelling_model, tmp_path / name))) for name in "ab"
    )
    folder = merge_model(str(spelling_model), adapter, cache)
    tokens = AutoTokenizer.from_pretrained(folder)("Once upon a time", return_tensors="pt").input_ids
    with torch.no_grad():
        merged = AutoModelForCausalLM.from_pretrained(folder)(tokens).logits
        plain = base(tokens).logits
        adapted = PeftModel.from_pretrained(base, tmp_path / "a")(tokens).logits
    assert torch.allclose(merged, adapted, atol=1e-3)
    assert not torch.allclose(merged, plain, atol=1)
    assert {path.name for path in spelling_model.iterdir()} <= {path.name for path in folder.iterdir()}
    stamp = (folder / "model.safetensors").stat().st_mtime_ns
    assert merge_model(str(spelling_model), adapter, cache) == folder
    assert (folder / "model.safetensors").stat().st_mtime_ns == stamp
    assert merge_model(str(spelling_model), other, cache) != folder
    assert len(list(cache.iterdir())) == 2


def test_one_that_cannot_be_merged_leaves_nothing(spelling_model: Path, tmp_path: Path) -> None:
    adapter = Adapter.read("a", str(write_adapter(spelling_model, tmp_path / "a")))
    larger = write_adapter(spelling_model, tmp_path / "b", r=8)
    (tmp_path / "a" / "adapter_model.safetensors").write_bytes((larger / "adapter_model.safetensors").read_bytes())
    with pytest.raises(AdapterError, match=r"adapter a: peft cannot merge it"):
        merge_model(str(spelling_model), adapter, tmp_path / "cache")
    assert not list((tmp_path / "cache").iterdir())
