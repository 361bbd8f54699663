"""What the service writes itself is what vLLM's own server writes of the same outputs."""

import json
import re
from collections.abc import Callable
from typing import Any

import pytest
from vllm.entrypoints.openai.chat_completion.protocol import ChatCompletionRequest
from vllm.entrypoints.openai.completion.protocol import CompletionRequest

from deployments.ray_private import serving_chat, serving_completion
from tests.deployments.replica.toy_engine import Said
from tests.deployments.replica.world import BODY, ReplicaWorld, read

CALL = '<tool_call>\n{"name": "say", "arguments": {"text": "the cat"}}\n</tool_call>'
TOOL = {"type": "function", "function": {"name": "say", "parameters": {"type": "object", "properties": {}}}}
NAMED = {"type": "function", "function": {"name": "say"}}
USAGE = {"include_usage": True}
THOUGHT = ("Here is my thought process:", " a cat is old.", " Here is my response:", " ")

REQUESTS: dict[str, tuple[tuple[str, ...], dict[str, Any]]] = {
    "logprobs": (("The", " cat", "."), {"logprobs": True, "top_logprobs": 2}),
    "own logprobs": (("The", " cat", "."), {"logprobs": True}),
    "names of ids": (("The", " cat"), {"logprobs": True, "top_logprobs": 1, "return_tokens_as_token_ids": True}),
    "ids": (("The", " cat", "."), {"n": 2, "return_token_ids": True}),
    "texts": (("The", " \N{EM DASH}", "x"), {"n": 3}),
    "a structure": (("aa", "b"), {"structured_outputs": {"regex": "a+b"}}),
    "calls of its own accord": (("I say. ", *CALL), {"tools": [TOOL]}),
    "no call": (("The cat.",), {"tools": [TOOL]}),
    "one call at a time": ((*CALL, *CALL), {"tools": [TOOL], "parallel_tool_calls": False}),
    "a named call": (('{"text": ', '"the cat"}'), {"tools": [TOOL], "tool_choice": NAMED}),
    "a required call": (
        ('[{"name": "say", ', '"parameters": {"text": "x"}}]'), {"tools": [TOOL], "tool_choice": "required"}
    ),
}  # fmt: skip
COMPLETIONS: dict[str, tuple[tuple[str, ...], dict[str, Any]]] = {
    "logprobs": ((" cat", " sat"), {"logprobs": 2}),
    "own logprobs": ((" cat", " sat"), {"logprobs": 0}),
    "echo": ((" cat", " sat"), {"n": 2, "echo": True}),
    "echo with ids": ((" cat", " sat"), {"n": 2, "echo": True, "return_token_ids": True}),
    "several prompts": ((" cat", " sat"), {"prompt": ["The old", "A"], "n": 2, "return_token_ids": True}),
}


@pytest.fixture
def caller(world_of: Callable[..., ReplicaWorld]) -> ReplicaWorld:
    """One whose model calls tools."""
    return world_of("caller", engine_kwargs={"tool_call_parser": "hermes", "enable_auto_tool_choice": True})


def comparable(answer: Any) -> Any:
    """Without nulls, and what differs from one answer to the next: times, and the ids of answers and calls."""
    if isinstance(answer, dict):
        kept = {name: value for name, value in answer.items() if name not in ("created", "id", "timing", "metrics")}
        return {name: comparable(value) for name, value in kept.items() if value is not None}
    return [comparable(one) for one in answer] if isinstance(answer, list) else answer


async def of_vllm(serving: Any, create: str, request: Any) -> list[Any]:
    made = await getattr(serving, create)(request)
    if not request.stream:
        return [made.model_dump(mode="json")]
    return [json.loads(one) for one in re.findall(r"data: (\{.*\})\n\n", "".join([event async for event in made]))]


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize("counts", [False, True], ids=["", "counts"])
@pytest.mark.parametrize("name", REQUESTS)
async def test_a_chat_is_as_vllm_has_it(caller: ReplicaWorld, name: str, stream: bool, counts: bool) -> None:
    said, fields = REQUESTS[name]
    options = {"stream_options": USAGE | {"continuous_usage_stats": counts}} if stream else {}
    asked = {**BODY, "max_tokens": 99, "temperature": 1.0, **fields, "stream": stream, **options}
    caller.engine.said = [Said(said) for _ in range(fields.get("n", 1))]
    ours, error = read(await caller.ask(**asked))
    assert error is None
    theirs = await of_vllm(serving_chat(caller.replica), "create_chat_completion", ChatCompletionRequest(**asked))
    assert comparable(ours) == comparable(theirs)


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize("shown", [False, True], ids=["hidden", "shown"])
async def test_thoughts_are_as_vllm_has_them(thinker: ReplicaWorld, stream: bool, shown: bool) -> None:
    counts = {"continuous_usage_stats": True}
    options = {"stream_options": USAGE | counts} if stream else {}
    asked: dict[str, Any] = {
        **BODY,
        "temperature": 1.0,
        "n": 2,
        "include_reasoning": shown,
        "stream": stream,
        **options,
    }
    thinker.engine.said = [Said((*THOUGHT, "The cat ", "sat.")), Said(THOUGHT[:2], "length")]
    ours, error = read(await thinker.ask(**asked))
    assert error is None
    theirs = await of_vllm(serving_chat(thinker.replica), "create_chat_completion", ChatCompletionRequest(**asked))
    assert comparable(ours) == comparable(theirs)


def by_choice(events: list[Any]) -> list[Any]:
    """Several prompts are answered at once, in no order."""
    return sorted(events, key=lambda event: [choice["index"] for choice in event["choices"]] or [99])


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize("name", COMPLETIONS)
async def test_a_completion_is_as_vllm_has_it(caller: ReplicaWorld, name: str, stream: bool) -> None:
    said, fields = COMPLETIONS[name]
    options: dict[str, Any] = {"stream_options": USAGE} if stream else {}
    asked = {"model": BODY["model"], "prompt": "The", "max_tokens": 9, "temperature": 1.0, **fields, "stream": stream}
    caller.engine.said = [Said(said) for _ in range(fields.get("n", 1))]
    ours, error = read(await caller.ask(**asked, **options))
    assert error is None
    request = CompletionRequest(**asked, **options)
    theirs = await of_vllm(serving_completion(caller.replica), "create_completion", request)
    assert comparable(by_choice(ours)) == comparable(by_choice(theirs))
