"""vLLM's engine client with searches: one request of vLLM's server becomes many small ones to the engine.

vLLM's server renders the prompt and formats the answer as ever; a request that carries an order
(``deployments.search.order``) is answered here, by a search over the engine's own client, and any other passes. It
knows vLLM's client and the lists' states; how a text is chosen is ``vocab.decoding``'s.
"""

import asyncio
import math
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import Any
from uuid import uuid4

from vllm.exceptions import VLLMValidationError
from vllm.outputs import CompletionOutput, RequestOutput
from vllm.sampling_params import RequestOutputKind, SamplingParams

from deployments.contract import Decoding
from deployments.search.constraint import Constraint
from deployments.search.generator import EngineGenerator, sentence_tokens
from deployments.search.kept_work import KeptWork
from deployments.search.order import ORDER_ARGUMENT, AnswerCost, SearchOrder
from deployments.search.outputs import SearchOutputs
from deployments.search.token_scores import scores_of
from vocab.automaton.tokenizer import TokenizerFacts
from vocab.decoding.beams import BeamRules, search_beams
from vocab.decoding.candidates import choose_candidates, search_sentences
from vocab.decoding.generator import Continuation
from vocab.decoding.scores import TextScore
from vocab.matching.engine_cache import EngineCache
from vocab.matching.reference import GrammarReference
from vocab.vllm_plugin.fork import TRANSFER_CONFIG


class SearchClient:
    """Stands in the place of vLLM's ``AsyncLLM`` for the server of chats.

    Args:
        client: The engine's own client, which answers whatever is not asked for here.
        lists: The states of the lists on this node.
        facts: Of the model's tokenizer.
    """

    def __init__(self, client: Any, lists: EngineCache, facts: TokenizerFacts) -> None:
        self._client = client
        self._lists = lists
        self._sentence_tokens = sentence_tokens(facts)
        self._unused_work: list[str] = []
        transfer = client.vllm_config.kv_transfer_config
        self._keeps_work = transfer is not None and transfer.kv_connector == TRANSFER_CONFIG["kv_connector"]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    def generate(
        self, prompt: Any, sampling_params: SamplingParams, request_id: str, **options: Any
    ) -> AsyncGenerator[RequestOutput, None]:
        """As ``AsyncLLM.generate``. Closing it, or cancelling its next step, ends all that runs in the engine for it.

        Raises:
            EngineStepError: A step of a search failed, and with it the whole.
            ListFaultError: The engine did not keep to the list.
            ArtefactError: The list cannot be read here.
        """
        extra_args = dict(sampling_params.extra_args or {})
        order: SearchOrder | None = extra_args.pop(ORDER_ARGUMENT, None)
        if order is None:
            answer: AsyncGenerator[RequestOutput, None] = self._client.generate(
                prompt, sampling_params, request_id, **options
            )
            return answer
        params = sampling_params.clone()
        params.extra_args = extra_args or None
        decoding = order.decoding
        if max(decoding.num_beams, decoding.best_of, decoding.search_width) == 1:
            return self._scored(prompt, params, request_id, order.cost, options)
        return self._searched(prompt, params, request_id, order, options)

    async def _searched(
        self, prompt: Any, params: SamplingParams, request_id: str, order: SearchOrder, options: Mapping[str, Any]
    ) -> AsyncGenerator[RequestOutput, None]:
        if "prompt_token_ids" not in prompt:
            raise VLLMValidationError("A search needs a prompt of tokens.", parameter="messages")
        kept = KeptWork(uuid4().hex, self._unused_work) if self._keeps_work else None
        constraint = await self._constraint(params)
        generator = EngineGenerator(
            self._client,
            prompt,
            params,
            request_id,
            constraint=constraint,
            sentence_tokens=self._sentence_tokens,
            kept=kept,
            options=options,
        )
        eos = self._client.renderer.get_eos_token_id()
        outputs = SearchOutputs(request_id, prompt, eos, generator.end_tokens)
        try:
            if order.decoding.search_width > 1:
                async with aclosing(_by_sentences(generator, params, order, outputs)) as found:
                    async for output in found:
                        yield output
            else:
                texts = await _whole_texts(generator, params, order.decoding)
                _note(order.cost, TextScore.of(texts[0]), generator.num_tokens)
                yield outputs.whole(texts)
        finally:
            await generator.close()

    async def _constraint(self, params: SamplingParams) -> Constraint | None:
        grammar = None if params.structured_outputs is None else params.structured_outputs.grammar
        reference = None if grammar is None else GrammarReference.parse(grammar)
        if reference is None:
            return None
        # A list less some words takes a while to make.
        return Constraint(reference, await asyncio.to_thread(self._lists.states, reference))

    async def _scored(
        self, prompt: Any, params: SamplingParams, request_id: str, cost: AnswerCost, options: Mapping[str, Any]
    ) -> AsyncGenerator[RequestOutput, None]:
        """The engine's own answer, whose cost is told besides."""
        is_silent = params.logprobs is None
        params.logprobs = params.logprobs or 0
        params.flat_logprobs = True
        is_delta = params.output_kind == RequestOutputKind.DELTA
        is_masked = params.structured_outputs is not None
        score = TextScore()
        async with aclosing(self._client.generate(prompt, params, request_id, **options)) as answer:
            async for output in answer:
                for completion in output.outputs:
                    if completion.index == 0 and completion.token_ids:
                        score = _added(score if is_delta else TextScore(), completion, is_masked=is_masked)
                    cost.num_tokens += len(completion.token_ids)
                    if is_silent:
                        completion.logprobs = completion.cumulative_logprob = None
                cost.score = score
                yield output


async def _whole_texts(generator: EngineGenerator, params: SamplingParams, decoding: Decoding) -> list[Continuation]:
    budget = _budget(params)
    if decoding.num_beams > 1:
        rules = BeamRules(
            decoding.num_beams, decoding.length_penalty, decoding.early_stopping, decoding.no_repeat_ngram_size
        )
        return [found.continuation for found in await search_beams(generator, rules, budget, params.n)]
    return await choose_candidates(
        generator,
        budget,
        num_candidates=decoding.best_of,
        num_chosen=params.n,
        select=decoding.select,
        seed=params.seed,
    )


async def _by_sentences(
    generator: EngineGenerator, params: SamplingParams, order: SearchOrder, outputs: SearchOutputs
) -> AsyncGenerator[RequestOutput, None]:
    """Each part as it is chosen, where the answer is a stream; else the whole."""
    decoding, parts = order.decoding, list[Continuation]()
    search = search_sentences(
        generator, _budget(params), width=decoding.search_width, select=decoding.select, seed=params.seed
    )
    async with aclosing(search) as found:
        async for part in found:
            parts.append(part)
            _note(order.cost, TextScore.of(*parts), generator.num_tokens)
            if params.output_kind == RequestOutputKind.DELTA:
                yield outputs.part(part)
    if params.output_kind != RequestOutputKind.DELTA:
        yield outputs.joined(parts)


def _budget(params: SamplingParams) -> int:
    if params.max_tokens is None:
        raise VLLMValidationError("A search needs to know how many tokens it may take.", parameter="max_tokens")
    return int(params.max_tokens)


def _note(cost: AnswerCost, score: TextScore, num_tokens: int) -> None:
    cost.score, cost.num_tokens = score, num_tokens


def _added(score: TextScore, completion: CompletionOutput, *, is_masked: bool) -> TextScore:
    """The score together with that of more tokens."""
    drawn = scores_of(completion, is_masked=is_masked)
    return TextScore(
        score.log_p + math.fsum(one.log_p for one in drawn),
        score.log_mass + math.fsum(one.log_mass for one in drawn),
        score.log_weight + math.fsum(one.log_weight for one in drawn),
        score.num_tokens + len(drawn),
    )
