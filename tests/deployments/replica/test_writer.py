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


async def assert_as_vllm_has_it(
    world: ReplicaWorld, said: list[Said], fields: dict[str, Any], *, is_chat: bool = True
) -> None:
    asked = (
        {**BODY, "temperature": 1.0, **fields} if is_chat else {"model": BODY["model"], "temperature": 1.0, **fields}
    )
    world.engine.said = said
    ours, error = read(await world.ask(**asked))
    assert error is None
    if is_chat:
        made = await serving_chat(world.replica).create_chat_completion(ChatCompletionRequest(**asked))
    else:
        made = await serving_completion(world.replica).create_completion(CompletionRequest(**asked))
    if fields["stream"]:
        theirs = [
            json.loads(one) for one in re.findall(r"data: (\{.*\})\n\n", "".join([event async for event in made]))
        ]
    else:
        theirs = [made.model_dump(mode="json")]
    for events in () if is_chat else (ours, theirs):
        # Several prompts are answered at once, in no order.
        events.sort(key=lambda event: [choice["index"] for choice in event["choices"]] or [99])
    assert comparable(ours) == comparable(theirs)


def counted(**options: Any) -> dict[str, Any]:
    return {"stream": True, "stream_options": {"include_usage": True, **options}}


@pytest.mark.parametrize("options", [{"stream": False}, counted(), counted(continuous_usage_stats=True)], ids=str)
@pytest.mark.parametrize("name", REQUESTS)
async def test_a_chat_is_as_vllm_has_it(caller: ReplicaWorld, name: str, options: dict[str, Any]) -> None:
    said, fields = REQUESTS[name]
    texts = [Said(said) for _ in range(fields.get("n", 1))]
    await assert_as_vllm_has_it(caller, texts, {"max_tokens": 99, **fields, **options})


@pytest.mark.parametrize("options", [{"stream": False}, counted(continuous_usage_stats=True)], ids=["whole", "stream"])
@pytest.mark.parametrize("shown", [False, True], ids=["hidden", "shown"])
async def test_thoughts_are_as_vllm_has_them(thinker: ReplicaWorld, options: dict[str, Any], shown: bool) -> None:
    texts = [Said((*THOUGHT, "The cat ", "sat.")), Said(THOUGHT[:2], "length")]
    await assert_as_vllm_has_it(thinker, texts, {"n": 2, "include_reasoning": shown, **options})


@pytest.mark.parametrize("options", [{"stream": False}, counted()], ids=["whole", "stream"])
@pytest.mark.parametrize("name", COMPLETIONS)
async def test_a_completion_is_as_vllm_has_it(caller: ReplicaWorld, name: str, options: dict[str, Any]) -> None:
    said, fields = COMPLETIONS[name]
    texts = [Said(said) for _ in range(fields.get("n", 1))]
    await assert_as_vllm_has_it(caller, texts, {"prompt": "The", "max_tokens": 9, **fields, **options}, is_chat=False)
