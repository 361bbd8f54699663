"""A model in vLLM, in float32, asked for rows beside constrained texts: read by ``test_vllm_lm``.

Run as a program, with the model, a grammar reference, a file of prefixes and the file for what it found.
"""

import asyncio
import json
import sys
from concurrent.futures import Future
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from vllm.sampling_params import SamplingParams, StructuredOutputsParams

from wordbound.lm import AsyncVirtualLM

ENGINE_OPTS = {
    "dtype": "float32",
    "enforce_eager": True,
    "max_model_len": 256,
    # Long prefixes take several steps, beside others that end.
    "max_num_batched_tokens": 64,
    "max_num_seqs": 32,
    "structured_outputs_config": {"backend": "xgrammar"},
    "seed": 0,
}


def main(model_path: str, grammar: str, prefixes_path: str, found_path: str) -> None:
    prefixes: list[list[int]] = json.loads(Path(prefixes_path).read_text())
    with AsyncVirtualLM.from_name(model_path, ENGINE_OPTS) as model:
        found = asyncio.run(ask(model, grammar, prefixes))
        found |= asyncio.run(give_up(model, prefixes))
        found["grown"] = asyncio.run(grow(model, prefixes[0]))
        found["together"] = asyncio.run(together(model))
    found["after the end"] = error_of(model)
    torch.save(found, found_path)


async def ask(model: AsyncVirtualLM, grammar: str, prefixes: list[list[int]]) -> dict[str, Any]:
    """Rows and scores, while sixteen texts are written under the grammar."""
    params = SamplingParams(
        max_tokens=40, temperature=1.0, structured_outputs=StructuredOutputsParams(grammar=grammar), detokenize=False
    )
    requests: Any = [
        SimpleNamespace(name=f"text-{i}", ids=tuple(ids), params=params.clone(), lora=None, future=Future())
        for i, ids in enumerate(prefixes[:16])
    ]
    texts = asyncio.create_task(model._generate(requests))
    rows = await model.batch_next_token_logprobs(prefixes)
    prompt, ids = prefixes[0][:8], prefixes[0][8:]
    return {
        "rows": rows,
        "scores": await model.token_logprobs(prompt, ids),
        "texts": [list(output.outputs[0].token_ids) for output in await texts],
        "sample": await model.sample(prompt, 8, [], seed=3),
        "same sample": await model.sample(prompt, 8, [], seed=3),
    }


async def give_up(model: AsyncVirtualLM, prefixes: list[list[int]]) -> dict[str, Any]:
    """One of two who wait is cancelled, and then all."""
    new = [[*prefix, 7] for prefix in prefixes[:8]]
    tasks = [asyncio.create_task(model.next_token_logprobs(prefix)) for prefix in new]
    await until(model, running=True)
    tasks[0].cancel()
    kept = await tasks[1]
    left = [asyncio.create_task(model.next_token_logprobs([*prefix, 8])) for prefix in new]
    await until(model, running=True)
    for task in (*tasks, *left):
        task.cancel()
    await asyncio.gather(*tasks, *left, return_exceptions=True)
    await until(model, running=False)
    return {"kept": kept, "unfinished": model._worker.engine.get_num_unfinished_requests()}


async def until(model: AsyncVirtualLM, *, running: bool) -> None:
    while bool(model._worker._running) != running:  # noqa: ASYNC110 - the thread sets no event
        await asyncio.sleep(0.001)


async def grow(model: AsyncVirtualLM, prefix: list[int]) -> int:
    """The most tokens that the engine computed for a step of a text that grows by one token."""
    most = 0
    await model.next_token_logprobs(prefix)
    for token in (11, 12, 13):
        prefix = [*prefix, token]
        [output] = await model._generate([model._row_request(tuple(prefix), None)])
        most = max(most, len(prefix) - (output.num_cached_tokens or 0))
    return most


async def together(model: AsyncVirtualLM) -> list[int]:
    """How many tokens the engine computed for each of its requests, of four new prefixes that share their beginning."""
    asked: list[int] = []
    generate = model._generate

    async def noting(requests: Any) -> Any:
        outputs = await generate(requests)
        asked.extend(
            len(one.ids) - (output.num_cached_tokens or 0) for one, output in zip(requests, outputs, strict=True)
        )
        return outputs

    model._generate = noting  # type: ignore[method-assign]
    shared = list(range(500, 540))
    await model.batch_next_token_logprobs([[*shared, token, token] for token in (3, 4, 5, 6)])
    return asked


def error_of(model: AsyncVirtualLM) -> str:
    try:
        model.next_token_logprobs_sync([1])
    except RuntimeError as error:
        return str(error)
    return ""


if __name__ == "__main__":
    main(*sys.argv[1:])
