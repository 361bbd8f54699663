"""An engine of its own, in float32, whose requests go on from one another, and whose searches are given up midway.

Run as a program, with the model, the folder of artefacts, a reference and a file for the results, which
``test_search_steps`` reads: what ``forking_engine`` finds; and for each search how many requests the client still knows
of, and how many tokens the engine makes at a step of the next one.
"""

import asyncio
import json
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

from vllm import SamplingParams
from vllm.engine.arg_utils import AsyncEngineArgs
from vllm.sampling_params import RequestOutputKind, StructuredOutputsParams
from vllm.v1.engine.async_llm import AsyncLLM
from vllm.v1.metrics.loggers import StatLoggerBase

from deployments.contract import Decoding
from deployments.search.client import SearchClient
from deployments.search.generator import MAX_STEP_TOKENS
from deployments.search.order import ORDER_ARGUMENT, SearchOrder
from tests.e2e.forking_engine import fork_cases
from vocab.automaton.tokenizer import TokenizerFacts
from vocab.matching.engine_cache import EngineCache
from vocab.vllm_plugin.kv_fork import TRANSFER_CONFIG

SEARCHES = {
    "beams": Decoding(num_beams=4),
    "candidates": Decoding(best_of=4),
    "sentences": Decoding(search_width=4, select="posterior"),
}


class Generated(StatLoggerBase):
    """How many tokens were made at each step of the engine, one for each request that ran."""

    numbers: list[int]
    several: asyncio.Event
    """Set when a step made more than one."""

    def __init__(self, vllm_config: Any, engine_index: int = 0) -> None:
        del vllm_config, engine_index
        Generated.numbers, Generated.several = [], asyncio.Event()

    def record(
        self, scheduler_stats: Any, iteration_stats: Any, mm_cache_stats: Any = None, engine_idx: int = 0
    ) -> None:
        del scheduler_stats, mm_cache_stats, engine_idx
        if iteration_stats is not None:
            Generated.numbers.append(iteration_stats.num_generation_tokens)
            if iteration_stats.num_generation_tokens > 1:
                Generated.several.set()

    def log_engine_initialized(self) -> None:
        """Nothing to say."""


async def give_up(client: SearchClient, grammar: str, decoding: Decoding, *, by_closing: bool) -> dict[str, int]:
    """Starts a long search, ends it in its midst or after its first part, and asks for some tokens more."""
    answer = client.generate(prompt(client), params(grammar, 400, decoding), "given-up")
    Generated.numbers.clear()
    Generated.several.clear()
    if by_closing:
        await anext(answer)
        await answer.aclose()
    else:
        task = asyncio.create_task(anext(answer))
        # The first one of a machine takes long to begin: its kernels are compiled.
        await asyncio.wait([task, asyncio.create_task(Generated.several.wait())], return_when="FIRST_COMPLETED")
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
    most = max(Generated.numbers, default=0)
    unfinished = client.get_num_unfinished_requests()
    Generated.numbers.clear()
    await write(client, grammar)
    return {"most": most, "unfinished": unfinished, "at_next": Generated.numbers[-1]}


async def write(client: SearchClient, grammar: str) -> None:
    async for _ in client.generate(prompt(client), params(grammar, 8, None), "plain"):
        pass


def params(grammar: str, max_tokens: int, decoding: Decoding | None) -> SamplingParams:
    return SamplingParams(
        max_tokens=max_tokens,
        temperature=0.8,
        output_kind=RequestOutputKind.DELTA,
        structured_outputs=StructuredOutputsParams(grammar=grammar),
        extra_args=None if decoding is None else {ORDER_ARGUMENT: SearchOrder(decoding)},
    )


def prompt(client: SearchClient) -> dict[str, Any]:
    tokens = client.renderer.get_tokenizer().encode("Once upon a time there was a river, and")
    return {"type": "token", "prompt_token_ids": list(tokens)}


async def measure(model: str, folder: str, grammar: str) -> dict[str, Any]:
    arguments = AsyncEngineArgs(
        model,
        dtype="float32",
        enforce_eager=True,
        max_model_len=1024,
        max_num_seqs=32,
        max_logprobs=MAX_STEP_TOKENS,
        kv_transfer_config=dict(TRANSFER_CONFIG),
        structured_outputs_config={"backend": "xgrammar"},
        seed=0,
    )
    engine = AsyncLLM.from_engine_args(arguments, stat_loggers=[Generated])
    try:
        # First, for nothing that was asked before may be found again.
        forks = await fork_cases(engine)
        facts = TokenizerFacts.from_tokenizer(engine.renderer.get_tokenizer())
        client = SearchClient(engine, EngineCache(Path(folder), facts), facts)
        told = {name: await give_up(client, grammar, decoding, by_closing=False) for name, decoding in SEARCHES.items()}
        told["a stream"] = await give_up(client, grammar, SEARCHES["sentences"], by_closing=True)
        return {"forks": forks, "searches": told}
    finally:
        engine.shutdown()


def main(model: str, folder: str, grammar: str, results: str) -> None:
    Path(results).write_text(json.dumps(asyncio.run(measure(model, folder, grammar))))


if __name__ == "__main__":
    main(*sys.argv[1:])
