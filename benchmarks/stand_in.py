"""The service with an engine that computes nothing: what a replica and all after it carry when the engine is fast.

``build`` stands for ``deployments.app:build``. vLLM starts as always and proves that it keeps to lists; then
each text is words of the first thousand English ones, one token each, at most ``TOKENS_PER_S`` for all
streams together and one each 5 ms for each stream. With ``STAND_IN_FAULTS`` in the environment, of a hundred texts one
has a word that is in no list, and one stands still for a minute.
"""

import asyncio
import os
import random
from collections.abc import AsyncGenerator, Mapping
from itertools import count
from typing import Any, Final

from ray import serve
from vllm.outputs import CompletionOutput, RequestOutput
from vllm.sampling_params import RequestOutputKind, SamplingParams
from vllm.v1.engine.output_processor import RequestOutputCollector

from deployments import ray_private
from deployments.app import build_with
from deployments.replica.deployment import Replica

TOKENS_PER_S: Final = 20_000
WORDS: Final = (" the", " dog", " is", " a")
UNLISTED: Final = " zorblatt"
FAULT_SHARE: Final = 0.01 if "STAND_IN_FAULTS" in os.environ else 0.0
STALL_S: Final = 60
TOKEN: Final = 260
_STEP_S: Final = 0.005


class StandInReplica(Replica):
    async def __init__(self, *args: Any, **kwargs: Any) -> None:  # type: ignore[misc]  # Serve awaits a constructor
        await super().__init__(*args, **kwargs)
        ray_private.engine_client(self).generate = StandIn().generate


class StandIn:
    """Gives each open stream its next token in turn, and hands outputs over as vLLM does."""

    def __init__(self) -> None:
        self._streams: list[tuple[RequestOutputCollector, SamplingParams, list[int], Any]] = []
        self._task: asyncio.Task[None] | None = None

    async def generate(
        self, prompt: Any, params: SamplingParams, request_id: str, **_: Any
    ) -> AsyncGenerator[RequestOutput, None]:
        queue = RequestOutputCollector(params.output_kind, request_id)
        if random.random() < FAULT_SHARE:
            await asyncio.sleep(STALL_S)
        stream = queue, params, [0], prompt
        self._streams.append(stream)
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._run())
        finished = False
        try:
            while not finished:
                output: Any = queue.get_nowait() or await queue.get()
                finished = output.finished
                yield output
        finally:
            if stream in self._streams:
                self._streams.remove(stream)

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        started = loop.time()
        turns = count()
        num_made = 0
        while self._streams:
            num_due = int((loop.time() - started) * TOKENS_PER_S) - num_made
            # One that was held up makes up for no more than a step.
            for _ in range(min(num_due, len(self._streams))):
                if not self._streams:
                    break
                self._write(self._streams[next(turns) % len(self._streams)])
            num_made += num_due
            await asyncio.sleep(_STEP_S)

    def _write(self, stream: tuple[RequestOutputCollector, SamplingParams, list[int], Any]) -> None:
        queue, params, num_tokens, prompt = stream
        number = num_tokens[0]
        num_tokens[0] += 1
        is_last = num_tokens[0] >= (params.max_tokens or 1)
        numbers = range(number, number + 1)
        if params.output_kind != RequestOutputKind.DELTA:
            # vLLM gives such a request its whole text, when it has ended.
            if not is_last:
                return
            numbers = range(num_tokens[0])
        text = "".join(_word(one, is_last=is_last and one == number) for one in numbers)
        if is_last and random.random() < FAULT_SHARE:
            text = f"{UNLISTED}{text}"
        completion = CompletionOutput(
            0, text, [TOKEN] * len(numbers), None, None, finish_reason="length" if is_last else None
        )
        ids = prompt.get("prompt_token_ids", [1]) if isinstance(prompt, Mapping) else [1]
        queue.put(RequestOutput(queue.request_id, None, ids, None, [completion], is_last, num_cached_tokens=0))
        if is_last:
            self._streams.remove(stream)


def _word(number: int, *, is_last: bool) -> str:
    if number == 0:
        return "The"
    return "." if is_last else WORDS[number % len(WORDS)]


def build(args: Mapping[str, Any]) -> serve.Application:
    return build_with(args, StandInReplica)
