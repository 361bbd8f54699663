"""Which requests have which adapter, and what the engine is told of adapters."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from ray.serve.llm.deployment import LLMServer

from deployments.adapters.folder import Adapter, AdapterError, Card
from deployments.contract import AUTO_ADAPTER, ResolvedVocabulary
from deployments.replica.engine.adapters import EngineAdapters, lora_request, with_merge_settled
from deployments.replica.engine.engine import engine_config
from deployments.settings import Settings, SettingsError


def adapter(name: str, *languages: str, rank: int = 16, module: str = "layers.0.q_proj") -> Adapter:
    shapes = {module: {"A": (rank, 64), "B": (64, rank)}}
    return Adapter(name, Path("/adapters") / name, "", {}, shapes, (), Card(format=1, languages=languages))


def vocabulary(lang: str | None, n_words: int = 500) -> ResolvedVocabulary:
    return ResolvedVocabulary(digest="d", lang=lang, n_words=n_words, fewest_tokens=2)


def settings(**args: Any) -> Settings:
    return Settings.load({"secret_token": "k", "model_name": "some/base", "model_id": "base", **args}, {})


BESIDE = EngineAdapters(
    "base", {"a": adapter("a", "en"), "b": adapter("b", "es", rank=20, module="layers.0.down_proj")}
)
MERGED = EngineAdapters("base", {"a": adapter("a", "en")}, merged="a", model=Path("/cache/a"))


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
def test_a_request_has_the_adapter_that_it_names_or_one_for_its_list(
    model: str, asked: str | None, lang: str | None, expected: str | None
) -> None:
    chosen = BESIDE.choose(model, asked, None if lang is None else vocabulary(lang))
    assert chosen == expected
    assert BESIDE.engine_name(chosen) == (expected or "base")


@pytest.mark.parametrize("model", ["base", "a"])
@pytest.mark.parametrize("lang", [None, "en", "de"])
def test_all_requests_have_what_is_merged(model: str, lang: str | None) -> None:
    chosen = MERGED.choose(model, AUTO_ADAPTER, None if lang is None else vocabulary(lang))
    assert (chosen, MERGED.engine_name(chosen)) == ("a", "base")


def test_the_engine_takes_adapters_of_their_rank_and_modules() -> None:
    config = engine_config(settings(engine_kwargs={"max_loras": 1}))
    BESIDE.configure(config)
    given = config.get_engine_config().get_initialization_kwargs()
    told = {name: given[name] for name in given if "lora" in name}
    assert told == {
        "enable_lora": True,
        "lora_target_modules": ["down_proj", "q_proj"],
        "max_cpu_loras": 2,
        "max_lora_rank": 32,
        "max_loras": 1,
    }
    assert given["model"] == "some/base"


def test_the_engine_loads_the_merged_model_under_the_models_name() -> None:
    config = engine_config(settings())
    MERGED.configure(config)
    given = config.get_engine_config().get_initialization_kwargs()
    assert (given["model"], given["served_model_name"]) == ("/cache/a", ["base"])
    assert "enable_lora" not in given


async def test_each_adapter_is_loaded_and_a_refusal_names_it() -> None:
    loaded: dict[str, Any] = {}

    class Models:
        lora_requests = loaded

        async def load_lora_adapter(self, request: Any) -> Any:
            if request.lora_name == "b":
                return SimpleNamespace(error=SimpleNamespace(message="no room"))
            loaded[request.lora_name] = request
            return "Success"

    server = cast("LLMServer", SimpleNamespace(engine=SimpleNamespace(_oai_models=Models())))
    with pytest.raises(AdapterError, match=r"lora\.b: the engine does not take it: no room"):
        await BESIDE.load(server)
    assert lora_request(server, "a").lora_path == "/adapters/a"
    assert lora_request(server, None) is None
    loaded.clear()
    await MERGED.load(server)
    assert not loaded


def test_one_adapter_on_a_cpu_is_merged_unless_the_settings_say_otherwise() -> None:
    one, two = {"a": "/a"}, {"a": "/a", "b": "/b"}
    assert with_merge_settled(settings(lora=one)).merged_adapter == "a"
    assert with_merge_settled(settings(lora=one, lora_merge=False)).merged_adapter is None
    assert with_merge_settled(settings(lora=two)).merged_adapter is None
    assert with_merge_settled(settings()).merged_adapter is None


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ({"lora": {"base": "/a"}}, "is the model's own name"),
        ({"lora": {"auto": "/a"}}, "expected names"),
        ({"lora": {"a b": "/a"}}, "expected names"),
        ({"lora": {"a": "/a", "b": "/b"}, "lora_merge": True}, "expected one adapter"),
    ],
)
def test_bad_names_and_a_merge_of_several_are_refused(args: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        settings(**args)
