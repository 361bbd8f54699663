"""The small requests of which a search is made: each asks vLLM's client once, from some place in the text on.

It knows how such a request is written and how it ends; it does not know what is asked, or of constraints.
"""

import asyncio
from collections.abc import Mapping
from itertools import count
from typing import Any, Final

from vllm.outputs import CompletionOutput, RequestOutput
from vllm.sampling_params import SamplingParams

from deployments.search.kept_work import KeptWork
from deployments.search.token_scores import EngineStepError
from vocab.decoding.generator import Place

_PROMPT_ONLY: Final = frozenset({"prompt", "prompt_token_offsets", "assistant_tokens_mask", "arrival_time"})
"""What vLLM knows of a prompt besides its tokens, and what no longer holds when text follows it."""

_FINISHES: Final = ("stop", "length")


class EngineSteps:
    """The steps of one search.

    Args:
        client: vLLM's.
        prompt: The rendered prompt, with ``prompt_token_ids``.
        request_id: Begins the ids of all steps.
        kept: Lets the engine keep the work of a step for the next; None where it cannot.
        options: Passed with every step: priority, adapter and the like.
    """

    def __init__(
        self,
        client: Any,
        prompt: Mapping[str, Any],
        request_id: str,
        kept: KeptWork | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        self.prompt_tokens: list[int] = list(prompt["prompt_token_ids"])
        self.num_tokens = 0
        """How many tokens the engine has generated in them."""
        self._client = client
        self._prompt = {name: value for name, value in prompt.items() if name not in _PROMPT_ONLY}
        self._request_id = request_id
        self._kept = kept
        self._options = dict(options or {})
        self._numbers = count(1)
        self._running: set[asyncio.Task[RequestOutput]] = set()

    async def ask(self, place: Place, params: SamplingParams, *, keep: bool) -> tuple[CompletionOutput, str | None]:
        """Asks once, with parameters that are this step's alone.

        Returns:
            What came, and the name under which the engine keeps its work; None where it does not.

        Raises:
            EngineStepError: Nothing came, or the engine gave up.
        """
        params.skip_clone = True
        params.extra_args, source = None, None
        if self._kept is not None and (keep or place.source is not None):
            fork = self._kept.step(place.source, keep=keep)
            params.extra_args, source = fork.to_extra_args(), fork.keep
        prompt = {**self._prompt, "prompt_token_ids": [*self.prompt_tokens, *place.tokens]}
        # A task of its own, so that close() finds it whatever became of the search that waits for it.
        step = asyncio.create_task(self._last(prompt, params))
        self._running.add(step)
        try:
            answer = await step
        finally:
            self._running.discard(step)
        [output] = answer.outputs
        if output.finish_reason not in _FINISHES:
            raise EngineStepError(f"the engine ended a step with {output.finish_reason!r}")
        self.num_tokens += len(output.token_ids)
        return output, source

    async def close(self) -> None:
        """Ends what still runs in the engine."""
        running = list(self._running)
        for step in running:
            step.cancel()
        if self._kept is not None:
            self._kept.end()
        await asyncio.gather(*running, return_exceptions=True)

    async def _last(self, prompt: Mapping[str, Any], params: SamplingParams) -> RequestOutput:
        request_id = f"{self._request_id}-{next(self._numbers)}"
        last: RequestOutput | None = None
        async for output in self._client.generate(prompt, params, request_id, **self._options):
            last = output
        if last is None:
            raise EngineStepError("the engine gave a step no answer")
        return last
