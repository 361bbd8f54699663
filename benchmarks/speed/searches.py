"""Our beam search over an engine of its own, and transformers' held to the same list: the systems that are compared."""

import asyncio
import os
from collections.abc import Sequence
from functools import partial
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from uuid import uuid4

import numpy as np

from benchmarks.speed.found import Found, Task
from deployments.search.generator import MAX_STEP_TOKENS, CachedSteps, EngineGenerator
from deployments.search.tokens import Constraint
from vocab.decoding.beams import search_beams
from vocab.decoding.generator import Expansion, Place
from vocab.matching.engine_cache import ARTEFACT_DIR_VARIABLE
from vocab.matching.matcher import Matcher
from vocab.matching.states import ListStates
from vocab.vllm_plugin import use_plugin
from vocab.vllm_plugin.kv_fork import TRANSFER_CONFIG


class EngineBeams:
    """vLLM with the plugin, and the list that its texts keep to, set up as the service sets up the replica's.

    A context manager: the engine is a process of its own, and ends with it.

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
        """Return the best text of each task, all at the same time."""
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


class TransformersBeams:
    """transformers' beam search, held to a list by ``prefix_allowed_tokens_fn``. It asks nothing of vLLM."""

    def __init__(self, model_path: str, dtype: str, states: ListStates) -> None:
        import torch
        from transformers import AutoModelForCausalLM, AutoTokenizer

        self._torch: Any = torch
        self.tokenizer: Any = AutoTokenizer.from_pretrained(model_path)
        self._model = AutoModelForCausalLM.from_pretrained(model_path, dtype=getattr(torch, dtype)).eval()
        self._states = states
        ends = self._model.generation_config.eos_token_id
        self._ends = {int(self.tokenizer.eos_token_id), *(ends if isinstance(ends, list) else [int(ends)])}

    def prompt_tokens(self, prompt: str) -> tuple[int, ...]:
        """The prompt as one message of a chat."""
        messages = [{"role": "user", "content": prompt}]
        return tuple(self.tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_dict=False))

    def text(self, found: Found) -> str:
        return str(self.tokenizer.decode(found.tokens, skip_special_tokens=True))

    def search(self, task: Task) -> Found:
        """Return the best text of a task."""
        torch, num_prompt_tokens = self._torch, len(task.prompt_tokens)
        ends = sorted(self._ends)
        allowed = AllowedTokens(self._states, ends, num_prompt_tokens, task.budget, len(self.tokenizer))
        with torch.inference_mode():
            found = self._model.generate(
                torch.tensor([task.prompt_tokens]),
                num_beams=task.rules.num_beams,
                do_sample=False,
                max_new_tokens=task.budget,
                length_penalty=task.rules.length_penalty,
                early_stopping=task.rules.early_stopping,
                prefix_allowed_tokens_fn=allowed,
                eos_token_id=ends,
                pad_token_id=ends[0],
                output_scores=True,
                return_dict_in_generate=True,
            )
        row, score = found.sequences[0, num_prompt_tokens:].tolist(), float(found.sequences_scores[0])
        end = next((place + 1 for place, token in enumerate(row) if token in self._ends), len(row))
        return Found(tuple(row[:end]), score, score * end**task.rules.length_penalty, frozenset(allowed.trail))

    def log_p(self, task: Task, tokens: Sequence[int]) -> float:
        """The sum of log p of these tokens after the prompt."""
        torch = self._torch
        with torch.inference_mode():
            logits = self._model(torch.tensor([[*task.prompt_tokens, *tokens]])).logits[0, -1 - len(tokens) : -1]
        return float(logits.double().log_softmax(-1).gather(1, torch.tensor(tokens)[:, None]).sum())


class AllowedTokens:
    """What ``generate`` asks: the tokens that may come after a prompt and a part of a text; ``trail`` has the parts."""

    def __init__(
        self, states: ListStates, end_tokens: Sequence[int], num_prompt_tokens: int, max_tokens: int, num_tokens: int
    ) -> None:
        self._begin = partial(Matcher, states, end_tokens, max_tokens)
        self._end_tokens, self._num_prompt_tokens = list(end_tokens), num_prompt_tokens
        self._row = np.zeros((num_tokens + 31) // 32, dtype=np.int32)
        self.trail: set[tuple[int, ...]] = set()

    def __call__(self, _batch: int, tokens: Any) -> list[int]:
        """Once for each beam and step; the end token alone after a text that it ended."""
        text = tuple(tokens[self._num_prompt_tokens :].tolist())
        self.trail.add(text)
        if text and text[-1] in self._end_tokens:
            return self._end_tokens[:1]
        matcher = self._begin()
        for token in text:
            matcher.accept_token(token)
        matcher.fill_bitmask(self._row)
        return [int(token) for token in np.flatnonzero(np.unpackbits(self._row.view(np.uint8), bitorder="little"))]
