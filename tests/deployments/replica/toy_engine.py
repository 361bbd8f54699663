"""An engine client as vLLM's, over made-up probabilities: it keeps to the list, and fails, lies and stalls on demand.

Its probabilities depend on the last token and on how many there are, so a text's log p can be counted again.
"""

import asyncio
import itertools
import math
from collections.abc import AsyncGenerator, Iterator
from copy import copy
from types import SimpleNamespace
from typing import Any

import numpy as np
from vllm.logprobs import FlatLogprobs, Logprob
from vllm.outputs import CompletionOutput, RequestOutput
from vllm.sampling_params import RequestOutputKind, SamplingParams

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
        self.vllm_config = SimpleNamespace(kv_transfer_config=transfer)
        self.requests: list[tuple[list[int], SamplingParams, str, dict[str, Any]]] = []
        self.salts: set[str | None] = set()
        """Of all requests."""
        self._log_p: dict[tuple[int, int], Any] = {}
        self.num_running = 0
        self.num_given = 0
        """Tokens that were taken of all answers."""
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
                is_cumulative = params.output_kind == RequestOutputKind.CUMULATIVE
                self.num_given += 1 if is_cumulative else len(output.token_ids)
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
