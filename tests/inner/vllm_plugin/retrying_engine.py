"""An engine of its own, of whose texts words are taken back while others are given up, and what is left of them.

Run as a program, with the model, the folder of artefacts, a reference and a file for the results, which
``test_retrying`` reads: what the engine holds after some of the requests, and after all.
"""

import asyncio
import gc
import json
import random
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from vllm import SamplingParams
from vllm.engine.arg_utils import AsyncEngineArgs
from vllm.sampling_params import RequestOutputKind, StructuredOutputsParams
from vllm.v1.engine.async_llm import AsyncLLM
from vllm.v1.metrics.loggers import StatLoggerBase

from deployments.contract import Decoding
from deployments.search.text_engine import TextEngine
from vocab.automaton.tokenizer import TokenizerFacts
from vocab.matching.engine_cache import EngineCache
from vocab.vllm_plugin import retrying

NUM_FIRST = 100
NUM_REQUESTS = 500
NUM_AT_ONCE = 24
MAX_TOKENS = 24

NUM_BLOCKS = 30
"""Of 32 tokens, which are fewer than a prompt has with its text: not all that run at once find room to their end."""

OF_A_TEXT = ("_Text", "Retry", "Ending", "Matcher", "WordGrammar", "Request", "CachedRequestState")


class Held:
    """What the process of the engine holds; joins the methods of vLLM's worker, which is in it."""

    def held(self) -> dict[str, int]:
        gc.collect()
        kinds = Counter(type(one).__name__ for one in gc.get_objects())
        return {
            "texts": sum(map(len, retrying._texts.values())),
            **{kind: kinds[kind] for kind in OF_A_TEXT},
        }


class Preempted(StatLoggerBase):
    """How often a request was preempted."""

    number = 0

    def __init__(self, vllm_config: Any, engine_index: int = 0) -> None:
        del vllm_config, engine_index

    def record(
        self, scheduler_stats: Any, iteration_stats: Any, mm_cache_stats: Any = None, engine_idx: int = 0
    ) -> None:
        del scheduler_stats, mm_cache_stats, engine_idx
        Preempted.number += 0 if iteration_stats is None else iteration_stats.num_preempted_reqs

    def log_engine_initialized(self) -> None:
        """Nothing to say."""


async def write(texts: TextEngine, prompt: list[int], grammar: str, number: int) -> tuple[str, int]:
    """Return how a request ended, and how many words of it were taken back; two in five clients go away."""
    source = random.Random(number)
    params = SamplingParams(
        n=1 + (number % 7 == 0),
        max_tokens=MAX_TOKENS,
        temperature=1.0,
        seed=number,
        logprobs=(None, None, 2)[number % 3],
        output_kind=RequestOutputKind.DELTA if number % 2 else RequestOutputKind.FINAL_ONLY,
        structured_outputs=StructuredOutputsParams(grammar=grammar),
    )
    tokens = {"type": "token", "prompt_token_ids": [*prompt, *source.choices(prompt, k=number % 9)]}
    asked = texts.generate(tokens, params, f"{number}", Decoding(rescue=0.3))

    async def read() -> None:
        async for _ in asked.outputs:
            if number % 5 == 3:
                break
        await asked.outputs.aclose()

    ended = "finished" if number % 5 != 3 else "closed"
    try:
        async with asyncio.timeout(source.random() if number % 5 == 1 else None):
            await read()
    except TimeoutError:
        ended = "cancelled"
    return ended, 0 if asked.retries is None else asked.retries.num_words


async def measure(model: str, folder: str, grammar: str) -> dict[str, Any]:
    arguments = AsyncEngineArgs(
        model,
        dtype="float32",
        enforce_eager=True,
        max_model_len=256,
        max_num_seqs=NUM_AT_ONCE,
        block_size=32,
        num_gpu_blocks_override=NUM_BLOCKS,
        structured_outputs_config={"backend": "xgrammar"},
        worker_extension_cls=f"{Held.__module__}.{Held.__qualname__}",
        seed=0,
    )
    client = AsyncLLM.from_engine_args(arguments, stat_loggers=[Preempted])
    try:
        tokenizer = client.renderer.get_tokenizer()
        facts = TokenizerFacts.from_tokenizer(tokenizer)
        texts = TextEngine(client, EngineCache(Path(folder), facts), facts)
        prompt = list(tokenizer.encode("Once upon a time there was a river, and beside it lived an old man who"))
        turn = asyncio.Semaphore(NUM_AT_ONCE + 8)

        async def one(number: int) -> tuple[str, int]:
            async with turn:
                return await write(texts, prompt, grammar, number)

        held, ends, num_words = [await of_engine(client)], Counter[str](), 0
        for numbers in (range(NUM_FIRST), range(NUM_FIRST, NUM_REQUESTS)):
            for ended, number in await asyncio.gather(*map(one, numbers)):
                ends[ended] += 1
                num_words += number
            held.append(await of_engine(client))
        return {
            "held": held,
            "ends": ends,
            "num_words": num_words,
            "num_preempted": Preempted.number,
            "num_unfinished": client.get_num_unfinished_requests(),
        }
    finally:
        client.shutdown()


async def of_engine(client: AsyncLLM) -> dict[str, int]:
    """Return what the engine holds, once it was told of the clients that have gone."""
    for _ in range(50):
        [held] = await client.collective_rpc("held")
        if not held["texts"]:
            break
        await asyncio.sleep(0.1)
    return dict(held)


def main(model: str, folder: str, grammar: str, results: str) -> None:
    Path(results).write_text(json.dumps(asyncio.run(measure(model, folder, grammar))))


if __name__ == "__main__":
    main(*sys.argv[1:])
