"""Requests that go on from one another, asked of the engine of ``searching_engine``.

Every text is made twice: in steps of one token that share their work, and by ordinary requests, which a salt keeps from
using anything of those.
"""

import asyncio
from itertools import count
from typing import Any, Final

from vllm import SamplingParams
from vllm.sampling_params import RequestOutputKind
from vllm.v1.engine.async_llm import AsyncLLM

from vocab.vllm_plugin.kv_fork import ForkHint

NUM_LOGPROBS: Final = 5
NUM_STEPS: Final = 40
WIDTH: Final = 4


class Engine:
    """A client that counts its requests and names them so."""

    def __init__(self, client: AsyncLLM) -> None:
        self._client = client
        self._names = count()

    async def tokens(self, text: str) -> list[int]:
        return list(self._client.get_tokenizer().encode(text))

    async def ask(
        self, prompt: list[int], fork: ForkHint | None = None, *, max_tokens: int = 1, give_up_after: int | None = None
    ) -> dict[str, Any]:
        """The likeliest tokens, what the engine says of each, and how much of the prompt it did not compute."""
        params = SamplingParams(
            temperature=0.0,
            max_tokens=max_tokens,
            ignore_eos=True,
            logprobs=NUM_LOGPROBS,
            detokenize=False,
            output_kind=RequestOutputKind.CUMULATIVE,
            extra_args=fork.to_extra_args() if fork else None,
        )
        salt = {} if fork else {"cache_salt": "ordinary"}
        output: Any = None
        stream = self._client.generate({"prompt_token_ids": prompt, **salt}, params, f"request-{next(self._names)}")
        async for output in stream:
            if give_up_after is not None and len(output.outputs[0].token_ids) >= give_up_after:
                await stream.aclose()
                break
        completion = output.outputs[0]
        return {
            "tokens": list(completion.token_ids),
            "logprobs": [{str(token): one.logprob for token, one in of.items()} for of in completion.logprobs],
            "num_prompt": len(prompt),
            "num_reused": output.num_cached_tokens,
        }


async def chained(engine: Engine, name: str, prompt: list[int], parent: str | None, num_steps: int) -> dict[str, Any]:
    """As ``Engine.ask``, token by token; what was reused is that of each step."""
    found: dict[str, Any] = {"tokens": [], "logprobs": [], "num_prompt": [], "num_reused": []}
    for step in range(num_steps):
        old = (f"{name}/{step - 2}",)
        answer = await engine.ask(prompt + found["tokens"], ForkHint(f"{name}/{step}", parent, old))
        for key, values in found.items():
            values += answer[key] if isinstance(answer[key], list) else [answer[key]]
        parent = f"{name}/{step}"
    return found


async def twice(engine: Engine, steps: dict[str, Any], prompt: list[int]) -> dict[str, Any]:
    return {"steps": steps, "ordinary": await engine.ask(prompt, max_tokens=len(steps["tokens"]))}


async def cases(engine: Engine, short: list[int], long: list[int]) -> dict[str, Any]:
    results = {}
    for name, prompt in {"short": short, "long": long}.items():
        results[name] = await twice(engine, await chained(engine, name, prompt, None, NUM_STEPS), prompt)
    # Several at once go on from one parent, each with a token of its own.
    root = await engine.ask(long, ForkHint("root"))
    heads = [[*long, int(token)] for token in root["logprobs"][0]][:WIDTH]
    forks = await asyncio.gather(*(chained(engine, f"fork{i}", head, "root", 8) for i, head in enumerate(heads)))
    for i, (fork, head) in enumerate(zip(forks, heads, strict=True)):
        results[f"fork {i}"] = await twice(engine, fork, head)
    # A parent that was given up, among others that are not.
    others = asyncio.gather(*(engine.ask([*short, i], max_tokens=30) for i in range(WIDTH)))
    given_up = await engine.ask(short, ForkHint("given up"), max_tokens=200, give_up_after=9)
    prompt = short + given_up["tokens"]
    results["given up"] = await twice(engine, await chained(engine, "heir", prompt, "given up", 4), prompt)
    await others
    # A name that stands for another text.
    results["stranger"] = await twice(engine, await chained(engine, "stranger", short, "root", 4), short)
    return results


async def fork_cases(client: AsyncLLM) -> dict[str, Any]:
    engine = Engine(client)
    short = await engine.tokens("Once upon a time there was a dog who")
    long = await engine.tokens("There was a river that no one knew, and it ran to the sea. " * 12)
    return await cases(engine, short, long)
