"""An engine with one GPU: vLLM chooses its executor, and Ray is not asked for a process on the GPU."""

from pathlib import Path

import pytest

from deployments.replica.engine.configuration import engine_config
from deployments.replica.engine.one_worker import Engine
from deployments.settings.service import Settings

GPU = {"placement_bundles": [{"GPU": 1, "CPU": 1}]}


def test_vllm_chooses_the_executor_of_an_engine_with_one_gpu(
    smollm2_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ray.remote", None)
    values = {"secret_token": "k", "model_name": str(smollm2_path), "engine_kwargs": {"max_model_len": 512}, **GPU}
    arguments, _, made = Engine(engine_config(Settings.load(values, {})))._prepare_engine_config(None)
    assert arguments.distributed_executor_backend is None
    assert made.parallel_config.world_size == 1
    # On a CPU, vLLM's own is another.
    assert made.parallel_config.distributed_executor_backend in ("uni", "mp")
    assert made.structured_outputs_config.backend == "xgrammar"
