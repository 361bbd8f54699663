"""How the engine of Ray Data's stage is started."""

from typing import Any

import pytest
from vllm.config import StructuredOutputsConfig

from deployments.offline.replica import engine_arguments, normalize_engine_kwargs
from tests.deployments.offline.conftest import MakeConfig

CPU = {"placement_bundles": [{"CPU": 1}]}


def test_the_engine_is_started_as_the_service_starts_it(make_config: MakeConfig) -> None:
    settings = make_config({**CPU, "torch_dtype": "bfloat16", "engine_kwargs": {"max_num_seqs": 8}}).settings
    arguments = engine_arguments(settings)
    assert arguments["structured_outputs_config"]["backend"] == "xgrammar"
    assert "kv_transfer_config" in arguments
    assert (arguments["dtype"], arguments["max_num_seqs"]) == ("bfloat16", 8)
    assert arguments["served_model_name"] == ["toy"]


@pytest.mark.parametrize("given", [{}, {"distributed_executor_backend": "mp"}])
def test_how_it_is_spread_over_workers_is_rays_to_say_unless_it_is_said(
    make_config: MakeConfig, given: dict[str, Any]
) -> None:
    arguments = engine_arguments(make_config({**CPU, "engine_kwargs": given}).settings)
    assert arguments.get("distributed_executor_backend") == given.get("distributed_executor_backend")


def test_rays_stage_says_the_model_itself(make_config: MakeConfig) -> None:
    assert not {"model", "enable_log_requests"} & engine_arguments(make_config(CPU).settings).keys()


def test_plain_dicts_become_types_of_vllm() -> None:
    made = normalize_engine_kwargs({"structured_outputs_config": {"backend": "xgrammar"}, "max_num_seqs": 8})
    assert isinstance(made["structured_outputs_config"], StructuredOutputsConfig)
    assert made["max_num_seqs"] == 8
