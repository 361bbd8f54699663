"""The writer of answers: a draft's pieces in OpenAI's JSON, once, as events of a stream or as one dict.

Its members are those of vLLM's server, which answers what has no list, search, structure or log-probabilities.
"""

import json
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar, Final, TypeAlias

from typing_extensions import override
from vllm.entrypoints.openai.chat_completion.protocol import (
    ChatCompletionResponse,
    ChatCompletionResponseChoice,
    ChatMessage,
)
from vllm.entrypoints.openai.completion.protocol import CompletionResponse, CompletionResponseChoice
from vllm.entrypoints.serve.engine.protocol import CompletionTokenUsageInfo, PromptTokenUsageInfo, UsageInfo

from deployments.contract import Part
from deployments.replica.answers.pieces import Draft, Piece
from deployments.replica.answers.tool_calls import ToolCallText
from deployments.replica.engine.engine import END_OF_STREAM, changed, parse_event, write_event

Json: TypeAlias = dict[str, Any]

encode: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


class AnswerWriter(ABC):
    """Writes the answer of a draft; ``model`` is the name by which its client knows the model.

    ``started`` is when the request's turn came, of ``time.perf_counter``.
    """

    object_name: ClassVar[str]
    """Of the events of a stream."""
    response: ClassVar[Callable[..., ChatCompletionResponse | CompletionResponse]]

    def __init__(self, draft: Draft, model: str, started: float) -> None:
        self.draft = draft
        self._model = model
        self._started = started
        options = draft.request.stream_options
        self._has_usage = options is not None and bool(options.include_usage)
        self._counts_on = self._has_usage and bool(options.continuous_usage_stats)
        head = {"id": draft.id, "object": self.object_name, "created": draft.created, "model": model}
        self._head = f'data: {encode(head)[:-1]},"choices":['
        self._fingerprint = {} if draft.fingerprint is None else {"system_fingerprint": draft.fingerprint}

    def begin(self) -> Iterator[str]:
        """Yield the events before any text."""
        yield from ()

    @abstractmethod
    def _choice(self, piece: Piece) -> Json:
        """Return the choice of an event with a piece."""

    @abstractmethod
    def _whole_choice(self, piece: Piece) -> ChatCompletionResponseChoice | CompletionResponseChoice:
        """Return the choice of a whole answer, without log-probabilities."""

    def event(self, piece: Piece, last: Json | None = None) -> str:
        """Return the event of a piece; ``last`` are members of the answer's last event, where this may be it."""
        others: Json = {} if last is None or self._has_usage else last
        if self._counts_on:
            reasoning = self.draft.num_reasoning
            counts = self._counts(self.draft.num_written[piece.index], reasoning[piece.index] if reasoning else 0)
            others = {"usage": self._with_timing(counts), **others}
        if piece.finish is not None and not self._has_usage:
            others = {**self._fingerprint, **others}
        return self._written([self._choice(piece)], others)

    def end(self, last: Json) -> Iterator[str]:
        """Yield the events after the last piece; ``last`` are members of the answer's last event."""
        if self._has_usage:
            usage = self._with_timing(self._usage(), self.draft.metrics)
            yield self._written([], {"usage": usage, **self._fingerprint, **last})
        yield END_OF_STREAM

    def whole(self, pieces: Sequence[Piece], last: Json) -> Json:
        """Return a whole answer from one piece for each choice; ``last`` are members of its end."""
        pieces, draft = sorted(pieces, key=lambda piece: piece.index), self.draft
        made = type(self).response(
            id=draft.id,
            created=draft.created,
            model=self._model,
            choices=[self._whole_choice(piece) for piece in pieces],
            usage=self._usage(),
            **self._fingerprint,
        )
        answer: Json = made.model_dump(mode="json")
        if draft.is_chat:
            answer["prompt_token_ids"] = self._named_tokens(draft.prompts[0])
        answer["usage"] = self._with_timing(answer["usage"], self.draft.metrics)
        # With the usage are those that the answer has a place for.
        del answer["metrics"]
        if self.draft.logprobs is not None:
            for choice, piece in zip(answer["choices"], pieces, strict=True):
                choice["logprobs"] = self._logprobs(piece)
        return answer | last

    def _written(self, choices: list[Json], others: Json) -> str:
        rest = f",{encode(others)[1:]}" if others else "}"
        return f"{self._head}{','.join(map(encode, choices))}]{rest}\n\n"

    def _logprobs(self, piece: Piece) -> Json | None:
        writer = self.draft.logprobs
        return None if writer is None else writer.join([entry.value for entry in piece.entries])

    def _details(self, piece: Piece) -> Json:
        return {"token_details": [entry.value for entry in piece.entries]} if self.draft.has_details else {}

    def _named_tokens(self, tokens: Sequence[int]) -> list[int] | None:
        return list(tokens) if self.draft.request.return_token_ids else None

    def _usage(self) -> UsageInfo:
        """Return the usage of the whole answer, as vLLM's own class."""
        draft = self.draft
        usage = self._counts(sum(draft.num_written), sum(draft.num_reasoning))
        cached, created = draft.num_cached
        if (cached, created) != (None, None):
            usage.prompt_tokens_details = PromptTokenUsageInfo(cached_tokens=cached, created_cache_tokens=created)
        return usage

    def _counts(self, num_written: int = 0, num_reasoning: int = 0) -> UsageInfo:
        num_prompt = sum(map(len, self.draft.prompts))
        usage = UsageInfo(
            prompt_tokens=num_prompt, completion_tokens=num_written, total_tokens=num_prompt + num_written
        )
        if self.draft.reports_thoughts:
            usage.completion_tokens_details = CompletionTokenUsageInfo(reasoning_tokens=num_reasoning)
        return usage

    def _with_timing(self, usage: UsageInfo | Json, metrics: Json | None = None) -> Json:
        """Return a usage with how long the answer took: vLLM's times, and that since its turn."""
        written = usage.model_dump(exclude_none=True) if isinstance(usage, UsageInfo) else usage
        return {**written, "timing": _timing(metrics or {}, self._started)}


class ChatWriter(AnswerWriter):
    """Writes an answer to a chat.

    ``tool`` is the name of the tool whose arguments a text in listed words is, or None where it is a list of calls;
    ``is_text`` is False where it is either.
    """

    object_name = "chat.completion.chunk"
    response = ChatCompletionResponse

    def __init__(
        self, draft: Draft, model: str, started: float, *, is_text: bool = True, tool: str | None = None
    ) -> None:
        super().__init__(draft, model, started)
        self._calls: dict[int, ToolCallText] | None = None if is_text else {}
        self._tool = tool if not is_text else getattr(draft.request.tool_choice, "function", None)
        self._called: set[int] = set()

    @override
    def begin(self) -> Iterator[str]:
        draft, request = self.draft, self.draft.request
        others: Json = {"prompt_token_ids": self._named_tokens(draft.prompts[0]), "prompt_text": None}
        for index in range(request.n or 1):
            delta: Json = {"role": draft.role, "content": "" if self._calls is None else None}
            choice = {"index": index, "delta": delta, "logprobs": None, "finish_reason": None}
            if self.draft.has_details:
                choice["token_details"] = []
            counts = {"usage": self._with_timing(self._counts())} if self._counts_on else {}
            yield self._written([choice], {**counts, **others})

    @override
    def _choice(self, piece: Piece) -> Json:
        self._read_calls(piece)
        delta: Json = {}
        if piece.thoughts is not None:
            delta["reasoning"] = piece.thoughts
        if piece.calls:
            delta["tool_calls"] = piece.calls
        if self._calls is None and (piece.text or not self.draft.is_parsed):
            delta["content"] = piece.text
        choice: Json = {
            "index": piece.index,
            "delta": delta,
            "logprobs": self._logprobs(piece),
            "finish_reason": self._finish(piece),
        }
        if piece.finish is not None:
            choice["stop_reason"] = piece.stop_reason
        choice["token_ids"] = self._named_tokens(piece.tokens)
        return choice | self._details(piece)

    @override
    def _whole_choice(self, piece: Piece) -> ChatCompletionResponseChoice:
        self._read_calls(piece)
        calls = [{name: value for name, value in call.items() if name != "index"} for call in piece.calls]
        message = ChatMessage(
            role=self.draft.role, reasoning=piece.thoughts, content=self._content(piece), tool_calls=calls
        )
        return ChatCompletionResponseChoice(
            index=piece.index,
            message=message,
            finish_reason=self._finish(piece),
            stop_reason=piece.stop_reason,
            token_ids=self._named_tokens(piece.tokens),
        )

    def _content(self, piece: Piece) -> str | None:
        if self._calls is not None:
            return None
        # As vLLM has it: none of a model that only thought, but an empty one beside a call that was asked for.
        is_asked = self._tool is not None or self.draft.request.tool_choice == "required"
        return piece.text or (None if self.draft.is_parsed and not is_asked else "")

    def _read_calls(self, piece: Piece) -> None:
        """Find the calls in a text in listed words; leave the first only where several are not wanted."""
        if self._calls is not None:
            piece.calls = self._calls.setdefault(piece.index, ToolCallText(self._tool)).add(piece.text)
        elif self.draft.request.parallel_tool_calls is False:
            piece.calls = [call for number, call in enumerate(piece.calls) if call.get("index", number) == 0]
        if piece.calls:
            self._called.add(piece.index)

    def _finish(self, piece: Piece) -> str | None:
        """Return why a choice ends: for a call, as vLLM has it, "stop" where the client named the tool."""
        if self._tool is not None or piece.finish is None:
            return piece.finish
        if self._calls is not None:
            return "tool_calls" if piece.finish == "stop" else piece.finish
        request = self.draft.request
        is_required = not request.stream and request.tool_choice == "required" and piece.finish == "stop"
        return "tool_calls" if piece.index in self._called or is_required else piece.finish


class CompletionWriter(AnswerWriter):
    """Writes an answer to a completion."""

    object_name = "text_completion"
    response = CompletionResponse

    def __init__(self, draft: Draft, model: str, started: float) -> None:
        super().__init__(draft, model, started)
        self._unnamed = set(range(len(draft.num_written)))

    @override
    def _choice(self, piece: Piece) -> Json:
        prompt = None
        if piece.index in self._unnamed:
            self._unnamed.discard(piece.index)
            request = self.draft.request
            prompt = self._prompt_of(piece) if request.echo or request.return_token_ids else None
        return {
            "index": piece.index,
            "text": piece.text,
            "logprobs": self._logprobs(piece),
            "finish_reason": piece.finish,
            "stop_reason": piece.stop_reason,
            "prompt_token_ids": prompt,
            "token_ids": self._named_tokens(piece.tokens),
        } | self._details(piece)

    @override
    def _whole_choice(self, piece: Piece) -> CompletionResponseChoice:
        return CompletionResponseChoice(
            index=piece.index,
            text=piece.text,
            finish_reason=piece.finish,
            stop_reason=piece.stop_reason,
            prompt_token_ids=self._named_tokens(self._prompt_of(piece)),
            token_ids=self._named_tokens(piece.tokens),
        )

    def _prompt_of(self, piece: Piece) -> list[int]:
        return self.draft.prompts[piece.index // (self.draft.request.n or 1)]


def with_timing(item: Part, started: float) -> Part:
    """Add how long an answer took to its usage, where the item has it: vLLM's ``metrics``, and the time since its turn.

    ``started`` is of ``time.perf_counter``.
    """
    # A quote inside a text would be escaped.
    answer = item if isinstance(item, dict) else parse_event(item) if '"usage":{' in item else None
    if answer is None:
        return item
    metrics = answer.pop("metrics", None) or {}
    if answer.get("usage") is not None:
        answer["usage"]["timing"] = _timing(metrics, started)
    return answer if isinstance(item, dict) else write_event(answer)


def _timing(metrics: Json, started: float) -> Json:
    given = {name: round(value, 3) for name, value in metrics.items() if isinstance(value, int | float)}
    return {**given, "total_time_ms": round(1000 * (time.perf_counter() - started), 3)}


def with_model(item: Part, name: str) -> Part:
    """Replace the model's name in an item of an answer by the one that the client gave."""
    return changed(item, lambda answer: {**answer, "model": name} if "model" in answer else answer)
