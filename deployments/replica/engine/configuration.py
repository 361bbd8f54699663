"""Turn the settings into the configuration of the engine and of the deployment that runs it; read its tokenizer.

*The dtype of a CPU*, where the settings leave it open (``torch_dtype: auto``). vLLM would take the model's own,
bfloat16 for nearly all of today's. A processor that cannot compute in it converts every number first: 52 tokens/s
instead of 111 in float32 (SmolLM2-135M, 32 sequences, a Xeon without avx512_bf16).
"""

import logging
import os
from collections.abc import Collection
from pathlib import Path
from typing import Any, Final

import ray.util
from ray.serve.llm import LLMConfig
from transformers import AutoTokenizer
from typing_extensions import override
from vllm.platforms import current_platform

from deployments.process_setup import HF_TOKEN
from deployments.protocol.rules import NEEDS_AUTOMATON
from deployments.ray_private import CallbackBase
from deployments.replica.engine.autoscaling import autoscaling_config
from deployments.request_router import STATS_PERIOD_S, ReplicaRouter
from deployments.search.generator import MAX_STEP_TOKENS
from deployments.settings.service import Settings, SettingsError
from deployments.settings.sources import ON_A_CLUSTER
from vocab.automaton.tokenizer import has_own_spelling
from vocab.vllm_plugin.kv_fork import TRANSFER_CONFIG

logger = logging.getLogger("ray.serve")

OFFLINE_STATISTICS: Final = {"VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1"}
"""Keeps vLLM and the libraries below it from reporting to their makers."""

TRACES: Final = {"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "http/protobuf"}
"""Of vLLM's spans, as of Serve's (``deployments.tracing``); vLLM's own default is gRPC."""

GRAMMAR_CACHE: Final = {"VLLM_XGRAMMAR_CACHE_MB": "64"}
"""Of compiled schemas and grammars of clients, in the engine's process, which grew by 1.6 GB with vLLM's 512. What is
not cached is compiled again: most in 10 to 100 ms."""

_EXCLUDE_CONNECTORS: Final = frozenset(
    {
        "kv_transfer_config",
        "kv_offloading_size",
        "enable_return_routed_experts",
        "use_replayssm",
        # No search, so no use for it.
        "speculative_config",
    }
)
"""Where one of these is set, vLLM has a KV connector already, wants none, or refuses to start with one."""

_NODE_GPUS: Final = 8
"""GPUs that a node has at most, in what Nvidia and the clouds build around NVLink; more workers need several nodes."""


class NodeInit(CallbackBase):
    """Have Ray prepare nodes only where there is something to prepare.

    A model that comes from no bucket, on one node, is fetched by the engine itself. Ray would first start a process
    there that imports vLLM, 11 s on two cores, and then has nothing to do.
    """

    @override
    async def on_before_node_init(self) -> None:
        nodes = ray.util.placement_group_table(self.ctx.placement_group)["bundles_to_node_id"].values()
        has_bucket = self.llm_config.get_engine_config().mirror_config is not None
        self.ctx.run_init_node = has_bucket or len(set(nodes)) > 1


def engine_config(settings: Settings) -> LLMConfig:
    """Return the configuration of the deployment and of the engine in it.

    Raises:
        SettingsError: The engine's arguments ask for what it cannot do here.
    """
    if settings.engine_kwargs.get("speculative_config") and current_platform.is_cpu():
        raise SettingsError(
            "engine_kwargs.speculative_config: expected none on a CPU, where vLLM 0.29 draws drafted tokens at a wrong "
            "temperature or fails: leave it out, or serve on a GPU"
        )
    engine_kwargs: dict[str, Any] = {
        "dtype": settings.torch_dtype,
        "trust_remote_code": settings.trust_remote_code,
        **settings.engine_kwargs,
    }
    keeps_steps = current_platform.is_cpu() if settings.keep_search_steps is None else settings.keep_search_steps
    if keeps_steps and not _EXCLUDE_CONNECTORS & engine_kwargs.keys():
        engine_kwargs["kv_transfer_config"] = dict(TRANSFER_CONFIG)
    if 0 <= (engine_kwargs.get("max_logprobs") or 0) < MAX_STEP_TOKENS:
        engine_kwargs["max_logprobs"] = MAX_STEP_TOKENS
    # For ``usage``: cached tokens of the prompt, and times.
    engine_kwargs.setdefault("enable_prompt_tokens_details", True)
    engine_kwargs.setdefault("enable_per_request_metrics", not engine_kwargs.get("disable_log_stats"))
    # Requests have text alone: no memory for pictures, nor for the part of a model that reads them.
    engine_kwargs.setdefault("language_model_only", "limit_mm_per_prompt" not in engine_kwargs)
    # Batches wait for interactive requests.
    engine_kwargs.setdefault("scheduling_policy", "priority")
    # Never reached by what the replica lets in; a second lock, for vLLM's own queue has no bound.
    engine_kwargs.setdefault("max_num_queued_reqs", 2 * (settings.max_sequences + settings.batch.lines_in_flight))
    structured = dict(engine_kwargs.get("structured_outputs_config") or {})
    if parser := engine_kwargs.get("reasoning_parser") or structured.get("reasoning_parser"):
        # In the first place vLLM looks for the marks of thinking, in the second what writes the answers looks.
        engine_kwargs["reasoning_parser"] = structured["reasoning_parser"] = parser
    # With "auto", the first request would decide for all.
    engine_kwargs["structured_outputs_config"] = {**structured, "backend": "xgrammar"}
    return LLMConfig(
        model_loading_config={"model_id": settings.model_id, "model_source": settings.model_name},
        engine_kwargs=engine_kwargs,
        accelerator_type=settings.accelerator_type,
        placement_group_config=placement(settings, {"GPU": 1}),
        deployment_config={
            "autoscaling_config": autoscaling_config(settings.autoscaling),
            # Lines of batches are counted on top, so that no interactive request waits behind them.
            # More than the replica lets in by itself (``FairSemaphore``), which is what refuses a request and says when
            # to come back.
            "max_ongoing_requests": 2 * settings.max_requests + settings.max_batch_lines,
            "max_queued_requests": settings.max_requests + settings.max_batch_lines,
            # Until Serve has found that a replica ended with its engine, requests may be sent to it.
            "health_check_period_s": 1.0,
            "health_check_timeout_s": settings.health_timeout_s,
            "graceful_shutdown_timeout_s": settings.drain_s,
            "request_router_config": {
                "request_router_class": ReplicaRouter,
                "request_routing_stats_period_s": STATS_PERIOD_S,
            },
            # The engine's bundle has the processors; the replica itself only passes requests on.
            "ray_actor_options": {"num_cpus": 0},
        },
        runtime_env={"env_vars": {**OFFLINE_STATISTICS, **GRAMMAR_CACHE, **TRACES, **settings.replica_env}},
        callback_config={"callback_class": NodeInit},
        # Ray would hold each token back for 50 ms; ``deployments.search.pacing`` has parts of streams wait where there
        # are many.
        experimental_configs={"stream_batching_interval_ms": 0},
    )


def placement(settings: Settings, worker: dict[str, float]) -> dict[str, Any] | None:
    """Return the placement of the engine's workers; None for Ray's own: a GPU each, close together if possible.

    ``worker`` is what each takes where the settings have no bundles.
    """
    num_sharing = int(settings.engine_kwargs.get("tensor_parallel_size") or 1)
    num_stages = int(settings.engine_kwargs.get("pipeline_parallel_size") or 1)
    shares_layers = 1 < num_sharing <= _NODE_GPUS and num_stages == 1
    strategy = settings.placement_strategy or ("STRICT_PACK" if shares_layers else None)
    if settings.placement_bundles is not None:
        return {"bundles": settings.placement_bundles, "strategy": strategy or "PACK"}
    return None if strategy is None else {"bundle_per_worker": worker, "strategy": strategy}


def settle_dtype(config: LLMConfig) -> None:
    """Set the engine's dtype in its configuration, by this node's processor where it is left open."""
    chosen = resolve_dtype(config.engine_kwargs["dtype"])
    # Ray made the second copy where the application was built, which may be another machine.
    for kwargs in (config.engine_kwargs, config.get_engine_config().engine_kwargs):
        kwargs["dtype"] = chosen


def priority_after_chats(settings: Settings) -> int:
    """Return vLLM's priority of lines and rows: 1, after interactive requests (0), where it has priorities."""
    return 1 if settings.engine_kwargs.get("scheduling_policy", "priority") == "priority" else 0


def with_mask_engine_for(tokenizer: Any, settings: Settings) -> Settings:
    """Return the settings, with the mask engine xgrammar where a tokenizer's spelling is not known.

    Decided where the tokenizer is read, for it may be out of reach where the application is built. The compile process
    sees the same (``load_speller``), and nothing else of the service depends on it.
    """
    if settings.mask_engine == "xgrammar" or has_own_spelling(tokenizer):
        return settings
    logger.warning(
        "the tokenizer of %s (%s) has no fast implementation, so its spelling of words is not known: the mask engine "
        "is xgrammar, which is slower, and with a vocabulary there is none of %s",
        settings.model_id, type(tokenizer).__name__, ", ".join(sorted(NEEDS_AUTOMATON)),
    )  # fmt: skip
    return settings.model_copy(update={"mask_engine": "xgrammar"})


def chat_template(settings: Settings) -> str | None:
    """Return the chat template that the settings give, as text or as a file; None for the tokenizer's own.

    Raises:
        ValueError: There is no such file.
    """
    from vllm.entrypoints.chat_utils import load_chat_template

    template: str | None = load_chat_template(settings.engine_kwargs.get("chat_template"))
    return template


def read_tokenizer(settings: Settings) -> Any:
    """Return the model's tokenizer.

    Raises:
        OSError: It cannot be read; where Hugging Face may want a token, the text says how to give one.
    """
    try:
        return AutoTokenizer.from_pretrained(settings.model_name, trust_remote_code=settings.trust_remote_code)
    except OSError as error:
        if os.environ.get(HF_TOKEN) or Path(settings.model_name).is_dir():
            raise
        raise OSError(
            f"model_name={settings.model_name!r} cannot be read, and no {HF_TOKEN} is set. If the model needs one: "
            f"{ON_A_CLUSTER.format(HF_TOKEN)}. {error}"
        ) from error


BFLOAT16_FLAGS: Final = ("amx_bf16", "avx512_bf16", "bf16")
"""Names in Linux's ``/proc/cpuinfo`` of what computes in bfloat16: two of x86, then that of arm64."""

_CPUINFO: Final = Path("/proc/cpuinfo")


def cpu_dtype(flags: Collection[str]) -> tuple[str, str]:
    """Return the dtype for a processor with these flags, and why."""
    if found := [flag for flag in BFLOAT16_FLAGS if flag in flags]:
        return "bfloat16", f"the processor computes in it ({', '.join(found)})"
    if flags:
        return (
            "float32",
            f"the processor has none of {', '.join(BFLOAT16_FLAGS)}, and would be half as fast in bfloat16",
        )
    return "float32", "what the processor computes in is not known here"


def processor_flags(cpuinfo: Path = _CPUINFO) -> frozenset[str]:
    """Return the flags of this machine's processor; none where ``cpuinfo`` cannot be read."""
    try:
        lines = cpuinfo.read_text(encoding="utf-8").splitlines()
    except OSError:
        return frozenset()
    named = (line.partition(":") for line in lines)
    # "flags" on x86, "Features" on arm64; the same for every core.
    return next(
        (frozenset(value.split()) for key, _, value in named if key.strip() in ("flags", "Features")), frozenset()
    )


def resolve_dtype(given: Any) -> Any:
    """Return the engine's dtype; choose it by the processor, and log it, for ``auto`` on a CPU."""
    if given != "auto" or not current_platform.is_cpu():
        return given
    chosen, reason = cpu_dtype(processor_flags())
    logger.info("torch_dtype auto: %s, for %s", chosen, reason)
    return chosen
