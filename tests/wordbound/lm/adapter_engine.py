"""A model in vLLM with adapters, asked in every order: read by ``test_vllm_adapters``.

Run as a program, with the folders of a model, of two adapters, of damaged ones and of one whose rank is too high, and
the file for what it found.
"""

import asyncio
import sys
from pathlib import Path
from typing import Any

import torch
from vllm import LLM

from vocab.vllm_plugin import use_plugin
from wordbound.lm import AsyncVirtualLM

PREFIX = [5, 6, 7, 8, 9, 10, 11, *range(20, 60)]
ENGINE_OPTS = {"dtype": "float32", "enforce_eager": True, "max_model_len": 128, "max_num_seqs": 16, "seed": 0}


def main(model_path: str, first: str, second: str, damaged: str, large: str, found_path: str) -> None:
    found: dict[str, Any] = {}
    engine_opts = {**ENGINE_OPTS, "enable_lora": True, "max_cpu_loras": 2}
    with AsyncVirtualLM.from_name(model_name=model_path, engine_opts=engine_opts) as lm:
        found["before"] = lm.next_token_logprobs_uncached(PREFIX)
        lm.add_new_lora(first, "first")
        lm.add_new_lora(second, "second")
        names = [None, "first", "second", "first", None, "second"]
        found["in turn"] = [(name, lm.next_token_logprobs_uncached(PREFIX, lora_name=name)) for name in names]
        found["cached"] = [(name, lm.next_token_logprobs_sync(PREFIX, lora_name=name)) for name in names * 2]
        lm.set_lora("second")
        found["in turn"] += [("second", lm.next_token_logprobs_uncached(PREFIX))]
        lm.clear_lora()
        lm.cache.clear()
        found["at once"] = asyncio.run(at_once(lm, names))
        found["scores"] = [(name, lm.token_logprobs_sync(PREFIX, [3], lora_name=name)) for name in names]
        found["errors"] = {"too many": error_of(lm, first, "third")}
        lm.remove_lora("second")
        found["errors"] |= {path.name: error_of(lm, str(path), "first") for path in sorted(Path(damaged).iterdir())}
        found["errors"]["rank"] = error_of(lm, large, "first")
        # Under one name, whose blocks the engine must not share between both.
        lm.add_new_lora(first, "poet")
        found["replaced"] = [("first", lm.next_token_logprobs_sync(PREFIX, lora_name="poet"))]
        lm.remove_lora("first")
        lm.add_new_lora(second, "poet")
        found["replaced"].append(("second", lm.next_token_logprobs_sync(PREFIX, lora_name="poet")))
        found["removed while it is asked for"] = asyncio.run(removed(lm))
        found["after"] = lm.next_token_logprobs_uncached(PREFIX)
    use_plugin()
    llm = LLM(model_path, **ENGINE_OPTS)
    with AsyncVirtualLM(llm, None, cache_size=1, cache_opts={}, batch_size=4, timeout=0.01) as plain:
        found["errors"]["not enabled"] = error_of(plain, first, "first")
        found["in turn"] += [(None, row) for row in plain.batch_next_token_logprobs_sync([PREFIX, PREFIX])]
        found["cached rows"] = len(plain.cache)
    torch.save(found, found_path)


async def at_once(lm: AsyncVirtualLM, names: list[str | None]) -> list[tuple[str | None, torch.Tensor]]:
    rows = await asyncio.gather(*(lm.next_token_logprobs(PREFIX, lora_name=name) for name in names))
    return list(zip(names, rows, strict=True))


async def removed(lm: AsyncVirtualLM) -> list[str]:
    """What those are told whose adapter is removed while the engine has their prefixes."""
    asked = [asyncio.ensure_future(lm.next_token_logprobs([*PREFIX, token], lora_name="poet")) for token in range(40)]
    while not lm._worker._running:  # noqa: ASYNC110 - the thread sets no event
        await asyncio.sleep(0.001)
    lm.remove_lora("poet")
    return [
        str(answer) for answer in await asyncio.gather(*asked, return_exceptions=True) if type(answer) is ValueError
    ]


def error_of(lm: AsyncVirtualLM, path: str, name: str) -> str:
    try:
        lm.add_new_lora(path, name)
    except ValueError as error:
        return str(error)
    return ""


if __name__ == "__main__":
    main(*sys.argv[1:])
