"""An engine that writes texts: by one request to vLLM's engine, or by a search, which is many small ones."""

import asyncio
import math
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Final
from uuid import uuid4

from cachetools import LRUCache
from opentelemetry import propagate
from vllm.exceptions import VLLMValidationError
from vllm.outputs import CompletionOutput, RequestOutput
from vllm.sampling_params import RequestOutputKind, SamplingParams

from deployments.contract import RESCUE_SHARE, Decoding
from deployments.search.generator import CachedSteps, EngineGenerator, end_tokens, sentence_tokens
from deployments.search.outcome import AnswerCost, completion_of
from deployments.search.pacing import StreamPacer
from deployments.search.tokens import Constraint, ListedLogprobs, scores_of
from vocab.automaton.tokenizer import TokenizerFacts
from vocab.decoding.beams import BeamRules, search_beams
from vocab.decoding.generator import Continuation
from vocab.decoding.select import TextScore, choose_candidates, search_sentences
from vocab.matching.engine_cache import EngineCache
from vocab.matching.log_mass import UNMASKED_TOP
from vocab.matching.reference import GrammarReference
from vocab.matching.states import ListStates
from vocab.vllm_plugin.kv_fork import TRANSFER_CONFIG
from vocab.vllm_plugin.retrying import Retries, retry_args

_GREEDY_BELOW: Final = 1e-5
"""vLLM takes a lower temperature for 0 (``vllm.sampling_params._SAMPLING_EPS``)."""


SPLIT_SHARE: Final = 0.05
"""Of the tokens that may come after a word, those that leave another open: from here on words are taken back by
default. English has 1%, Spanish 17%, German 26%, at 1,000 words and Qwen's tokenizer."""

_MAX_SPLIT: Final = 4096

SAMPLE: Final = Decoding()
"""One sample, as the engine draws it."""


@dataclass(eq=False)
class Generation:
    """What an engine is to write for one prompt, and what it writes, as it comes.

    Attributes:
        prompt: As rendered.
        options: Go to the engine with each of its requests.
        outputs: vLLM's outputs; closing them ends all that runs in the engine for it.
        cost: What was written so far has cost; None where no search or score was asked for.
        retries: What the engine took back so far; None where it takes nothing back.
    """

    prompt: Any
    params: SamplingParams
    request_id: str
    decoding: Decoding
    options: Mapping[str, Any]
    cost: AnswerCost | None = None
    retries: Retries | None = None
    outputs: AsyncGenerator[RequestOutput, None] = field(init=False)

    @property
    def is_delta(self) -> bool:
        """Whether each output has new text only, as in a stream."""
        return bool(self.params.output_kind == RequestOutputKind.DELTA)

    @cached_property
    def reference(self) -> GrammarReference | None:
        structured = self.params.structured_outputs
        return None if structured is None or structured.grammar is None else GrammarReference.parse(structured.grammar)

    def output(self, completions: list[CompletionOutput], *, finished: bool) -> RequestOutput:
        """Build vLLM's output from choices that a search has made."""
        return RequestOutput(
            request_id=self.request_id,
            prompt=self.prompt.get("prompt"),
            prompt_token_ids=self.prompt["prompt_token_ids"],
            prompt_logprobs=None,
            outputs=completions,
            finished=finished,
        )


class TextEngine:
    """Writes texts with ``client``, vLLM's ``AsyncLLM``.

    ``lists`` are the states of the lists on this node, ``facts`` of the model's tokenizer.
    """

    def __init__(self, client: Any, lists: EngineCache, facts: TokenizerFacts) -> None:
        self._client = client
        self._lists = lists
        self._sentence_tokens = sentence_tokens(facts)
        self._textless = facts.textless
        self._unused_names: list[str] = []
        self.pacer = StreamPacer()
        transfer = client.vllm_config.kv_transfer_config
        config = client.vllm_config
        # A thought has no words, and drafts have no masks that could be measured.
        self._can_take_back = not (config.speculative_config or config.structured_outputs_config.reasoning_parser)
        # A GPU masks texts by itself, which is worth more there.
        self._is_on_cpu = config.device_config.device_type == "cpu"
        self._split: LRUCache[Any, bool] = LRUCache(_MAX_SPLIT)
        self._keeps_steps = transfer is not None and transfer.kv_connector == TRANSFER_CONFIG["kv_connector"]

    def generate(
        self, prompt: Any, params: SamplingParams, request_id: str, decoding: Decoding = SAMPLE, **options: Any
    ) -> Generation:
        """Begin to write ``params.n`` texts after a rendered prompt, chosen as ``decoding`` says.

        ``options`` go to the engine with each request: priority, adapter and the like. The outputs raise:

        Raises:
            EngineStepError: A step of a search failed, and with it the whole.
            ListFaultError: The engine did not keep to the list.
            ArtefactError: The list cannot be read here.
            VLLMValidationError: The text cannot end in time.
        """
        asked = Generation(prompt, params, request_id, decoding, options)
        outputs = self._write(asked)
        # logprobs 0 is that of the answer's own tokens; details name the masked ones too.
        if params.logprobs and asked.reference is not None and UNMASKED_TOP not in (params.extra_args or {}):
            outputs = self._with_listed_logprobs(outputs, asked)
        # Without a prefill it is known beforehand that a text can end in time.
        if asked.reference is not None and asked.reference.place is not None:
            outputs = self._check_fit(outputs, asked)
        asked.outputs = outputs
        return asked

    def _write(self, asked: Generation) -> AsyncGenerator[RequestOutput, None]:
        """Dispatch a request by its search: pass it on, score or search."""
        decoding = asked.decoding
        if decoding.is_plain:
            return self._sample(asked)
        if decoding.search_width > 1:
            parts = self._search_sentences(asked)
        elif max(decoding.num_beams, decoding.best_of) > 1:
            return self._search(asked)
        else:
            return self._score(asked)
        return parts if asked.is_delta else _joined(parts)

    def _sample(self, asked: Generation) -> AsyncGenerator[RequestOutput, None]:
        """Return the engine's own samples."""
        params, num_copies = asked.params, 1
        if params.n > 1 and params.temperature < _GREEDY_BELOW:
            # vLLM refuses several texts at temperature 0, which are the same; OpenAI does not.
            num_copies, params.n = params.n, 1
        answer = self._generated(asked, params, {**asked.options, "trace_headers": trace_headers()})
        if asked.is_delta:
            answer = self.pacer.pace(answer, _is_finished)
        return answer if num_copies == 1 else _copied(answer, num_copies)

    def _generated(
        self, asked: Generation, params: SamplingParams, options: Mapping[str, Any]
    ) -> AsyncGenerator[RequestOutput, None]:
        """Return what the engine itself writes; under a list, words may be taken back."""
        answer: AsyncGenerator[RequestOutput, None]
        if asked.reference is None or not self._can_take_back:
            answer = self._client.generate(asked.prompt, params, asked.request_id, **options)
            return answer
        return self._retried(asked, asked.reference, params, options)

    async def _retried(
        self, asked: Generation, reference: GrammarReference, params: SamplingParams, options: Mapping[str, Any]
    ) -> AsyncGenerator[RequestOutput, None]:
        """Yield what the engine writes, taking words back where that is asked for, or the list's words are split.

        A text that ends with a sentence is ended where another would not fit.
        """
        share = asked.decoding.rescue
        if share is None:
            share = RESCUE_SHARE if self._is_on_cpu and await self._is_split(reference) else 0
        is_sentence = reference.options.end == "sentence" and reference.schema is None
        has_ending = is_sentence and (self._is_on_cpu or share > 0)
        if share or has_ending:
            args = retry_args(share, asked.request_id, has_ending=has_ending)
            params.extra_args = (params.extra_args or {}) | args
        async with aclosing(self._client.generate(asked.prompt, params, asked.request_id, **options)) as answer:
            async for output in answer:
                if (retries := Retries.of(output.kv_transfer_params)) is not None:
                    # Not for clients.
                    asked.retries, output.kv_transfer_params = retries if share else None, None
                yield output

    async def _is_split(self, reference: GrammarReference) -> bool:
        """Return whether so many words of a list are split that some should be taken back; cached."""
        key = reference.digest, reference.changes, reference.options, reference.n_words
        if key not in self._split:
            states = await asyncio.to_thread(self._lists.states, reference)
            # In a language without spaces no token leaves a word open.
            self._split[key] = isinstance(states, ListStates) and states.open_share >= SPLIT_SHARE
        found: bool = self._split[key]
        return found

    async def _search(self, asked: Generation) -> AsyncGenerator[RequestOutput, None]:
        """Answer by beam search, or with the best of several samples."""
        decoding, params = asked.decoding, asked.params
        async with self._generator(asked) as generator:
            if decoding.num_beams > 1:
                no_repeat = decoding.no_repeat_ngram_size or 0
                rules = BeamRules(decoding.num_beams, decoding.length_penalty, decoding.early_stopping, no_repeat)
                beams = await search_beams(generator, rules, params.max_tokens, params.n)
                texts = [found.continuation for found in beams]
            else:
                texts = await choose_candidates(
                    generator,
                    params.max_tokens,
                    num_candidates=decoding.best_of,
                    num_chosen=params.n,
                    select=decoding.select,
                    seed=params.seed,
                )
            asked.cost = AnswerCost(TextScore.of(texts[0]), generator.num_tokens)
            completions = [completion_of(text, generator.named_ends, index) for index, text in enumerate(texts)]
            yield asked.output(completions, finished=True)

    async def _search_sentences(self, asked: Generation) -> AsyncGenerator[RequestOutput, None]:
        """Search sentence by sentence; yield the parts as they are chosen."""
        decoding, params, parts = asked.decoding, asked.params, list[Continuation]()
        async with self._generator(asked) as generator:
            sentences = search_sentences(
                generator, params.max_tokens, width=decoding.search_width, select=decoding.select, seed=params.seed
            )
            async with aclosing(sentences) as found:
                async for part in found:
                    parts.append(part)
                    asked.cost = AnswerCost(TextScore.of(*parts), generator.num_tokens)
                    completion = completion_of(part, generator.named_ends)
                    yield asked.output([completion], finished=part.finish != "sentence")

    @asynccontextmanager
    async def _generator(self, asked: Generation) -> AsyncIterator[EngineGenerator]:
        """Make the generator of a request, with cached steps of its own; close it."""
        if "prompt_token_ids" not in asked.prompt:
            raise VLLMValidationError("A search needs a prompt of tokens.", parameter="messages")
        if asked.params.max_tokens is None:
            raise VLLMValidationError("A search needs to know how many tokens it may take.", parameter="max_tokens")
        generator = EngineGenerator(
            self._client,
            asked.prompt,
            asked.params,
            asked.request_id,
            constraint=await self._constraint(asked),
            sentence_tokens=self._sentence_tokens,
            cached=CachedSteps(uuid4().hex, self._unused_names) if self._keeps_steps else None,
            options=asked.options,
        )
        try:
            yield generator
        finally:
            await generator.close()

    async def _check_fit(
        self, answer: AsyncGenerator[RequestOutput, None], asked: Generation
    ) -> AsyncGenerator[RequestOutput, None]:
        """Refuse an answer whose text cannot end within ``max_tokens`` after its prefill, else yield it."""
        async with aclosing(answer):
            constraint = await self._constraint(asked)
            fewest = None if constraint is None else constraint.states.tokens_to_end(constraint.start)
            if fewest is None:
                raise VLLMValidationError(
                    "No word of the list can follow the text that was begun.", parameter="messages"
                )
            if (asked.params.max_tokens or 0) < fewest:
                raise VLLMValidationError(
                    f"'max_tokens' must be at least {fewest}: the text that was begun cannot end within fewer tokens.",
                    parameter="max_tokens",
                )
            async for output in answer:
                yield output

    async def _with_listed_logprobs(
        self, answer: AsyncGenerator[RequestOutput, None], asked: Generation
    ) -> AsyncGenerator[RequestOutput, None]:
        """Yield an answer with only those logprobs that its word list allows."""
        constraint, params = await self._constraint(asked), asked.params
        listed = ListedLogprobs(
            constraint,
            self._textless & end_tokens(self._client, params),
            params.logprob_token_ids or (),
            is_delta=asked.is_delta,
        )
        async with aclosing(answer):
            async for output in answer:
                for completion in output.outputs:
                    listed.keep_listed(completion)
                    # A long answer's take a while, and other requests wait for this loop.
                    await asyncio.sleep(0)
                yield output

    async def _constraint(self, asked: Generation) -> Constraint | None:
        """Return a request's word list with its states on this node; None without a list."""
        if asked.reference is None:
            return None
        # A list less some words takes a while to make.
        return Constraint(asked.reference, await asyncio.to_thread(self._lists.for_text, asked.reference))

    async def _score(self, asked: Generation) -> AsyncGenerator[RequestOutput, None]:
        """Yield the engine's own sample as the answer, and record what it cost."""
        params, is_delta = asked.params, asked.is_delta
        is_silent = params.logprobs is None
        params.logprobs = params.logprobs or 0
        params.flat_logprobs = True
        is_masked = params.structured_outputs is not None
        score, num_tokens = TextScore(), 0
        sent: dict[int, tuple[int, int]] = {}
        if is_delta:
            # Where vLLM joins parts that were not read in time, it forgets what the mask left.
            params.output_kind = RequestOutputKind.CUMULATIVE
        outputs = self._generated(asked, params, asked.options)
        async with aclosing(self.pacer.pace(outputs, _is_finished) if is_delta else outputs) as answer:
            async for output in answer:
                for completion in output.outputs:
                    if is_delta:
                        sent[completion.index] = _keep_new(completion, *sent.get(completion.index, (0, 0)))
                    if completion.index == 0 and completion.token_ids:
                        score = _add_score(score if is_delta else TextScore(), completion, is_masked=is_masked)
                    num_tokens += len(completion.token_ids)
                    if is_silent:
                        completion.logprobs = completion.cumulative_logprob = None
                asked.cost = AnswerCost(score, num_tokens + (asked.retries.num_tokens if asked.retries else 0))
                yield output


def _is_finished(output: RequestOutput) -> bool:
    return bool(output.finished)


async def _copied(answer: AsyncGenerator[RequestOutput, None], number: int) -> AsyncGenerator[RequestOutput, None]:
    async with aclosing(answer):
        async for output in answer:
            output.outputs = [replace(one, index=index) for one in output.outputs for index in range(number)]
            yield output


async def _joined(parts: AsyncGenerator[RequestOutput, None]) -> AsyncGenerator[RequestOutput, None]:
    """Yield the parts of an answer as one output."""
    whole: RequestOutput | None = None
    async with aclosing(parts):
        async for part in parts:
            if whole is None:
                whole = part
            else:
                whole.add(part, aggregate=True)
    if whole is not None:
        yield whole


def _keep_new(completion: CompletionOutput, num_tokens: int, num_characters: int) -> tuple[int, int]:
    """Reduce a cumulative output to what is new since these counts; return the new counts."""
    tokens, text = completion.token_ids, completion.text
    completion.token_ids, completion.text = tokens[num_tokens:], text[num_characters:]
    if completion.logprobs is not None:
        # vLLM may have added to it meanwhile.
        completion.logprobs = completion.logprobs[num_tokens : len(tokens)]
    return len(tokens), len(text)


def _add_score(score: TextScore, completion: CompletionOutput, *, is_masked: bool) -> TextScore:
    drawn = scores_of(completion, is_masked=is_masked)
    return TextScore(
        score.log_p + math.fsum(one.log_p for one in drawn),
        score.log_mass + math.fsum(one.log_mass for one in drawn),
        score.log_weight + math.fsum(one.log_weight for one in drawn),
        score.num_tokens + len(drawn),
    )


def trace_headers() -> dict[str, str] | None:
    """Return the headers by which a span of vLLM's becomes part of the current one; None without tracing."""
    headers: dict[str, str] = {}
    propagate.inject(headers)
    return headers or None
