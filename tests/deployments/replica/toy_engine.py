"""Engine clients as vLLM's, over made-up probabilities: they keep to the list, and fail, lie and stall on demand.

The probabilities of ``ToyEngine`` depend on the last token and on how many there are, so a text's log p can be counted
again. ``LeakyEngine`` serves a whole replica, vLLM's server included; its mask lets one step in fifty through, and it
says what a test wants.
"""

import asyncio
import itertools
import math
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from copy import copy
from itertools import zip_longest
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import torch
from vllm.logprobs import FlatLogprobs, Logprob
from vllm.outputs import CompletionOutput, RequestOutput
from vllm.renderers import renderer_from_config
from vllm.sampling_params import RequestOutputKind, SamplingParams
from vllm.v1.engine.detokenizer import IncrementalDetokenizer
from vllm.v1.engine.input_processor import InputProcessor
from vllm.v1.outputs import LogprobsTensors

from vocab.matching.engine_cache import EngineCache
from vocab.matching.log_mass import pack
from vocab.matching.matcher import Matcher
from vocab.matching.reference import GrammarReference
from vocab.vllm_plugin.kv_fork import TRANSFER_CONFIG


class ToyEngine:
    """The parts of ``AsyncLLM`` that a search uses.

    Args:
        tokenizer: The model's.
        lists: The lists that it knows.
        keeps_work: Whether it has our KV connector.
    """

    def __init__(self, tokenizer: Any, lists: EngineCache, *, keeps_work: bool = False) -> None:
        self.tokenizer, self.lists = tokenizer, lists
        self.renderer = SimpleNamespace(
            get_tokenizer=lambda: tokenizer, get_eos_token_id=lambda: int(tokenizer.eos_token_id)
        )
        self.input_processor = SimpleNamespace(generation_config_fields={"eos_token_id": [tokenizer.eos_token_id, 0]})
        transfer = SimpleNamespace(**TRANSFER_CONFIG) if keeps_work else None
        structured = SimpleNamespace(reasoning_parser="")
        self.vllm_config = SimpleNamespace(
            kv_transfer_config=transfer,
            speculative_config=None,
            structured_outputs_config=structured,
            device_config=SimpleNamespace(device_type="cpu"),
        )
        self.requests: list[tuple[list[int], SamplingParams, str, dict[str, Any]]] = []
        self.salts: set[str | None] = set()
        """Of all requests."""
        self._log_p: dict[tuple[int, int], Any] = {}
        self.num_running = 0
        self.num_answers = math.inf
        """After so many it answers no more."""
        self.failure: Exception | None = None
        """Raised in place of the last answer."""
        self.lie: int | None = None
        """A token that it gives whether or not it may come."""
        self.finish_reason: str | None = None
        """In place of the true one."""
        self.is_read_late = False
        """Whether vLLM joins all parts of an answer before they are read."""

    async def generate(
        self, prompt: Any, params: SamplingParams, request_id: str, **options: Any
    ) -> AsyncGenerator[RequestOutput, None]:
        self.requests.append((list(prompt["prompt_token_ids"]), params, request_id, options))
        self.salts.add(prompt.get("cache_salt"))
        number = len(self.requests)
        self.num_running += 1
        try:
            await asyncio.sleep(0)
            if number > self.num_answers:
                if self.failure is not None:
                    raise self.failure
                await asyncio.Event().wait()
            made = self._generate(list(prompt["prompt_token_ids"]), params, number)
            late: RequestOutput | None = None
            is_delta = params.output_kind == RequestOutputKind.DELTA
            for output in _as_asked(made, params.output_kind):
                one = RequestOutput(request_id, None, prompt["prompt_token_ids"], None, [output], output.finished())
                if late is None:
                    late = one
                else:
                    late.add(one, aggregate=is_delta)
                if not self.is_read_late or one.finished:
                    yield late
                    late = None
        finally:
            self.num_running -= 1

    def log_p(self, tokens: list[int]) -> Any:
        """log p of every next token: float64 (tokens,)."""
        key = (tokens[-1], len(tokens))
        if key not in self._log_p:
            logits = np.random.default_rng(key).normal(size=len(self.tokenizer)) * 3
            self._log_p[key] = logits - _log_sum_exp(logits)
        return self._log_p[key]

    def _generate(self, tokens: list[int], params: SamplingParams, number: int) -> list[CompletionOutput]:
        """One output for each token."""
        grammar = None if params.structured_outputs is None else params.structured_outputs.grammar
        reference = None if grammar is None else GrammarReference.parse(grammar)
        end = int(self.tokenizer.eos_token_id)
        matcher = None
        if reference is not None:
            matcher = Matcher.of(reference, self.lists.for_text(reference), (end,))
        random = np.random.default_rng(number if params.seed is None else params.seed)
        temperature = params.temperature or 1.0
        outputs: list[CompletionOutput] = []
        text, num_prompt = "", len(tokens)
        for place in itertools.count(1):
            log_p = self.log_p(tokens)
            tempered = log_p / temperature - _log_sum_exp(log_p / temperature)
            allowed = self._allowed(matcher)
            left = _log_sum_exp(tempered[allowed])
            if params.temperature == 0:
                token = int(allowed[log_p[allowed].argmax()])
            else:
                token = int(random.choice(allowed, p=np.exp(tempered[allowed] - left)))
            token = token if self.lie is None else self.lie
            if matcher is not None:
                matcher.accept_token(token)
            rank = 1 if matcher is None else pack(float(_log_sum_exp(log_p[allowed])), float(left))
            tokens = [*tokens, token]
            # As vLLM, it gives a character when it is whole.
            before, text = text, self.tokenizer.decode(tokens[num_prompt:], skip_special_tokens=True).rstrip("\ufffd")
            stop = next((one for one in params.stop or () if one in text), None)
            if stop is None and token != end and token in (params.stop_token_ids or ()):
                stop = token
            finish = "stop" if token == end or stop is not None else "length" if place == params.max_tokens else None
            if isinstance(stop, str):
                text = text[: text.index(stop) + len(stop) * params.include_stop_str_in_output]
            outputs.append(
                CompletionOutput(
                    0, text[len(before) :], [token], None, _logprobs(params, log_p, allowed, token, rank),
                    finish_reason=finish and (self.finish_reason or finish), stop_reason=stop,
                )
            )  # fmt: skip
            if finish:
                return outputs
        raise AssertionError("a text without an end")

    def _allowed(self, matcher: Matcher | None) -> Any:
        if matcher is None:
            return np.arange(len(self.tokenizer))
        mask = np.zeros((len(self.tokenizer) + 31) // 32, dtype=np.int32)
        matcher.fill_bitmask(mask)
        return np.flatnonzero(np.unpackbits(mask.view(np.uint8), bitorder="little"))


class Said(NamedTuple):
    """A text that an engine writes in these parts, whatever its mask says; each of its tokens has one of ``tops``."""

    parts: Sequence[str]
    finish_reason: str = "stop"
    stop_reason: str | None = None
    tops: Sequence[Mapping[int, float]] = ()


class LeakyEngine(ToyEngine):
    """One step in fifty may take any token; the matcher goes on as if the token had not been."""

    logger_manager = None

    def __init__(self, tokenizer: Any, lists: EngineCache, config: Any) -> None:
        super().__init__(tokenizer, lists)
        self.vllm_config, self.model_config = config, config.model_config
        self.renderer, self.input_processor = renderers(config)
        self.num_unmasked = self.num_sequences = 0
        self.reset()
        self._chance = np.random.default_rng(11)
        logits = self._chance.normal(size=(8, len(tokenizer))) * 3
        self._log_ps = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))

    def reset(self) -> None:
        """Write by the masks again, and forget what it was asked."""
        self.leaks = self.stalls = self.errored = False
        """Whether masks fail, whether a text's second part never comes, and whether it is dead."""
        self.said: Sequence[Said] = ()
        """What it writes in place of what it would draw, one after the other for each choice."""
        self.table: Callable[[list[int]], Any] | None = None
        """In place of its own log-probabilities."""
        self.worth: Callable[[str], float] | None = None
        """Of a whole text, in place of the log-probability of its last token."""
        self.has_rows, self.failure, self.finish_reason = True, None, None
        self.most_sequences = 0
        self.requests.clear()
        self.salts.clear()

    def check_admission(self, num_sequences: int) -> None: ...

    async def is_tracing_enabled(self) -> bool:
        return False

    async def get_supported_tasks(self) -> tuple[str, ...]:
        return ("generate",)

    async def add_lora(self, request: Any) -> bool:
        return True

    def log_p(self, tokens: list[int]) -> Any:
        return self.table(tokens) if self.table is not None else self._log_ps[(tokens[-1] + len(tokens)) % 8]

    async def generate(
        self, prompt: Any, params: SamplingParams, request_id: str, **options: Any
    ) -> AsyncGenerator[RequestOutput, None]:
        tokens = self.tokenizer.encode(prompt) if isinstance(prompt, str) else list(prompt["prompt_token_ids"])
        self.requests.append((tokens, params, request_id, options))
        self.salts.add(None if isinstance(prompt, str) else prompt.get("cache_salt"))
        self.num_running += 1
        self.num_sequences += params.n
        self.most_sequences = max(self.most_sequences, self.num_sequences)
        try:
            if self.failure is not None and params.output_kind != RequestOutputKind.DELTA:
                raise self.failure
            if self.stalls and params.max_tokens == 1:
                await asyncio.sleep(3600)
            if params.max_tokens == 1 and params.structured_outputs is None:
                await asyncio.sleep(0)
                yield self._read(tokens, params, request_id)
                return
            write = self._say if self.said else self._text
            texts = [write(tokens, params, index) for index in range(params.n)]
            if params.output_kind == RequestOutputKind.DELTA:
                parts = [[part] for step in zip_longest(*texts) for part in step if part is not None]
            else:
                parts = [[joined(text) for text in texts]]
            for part in parts:
                await asyncio.sleep(3600 if self.stalls and part is parts[-1] else 0)
                yield RequestOutput(request_id, None, tokens, None, part, part is parts[-1])
                if self.failure is not None:
                    raise self.failure
        finally:
            self.num_running -= 1
            self.num_sequences -= params.n

    def _read(self, tokens: list[int], params: SamplingParams, request_id: str) -> RequestOutput:
        """One token, with the row after the prompt, or the log-probability of each of its tokens."""
        result: Any = [None]
        for place in range(1, len(tokens)) if params.prompt_logprobs is not None else ():
            log_p = -0.1 if self.worth is not None else float(self.log_p(tokens[:place])[tokens[place]])
            result.append({tokens[place]: Logprob(log_p)})
        if self.worth is not None and params.prompt_logprobs is not None:
            result[-1] = {tokens[-1]: Logprob(self.worth(self.tokenizer.decode(tokens)))}
        if params.prompt_logprobs is None and self.has_rows:
            nothing = torch.zeros(1, dtype=torch.int32)
            row = torch.from_numpy(self.log_p(tokens).astype(np.float32))
            result = [LogprobsTensors(nothing, row[None], nothing)]
        logprobs: Any = None if params.logprobs is None else [{0: Logprob(-1.0, 1)}]
        drawn = CompletionOutput(0, "", [0], None, logprobs, finish_reason=self.finish_reason or "length")
        return RequestOutput(request_id, None, tokens, result, [drawn], finished=True)

    def _say(self, tokens: list[int], params: SamplingParams, index: int) -> list[CompletionOutput]:
        said, tops = self.said[index % len(self.said)], iter(self.said[index % len(self.said)].tops)
        made = []
        for part in said.parts:
            # vLLM's server sends nothing for an output without tokens.
            written = self.tokenizer.encode(part, add_special_tokens=False) or [self.tokenizer.eos_token_id]
            entries = [{one: Logprob(-1.0, pack(-0.5, -0.5)), **_entries(next(tops, {}))} for one in written]
            logprobs: Any = None if params.logprobs is None else entries
            made.append(CompletionOutput(index, part, written, None, logprobs))
        made[-1].finish_reason, made[-1].stop_reason = said.finish_reason, said.stop_reason
        return made

    def _text(self, tokens: list[int], params: SamplingParams, index: int) -> list[CompletionOutput]:
        made = self._generate(tokens, params, 100 * len(self.requests) + index)
        request: Any = SimpleNamespace(request_id="", prompt_token_ids=tokens[-16:], sampling_params=params)
        detokenizer = IncrementalDetokenizer.from_new_request(self.tokenizer, request)
        for output in made:
            output.index = index
            if not params.stop:
                # The toy's own texts have halves of characters.
                detokenizer.update(list(output.token_ids), output.finish_reason == "stop")
                output.text = detokenizer.get_next_output_text(output.finished(), delta=True)
        return made

    def _allowed(self, matcher: Matcher | None) -> Any:
        if self.leaks and self._chance.random() < 1 / 50:
            self.num_unmasked += 1
            return super()._allowed(None)
        return super()._allowed(matcher)


def _entries(top: Mapping[int, float]) -> dict[int, Logprob]:
    return {token: Logprob(value, 2) for token, value in top.items()}


_RENDERERS: dict[str, tuple[Any, Any]] = {}


def renderers(config: Any) -> tuple[Any, Any]:
    """What vLLM renders and checks prompts with, once for each model: it takes longer than all else of a start."""
    if config.model_config.model not in _RENDERERS:
        renderer = renderer_from_config(config)
        _RENDERERS[config.model_config.model] = renderer, InputProcessor(config, renderer)
    return _RENDERERS[config.model_config.model]


def _log_sum_exp(values: Any) -> float:
    return float(np.log(np.exp(values).sum()))


def _logprobs(params: SamplingParams, log_p: Any, allowed: Any, token: int, rank: int) -> Any:
    if params.logprobs is None:
        return None
    masked = np.full(len(log_p), -np.inf)
    masked[allowed] = log_p[allowed]
    top: Any = np.argsort(-masked)[: params.logprobs] if params.logprobs else []
    entries = [(token, float(masked[token]), rank), *((int(one), float(masked[one]), 1) for one in top)]
    if not params.flat_logprobs:
        return [{one: Logprob(logprob, its_rank) for one, logprob, its_rank in entries}]
    flat = FlatLogprobs()
    flat.append_fast(
        [one for one, _, _ in entries],
        [logprob for _, logprob, _ in entries],
        itertools.chain(its_rank for _, _, its_rank in entries),
        itertools.repeat(None),
    )
    return flat


def _as_asked(made: list[CompletionOutput], kind: RequestOutputKind) -> Iterator[CompletionOutput]:
    if kind == RequestOutputKind.DELTA:
        yield from made
    elif kind == RequestOutputKind.FINAL_ONLY:
        yield joined(made)
    else:
        for output in made:
            # As in vLLM, the logprobs are one object that grows.
            yield copy(output if output is made[0] else joined([made[0], output]))


def joined(outputs: list[CompletionOutput]) -> CompletionOutput:
    first, *others = outputs
    for output in others:
        first.text += output.text
        first.token_ids = [*first.token_ids, *output.token_ids]
        if isinstance(first.logprobs, FlatLogprobs):
            # Its own method to extend it would take a list of dicts.
            flat = output.logprobs
            first.logprobs.append_fast(flat.token_ids, flat.logprobs, flat.ranks, flat.decoded_tokens)
        elif first.logprobs is not None:
            first.logprobs.extend(output.logprobs)
        first.finish_reason, first.stop_reason = output.finish_reason, output.stop_reason
    return first
