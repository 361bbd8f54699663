"""The engine's arguments, its placement and dtype, and how Ray scales what runs it."""

import inspect
import logging
import pickle
from pathlib import Path
from typing import Any

import pytest
from ray.serve._private.common import DeploymentID, ReplicaID
from ray.serve.config import AutoscalingConfig, AutoscalingContext, AutoscalingPolicy
from transformers import PaliGemmaConfig
from vllm.engine.arg_utils import AsyncEngineArgs
from vllm.platforms import current_platform

from deployments.protocol.rules import has_reasoning_parser
from deployments.ray_private import normalize_engine_kwargs
from deployments.replica.engine import configuration
from deployments.replica.engine.autoscaling import METRIC, POLICY, by_interactive_sequences
from deployments.replica.engine.configuration import engine_config, processor_flags, settle_dtype
from deployments.settings.service import Settings, SettingsError
from vocab.vllm_plugin.kv_fork import TRANSFER_CONFIG


def settings(**args: object) -> Settings:
    return Settings.load({"secret_token": "k", "model_name": "some/model", **args}, {})


def arguments(**args: object) -> dict[str, Any]:
    return dict(engine_config(settings(**args)).engine_kwargs)


def test_the_engine_always_gets_one_structured_output_backend_and_few_compiled_grammars() -> None:
    assert not has_reasoning_parser(settings())
    for kwargs in ({"structured_outputs_config": {"reasoning_parser": "r"}}, {"reasoning_parser": "r"}):
        assert has_reasoning_parser(settings(engine_kwargs=kwargs))
        given = arguments(engine_kwargs=kwargs)
        assert given["structured_outputs_config"] == {"reasoning_parser": "r", "backend": "xgrammar"}
        assert given["reasoning_parser"] == "r"
    for env, expected in ({}, "64"), ({"VLLM_XGRAMMAR_CACHE_MB": "128"}, "128"):
        config = engine_config(settings(replica_env=env))
        assert config.runtime_env["env_vars"]["VLLM_XGRAMMAR_CACHE_MB"] == expected


def test_steps_of_a_search_have_log_probabilities_and_share_their_work_on_a_cpu_or_where_it_is_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Beams need so many log-probabilities.
    for asked, used in ((None, 64), (20, 64), (100, 100), (-1, -1)):
        assert arguments(engine_kwargs={} if asked is None else {"max_logprobs": asked})["max_logprobs"] == used
    for is_cpu in (True, False):
        monkeypatch.setattr(type(current_platform), "is_cpu", lambda platform, is_cpu=is_cpu: is_cpu)
        for keeps, shares in ((None, is_cpu), (True, True), (False, False)):
            given = arguments(**({} if keeps is None else {"keep_search_steps": keeps}))
            assert given.get("kv_transfer_config") == (TRANSFER_CONFIG if shares else None)
    for name in ("kv_transfer_config", "kv_offloading_size", "enable_return_routed_experts"):
        for value in (None, {"kv_connector": "Own"}):
            # An operator's own use of the cache stays.
            given = arguments(engine_kwargs={name: value}, keep_search_steps=True)
            assert given[name] == value
            assert given.get("kv_transfer_config") != TRANSFER_CONFIG


def test_a_model_that_reads_pictures_is_served_as_text_unless_the_operator_says_otherwise(
    tmp_path: Path,
) -> None:
    small = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    text = {**small, "num_key_value_heads": 1, "head_dim": 8, "model_type": "gemma"}
    model = PaliGemmaConfig(text_config=text, vision_config={**small, "model_type": "siglip_vision_model"})
    model.architectures = ["PaliGemmaForConditionalGeneration"]
    model.save_pretrained(tmp_path)
    for given, limit in (
        ({}, 0),
        ({"language_model_only": False}, 999),
        ({"limit_mm_per_prompt": {"image": 1}}, 1),
    ):
        made = engine_config(settings(model_name=str(tmp_path), engine_kwargs={**given, "max_model_len": 64}))
        kwargs = normalize_engine_kwargs(made.get_engine_config().get_initialization_kwargs())
        pictures = AsyncEngineArgs(**kwargs, skip_tokenizer_init=True).create_model_config().multimodal_config
        assert pictures is not None
        assert pictures.get_limit_per_prompt("image") == limit, given


def test_drafted_tokens_are_refused_on_a_cpu_and_only_there(monkeypatch: pytest.MonkeyPatch) -> None:
    drafts = settings(engine_kwargs={"speculative_config": {"method": "ngram", "num_speculative_tokens": 3}})
    monkeypatch.setattr(type(current_platform), "is_cpu", lambda platform: True)
    with pytest.raises(SettingsError, match=r"engine_kwargs\.speculative_config: expected none on a CPU"):
        engine_config(drafts)
    monkeypatch.setattr(type(current_platform), "is_cpu", lambda platform: False)
    assert engine_config(drafts).engine_kwargs["speculative_config"]["num_speculative_tokens"] == 3


async def test_ray_prepares_nodes_only_for_a_bucket_or_several_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    for model, num_nodes, prepares in (
        ("some/model", 1, False), ("/a/folder", 1, False), ("some/model", 2, True), ("s3://bucket/model", 1, True),
    ):  # fmt: skip
        config = engine_config(settings(model_name=model, model_id="m"))
        assert config.callback_config.callback_class is configuration.NodeInit
        table = {"bundles_to_node_id": {bundle: f"node {bundle % num_nodes}" for bundle in range(4)}}
        monkeypatch.setattr("ray.util.placement_group_table", lambda group, table=table: table)
        callback = configuration.NodeInit(config)
        await callback.on_before_node_init()
        assert callback.ctx.run_init_node is prepares, model


@pytest.mark.fault(35)
def test_queues_are_bounded() -> None:
    args: dict[str, Any] = {"max_sequences": 5, "max_queued_requests": 6}
    # The lines of batches take no place of a request.
    lines = {"batch": {"lines_in_flight": 10}, "autoscaling": {"max_replicas": 3}}
    for given, num_lines in (({"batch": {"enabled": False}}, 0), (lines, 57)):
        config = engine_config(settings(**args, **given)).deployment_config
        assert config["max_ongoing_requests"] == 2 * (5 + 6) + num_lines
        assert config["max_queued_requests"] == 5 + 6 + num_lines


@pytest.mark.fault(55)
def test_the_engine_orders_by_priority_unless_the_operator_says_otherwise() -> None:
    for given, priority in (({}, 1), ({"scheduling_policy": "fcfs"}, 0)):
        assert configuration.priority_after_chats(settings(engine_kwargs=given)) == priority
        assert arguments(engine_kwargs=given)["scheduling_policy"] == given.get("scheduling_policy", "priority")


def test_workers_that_share_layers_are_on_one_node() -> None:
    faults = []
    for tensors, stages, given, strategy in (
        (1, 1, {}, "PACK"),
        (4, 1, {}, "STRICT_PACK"),
        (2, 1, {"placement_bundles": [{"GPU": 1}] * 2}, "STRICT_PACK"),
        # Needs two nodes.
        (16, 1, {}, "PACK"),
        (2, 2, {}, "PACK"),
        (4, 1, {"placement_strategy": "PACK"}, "PACK"),
        (1, 2, {"placement_strategy": "SPREAD"}, "SPREAD"),
    ):
        kwargs = {"tensor_parallel_size": tensors, "pipeline_parallel_size": stages}
        config = engine_config(settings(engine_kwargs=kwargs, **given)).get_engine_config()
        bundles = [bundle["GPU"] for bundle in config.placement_bundles]
        if (config.placement_strategy, bundles) != (strategy, [1] * tensors * stages):
            faults.append((tensors, stages, given, config.placement_strategy, bundles))
    assert not faults


XEON_SKYLAKE = {"fpu", "avx2", "avx512f", "avx512bw", "avx512vl"}
EPYC_GENOA = XEON_SKYLAKE | {"avx512_vnni", "avx512_bf16"}
XEON_SAPPHIRE_RAPIDS = EPYC_GENOA | {"amx_tile", "amx_int8", "amx_bf16"}
GRAVITON_2 = {"fp", "asimd", "atomics"}


def test_the_flags_are_those_that_linux_tells(tmp_path: Path) -> None:
    cpuinfo = tmp_path / "cpuinfo"
    for text, flags in (
        (
            "processor\t: 0\nbugs\t\t: spectre_v1\nflags\t\t: fpu avx2\n\nprocessor\t: 1\nflags\t\t: fpu avx2\n",
            "fpu avx2",
        ),
        ("processor\t: 0\nFeatures\t: fp asimd bf16\n", "fp asimd bf16"),
    ):
        cpuinfo.write_text(text)
        assert processor_flags(cpuinfo) == set(flags.split())
    assert processor_flags(tmp_path / "none") == frozenset()


def test_an_engine_gets_what_fits_its_own_node_and_why_is_logged(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Serve's logger passes on nothing, or all twice, as what ran before has left it.
    monkeypatch.setattr(configuration, "logger", logging.getLogger("tests"))
    caplog.set_level(logging.INFO, "tests")
    auto: dict[str, Any] = {"torch_dtype": "bfloat16", "engine_kwargs": {"dtype": "auto"}}
    for flags, args, chosen, reason in (
        (XEON_SAPPHIRE_RAPIDS, {}, "bfloat16", "amx_bf16, avx512_bf16"),
        (EPYC_GENOA, {}, "bfloat16", "(avx512_bf16)"),
        (XEON_SKYLAKE, {}, "float32", "none of amx_bf16, avx512_bf16"),
        (GRAVITON_2 | {"i8mm", "bf16"}, {}, "bfloat16", "(bf16)"),
        (GRAVITON_2, {}, "float32", "none of"),
        (set[str](), {}, "float32", "not known"),
        (XEON_SKYLAKE, auto, "float32", "none of"),
        (XEON_SKYLAKE, {"torch_dtype": "bfloat16"}, "bfloat16", None),
        (XEON_SKYLAKE, {"torch_dtype": "float16"}, "float16", None),
        # On a GPU.
        (None, {}, "auto", None),
    ):
        caplog.clear()
        monkeypatch.setattr(configuration, "processor_flags", lambda flags=flags: frozenset(flags or ()))
        monkeypatch.setattr(current_platform, "is_cpu", lambda flags=flags: flags is not None)
        config = engine_config(settings(**args))
        # As where the application is built: Ray keeps the engine's arguments beside those of the configuration.
        assert config.get_engine_config().engine_kwargs["dtype"] != "float32"
        config = pickle.loads(pickle.dumps(config))  # noqa: S301
        settle_dtype(config)
        assert config.get_engine_config().engine_kwargs["dtype"] == config.engine_kwargs["dtype"] == chosen
        logged = [record.getMessage() for record in caplog.records]
        assert logged == [] if reason is None else reason in logged[0]


DEPLOYMENT = DeploymentID("Replica", "wordbound")


def context_of(*sequences: float, num_requests: float) -> AutoscalingContext:
    """Two running replicas, the first of which report so many sequences; the aim is 10 in each."""
    replicas = [ReplicaID(str(number), DEPLOYMENT) for number in range(2)]
    reported = dict(zip(replicas, sequences, strict=False))
    facts: dict[str, Any] = {
        **dict.fromkeys(inspect.signature(AutoscalingContext).parameters),
        "total_num_requests": num_requests,
        "aggregated_metrics": {METRIC: reported} if reported else {},
        "config": AutoscalingConfig(target_ongoing_requests=10, policy=AutoscalingPolicy(policy_function=POLICY)),
    }
    return AutoscalingContext(**facts)


def test_replicas_are_for_interactive_sequences_and_one_stays_for_lines() -> None:
    for sequences, num_requests, wanted in (
        ((10, 10), 20, 2),
        ((30, 15), 9, 4.5),
        # Two hundred lines of batches beside three chats; lines alone; started this moment.
        ((2, 1), 203, 1),
        ((0, 0), 200, 1),
        ((), 200, 1),
        ((0, 0), 0, 0),
    ):
        assert by_interactive_sequences(context_of(*sequences, num_requests=num_requests)) == (wanted, {})
