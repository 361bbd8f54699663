"""The service with an engine that computes nothing: what a replica and all after it carry when the engine is fast.

``build`` stands for ``deployments.app:build``. vLLM starts as always and proves that it keeps to lists; then its
engine's process gets no more requests. In its place, below ``AsyncLLM.generate``, a ``StandIn`` writes each text: words
of the first thousand English ones, one token each, in steps for all open texts, at most ``TOKENS_PER_S`` together and
one each 5 ms for each. vLLM's own front detokenizes them. With ``STAND_IN_FAULTS`` in the environment, of a hundred
texts one has a word that is in no list, and one stands still for a minute.
"""

import asyncio
import os
import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from ray import serve
from vllm.v1.engine import EngineCoreOutput, EngineCoreOutputs, EngineCoreRequest, FinishReason
from vllm.v1.metrics.stats import SchedulerStats
from vllm.v1.outputs import LogprobsLists

from deployments import ray_private
from deployments.app import build_with
from deployments.replica.deployment import Replica
from vocab.matching.log_mass import pack

TOKENS_PER_S: Final = 20_000
WORDS: Final = (" the", " dog", " is", " a")
UNLISTED: Final = " zorblatt"
FAULT_SHARE: Final = 0.01 if "STAND_IN_FAULTS" in os.environ else 0.0
STALL_S: Final = 60
_STEP_S: Final = 0.005
_LOG_P: Final = -1.0


class StandInReplica(Replica):
    async def __init__(self, *args: Any, **kwargs: Any) -> None:  # type: ignore[misc]  # Serve awaits a constructor
        await super().__init__(*args, **kwargs)
        client = ray_private.engine_client(self)
        stand_in = StandIn(client.engine_core, client.renderer.get_tokenizer())
        client.engine_core.add_request_async = stand_in.add_request
        client.engine_core.abort_requests_async = stand_in.abort_requests


@dataclass
class _Text:
    request_id: str
    max_tokens: int
    num_logprobs: int | None
    is_unlisted: bool
    num_tokens: int = 0


class StandIn:
    """Gives each open text its next token in each step, and hands outputs over as the engine's process does."""

    def __init__(self, core: Any, tokenizer: Any) -> None:
        self._core = core
        self._texts: dict[str, _Text] = {}
        self._task: asyncio.Task[None] | None = None
        self._first, self._last = _token(tokenizer, "The"), _token(tokenizer, ".")
        self._words = [_token(tokenizer, word) for word in WORDS]
        self._unlisted: list[int] = tokenizer.encode(UNLISTED, add_special_tokens=False)

    async def add_request(self, request: EngineCoreRequest) -> None:
        """Begin a text, in place of ``AsyncMPClient.add_request_async``."""
        self._core.encoder.encode(request)
        params = request.sampling_params
        text = _Text(request.request_id, params.max_tokens or 1, params.logprobs, random.random() < FAULT_SHARE)
        if random.random() < FAULT_SHARE:
            asyncio.get_running_loop().call_later(STALL_S, self._open, text)
        else:
            self._open(text)

    async def abort_requests(self, request_ids: list[str]) -> None:
        """End texts that nobody waits for, in place of ``AsyncMPClient.abort_requests_async``."""
        for request_id in request_ids:
            self._texts.pop(request_id, None)

    def _open(self, text: _Text) -> None:
        self._texts[text.request_id] = text
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._run())

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        while self._texts:
            # A step that was held up is not made up for.
            due = loop.time() + max(_STEP_S, len(self._texts) / TOKENS_PER_S)
            outputs = [self._write(text) for text in list(self._texts.values())]
            self._core.outputs_queue.put_nowait(EngineCoreOutputs(outputs=outputs, scheduler_stats=SchedulerStats()))
            await asyncio.sleep(max(due - loop.time(), 0))

    def _write(self, text: _Text) -> EngineCoreOutput:
        number, text.num_tokens = text.num_tokens, text.num_tokens + 1
        is_last = text.num_tokens >= text.max_tokens
        token = self._last if is_last and number else self._words[number % len(WORDS)] if number else self._first
        tokens = [*self._unlisted, token] if is_last and text.is_unlisted else [token]
        if is_last:
            del self._texts[text.request_id]
        logprobs = None if text.num_logprobs is None else self._logprobs(tokens, text.num_logprobs)
        reason = FinishReason.LENGTH if is_last else None
        return EngineCoreOutput(text.request_id, tokens, new_logprobs=logprobs, finish_reason=reason)

    def _logprobs(self, tokens: list[int], num_logprobs: int) -> LogprobsLists:
        rows = np.array([[token, *range(1_000, 1_000 + num_logprobs)] for token in tokens])
        return LogprobsLists(rows, np.full(rows.shape, _LOG_P), np.full(len(tokens), pack(_LOG_P, _LOG_P)))


def _token(tokenizer: Any, text: str) -> int:
    [token] = tokenizer.encode(text, add_special_tokens=False)
    return int(token)


def build(args: Mapping[str, Any]) -> serve.Application:
    return build_with(args, StandInReplica)
