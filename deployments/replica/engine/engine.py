"""The engine of a replica: turn a checked body into vLLM's request, and map the engine's errors to ours."""

import json
import math
import re
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias, TypeVar
from uuid import uuid4

from pydantic import PrivateAttr, ValidationError
from ray.serve.llm.deployment import LLMServer
from ray.serve.llm.openai_api_models import ChatCompletionRequest, CompletionRequest
from starlette.requests import Request as HttpRequest
from typing_extensions import override
from vllm.exceptions import GenerationError, VLLMClientError
from vllm.sampling_params import SamplingParams, StructuredOutputsParams
from vllm.v1.metrics.loggers import StatLoggerBase
from vllm.v1.metrics.stats import IterationStats, SchedulerStats

from deployments.contract import ChatBody, Part
from deployments.errors import EngineError
from deployments.protocol.structure import structure_field
from deployments.ray_private import engine_client, serving_chat, serving_completion
from deployments.search.text_engine import trace_headers
from vocab.matching.reference import write_client_grammar

Result = TypeVar("Result")

CONTEXT_LENGTH_EXCEEDED: Final = "context_length_exceeded"

STRUCTURE: Final = "a client's structure"
"""The parameter that an error names, whichever field of the body the structure came from."""

END_OF_STREAM: Final = "data: [DONE]\n\n"

_ERROR_EVENT: Final = 'data: {"error"'
_PROMPT_PARAMETERS: Final = frozenset({"input_tokens", "input_text", "max_model_len"})

_SERVER_OPTION: Final = re.compile(r"--[a-z]{2}")
"""In a message of vLLM's: it names an option of its server, which no client can set."""

_NEEDS_SERVER_OPTION: Final = ("tool_choice", "thinking_token_budget")


@dataclass
class _Extras:
    """The service's limit on the prompt, and the names that errors give to prompt and structure."""

    max_input_tokens: int
    prompt_param: str
    structure_param: str | None


class _ServiceRequest:
    """Mixin for vLLM's requests: the service's limit on the prompt, which vLLM checks when it tokenizes."""

    _extras: _Extras

    @override
    def build_tok_params(self, model_config: Any) -> Any:  # type: ignore[misc]  # vLLM's, beside which this is a base
        params = super().build_tok_params(model_config)  # type: ignore[misc]
        limit = min(self._extras.max_input_tokens + params.max_output_tokens, params.max_total_tokens)
        return replace(params, max_total_tokens=limit)


class _ChatRequest(_ServiceRequest, ChatCompletionRequest):
    _extras: _Extras = PrivateAttr()


class _CompletionRequest(_ServiceRequest, CompletionRequest):
    _extras: _Extras = PrivateAttr()


Request: TypeAlias = _ChatRequest | _CompletionRequest


def serving_of(server: LLMServer, request: Request) -> Any:
    """Return vLLM's server of chats, or of completions, that takes a request."""
    return serving_chat(server) if isinstance(request, ChatCompletionRequest) else serving_completion(server)


def context_length(server: LLMServer) -> int:
    """Return the engine's context in tokens, prompt and answer together."""
    # Ray 2.60 has no public way but to tokenize a text.
    return int(engine_client(server).model_config.max_model_len)


def is_dead(server: LLMServer) -> bool:
    """Return whether the engine's process has ended; it never comes back within this one."""
    return bool(engine_client(server).errored)


class StepCounter(StatLoggerBase):
    """Count the engine's steps in which a prompt was read or a token written.

    vLLM calls ``record`` after each step, with statistics of requests where one of them got a token. A step without a
    running request only waits, say for a grammar.
    """

    def __init__(self) -> None:
        self.num_steps = 0

    @override
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

    @override
    def log_engine_initialized(self) -> None: ...


def count_steps(server: LLMServer) -> StepCounter | None:
    """Attach a counter of steps to the engine and return it; None where it has no statistics."""
    # Ray 2.60 takes no loggers of ours where it makes the engine.
    if (manager := engine_client(server).logger_manager) is None:
        return None
    counter = StepCounter()
    manager.stat_loggers.append(counter)
    return counter


def num_requests(server: LLMServer) -> int:
    """Return how many requests the engine has, those that wait included."""
    return int(engine_client(server).output_processor.get_num_unfinished_requests())


def max_sequences(server: LLMServer) -> int:
    """Return how many sequences the engine runs at once."""
    return int(engine_client(server).vllm_config.scheduler_config.max_num_seqs)


def vocab_size(server: LLMServer) -> int:
    """Return V, how many tokens the model's vocabulary has."""
    return int(engine_client(server).model_config.get_vocab_size())


def can_end_thinking(server: LLMServer) -> bool:
    """Return whether the engine can end a model's thinking when its budget of tokens is used up."""
    reasoning = engine_client(server).vllm_config.reasoning_config
    return reasoning is not None and bool(reasoning.enabled)


def engine_request(
    body: ChatBody,
    *,
    request_id: str,
    max_input_tokens: int,
    grammar: str | None = None,
) -> Request:
    """Return vLLM's own request for a chat or completion that the ingress has checked.

    Raises:
        EngineError: The body is not one that vLLM takes.
    """
    is_chat = "messages" in body
    fields = {**body, "request_id": request_id}
    own = (body.get("structured_outputs") or {}).get("grammar")
    if grammar is None and own is not None:
        grammar = write_client_grammar(own)
    if grammar is not None:
        fields["structured_outputs"] = {"grammar": grammar}
    try:
        request: Request = (_ChatRequest if is_chat else _CompletionRequest).model_validate(fields)
    except ValidationError as error:
        fault = error.errors(include_url=False, include_input=False)[0]
        param = ".".join(str(part) for part in fault["loc"]) or None
        raise EngineError(400, fault["msg"].removeprefix("Value error, "), param=param) from None
    except (ValueError, VLLMClientError) as error:
        # vLLM's validators raise errors of its own, which pydantic does not wrap.
        raise EngineError(400, _without_suffix(str(error)), param=getattr(error, "parameter", None)) from None
    request._extras = _Extras(
        max_input_tokens,
        "messages" if is_chat else "prompt",
        structure_field(body),
    )
    return request


async def create(server: LLMServer, request: Request) -> AsyncGenerator[str, None] | dict[str, Any]:
    """Have vLLM's own server answer: return the events of a stream as they come (``"data: …\\n\\n"``), or one dict.

    Raises:
        EngineError: The engine does not take the request, or failed on it.
    """
    serving = serving_of(server, request)
    is_chat = isinstance(request, ChatCompletionRequest)
    ask = serving.create_chat_completion if is_chat else serving.create_completion
    with refusals(serving, request):
        made = checked(await ask(request, _http_request()), request)
    return made if isinstance(made, AsyncGenerator) else dict(made.model_dump(mode="json", exclude_none=False))


def check_event(event: str, request: Request) -> None:
    """Raise the error that an event of vLLM's server is (``EngineError``)."""
    if event.startswith(_ERROR_EVENT):
        raise refusal_of(request, json.loads(event.removeprefix("data:"))["error"])


def _http_request() -> HttpRequest | None:
    """Return a request over HTTP from which vLLM's server takes the current trace; None without tracing."""
    if (headers := trace_headers()) is None:
        return None
    raw = [(name.encode(), value.encode()) for name, value in headers.items()]
    return HttpRequest({"type": "http", "headers": raw, "state": {}})


@contextmanager
def refusals(serving: Any, request: Request) -> Iterator[None]:
    """Raise what vLLM raises, where it does not take a request or gives it up, as ``EngineError``."""
    try:
        yield
    except (ValueError, VLLMClientError, GenerationError) as error:
        raise refusal_of(request, serving.create_error_response(error).error.model_dump()) from None


def checked(made: Result, request: Request) -> Result:
    """Return what vLLM's server made of a request; raise the error that it is (``EngineError``)."""
    if (response := getattr(made, "error", None)) is not None:
        raise refusal_of(request, response.model_dump())
    return made


def refusal_of(request: Request, error: Mapping[str, Any]) -> EngineError:
    """Map an error of vLLM's server to a request to the ``EngineError`` that the client gets."""
    if error.get("param") == STRUCTURE and request._extras.structure_param is not None:
        said = f"The engine cannot follow '{request._extras.structure_param}': {_without_suffix(error['message'])}."
        return EngineError(400, said, param=request._extras.structure_param)
    return refusal(error, request._extras.max_input_tokens, request._extras.prompt_param)


async def has_room(server: LLMServer, request: Request) -> bool:
    """Return whether a chat's prompt is short enough; this tokenizes it and uses the request up."""
    serving = serving_chat(server)
    try:
        with refusals(serving, request):
            # Ray 2.60 has no public way to have a prompt read and not answered.
            checked(await serving.online_renderer.render_chat(request), request)
    except EngineError as error:
        # Other refusals are told by the request itself.
        return error.code != CONTEXT_LENGTH_EXCEEDED
    return True


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
        async for answer in engine_client(server).generate(prompt, params, f"own-{uuid4().hex}", reasoning_ended=True):
            text = answer.outputs[0].text if answer.outputs[0].finish_reason in ("stop", "length") else None
    except (ValueError, VLLMClientError, GenerationError) as error:
        raise EngineError(400, str(error)) from None
    if text is None:
        raise EngineError(500, "the engine answered nothing")
    return text


async def has_finite_logprobs(server: LLMServer, lora_request: Any) -> bool:
    """Return whether the model computes finite log-probabilities with an adapter, tried on one token.

    Weights that are finite may still overflow when they are applied.
    """
    params = SamplingParams(max_tokens=1, temperature=0.0, logprobs=0)
    finite = False
    async for answer in engine_client(server).generate("A", params, f"own-{uuid4().hex}", lora_request=lora_request):
        [first] = answer.outputs[0].logprobs[0].values()
        finite = math.isfinite(first.logprob)
    return finite


def refusal(
    error: Mapping[str, Any], max_input_tokens: int | None = None, prompt_param: str = "messages"
) -> EngineError:
    """Map an error that the engine reports to the ``EngineError`` that the client gets."""
    code = error.get("code")
    status = code if isinstance(code, int) and 400 <= code < 600 else 500
    param = error.get("param")
    if status >= 500:
        return EngineError(status, "The engine failed on this request; it can be sent again.", code="engine_error")
    if param in _PROMPT_PARAMETERS:
        return too_long(f"{max_input_tokens} tokens" if max_input_tokens else "what the model can read", prompt_param)
    message = _without_suffix(str(error.get("message") or "The request is not valid."))
    if _SERVER_OPTION.search(message):
        param = param or next((name for name in _NEEDS_SERVER_OPTION if name in message.replace(" ", "_")), None)
        named = "A field of this request" if param is None else f"'{param}'"
        message = f"{named} asks for what this service does not have. Leave it out, or give it another value."
    return EngineError(status, message, param=param)


def too_long(limit: str, prompt_param: str) -> EngineError:
    """Return the error of a prompt that is longer than ``limit``."""
    message = f"The prompt is longer than {limit}: shorten the {prompt_param}."
    return EngineError(400, message, param=prompt_param, code=CONTEXT_LENGTH_EXCEEDED)


def parse_event(event: str) -> dict[str, Any] | None:
    """Return the JSON of a server-sent event; None for the last one, ``[DONE]``."""
    data = event.removeprefix("data:").strip()
    return None if data == "[DONE]" else json.loads(data)


def write_event(chunk: Mapping[str, Any]) -> str:
    """Format a chunk as a server-sent event."""
    return f"data: {json.dumps(chunk, ensure_ascii=False, separators=(',', ':'))}\n\n"


def changed(item: Part, change: Callable[[dict[str, Any]], dict[str, Any]]) -> Part:
    """Return an item of an answer, an event or a whole one, with its JSON changed."""
    if isinstance(item, dict):
        return change(item)
    chunk = parse_event(item)
    return item if chunk is None else write_event(change(chunk))


def _without_suffix(message: str) -> str:
    """Remove the parameter and value that vLLM appends; we name them separately or not at all."""
    # Without an end where ``vocab.vllm_plugin.patches`` truncated it.
    return message.partition(" (parameter=")[0]
