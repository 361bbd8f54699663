"""From a request to the pieces of its answer: vLLM's renderer makes the prompt, its engine the tokens.

Where the model thinks first, or calls tools of its own accord, vLLM's parser divides what it wrote.
"""

import asyncio
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from ray.serve.llm.deployment import LLMServer
from ray.serve.llm.openai_api_models import ChatCompletionRequest
from vllm.entrypoints.generate.base.serving import build_per_request_timing_metrics
from vllm.entrypoints.serve.utils.api_utils import get_max_tokens
from vllm.exceptions import GenerationError, VLLMValidationError
from vllm.outputs import CompletionOutput, RequestOutput
from vllm.sampling_params import SamplingParams

from deployments.contract import Decoding
from deployments.errors import EngineError
from deployments.replica.engine.engine import STRUCTURE, Request, checked, refusals, serving_of
from deployments.search.logprobs import Entry, LogprobWriter
from deployments.search.outcome import AnswerCost
from deployments.search.text_engine import Generation, TextEngine
from deployments.search.token_details import DetailWriter
from vocab.vllm_plugin.client_grammars import ENDED
from vocab.vllm_plugin.retrying import Retries

T = TypeVar("T")

_GRAMMAR_ENDED: Final = "it takes the engine too much processor time; make it smaller or less ambiguous"


@dataclass(slots=True)
class Piece:
    """New text of one choice of an answer and what came with it; of a whole answer, all of it.

    Attributes:
        text: Without what was thought before it.
        thoughts: What the model thought; None for nothing new.
        calls: Tool calls, as JSON.
        entries: Log-probabilities or details of the tokens, where they were asked for.
        finish: Why the choice ends here; None where it goes on.
        is_whole: Whether it ends inside no word, as where words may be taken back.
    """

    index: int
    text: str
    tokens: Sequence[int] = ()
    thoughts: str | None = None
    calls: list[dict[str, Any]] = field(default_factory=list)
    entries: list[Entry] = field(default_factory=list)
    finish: str | None = None
    stop_reason: int | str | None = None
    is_whole: bool = False


class Draft:
    """The answer to one request as the engine writes it.

    Attributes:
        id: As clients see it.
        fingerprint: Of vLLM's server, which names it in its answers; None for none.
        role: Of who answers a chat.
        created: Unix time, in seconds.
        prompts: The tokens of each prompt.
        num_written: Tokens of each choice so far.
        logprobs: Writes those of tokens; None where none were asked for.
        is_parsed: Whether vLLM's parser divides what the model writes.
        reports_thoughts: Whether the usage tells how many tokens were thoughts.
        has_details: Whether entries are details.
    """

    def __init__(
        self,
        serving: Any,
        request: Request,
        inputs: Sequence[Any],
        generations: Sequence[Generation],
        details: DetailWriter | None,
        parsers: Sequence[Any],
    ) -> None:
        self.request = request
        self.is_chat = isinstance(request, ChatCompletionRequest)
        self.fingerprint: str | None = serving.system_fingerprint
        self.role: str = serving.response_role if self.is_chat else ""
        self.is_parsed = bool(parsers)
        self.reports_thoughts = self.is_parsed and parsers[0].reasoning_parser is not None
        self.has_details = details is not None
        self.id = _id_of(request)
        self.created = int(time.time())
        self.prompts: list[list[int]] = [one["prompt_token_ids"] for one in inputs]
        self.num_written = [0] * ((request.n or 1) * len(inputs))
        self.logprobs = LogprobWriter.of(request, serving.renderer.get_tokenizer().decode)
        self._serving = serving
        self._generations = generations
        self._numbers = {one.request_id: number for number, one in enumerate(generations)}
        self._texts = [one.get("prompt") for one in inputs]
        self._details = details
        self._parsers = parsers
        self._tokens: list[list[int]] = [[] for _ in parsers]
        self._num_characters = [0] * len(self.num_written)
        self._last: RequestOutput | None = None

    @property
    def cost(self) -> AnswerCost | None:
        """Return what the texts have cost so far; None where no search or score was asked for."""
        return self._generations[0].cost

    @property
    def retries(self) -> Retries | None:
        """Return what was taken back so far; None where nothing is."""
        return self._generations[0].retries

    @property
    def num_cached(self) -> tuple[int | None, int | None]:
        """Return how many tokens of the prompt the engine had cached, and of a chat, how many it cached for others."""
        if (last := self._last) is None or not self._serving.enable_prompt_tokens_details:
            return None, None
        return last.num_cached_tokens, last.num_cache_creation_tokens if self.is_chat else None

    @property
    def num_reasoning(self) -> list[int]:
        """Return how many tokens of each choice so far are thoughts."""
        return [
            int(parser.count_reasoning_tokens(tuple(tokens)))
            for parser, tokens in zip(self._parsers, self._tokens, strict=True)
        ]

    @property
    def metrics(self) -> dict[str, Any]:
        """Return vLLM's times of the only choice, in ms; empty where there are several."""
        if len(self.num_written) > 1 or not self._serving.enable_per_request_metrics:
            return {}
        last = None if self._last is None else self._last.metrics
        return dict(build_per_request_timing_metrics(last, sum(self.num_written)).model_dump(exclude_none=True))

    async def pieces(self) -> AsyncGenerator[Piece, None]:
        """Yield the pieces of the answer as they come. Closing it ends all that runs in the engine for it.

        Raises:
            EngineError: The engine does not take the request, or gave it up.
        """
        given = [one.outputs for one in self._generations]
        num_open = len(self.num_written)
        with refusals(self._serving, self.request):
            async with aclosing(given[0] if len(given) == 1 else _merge(given)) as outputs:
                async for output in outputs:
                    self._last = output
                    for one in output.outputs:
                        num_open -= one.finish_reason is not None
                        if (piece := self._piece(self._numbers[output.request_id], one)) is not None:
                            yield piece
            if num_open:
                raise EngineError(500, "the engine answered nothing")

    def _piece(self, number: int, output: CompletionOutput) -> Piece | None:
        """Turn an output for a prompt into a piece; None where it says nothing yet."""
        index = number * (self.request.n or 1) + output.index
        if output.stop_reason == ENDED:
            raise VLLMValidationError(_GRAMMAR_ENDED, parameter=STRUCTURE)
        if output.finish_reason == "error":
            raise GenerationError("Internal server error")
        is_first = not self.num_written[index]
        if is_first and not output.text and not output.token_ids and output.finish_reason is None:
            # vLLM reads long prompts in parts.
            return None
        piece = Piece(index, output.text, output.token_ids, finish=output.finish_reason, stop_reason=output.stop_reason)
        piece.is_whole = self._generations[number].retries is not None
        if self._details is not None:
            piece.entries = self._details.entries(output)
        elif self.logprobs is not None:
            given = output.logprobs or ()
            piece.entries = self.logprobs.entries(output.token_ids, given, self._num_characters[index])
        self.num_written[index] += len(output.token_ids)
        self._num_characters[index] += len(output.text)
        if self._parsers:
            return self._parsed(piece, self.prompts[number])
        if is_first and not self.is_chat and self.request.echo and not self.request.return_token_ids:
            piece.text = f"{self._texts[number]}{piece.text}"
        return piece

    def _parsed(self, piece: Piece, prompt: list[int]) -> Piece | None:
        """Divide a piece into thoughts, text and calls; None where it says nothing yet."""
        parser, request = self._parsers[piece.index], self.request
        self._tokens[piece.index] += piece.tokens
        if request.stream:
            delta = parser.parse_delta(
                piece.text, list(piece.tokens), request, prompt_token_ids=prompt, finished=piece.finish is not None
            )
            thoughts, text, calls = (delta.reasoning, delta.content, delta.tool_calls) if delta else (None, None, ())
            piece.calls = [call.model_dump(exclude_unset=True) for call in calls]
        else:
            thoughts, text, calls = parser.parse(
                piece.text,
                request,
                enable_auto_tools=self._serving.enable_auto_tools,
                model_output_token_ids=piece.tokens,
            )
            piece.calls = [{"id": call.id, "type": "function", "function": call.model_dump()} for call in calls or ()]
        is_silent = not (thoughts or text or piece.calls)
        piece.text, piece.thoughts = text or "", thoughts
        if not request.include_reasoning:
            # Tokens and their probabilities are those of thoughts too.
            piece.thoughts, piece.tokens, piece.entries = None, (), []
        names_tokens = request.return_token_ids and piece.tokens
        return None if is_silent and piece.finish is None and not names_tokens else piece


async def begin(
    server: LLMServer,
    engine: TextEngine,
    request: Request,
    max_tokens: int,
    decoding: Decoding,
    *,
    details: DetailWriter | None = None,
    lora_request: Any = None,
) -> Draft:
    """Render the prompts of a request and begin its answer, whose texts are chosen as ``decoding`` says.

    Raises:
        EngineError: The engine does not take the request.
    """
    serving, is_chat = serving_of(server, request), isinstance(request, ChatCompletionRequest)
    render = serving.render_chat_request if is_chat else serving.render_completion_request
    with refusals(serving, request):
        rendered = checked(await render(request), request)
        inputs = rendered[1] if is_chat else rendered
        parsers = _parsers(serving, request) if is_chat else []
        generations = []
        for number, one in enumerate(inputs):
            params = _params(serving, request, max_tokens, len(one["prompt_token_ids"]))
            if details is not None:
                details.ask(params)
            thinking = _thinking(serving, request, parsers, one["prompt_token_ids"]) if is_chat else {}
            name = _id_of(request) if is_chat else f"{_id_of(request)}-{number}"
            generations.append(
                engine.generate(
                    one, params, name, decoding, lora_request=lora_request, priority=request.priority, **thinking
                )
            )
    return Draft(serving, request, inputs, generations, details, parsers)


def _id_of(request: Request) -> str:
    kind = "chatcmpl" if isinstance(request, ChatCompletionRequest) else "cmpl"
    return f"{kind}-{request.request_id}"


def _params(serving: Any, request: Request, max_tokens: int, num_prompt_tokens: int) -> SamplingParams:
    """Return vLLM's sampling parameters for one prompt of a request."""
    defaults = serving.default_sampling_params
    most = get_max_tokens(
        serving.model_config.max_model_len, max_tokens, num_prompt_tokens, defaults, serving.override_max_tokens
    )
    # vLLM refuses several texts at temperature 0; ``TextEngine`` copies one.
    n, request.n = request.n, 1
    params = request.to_sampling_params(most, defaults)
    request.n, params.n = n, n or 1
    return params


def _parsers(serving: Any, request: Request) -> list[Any]:
    """Return a parser of vLLM's for each choice of a chat; none where the model has none."""
    if serving.parser_cls is None:
        return []
    kwargs = {"chat_template_kwargs": _template_kwargs(serving, request), "model_config": serving.model_config}
    tokenizer = serving.renderer.get_tokenizer()
    return [serving.parser_cls(tokenizer, request.tools, **kwargs) for _ in range(request.n or 1)]


def _thinking(serving: Any, request: Request, parsers: Sequence[Any], prompt: list[int]) -> dict[str, Any]:
    """Return what the engine is told of a chat's thoughts, before which no mask applies."""
    if not parsers or parsers[0].reasoning_parser is None:
        return {"reasoning_ended": None if request.include_reasoning else True}
    has_ended = not request.include_reasoning or request._grammar_from_parser or parsers[0].is_reasoning_end(prompt)
    kwargs = {"chat_template_kwargs": _template_kwargs(serving, request)}
    return {"reasoning_ended": has_ended, "reasoning_parser_kwargs": kwargs}


def _template_kwargs(serving: Any, request: Request) -> dict[str, Any]:
    params = request.build_chat_params(serving.chat_template, serving.chat_template_content_format)
    return dict(params.with_defaults(serving.default_chat_template_kwargs).chat_template_kwargs)


async def _merge(streams: Sequence[AsyncGenerator[T, None]]) -> AsyncGenerator[T, None]:
    """Yield the items of several streams as they come; closing it closes them all.

    Raises:
        Exception: What the first failing stream raised.
    """
    items: asyncio.Queue[T | Exception | None] = asyncio.Queue()

    async def put(stream: AsyncGenerator[T, None]) -> None:
        """Put a stream's items into the queue, then its error, or None."""
        end: Exception | None = None
        try:
            async with aclosing(stream):
                async for item in stream:
                    items.put_nowait(item)
        except Exception as error:
            end = error
        items.put_nowait(end)

    tasks = [asyncio.create_task(put(stream)) for stream in streams]
    try:
        num_open = len(tasks)
        while num_open:
            item = await items.get()
            if isinstance(item, Exception):
                raise item
            if item is None:
                num_open -= 1
            else:
                yield item
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
