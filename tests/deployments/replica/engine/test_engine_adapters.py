"""Which adapters an engine is started with."""

from pathlib import Path
from typing import Any

import pytest

from deployments.adapter_register import Register
from deployments.replica.engine.configuration import engine_config
from deployments.replica.engine.loaded_adapters import EngineAdapters, lora_arguments
from deployments.replica.engine.merging import adaptable_layers, outline
from deployments.settings.service import Settings, SettingsError
from tests.tiny_adapters import write_adapter, write_model
from vocab.adapters import Adapter, AdapterError
from vocab.vllm_plugin import cpu_patches


def adapter(name: str, rank: int = 16, module: str = "layers.0.q_proj") -> Adapter:
    shapes = {module: {"A": (rank, 64), "B": (64, rank)}}
    return Adapter(name, Path("/adapters") / name, "", {}, shapes, (), None)


def settings(**args: Any) -> Settings:
    return Settings.load({"secret_token": "k", "model_name": "some/base", "model_id": "base", **args}, {})


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_model(None, tmp_path_factory.mktemp("model"))


def test_the_engine_takes_adapters_of_their_rank_and_modules() -> None:
    given = settings(engine_kwargs={"max_loras": 1})
    adapters = {"a": adapter("a"), "b": adapter("b", rank=20, module="layers.0.down_proj")}
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


def test_an_engine_that_may_load_some_later_takes_all_linear_layers(model: Path, tmp_path: Path) -> None:
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


def test_the_settings_say_what_the_engine_takes() -> None:
    given = settings(engine_kwargs={"max_loras": 12, "max_lora_rank": 64, "lora_target_modules": ["x"]})
    result = lora_arguments(given, [], ["q_proj"])
    assert (result["max_loras"], result["max_lora_rank"], result["max_cpu_loras"]) == (12, 64, 16)
    assert result["lora_target_modules"] == ["q_proj"]


def test_the_engine_loads_the_merged_model_under_the_models_name() -> None:
    config = engine_config(settings())
    EngineAdapters("base", {"a": adapter("a")}, merged="a", model=Path("/cache/a")).configure(config)
    given = config.get_engine_config().get_initialization_kwargs()
    assert (given["model"], given["served_model_name"]) == ("/cache/a", ["base"])
    assert "enable_lora" not in given


def test_an_adapter_is_merged_only_where_the_settings_say_so() -> None:
    assert settings(lora={"a": "/a"}, lora_merge=True).merged_adapter == "a"
    assert settings(lora={"a": "/a"}).merged_adapter is None


def test_no_replica_starts_on_a_cpu_whose_vllm_mixes_adapters_up(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cpu_patches, "TRIED_ON", frozenset({"0.1"}))
    with pytest.raises(AdapterError, match=r"cannot keep adapters away .* on a CPU: install 0\.1, or serve one"):
        EngineAdapters.read(settings(model_name=str(model), lora_dir=str(tmp_path)))
    assert not EngineAdapters.read(settings(model_name=str(model))).arguments


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
