"""Which dtype is chosen for which processor, and that an engine gets it."""

import logging
import pickle
from collections.abc import Collection
from pathlib import Path
from typing import Any

import pytest
from vllm.platforms import current_platform

from deployments.replica.engine import configuration
from deployments.replica.engine.configuration import (
    cpu_dtype,
    engine_config,
    processor_flags,
    resolve_dtype,
    settle_dtype,
)
from deployments.settings.service import Settings

XEON_SKYLAKE = {"fpu", "avx2", "avx512f", "avx512bw", "avx512vl"}
EPYC_GENOA = XEON_SKYLAKE | {"avx512_vnni", "avx512_bf16"}
XEON_SAPPHIRE_RAPIDS = EPYC_GENOA | {"amx_tile", "amx_int8", "amx_bf16"}
GRAVITON_2 = {"fp", "asimd", "atomics"}
GRAVITON_3 = GRAVITON_2 | {"i8mm", "bf16"}


@pytest.mark.parametrize(
    ("flags", "chosen", "reason"),
    [
        (XEON_SAPPHIRE_RAPIDS, "bfloat16", "amx_bf16, avx512_bf16"),
        (EPYC_GENOA, "bfloat16", "(avx512_bf16)"),
        (XEON_SKYLAKE, "float32", "none of amx_bf16, avx512_bf16"),
        (GRAVITON_3, "bfloat16", "(bf16)"),
        (GRAVITON_2, "float32", "none of"),
        ((), "float32", "not known"),
    ],
)
def test_a_processor_computes_in_bfloat16_only_where_it_can(flags: Collection[str], chosen: str, reason: str) -> None:
    assert cpu_dtype(flags)[0] == chosen
    assert reason in cpu_dtype(flags)[1]


def test_the_flags_are_those_that_linux_tells(tmp_path: Path) -> None:
    cpuinfo = tmp_path / "cpuinfo"
    cpuinfo.write_text(
        "processor\t: 0\nbugs\t\t: spectre_v1\nflags\t\t: fpu avx2\n\nprocessor\t: 1\nflags\t\t: fpu avx2\n"
    )
    assert processor_flags(cpuinfo) == {"fpu", "avx2"}
    cpuinfo.write_text("processor\t: 0\nFeatures\t: fp asimd bf16\n")
    assert processor_flags(cpuinfo) == {"fp", "asimd", "bf16"}
    assert processor_flags(tmp_path / "none") == frozenset()


@pytest.fixture
def plain_processor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(configuration, "processor_flags", lambda: frozenset(XEON_SKYLAKE))
    monkeypatch.setattr(current_platform, "is_cpu", lambda: True)


@pytest.mark.usefixtures("plain_processor")
def test_what_was_chosen_and_why_is_logged(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    # Serve's logger passes on nothing, or all twice, as what ran before has left it.
    monkeypatch.setattr(configuration, "logger", logging.getLogger("tests"))
    caplog.set_level(logging.INFO, "tests")
    assert resolve_dtype("auto") == "float32"
    [record] = caplog.records
    assert record.getMessage().startswith("torch_dtype auto: float32, for the processor has none of")


@pytest.mark.usefixtures("plain_processor")
@pytest.mark.parametrize("given", ["bfloat16", "float16", "float32"])
def test_a_format_that_is_named_stays(given: str) -> None:
    assert resolve_dtype(given) == given


@pytest.mark.usefixtures("plain_processor")
def test_on_a_gpu_the_model_says_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(current_platform, "is_cpu", lambda: False)
    assert resolve_dtype("auto") == "auto"


@pytest.mark.usefixtures("plain_processor")
@pytest.mark.parametrize(
    ("args", "chosen"),
    [
        ({}, "float32"),
        ({"torch_dtype": "bfloat16"}, "bfloat16"),
        ({"torch_dtype": "bfloat16", "engine_kwargs": {"dtype": "auto"}}, "float32"),
    ],
)
def test_an_engine_gets_what_fits_its_own_node(args: dict[str, Any], chosen: str) -> None:
    settings = Settings.load({"secret_token": "k", "model_name": "some/model", **args}, {})
    config = engine_config(settings)
    # As where the application is built: Ray keeps the engine's arguments beside those of the configuration.
    assert config.get_engine_config().engine_kwargs["dtype"] != "float32"
    config = pickle.loads(pickle.dumps(config))  # noqa: S301
    settle_dtype(config)
    assert config.get_engine_config().engine_kwargs["dtype"] == chosen
    assert config.engine_kwargs["dtype"] == chosen
