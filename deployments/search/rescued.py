"""Texts that go back out of corners (``vocab.decoding.rescue``), over vLLM's engine.

Each text is one request to the engine after the other: one writes until a word has to be taken back, the next goes
on from what stays. What the engine computed is kept from one to the next.
"""

import asyncio
import math
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import Final, TypeVar

from vllm.logprobs import Logprob
from vllm.outputs import CompletionOutput
from vllm.sampling_params import RequestOutputKind, SamplingParams
from vllm.v1.engine.detokenizer import IncrementalDetokenizer

from deployments.search.generator import EngineGenerator
from deployments.search.outcome import completion
from deployments.search.tokens import likeliest, score_at
from vocab.decoding.generator import Place
from vocab.decoding.rescue import Sampling, Step, rescue_words
from vocab.decoding.select import TextScore, random_source

T = TypeVar("T")

NUM_LIKELIEST: Final = 16
"""Tokens of a place that are kept for another beginning of its word. At the default sampling five are ever drawn."""


class EngineWriter(EngineGenerator):
    """A ``vocab.decoding.rescue.Writer`` over vLLM's engine, for texts under a list."""

    async def write(self, place: Place, budget: int, *, index: int = 0) -> AsyncGenerator[Step, None]:
        """Yield the engine's tokens from a place on, one by one, as ``Writer.write``.

        Raises:
            EngineStepError: The engine did not answer, or not as it must.
            ListFaultError: It gave a token that the list does not allow.
        """
        num_done = 0
        async with aclosing(self._steps.stream(place, self._writing(place, budget, index))) as outputs:
            async for output, source in outputs:
                tokens = tuple(output.token_ids)
                for position in range(num_done, len(tokens)):
                    is_last = output.finish_reason is not None and position == len(tokens) - 1
                    score = score_at(output, position)
                    step = Step(
                        token=tokens[position],
                        start=place,
                        place=place,
                        log_p=score.log_p,
                        log_mass=score.log_mass,
                        likeliest=tuple(likeliest(output, position)),
                    )
                    step = self._with_place(step, budget - position, source)
                    yield replace(step, finish=output.finish_reason) if is_last else step
                    place = step.place
                num_done = len(tokens)

    def new_detokenizer(self) -> IncrementalDetokenizer:
        """Return vLLM's own detokenizer for the request, its stop strings included."""
        return self._texts.new_detokenizer(self._params)

    def instead(self, step: Step, token: int, log_p: float, budget: int) -> Step:
        """Return a step with another token in place of its own, as ``Writer.instead``."""
        other = self._with_place(replace(step, token=token, log_p=log_p, finish=None), budget, step.place.source)
        return replace(other, finish="stop") if token in self.end_tokens else other

    def _writing(self, place: Place, budget: int, index: int) -> SamplingParams:
        """Return the sampling parameters with which the engine writes on from a place."""
        params, own = self._draw(place, budget, to_sentence_end=False, index=index), self._params
        if not place.tokens and own.seed is not None:
            # As vLLM's own: a text of which nothing is taken back is the same without this search.
            params.seed = own.seed + index
        params.logprobs = max(NUM_LIKELIEST, own.logprobs or 0)
        params.flat_logprobs = True
        # Where vLLM joins parts that were not read in time, it forgets what the mask left.
        params.output_kind = RequestOutputKind.CUMULATIVE
        params.detokenize, params.stop = False, []
        return params

    def _with_place(self, step: Step, budget: int, source: str | None) -> Step:
        """Complete a step with the place and state after its token; ``budget`` is what was left before it."""
        constraint, before = self._constraint, step.start.state
        if constraint is None or before is None:
            raise ValueError("free text has no corners")
        state = constraint.after(before, (step.token,), budget, self.end_tokens)
        is_end = step.token in self.end_tokens
        in_word = not is_end and constraint.states.is_in_word(state)
        return replace(
            step,
            place=Place((*step.start.tokens, step.token), state, source),
            in_word=in_word,
            begins_word=in_word and not constraint.states.continues_word(before, step.token, state),
            is_bound=constraint.states.is_bound_by(budget - 1),
        )


class RescuedText:
    """One text of a request with backtracking, in parts as vLLM's outputs have them.

    Args:
        index: Of the text among those of its request.

    Attributes:
        score: Of the parts so far.
    """

    def __init__(self, writer: EngineWriter, params: SamplingParams, share: float, index: int) -> None:
        self.score = TextScore()
        self._writer = writer
        self._params = params
        self._share = share
        self._index = index
        self._detokenizer = writer.new_detokenizer()

    async def parts(self) -> AsyncGenerator[CompletionOutput, None]:
        """Yield the parts of the text that backtracking no longer changes; the last has its finish reason.

        Raises:
            EngineStepError, ListFaultError: As ``EngineWriter.write``.
        """
        params = self._params
        sampling = Sampling(params.temperature, params.top_p, params.top_k, params.min_p)
        random = random_source(None if params.seed is None else params.seed + self._index)
        budget = int(params.max_tokens or 0)
        found = rescue_words(
            self._writer, budget, share=self._share, sampling=sampling, random=random, index=self._index
        )
        async with aclosing(found) as settled:
            async for steps in settled:
                part = self._part(steps)
                yield part
                if part.finish_reason is not None:
                    # At a stop string, before the engine is done.
                    return

    def _part(self, steps: Sequence[Step]) -> CompletionOutput:
        """Turn settled steps into an output, up to a stop string; add to the score."""
        done, stop_string = [], None
        for step in steps:
            done.append(step)
            stop_string = self._detokenizer.update([step.token], step.finish == "stop")
            if stop_string is not None:
                break
        finish = done[-1].finish if stop_string is None else "stop"
        self.score = TextScore(
            self.score.log_p + math.fsum(step.log_p for step in done),
            self.score.log_mass + math.fsum(step.log_mass for step in done),
            num_tokens=self.score.num_tokens + len(done),
        )
        text = self._detokenizer.get_next_output_text(finish is not None, delta=True)
        tokens = [step.token for step in done]
        part = completion(self._index, text, tokens, finish, stop_string, self._writer.named_ends)
        if self._params.logprobs is not None:
            part.logprobs = [self._logprobs(step) for step in done]
        return part

    def _logprobs(self, step: Step) -> dict[int, Logprob]:
        likeliest = step.likeliest[: self._params.logprobs]
        own = {step.token: Logprob(step.log_p)}
        return own | {token: Logprob(log_p, rank) for rank, (token, log_p) in enumerate(likeliest, 1)}


async def merge(streams: Sequence[AsyncGenerator[T, None]]) -> AsyncGenerator[T, None]:
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
