from types import SimpleNamespace
from typing import Any

import pytest
from vllm.platforms import current_platform
from vllm.v1.metrics.loggers import StatLoggerBase
from vllm.v1.metrics.stats import IterationStats, SchedulerStats

from deployments.errors import EngineError
from deployments.replica.engine import configuration, engine
from deployments.settings.service import Settings, SettingsError
from vocab.vllm_plugin.kv_fork import TRANSFER_CONFIG


def settings(**args: object) -> Settings:
    return Settings.load({"secret_token": "k", "model_name": "some/model", **args}, {})


def test_the_engine_always_gets_one_structured_output_backend() -> None:
    for kwargs in ({"structured_outputs_config": {"reasoning_parser": "r"}}, {"reasoning_parser": "r"}):
        config = configuration.engine_config(settings(engine_kwargs=kwargs))
        assert config.engine_kwargs["structured_outputs_config"] == {"reasoning_parser": "r", "backend": "xgrammar"}
        assert config.engine_kwargs["reasoning_parser"] == "r"


def test_the_engine_caches_few_compiled_grammars_unless_the_settings_ask_for_more() -> None:
    for given, expected in ({}, "64"), ({"VLLM_XGRAMMAR_CACHE_MB": "128"}, "128"):
        config = configuration.engine_config(settings(replica_env=given))
        assert config.runtime_env["env_vars"]["VLLM_XGRAMMAR_CACHE_MB"] == expected


def connector(**args: object) -> object:
    return configuration.engine_config(settings(**args)).engine_kwargs.get("kv_transfer_config")


@pytest.mark.parametrize("is_cpu", [True, False])
def test_steps_of_a_search_share_their_work_on_a_cpu_or_where_it_is_asked_for(
    monkeypatch: pytest.MonkeyPatch, is_cpu: bool
) -> None:
    monkeypatch.setattr(type(current_platform), "is_cpu", lambda platform: is_cpu)
    assert connector() == (TRANSFER_CONFIG if is_cpu else None)
    assert connector(keep_search_steps=True) == TRANSFER_CONFIG
    assert connector(keep_search_steps=False) is None


def test_drafted_tokens_are_refused_on_a_cpu_and_only_there(monkeypatch: pytest.MonkeyPatch) -> None:
    drafts = settings(engine_kwargs={"speculative_config": {"method": "ngram", "num_speculative_tokens": 3}})
    monkeypatch.setattr(type(current_platform), "is_cpu", lambda platform: True)
    with pytest.raises(SettingsError, match=r"engine_kwargs\.speculative_config: expected none on a CPU"):
        configuration.engine_config(drafts)
    monkeypatch.setattr(type(current_platform), "is_cpu", lambda platform: False)
    assert configuration.engine_config(drafts).engine_kwargs["speculative_config"]["num_speculative_tokens"] == 3


@pytest.mark.parametrize(
    ("model", "num_nodes", "prepares"),
    [("some/model", 1, False), ("/a/folder", 1, False), ("some/model", 2, True), ("s3://bucket/model", 1, True)],
)
async def test_ray_prepares_nodes_only_for_a_bucket_or_several_of_them(
    monkeypatch: pytest.MonkeyPatch, model: str, num_nodes: int, prepares: bool
) -> None:
    config = configuration.engine_config(settings(model_name=model, model_id="m"))
    assert config.callback_config.callback_class is configuration.NodeInit
    table = {"bundles_to_node_id": {bundle: f"node {bundle % num_nodes}" for bundle in range(4)}}
    monkeypatch.setattr("ray.util.placement_group_table", lambda group: table)
    callback = configuration.NodeInit(config)
    await callback.on_before_node_init()
    assert callback.ctx.run_init_node is prepares


@pytest.mark.parametrize("name", ["kv_transfer_config", "kv_offloading_size", "enable_return_routed_experts"])
def test_an_operators_own_use_of_the_kv_cache_stays(name: str) -> None:
    for value in (None, {"kv_connector": "Own"}):
        kwargs = configuration.engine_config(settings(engine_kwargs={name: value})).engine_kwargs
        assert kwargs[name] == value
        assert kwargs.get("kv_transfer_config") != TRANSFER_CONFIG


@pytest.mark.parametrize(("given", "used"), [(None, 64), (20, 64), (100, 100), (-1, -1)])
def test_an_engine_tells_as_many_tokens_as_beams_need(given: int | None, used: int) -> None:
    config = configuration.engine_config(settings(engine_kwargs={} if given is None else {"max_logprobs": given}))
    assert config.engine_kwargs["max_logprobs"] == used


def test_queues_are_bounded() -> None:
    config = configuration.engine_config(settings(max_sequences=5, max_queued_requests=6, batch={"enabled": False}))
    assert config.deployment_config["max_ongoing_requests"] == 2 * (5 + 6)
    assert config.deployment_config["max_queued_requests"] == 5 + 6


def test_the_lines_of_batches_take_no_place_of_a_request() -> None:
    batch = {"lines_in_flight": 10}
    config = configuration.engine_config(
        settings(max_sequences=5, max_queued_requests=6, batch=batch, autoscaling={"max_replicas": 3})
    )
    assert config.deployment_config["max_ongoing_requests"] == 2 * (5 + 6) + 57
    assert config.deployment_config["max_queued_requests"] == 5 + 6 + 57


@pytest.mark.parametrize(("given", "priority"), [({}, 1), ({"scheduling_policy": "fcfs"}, 0)])
def test_the_engine_orders_by_priority_unless_the_operator_says_otherwise(given: dict[str, str], priority: int) -> None:
    chosen = settings(engine_kwargs=given)
    assert configuration.priority_after_chats(chosen) == priority
    policy = configuration.engine_config(chosen).engine_kwargs["scheduling_policy"]
    assert policy == given.get("scheduling_policy", "priority")


@pytest.mark.parametrize(
    ("args", "strategy", "num_bundles"),
    [
        ({}, "PACK", 1),
        ({"engine_kwargs": {"tensor_parallel_size": 4}}, "STRICT_PACK", 4),
        ({"engine_kwargs": {"tensor_parallel_size": 2}, "placement_bundles": [{"GPU": 1}] * 2}, "STRICT_PACK", 2),
        # Needs two nodes.
        ({"engine_kwargs": {"tensor_parallel_size": 16}}, "PACK", 16),
        ({"engine_kwargs": {"tensor_parallel_size": 2, "pipeline_parallel_size": 2}}, "PACK", 4),
        ({"engine_kwargs": {"tensor_parallel_size": 4}, "placement_strategy": "PACK"}, "PACK", 4),
        ({"engine_kwargs": {"pipeline_parallel_size": 2}, "placement_strategy": "SPREAD"}, "SPREAD", 2),
    ],
)
def test_workers_that_share_layers_are_on_one_node(args: dict[str, Any], strategy: str, num_bundles: int) -> None:
    config = configuration.engine_config(settings(**args)).get_engine_config()
    assert config.placement_strategy == strategy
    assert [bundle["GPU"] for bundle in config.placement_bundles] == [1] * num_bundles


def test_structures_that_vllm_does_not_take_together_are_refused() -> None:
    body = {"model": "m", "messages": [{"role": "user", "content": "Hello"}], "max_tokens": 9}
    structured = {"structured_outputs": {"json": "{", "choice": ["a"]}}
    with pytest.raises(EngineError) as refused:
        engine.engine_request(body | structured, request_id="r", max_input_tokens=10)
    assert (refused.value.status, refused.value.type) == (400, "invalid_request_error")


def test_the_engines_own_failures_tell_nothing() -> None:
    error = engine.refusal({"message": "at 0x7f secret", "code": 500})
    assert (error.status, error.type, error.code) == (500, "server_error", "engine_error")
    assert "secret" not in error.message


def test_other_refusals_keep_their_message_without_the_engines_suffix() -> None:
    error = engine.refusal({"message": "too hot (parameter=temperature, value=9)", "code": 400, "param": "t"})
    assert str(error) == "too hot"


def test_a_reasoning_model_is_known_by_its_parser() -> None:
    assert not configuration.has_reasoning_parser(settings())
    assert configuration.has_reasoning_parser(settings(engine_kwargs={"reasoning_parser": "qwen3"}))


def test_steps_that_only_wait_are_not_counted() -> None:
    counter = engine.StepCounter()
    idle, reading = SchedulerStats(num_waiting_reqs=1), SchedulerStats(num_running_reqs=1)
    for scheduler, iteration in ((idle, None), (None, None), (reading, None), (idle, IterationStats())):
        counter.record(scheduler, iteration)
    assert counter.num_steps == 2


@pytest.mark.parametrize("keeps_statistics", [True, False])
def test_steps_are_counted_where_the_engine_keeps_statistics(keeps_statistics: bool) -> None:
    loggers: list[StatLoggerBase] = []
    manager = SimpleNamespace(stat_loggers=loggers) if keeps_statistics else None
    served: Any = SimpleNamespace(engine=SimpleNamespace(_engine_client=SimpleNamespace(logger_manager=manager)))
    counter = engine.count_steps(served)
    assert loggers == ([counter] if keeps_statistics else [])


@pytest.mark.parametrize(
    ("message", "param"),
    [
        ('"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set', "tool_choice"),
        ('tool_choice="required" requires --tool-call-parser to be set', "tool_choice"),
        (
            "thinking_token_budget is set but reasoning_config is not. Please set --reasoning-parser",
            "thinking_token_budget",
        ),
        ("Start the server with --some-new-option.", None),
    ],
)
def test_no_client_is_told_of_an_option_of_vllms_server(message: str, param: str | None) -> None:
    refused = engine.refusal({"code": 400, "message": message, "param": None})
    assert (refused.status, refused.param) == (400, param)
    assert "--" not in refused.message
    assert refused.message.startswith("A field" if param is None else f"'{param}'")
