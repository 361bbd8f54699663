"""A vLLM engine as a search uses it: the likeliest next tokens, and draws, each as one small request.

A step names the automaton's state in which its text continues, so nothing is replayed; the states are followed here,
as the engine follows them.
"""

import asyncio
import hashlib
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from itertools import count
from typing import Any, Final, cast

from vllm.outputs import CompletionOutput
from vllm.sampling_params import RequestOutputKind, SamplingParams, StructuredOutputsParams

from deployments.search.tokens import CUT_CHARACTER, Constraint, EngineStepError, TokenText, likeliest, scores_of
from vocab.automaton.tokenizer import TokenizerFacts
from vocab.decoding.generator import Continuation, Expansion, Finish, Place
from vocab.marks import SENTENCE_MARKS, UNSPACED_SENTENCE_MARKS
from vocab.matching.text_states import State
from vocab.vllm_plugin.kv_fork import ForkHint

MAX_STEP_TOKENS: Final = 64
"""The engine's ``max_logprobs``, the tokens of a step whose probability is known: two for each of 16 beams, and as many
again for further end tokens. Clients' ``top_logprobs`` has a limit of its own."""

_PROMPT_ONLY: Final = frozenset({"prompt", "prompt_token_offsets", "assistant_tokens_mask", "arrival_time"})
"""Fields of vLLM's prompt besides its tokens that no longer hold when text follows it."""

_ENDS: Final = SENTENCE_MARKS + UNSPACED_SENTENCE_MARKS
"""End sentences in one language or another; a Thai sentence without a mark goes on to the next mark."""

_FINISHES: Final = ("stop", "length")


class EngineGenerator:
    """A ``vocab.decoding.generator.Generator`` over vLLM's ``AsyncLLM``.

    Args:
        prompt: The rendered prompt, with ``prompt_token_ids``.
        params: The request's own sampling parameters, which are not changed. With a grammar and no ``constraint``,
            every draw must begin at the text's start, as the grammar's state is not followed.
        request_id: Prefix of the ids of all steps.
        constraint: None for free text.
        sentence_tokens: Those in which a sentence ends (``sentence_tokens``). The engine's own process stops at them;
            at a mark that is spelled by several tokens vLLM stops a step late.
        cached: Lets the engine keep the work of a step for the next, if it can.
        options: Passed with every step: priority, adapter and the like.
    """

    def __init__(
        self,
        client: Any,
        prompt: Mapping[str, Any],
        params: SamplingParams,
        request_id: str,
        *,
        constraint: Constraint | None = None,
        sentence_tokens: Sequence[int] = (),
        cached: "CachedSteps | None" = None,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        self._steps = _Steps(client, prompt, request_id, cached, options)
        self._params = params
        self._constraint = constraint
        self._is_masked = constraint is not None or params.structured_outputs is not None
        self._texts = TokenText(client.renderer.get_tokenizer(), self._steps.prompt_tokens, params)
        self.end_tokens = end_tokens(client, params)
        self.named_ends = self.end_tokens - {client.renderer.get_eos_token_id()}
        """Those that vLLM names as the reason of an end: all but the tokenizer's own."""
        self._sentence_tokens = sentence_tokens

    @property
    def start(self) -> Place:
        return Place(state=None if self._constraint is None else self._constraint.start)

    @property
    def num_tokens(self) -> int:
        """Return how many tokens the engine has generated for this search."""
        return self._steps.num_tokens

    async def expand(self, place: Place, num_tokens: int, budget: int) -> Expansion:
        """Ask the engine for the likeliest next tokens, as ``Generator.expand``; at most ``MAX_STEP_TOKENS``.

        Raises:
            EngineStepError: The engine did not answer, or not as it must.
        """
        params = SamplingParams(
            temperature=0.0,
            max_tokens=1,
            logprobs=min(num_tokens, MAX_STEP_TOKENS),
            # The other container forgets the rank of a token that is among the likeliest.
            flat_logprobs=True,
            detokenize=False,
            output_kind=RequestOutputKind.FINAL_ONLY,
            structured_outputs=self._grammar(place, budget),
        )
        output, source = await self._steps.ask(place, params, keep=budget > 1)
        best = likeliest(output)[:num_tokens]
        [sampled] = scores_of(output, is_masked=self._is_masked)
        return Expansion(tuple(token for token, _ in best), tuple(log_p for _, log_p in best), source, sampled.log_mass)

    def follow(self, place: Place, token: int, budget: int, source: str | None) -> Place:
        """Return the place after one more token, as ``Generator.follow``.

        Raises:
            ListFaultError: The list does not allow the token.
        """
        return Place((*place.tokens, token), self._after(place, (token,), budget), source)

    async def sample(self, place: Place, budget: int, *, to_sentence_end: bool = False, index: int = 0) -> Continuation:
        """Draw a continuation, as ``Generator.sample``, with the request's temperature, penalties and stop strings.

        Raises:
            EngineStepError: The engine did not answer, or not as it must.
            ListFaultError: It gave a token that the list does not allow.
        """
        params = self._draw(place, budget, to_sentence_end, index)
        output, source = await self._steps.ask(place, params, keep=to_sentence_end)
        tokens, stop = tuple(output.token_ids), output.stop_reason
        stop_string = stop if isinstance(stop, str) else None
        text, finish = output.text, cast("Finish", output.finish_reason)
        if to_sentence_end and stop is not None and tokens[-1] not in self.end_tokens:
            # vLLM's text ends with the mark, the tokens perhaps after it, and the search goes on from the tokens.
            stop_string, finish = None, "sentence" if len(tokens) < budget else "length"
            text = self._texts.of(place.tokens + tokens)[len(self._texts.of(place.tokens)) :]
        scores = scores_of(output, is_masked=self._is_masked)
        return Continuation(
            tokens=tokens,
            text=text,
            log_p=tuple(one.log_p for one in scores),
            log_mass=tuple(one.log_mass for one in scores),
            log_weight=tuple(one.log_weight for one in scores),
            finish=finish,
            stop_reason=stop_string,
            place=Place(place.tokens + tokens, self._after(place, tokens, budget), source),
        )

    def num_missing(self, place: Place) -> int:
        """Return how many required words a text still lacks, as ``Generator.num_missing``."""
        if place.state is None or self._constraint is None:
            return 0
        return self._constraint.states.num_missing(place.state)

    def text(self, tokens: tuple[int, ...]) -> str:
        """Decode tokens, as ``Generator.text``, with ``CUT_CHARACTER`` at the end where they end inside a character."""
        while tokens and tokens[-1] in self.end_tokens:
            tokens = tokens[:-1]
        return self._texts.of(tokens) + (CUT_CHARACTER if self._texts.is_cut(tokens) else "")

    async def close(self) -> None:
        await self._steps.close()

    def _draw(self, place: Place, budget: int, to_sentence_end: bool, index: int) -> SamplingParams:
        """Return the sampling parameters of one draw: the request's, with its own budget, seed and stops."""
        own, params = self._params, self._params.clone()
        params.n = 1
        params.max_tokens = budget
        params.min_tokens = max(own.min_tokens - len(place.tokens), 0)
        params.seed = None if own.seed is None else _seed(own.seed, index, len(place.tokens))
        params.logprobs = 0
        params.output_kind = RequestOutputKind.FINAL_ONLY
        params.stream_interval = None
        params.structured_outputs = self._grammar(place, budget)
        if to_sentence_end:
            params.stop = list(_ENDS)
            params.stop_token_ids = [*(own.stop_token_ids or ()), *self._sentence_tokens]
            params.include_stop_str_in_output = True
        return params

    def _grammar(self, place: Place, budget: int) -> StructuredOutputsParams | None:
        """Return the grammar of a step that continues from a place; None for free text."""
        if self._constraint is not None:
            return StructuredOutputsParams(grammar=self._constraint.grammar(place, budget))
        structured = self._params.structured_outputs
        if structured is None:
            return None
        if place.tokens or budget != self._params.max_tokens:
            raise EngineStepError("this grammar is not followed here, so its text cannot be continued")
        # vLLM writes into it.
        return replace(structured)

    def _after(self, place: Place, tokens: tuple[int, ...], budget: int) -> State | None:
        """Return the automaton's state after tokens; None for free text."""
        if self._constraint is None or place.state is None:
            return None
        return self._constraint.after(place.state, tokens, budget, self.end_tokens)


class _Steps:
    """Sends the steps of one search to the engine; arguments as of ``EngineGenerator``."""

    def __init__(
        self,
        client: Any,
        prompt: Mapping[str, Any],
        request_id: str,
        cached: "CachedSteps | None",
        options: Mapping[str, Any] | None,
    ) -> None:
        self.prompt_tokens: list[int] = list(prompt["prompt_token_ids"])
        self.num_tokens = 0
        """Tokens that the engine has generated in them."""
        self._client = client
        self._prompt = {name: value for name, value in prompt.items() if name not in _PROMPT_ONLY}
        self._request_id = request_id
        self._cached = cached
        self._options = dict(options or {})
        self._numbers = count(1)
        self._running: set[asyncio.Task[tuple[CompletionOutput, str | None]]] = set()

    async def ask(self, place: Place, params: SamplingParams, *, keep: bool) -> tuple[CompletionOutput, str | None]:
        """Send one step to the engine; return its last output and the name of its cached work, if it is cached.

        ``params`` belong to this step.

        Raises:
            EngineStepError: Nothing came, or the engine gave up.
        """
        # A task of its own, so that close() can cancel it even if its search is gone.
        step = asyncio.create_task(_last(self.stream(place, params, keep=keep)))
        self._running.add(step)
        try:
            return await step
        finally:
            self._running.discard(step)

    async def stream(
        self, place: Place, params: SamplingParams, *, keep: bool = True
    ) -> AsyncGenerator[tuple[CompletionOutput, str | None], None]:
        """Send one step and yield its output so far after each token, with the name of its cached work.

        Closing it ends the request in the engine.

        Raises:
            EngineStepError: Nothing came, or the engine gave up.
        """
        prompt, source = self._request(place, params, keep=keep)
        num_tokens, finish = 0, None
        answer = self._client.generate(prompt, params, f"{self._request_id}-{next(self._numbers)}", **self._options)
        try:
            async with aclosing(answer):
                async for one in answer:
                    [output] = one.outputs
                    self.num_tokens += len(output.token_ids) - num_tokens
                    num_tokens, finish = len(output.token_ids), output.finish_reason
                    if finish is None or finish in _FINISHES:
                        yield output, source
        finally:
            # A token is under way when the engine is told to end, and never comes.
            self.num_tokens += finish is None and num_tokens > 0
        if finish not in _FINISHES:
            raise EngineStepError(f"the engine ended a step with {finish!r}")

    def _request(self, place: Place, params: SamplingParams, *, keep: bool) -> tuple[dict[str, Any], str | None]:
        """Return a step's prompt and the name of its cached work, which is written into ``params``."""
        params.skip_clone = True
        params.extra_args, source = None, None
        if self._cached is not None and (keep or place.source is not None):
            fork = self._cached.step(place.source, keep=keep)
            params.extra_args, source = fork.to_extra_args(), fork.keep
        return {**self._prompt, "prompt_token_ids": [*self.prompt_tokens, *place.tokens]}, source

    async def close(self) -> None:
        """Cancel the steps that still run in the engine."""
        running = list(self._running)
        for step in running:
            step.cancel()
        if self._cached is not None:
            self._cached.end()
        await asyncio.gather(*running, return_exceptions=True)


class CachedSteps:
    """The names under which the engine keeps what it computed for one search (``vocab.vllm_plugin.kv_fork``).

    Only a matter of speed: where a name is gone, the engine computes the text again. A step builds on the one before
    it, so when a step uses a generation of names, all older ones are released with it. ``unused`` collects the names
    of searches that ended; the next step of any search releases them.
    """

    def __init__(self, name: str, unused: list[str]) -> None:
        self._name = name
        self._unused = unused
        self._generations: dict[str, int] = {}
        self._numbers = count(1)

    def step(self, parent: str | None, *, keep: bool) -> ForkHint:
        """Return a step's fork hint: the work that it builds on, its own name, and names to release."""
        generation = 0 if parent is None else self._generations.get(parent, 0)
        release = [name for name, of_name in self._generations.items() if of_name < generation]
        for name in release:
            del self._generations[name]
        release += self._unused
        self._unused.clear()
        own = None
        if keep:
            own = f"{self._name}/{next(self._numbers)}"
            self._generations[own] = generation + 1
        return ForkHint(keep=own, parent=parent, release=tuple(release))

    def end(self) -> None:
        """Give up all names of the search; the next step of any search releases them."""
        self._unused.extend(self._generations)
        self._generations.clear()


def end_tokens(client: Any, params: SamplingParams) -> frozenset[int]:
    """Return the tokens that end a text of this request, as vLLM finds them: of tokenizer, model and request."""
    found = params.clone()
    eos = client.renderer.get_eos_token_id()
    found.update_from_generation_config(client.input_processor.generation_config_fields, eos)
    ends = set(found.stop_token_ids or ())
    if eos is not None and not params.ignore_eos:
        ends.add(eos)
    return frozenset(ends)


def sentence_tokens(facts: TokenizerFacts) -> list[int]:
    """Return the tokens that hold a mark with which a sentence may end."""
    marks = [mark.encode() for mark in _ENDS]
    return [token for token, spelled in enumerate(facts.token_bytes) if any(mark in spelled for mark in marks)]


async def _last(
    outputs: AsyncGenerator[tuple[CompletionOutput, str | None], None],
) -> tuple[CompletionOutput, str | None]:
    async with aclosing(outputs):
        return [output async for output in outputs][-1]


def _seed(seed: int, index: int, num_tokens: int) -> int:
    """Derive the seed of one draw from the request's; the same for the same request."""
    digest = hashlib.sha256(f"{seed} {index} {num_tokens}".encode()).digest()
    return int.from_bytes(digest[:7], "big")
