"""The module that touches Ray's ``LLMServer`` and vLLM's server classes (with ``tokenization`` and ``rows``).

Turns settings into an engine configuration and a checked body into the engine's request, starts requests on an
``LLMServer``, and turns the engine's refusals into ours.
"""

import json
import math
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from typing import Any, Final, TypeAlias, TypeVar
from uuid import uuid4

import ray.util
from pydantic import PrivateAttr, ValidationError
from ray.llm._internal.common.callbacks.base import CallbackBase
from ray.serve.llm import LLMConfig
from ray.serve.llm.deployment import LLMServer
from ray.serve.llm.openai_api_models import ChatCompletionRequest, CompletionRequest
from vllm.exceptions import GenerationError, VLLMClientError
from vllm.platforms import current_platform
from vllm.sampling_params import SamplingParams, StructuredOutputsParams
from vllm.v1.metrics.loggers import StatLoggerBase
from vllm.v1.metrics.stats import IterationStats, SchedulerStats

from deployments.contract import Answer, ChatBody
from deployments.replica.engine.autoscaling import autoscaling_config
from deployments.replica.engine.dtype import resolve_dtype
from deployments.search.client import SearchClient
from deployments.search.generator import MAX_STEP_TOKENS
from deployments.search.order import ORDER_ARGUMENT, AnswerCost, SearchOrder
from deployments.settings import Settings, SettingsError
from vocab.automaton.tokenizer import TokenizerFacts
from vocab.matching.engine_cache import EngineCache
from vocab.vllm_plugin.kv_fork import TRANSFER_CONFIG

OFFLINE_STATISTICS: Final = {"VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1"}
"""Keeps vLLM and the libraries below it from reporting to their makers."""

CONTEXT_LENGTH_EXCEEDED: Final = "context_length_exceeded"

_ERROR_EVENT: Final = 'data: {"error"'
_LAST_EVENT: Final = "data: [DONE]"
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

_PROMPT_PARAMETERS: Final = frozenset({"input_tokens", "input_text", "max_model_len"})


class EngineError(Exception):
    """The engine, or its request type, does not take the request.

    Attributes:
        body: The first item of the answer: ``{"error": {…, "status"}}``.
    """

    def __init__(
        self,
        status: int,
        message: str,
        *,
        param: str | None = None,
        code: str | None = None,
        retry_after_s: int | None = None,
    ) -> None:
        super().__init__(message)
        kind = "invalid_request_error" if status < 500 else "server_error"
        error: dict[str, Any] = {"message": message, "type": kind, "param": param, "code": code, "status": status}
        if retry_after_s is not None:
            error["retry_after"] = retry_after_s
        self.body: dict[str, Any] = {"error": error}


class _Limited:
    """vLLM's request with the service's own limit on the prompt, which vLLM checks when it tokenizes, and the order
    that ``deployments.search.client`` finds in the parameters."""

    _max_input_tokens: int
    _order: SearchOrder | None

    def build_tok_params(self, model_config: Any) -> Any:
        params = super().build_tok_params(model_config)  # type: ignore[misc]  # vLLM's, beside which this is a base
        limit = min(self._max_input_tokens + params.max_output_tokens, params.max_total_tokens)
        return replace(params, max_total_tokens=limit)

    def to_sampling_params(self, *args: Any, **kwargs: Any) -> Any:
        params = super().to_sampling_params(*args, **kwargs)  # type: ignore[misc]
        if self._order is not None:
            params.extra_args = {**(params.extra_args or {}), ORDER_ARGUMENT: self._order}
        return params


class _ChatRequest(_Limited, ChatCompletionRequest):
    _max_input_tokens: int = PrivateAttr(default=2**31)
    _order: SearchOrder | None = PrivateAttr(default=None)


class _CompletionRequest(_Limited, CompletionRequest):
    _max_input_tokens: int = PrivateAttr(default=2**31)
    _order: SearchOrder | None = PrivateAttr(default=None)


Request: TypeAlias = _ChatRequest | _CompletionRequest
AnyRequest = TypeVar("AnyRequest", _ChatRequest, _CompletionRequest)


class NodeInit(CallbackBase):
    """Have Ray prepare nodes only where there is something to prepare.

    A model that comes from no bucket, on one node, is fetched by the engine itself. Ray would first start a process
    there that imports vLLM, 11 s on two cores, and then has nothing to do.
    """

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
        placement_group_config=_placement(settings),
        deployment_config={
            "autoscaling_config": autoscaling_config(settings.autoscaling),
            # Lines of batches are counted on top, so that no interactive request waits behind them.
            # More than the replica lets in by itself (``Share``), which is what refuses a request and tells when to
            # come back.
            "max_ongoing_requests": 2 * settings.max_requests + settings.max_batch_lines,
            "max_queued_requests": settings.max_requests + settings.max_batch_lines,
            # Until Serve has found that a replica ended with its engine, requests may be sent to it.
            "health_check_period_s": 1.0,
            "health_check_timeout_s": settings.health_timeout_s,
            "graceful_shutdown_timeout_s": settings.drain_s,
            # The engine's bundle has the processors; the replica itself only passes requests on.
            "ray_actor_options": {"num_cpus": 0},
        },
        runtime_env={"env_vars": {**OFFLINE_STATISTICS, **settings.replica_env}},
        callback_config={"callback_class": NodeInit},
        # Ray would hold each token back for 50 ms; ``deployments.search.pacing`` has parts of streams wait where there
        # are many.
        experimental_configs={"stream_batching_interval_ms": 0},
    )


def _placement(settings: Settings) -> dict[str, Any] | None:
    """Return where the engine's workers go; None for Ray's own: a GPU each, close together where there is room."""
    num_sharing = int(settings.engine_kwargs.get("tensor_parallel_size") or 1)
    num_stages = int(settings.engine_kwargs.get("pipeline_parallel_size") or 1)
    shares_layers = 1 < num_sharing <= _NODE_GPUS and num_stages == 1
    strategy = settings.placement_strategy or ("STRICT_PACK" if shares_layers else None)
    if settings.placement_bundles is not None:
        return {"bundles": settings.placement_bundles, "strategy": strategy or "PACK"}
    return None if strategy is None else {"bundle_per_worker": {"GPU": 1}, "strategy": strategy}


def settle_dtype(config: LLMConfig) -> None:
    """Choose the dtype on the node of the engine, where the settings leave it to the processor."""
    chosen = resolve_dtype(config.engine_kwargs["dtype"])
    # Ray made the second copy where the application was built, which may be another machine.
    for kwargs in (config.engine_kwargs, config.get_engine_config().engine_kwargs):
        kwargs["dtype"] = chosen


def context_length(server: LLMServer) -> int:
    """Return the engine's context in tokens, prompt and answer together."""
    # Ray 2.60 has no public way but to tokenize a text.
    return int(client(server).model_config.max_model_len)


def client(server: LLMServer) -> Any:
    """Return vLLM's own client of the engine, an ``EngineClient``."""
    # Ray 2.60 has no public way: its server takes requests of OpenAI's API only.
    return server.engine._engine_client


def is_dead(server: LLMServer) -> bool:
    """Whether the engine's process has ended; it never comes back within this one."""
    return bool(client(server).errored)


class StepCounter(StatLoggerBase):
    """Count the engine's steps in which a prompt was read or a token written.

    vLLM calls ``record`` after each step, with statistics of requests where one of them got a token. A step without a
    running request only waits, say for a grammar.
    """

    def __init__(self) -> None:
        self.num_steps = 0

    def record(
        self,
        scheduler_stats: SchedulerStats | None,
        iteration_stats: IterationStats | None,
        mm_cache_stats: object = None,
        engine_idx: int = 0,
    ) -> None:
        del mm_cache_stats, engine_idx
        if iteration_stats is not None or (scheduler_stats is not None and scheduler_stats.num_running_reqs):
            self.num_steps += 1

    def log_engine_initialized(self) -> None: ...


def count_steps(server: LLMServer) -> StepCounter | None:
    """Return a counter of the engine's steps from now on; None where the engine keeps no statistics."""
    # Ray 2.60 takes no loggers of ours where it makes the engine.
    if (manager := client(server).logger_manager) is None:
        return None
    counter = StepCounter()
    manager.stat_loggers.append(counter)
    return counter


def num_requests(server: LLMServer) -> int:
    """Return how many requests the engine has, those that wait included."""
    return int(client(server).output_processor.get_num_unfinished_requests())


def max_sequences(server: LLMServer) -> int:
    return int(client(server).vllm_config.scheduler_config.max_num_seqs)


def vocab_size(server: LLMServer) -> int:
    return int(client(server).model_config.get_vocab_size())


def priority_after_chats(settings: Settings) -> int:
    """Return vLLM's priority of lines and rows: a larger number waits longer, and interactive requests have 0."""
    return 1 if settings.engine_kwargs.get("scheduling_policy", "priority") == "priority" else 0


def install_search(server: LLMServer, lists: EngineCache, facts: TokenizerFacts) -> None:
    """Let chats and completions be answered by a search, over the lists of this node and the model's tokenizer."""
    # vLLM's server takes any client that looks like its own, and Ray 2.60 has no public way to give it one.
    searches = SearchClient(client(server), lists, facts)
    server.engine._oai_serving_chat.engine_client = searches
    server.engine._oai_serving_completion.engine_client = searches


def has_reasoning_parser(settings: Settings) -> bool:
    """Return whether part of an answer may be thought, which is not constrained and uses up tokens."""
    structured = settings.engine_kwargs.get("structured_outputs_config") or {}
    return bool(settings.engine_kwargs.get("reasoning_parser") or structured.get("reasoning_parser"))


def can_end_thinking(server: LLMServer) -> bool:
    """Return whether the engine can end a model's thinking when its share of the tokens is used up."""
    reasoning = client(server).vllm_config.reasoning_config
    return reasoning is not None and bool(reasoning.enabled)


def chat_template(settings: Settings) -> str | None:
    """Return the chat template that the settings give, as text or as a file; None for the tokenizer's own.

    Raises:
        ValueError: There is no such file.
    """
    from vllm.entrypoints.chat_utils import load_chat_template

    template: str | None = load_chat_template(settings.engine_kwargs.get("chat_template"))
    return template


def chat_request(
    body: ChatBody,
    *,
    request_id: str,
    max_input_tokens: int,
    grammar: str | None = None,
    order: SearchOrder | None = None,
) -> _ChatRequest:
    """Return vLLM's own request for a body that the ingress has checked.

    Raises:
        EngineError: The body is not one that vLLM takes.
    """
    return _build_request(_ChatRequest, body, request_id, max_input_tokens, grammar, order)


def completion_request(
    body: ChatBody,
    *,
    request_id: str,
    max_input_tokens: int,
    grammar: str | None = None,
    order: SearchOrder | None = None,
) -> _CompletionRequest:
    """As ``chat_request``, for a completion."""
    return _build_request(_CompletionRequest, body, request_id, max_input_tokens, grammar, order)


def _build_request(
    kind: type[AnyRequest],
    body: ChatBody,
    request_id: str,
    max_input_tokens: int,
    grammar: str | None,
    order: SearchOrder | None,
) -> AnyRequest:
    fields = {**body, "request_id": request_id}
    if order is not None and order.decoding.num_beams > 1:
        # Beams draw nothing, and vLLM refuses several choices at temperature 0.
        fields["temperature"] = 1.0
    if grammar is not None:
        fields["structured_outputs"] = {"grammar": grammar}
    try:
        request: AnyRequest = kind.model_validate(fields)
    except ValidationError as error:
        fault = error.errors(include_url=False, include_input=False)[0]
        param = ".".join(str(part) for part in fault["loc"]) or None
        raise EngineError(400, fault["msg"].removeprefix("Value error, "), param=param) from None
    except Exception as error:
        # vLLM's validators raise errors of its own, which pydantic does not wrap.
        if not isinstance(error, (ValueError, VLLMClientError)):
            raise
        raise EngineError(400, _without_suffix(str(error)), param=getattr(error, "parameter", None)) from None
    request._max_input_tokens = max_input_tokens
    request._order = order
    return request


async def answer(server: LLMServer, request: Request) -> AsyncIterator[Answer | AnswerCost]:
    """Yield the engine's answer: events of a stream as they come (``"data: …\\n\\n"``), or one dict.

    Where the request has an order, what the answer cost comes before the dict or the stream's last event.

    Raises:
        EngineError: The engine does not take the request, or failed on it.
    """
    is_chat = isinstance(request, ChatCompletionRequest)
    prompt_param = "messages" if is_chat else "prompt"
    async for batch in await (server.chat(request) if is_chat else server.completions(request)):
        for item in batch if isinstance(batch, list) else [batch]:
            if isinstance(item, str):
                if item.startswith(_ERROR_EVENT):
                    error = json.loads(item.removeprefix("data:"))["error"]
                    raise refusal(error, request._max_input_tokens, prompt_param)
                part, is_last = item, item.startswith(_LAST_EVENT)
            elif hasattr(item, "error"):
                raise refusal(item.error.model_dump(), request._max_input_tokens, prompt_param)
            else:
                part, is_last = item.model_dump(mode="json", exclude_none=False), True
            if is_last and request._order is not None:
                searches: SearchClient = server.engine._oai_serving_chat.engine_client
                if (cost := searches.cost_of(request._order)) is not None:
                    yield cost
            yield part


async def has_room(server: LLMServer, request: ChatCompletionRequest) -> bool:
    """Return whether a request's prompt is short enough. Costs a reading of the prompt, and leaves the request used."""
    from vllm.exceptions import VLLMClientError

    try:
        # Ray 2.60 has no public way to have a prompt read and not answered.
        read = await server.engine._oai_serving_chat.online_renderer.render_chat(request)
    except (ValueError, VLLMClientError) as error:
        return getattr(error, "parameter", None) not in _PROMPT_PARAMETERS
    # Other refusals are told by the request itself.
    return not (hasattr(read, "error") and read.error.param in _PROMPT_PARAMETERS)


async def complete(server: LLMServer, prompt: str, *, grammar: str, max_tokens: int) -> str:
    """Return the text of one short completion, which needs no chat template.

    Raises:
        EngineError: The engine does not take the request.
    """
    params = SamplingParams(
        max_tokens=max_tokens, temperature=1.0, structured_outputs=StructuredOutputsParams(grammar=grammar)
    )
    text: str | None = None
    try:
        # vLLM's own completions would wait for a model that thinks to be done with it, and mask nothing until then.
        async for answer in client(server).generate(prompt, params, f"own-{uuid4().hex}", reasoning_ended=True):
            text = answer.outputs[0].text if answer.outputs[0].finish_reason in ("stop", "length") else None
    except (ValueError, VLLMClientError, GenerationError) as error:
        raise EngineError(400, str(error)) from None
    if text is None:
        raise EngineError(500, "the engine answered nothing")
    return text


async def has_finite_logprobs(server: LLMServer, lora_request: Any) -> bool:
    """Return whether the model's log-probabilities are numbers with an adapter, by those of one token.

    Weights that are finite may still overflow when they are applied.
    """
    params = SamplingParams(max_tokens=1, temperature=0.0, logprobs=0)
    finite = False
    async for answer in client(server).generate("A", params, f"own-{uuid4().hex}", lora_request=lora_request):
        [first] = answer.outputs[0].logprobs[0].values()
        finite = math.isfinite(first.logprob)
    return finite


def refusal(
    error: Mapping[str, Any], max_input_tokens: int | None = None, prompt_param: str = "messages"
) -> EngineError:
    """Return the engine's error in our terms."""
    code = error.get("code")
    status = code if isinstance(code, int) and 400 <= code < 600 else 500
    param = error.get("param")
    if status >= 500:
        return EngineError(status, "The engine failed on this request; it can be sent again.", code="engine_error")
    if param in _PROMPT_PARAMETERS:
        return too_long(f"{max_input_tokens} tokens" if max_input_tokens else "what the model can read", prompt_param)
    return EngineError(status, _without_suffix(str(error.get("message") or "The request is not valid.")), param=param)


def too_long(limit: str, prompt_param: str) -> EngineError:
    """Return the error of a prompt that is longer than ``limit``."""
    message = f"The prompt is longer than {limit}: shorten the {prompt_param}."
    return EngineError(400, message, param=prompt_param, code=CONTEXT_LENGTH_EXCEEDED)


def parse_event(event: str) -> dict[str, Any] | None:
    """Return the JSON of a server-sent event; None for the last one, ``[DONE]``."""
    data = event.removeprefix("data:").strip()
    return None if data == "[DONE]" else json.loads(data)


def write_event(chunk: Mapping[str, Any]) -> str:
    return f"data: {json.dumps(chunk, ensure_ascii=False, separators=(',', ':'))}\n\n"


def _without_suffix(message: str) -> str:
    """Remove the parameter and value that vLLM appends; we name them separately or not at all."""
    # Without an end where ``vocab.vllm_plugin.messages`` truncated it.
    return message.partition(" (parameter=")[0]
