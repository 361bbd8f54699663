"""An engine of its own, in float32, whose requests go on from one another, and whose searches are given up midway; at
last it is stopped.

Run as a program, with the model, the folder of artefacts, a reference and a file for the results, which
``test_search_steps`` reads: what ``forking_engine`` finds; for each search how many requests the client still knows
of, and how many tokens the engine makes at a step of the next one; and what the watch of a replica finds, while
requests wait for their turn and while the engine stands still.
"""

import asyncio
import json
import os
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import psutil
from vllm import SamplingParams
from vllm.engine.arg_utils import AsyncEngineArgs
from vllm.sampling_params import RequestOutputKind, StructuredOutputsParams
from vllm.v1.engine.async_llm import AsyncLLM
from vllm.v1.metrics.loggers import StatLoggerBase

from deployments.contract import Decoding
from deployments.replica.engine.engine import count_steps, num_requests
from deployments.replica.engine.health import EngineWatch
from deployments.search.generator import MAX_STEP_TOKENS
from deployments.search.text_engine import SAMPLE, TextEngine
from tests.e2e.forking_engine import fork_cases
from vocab.automaton.tokenizer import TokenizerFacts
from vocab.matching.engine_cache import EngineCache
from vocab.vllm_plugin.kv_fork import TRANSFER_CONFIG

SEARCHES = {
    "beams": Decoding(num_beams=4),
    "candidates": Decoding(best_of=4),
    "sentences": Decoding(search_width=4, select="posterior"),
}


STALL_S = 3.0
"""For an engine that makes no step at all."""


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


class Engine(NamedTuple):
    client: AsyncLLM
    texts: TextEngine


async def give_up(engine: Engine, grammar: str, decoding: Decoding, *, by_closing: bool) -> dict[str, int]:
    """Starts a long search, ends it in its midst or after its first part, and asks for some tokens more."""
    answer = engine.texts.generate(prompt(engine), params(grammar, 400), "given-up", decoding).outputs
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
    unfinished = engine.client.get_num_unfinished_requests()
    Generated.numbers.clear()
    await write(engine, grammar)
    return {"most": most, "unfinished": unfinished, "at_next": Generated.numbers[-1]}


async def write(engine: Engine, grammar: str, max_tokens: int = 8, request_id: str = "plain") -> float:
    """Return the seconds to the first token."""
    begun, first_s = time.monotonic(), 0.0
    async for _ in engine.texts.generate(prompt(engine), params(grammar, max_tokens), request_id, SAMPLE).outputs:
        first_s = first_s or time.monotonic() - begun
    return first_s


async def watch(engine: Engine, grammar: str) -> dict[str, Any]:
    """Ask more than runs at once; then stop the engine, and ask again and again, each time only for a moment."""
    served: Any = SimpleNamespace(engine=SimpleNamespace(_engine_client=engine.client))
    counter, ended = count_steps(served), asyncio.Event()
    assert counter is not None
    asked = asyncio.gather(*(write(engine, grammar, 24, f"one-{number}") for number in range(48)))
    last_step, last_at, longest_gap_s = counter.num_steps, time.monotonic(), 0.0
    while not asked.done():
        await asyncio.sleep(0.02)
        if counter.num_steps != last_step or asked.done():
            longest_gap_s = max(longest_gap_s, time.monotonic() - last_at)
            last_step, last_at = counter.num_steps, time.monotonic()
    summary = {"longest_wait_s": max(asked.result()), "longest_gap_s": longest_gap_s, "num_given_up": 0}
    watching = EngineWatch(
        lambda: False, lambda: counter.num_steps, lambda: num_requests(served), STALL_S, lambda: 0, end=ended.set
    )
    task = asyncio.create_task(watching.run())
    [core] = [child for child in psutil.Process().children() if "EngineCore" in " ".join(child.cmdline())]
    os.kill(core.pid, signal.SIGSTOP)
    try:
        while not ended.is_set() and summary["num_given_up"] < 40 * STALL_S:
            with suppress(TimeoutError):
                async with asyncio.timeout(0.2):
                    await write(engine, grammar, request_id=f"given-up-{summary['num_given_up']}")
            summary["num_given_up"] += 1
            await asyncio.sleep(0.02)
    finally:
        os.kill(core.pid, signal.SIGCONT)
        task.cancel()
    return summary | {"ended_at_rest": ended.is_set()}


def params(grammar: str, max_tokens: int) -> SamplingParams:
    return SamplingParams(
        max_tokens=max_tokens,
        temperature=0.8,
        output_kind=RequestOutputKind.DELTA,
        structured_outputs=StructuredOutputsParams(grammar=grammar),
    )


def prompt(engine: Engine) -> dict[str, Any]:
    tokens = engine.client.renderer.get_tokenizer().encode("Once upon a time there was a river, and")
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
    client = AsyncLLM.from_engine_args(arguments, stat_loggers=[Generated])
    try:
        # First, for nothing that was asked before may be found again.
        forks = await fork_cases(client)
        facts = TokenizerFacts.from_tokenizer(client.renderer.get_tokenizer())
        engine = Engine(client, TextEngine(client, EngineCache(Path(folder), facts), facts))
        summary = {
            name: await give_up(engine, grammar, decoding, by_closing=False) for name, decoding in SEARCHES.items()
        }
        summary["a stream"] = await give_up(engine, grammar, SEARCHES["sentences"], by_closing=True)
        return {"forks": forks, "searches": summary, "watch": await watch(engine, grammar)}
    finally:
        client.shutdown()


def main(model: str, folder: str, grammar: str, results: str) -> None:
    Path(results).write_text(json.dumps(asyncio.run(measure(model, folder, grammar))))


if __name__ == "__main__":
    main(*sys.argv[1:])
