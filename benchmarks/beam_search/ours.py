"""Our beam search over an engine of its own, set up as the service sets up the replica's.

A context manager: the engine is a process of its own, and ends with it.
"""

import asyncio
import os
from collections.abc import Sequence
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from uuid import uuid4

from benchmarks.beam_search.found import Found, Task
from deployments.search.generator import MAX_STEP_TOKENS, CachedSteps, EngineGenerator
from deployments.search.tokens import Constraint
from vocab.decoding.beams import search_beams
from vocab.decoding.generator import Expansion, Place
from vocab.matching.engine_cache import ARTEFACT_DIR_VARIABLE
from vocab.vllm_plugin import use_plugin
from vocab.vllm_plugin.kv_fork import TRANSFER_CONFIG


class EngineBeams:
    """vLLM with the plugin, and the list that its texts keep to.

    Args:
        model_path: The model.
        dtype: "float32" or "bfloat16".
        folder: The folder of artefacts.
        constraint: What may be written, whatever the budget; None for anything.
        keeps_work: Whether the engine keeps what it computed from step to step.
        **engine_args: Of vLLM, besides or instead of those of the demo.
    """

    def __init__(
        self,
        model_path: str,
        dtype: str,
        folder: Path,
        constraint: Constraint | None,
        *,
        keeps_work: bool = True,
        **engine_args: Any,
    ) -> None:
        use_plugin()
        os.environ[ARTEFACT_DIR_VARIABLE] = str(folder)
        self._constraint, self._keeps_work = constraint, keeps_work
        self._engine_args = {
            "model": model_path,
            "dtype": dtype,
            "enforce_eager": True,
            "max_model_len": 2048,
            "max_num_seqs": 64,
            "max_logprobs": MAX_STEP_TOKENS,
            "structured_outputs_config": {"backend": "xgrammar"},
            "disable_log_stats": True,
            **({"kv_transfer_config": dict(TRANSFER_CONFIG)} if keeps_work else {}),
            **engine_args,
        }
        self._numbers = count(1)
        self._unused: list[str] = []
        self._client: Any = None

    async def __aenter__(self) -> Self:
        from vllm.engine.arg_utils import AsyncEngineArgs
        from vllm.v1.engine.async_llm import AsyncLLM

        self._client = AsyncLLM.from_engine_args(AsyncEngineArgs(**self._engine_args))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._client.shutdown()

    @property
    def client(self) -> Any:
        """vLLM's ``AsyncLLM``, while the engine runs."""
        return self._client

    async def search(self, tasks: Sequence[Task]) -> list[Found]:
        """The best text of each task, all at the same time."""
        return list(await asyncio.gather(*(self._search(task) for task in tasks)))

    async def _search(self, task: Task) -> Found:
        from vllm import SamplingParams

        generator = _NotingGenerator(
            self._client,
            {"type": "token", "prompt_token_ids": list(task.prompt_tokens)},
            SamplingParams(max_tokens=task.budget),
            f"beams-{next(self._numbers)}",
            constraint=self._constraint,
            cached=CachedSteps(uuid4().hex, self._unused) if self._keeps_work else None,
        )
        try:
            [best] = await search_beams(generator, task.rules, task.budget)
        finally:
            await generator.close()
        log_p = sum(best.continuation.log_p)
        return Found(best.continuation.tokens, best.score, log_p, frozenset(generator.trail))


class _NotingGenerator(EngineGenerator):
    """Notes the beams that go on."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.trail: set[tuple[int, ...]] = set()

    async def expand(self, place: Place, num_tokens: int, budget: int) -> Expansion:
        self.trail.add(place.tokens)
        return await super().expand(place, num_tokens, budget)
