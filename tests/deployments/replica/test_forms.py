"""The forms of answers: completions, and tool calls whose arguments are in listed words."""

import json
from itertools import pairwise
from typing import Any

from hypothesis import given, strategies

from deployments.replica.answers.tool_calls import ToolCallText
from tests.deployments.replica.toy_engine import Said
from tests.deployments.replica.world import ReplicaWorld, block, read, refusal
from vocab.options import ListOptions


async def test_what_may_follow_prompts_of_text_and_of_tokens_is_the_same(world: ReplicaWorld) -> None:
    listed = world.resolve(world.spec, ListOptions(case="sentence", end="word"))
    faults = []
    for prompt, follows, does_not_follow in (
        ("Zebedee ran. ", "The cat", " The cat"),
        ("Zebedee ran.", " The cat", "The cat"),
        ("Zebedee saw a", " cat", "cat"),
        ("I am “open<|im_start|>", "The cat", ",cat"),
        ("I am “open<|im_start|>Zebedee ran. ", "The cat", " The cat"),
    ):
        tokens = world.tokenizer.encode(prompt)
        for asked in (prompt, [prompt], [prompt, prompt], tokens, [tokens], [tokens, tokens]):
            for text, is_answer in ((follows, True), (does_not_follow, False)):
                world.engine.said = [Said((text,))]
                [item] = await world.ask(listed, prompt=asked)
                if isinstance(item, dict) is not is_answer:
                    faults.append((asked, text))
    assert not faults


async def test_a_prompt_inside_a_word_and_prompts_that_end_differently_are_refused(world: ReplicaWorld) -> None:
    unspellable = "which the model's tokenizer cannot spell"
    asked: list[tuple[Any, str]] = [
        ("There was a ca", "breaks off inside a word: 'ca'"),
        (["There was a cat. ", "There was a ca"], "breaks off inside a word: 'ca'"),
        (["There was a cat. ", "There was a cat"], "texts that end differently"),
        # vLLM's answer would begin with the prompt.
        ("There was a cat. \U00075d71", unspellable),
        (["There was a cat. ", "There was a cat. \ufffd"], unspellable),
    ]
    for prompt, says in asked:
        refused = refusal(await world.ask(world.vocabulary, prompt=prompt))
        assert (refused.status, refused.param, says in refused.message) == (400, "prompt", True)


async def test_what_is_read_as_a_chat_is_sent_as_a_completion(world: ReplicaWorld) -> None:
    prompt, texts = "It was old. ", (("Th", "e cat", " sat."), ("A dog.",))
    world.engine.said = [Said(text) for text in texts]
    for stream in (False, True):
        fields: dict[str, Any] = {"n": 2, "logprobs": 1, "return_token_ids": True, "stream": stream}
        sent, _ = read(await world.ask(world.vocabulary, prompt=prompt, **fields))
        for index, text in enumerate(map("".join, texts)):
            choices = [choice for one in sent for choice in one["choices"] if choice["index"] == index]
            tokens = [token for one in choices for token in (one["logprobs"] or {"tokens": []})["tokens"]]
            assert "".join(one["text"] for one in choices) == "".join(tokens) == text
            assert not any(one.keys() & {"message", "delta"} for one in choices)
            # Of a stream they wait for the first part that is sent.
            given = [one["prompt_token_ids"] for one in choices if one.get("prompt_token_ids") is not None]
            assert given == [world.tokenizer.encode(prompt)]


JSON = strategies.recursive(
    strategies.none() | strategies.integers() | strategies.text(),
    lambda inner: strategies.lists(inner) | strategies.dictionaries(strategies.text(), inner),
    max_leaves=6,
)
OBJECTS = strategies.dictionaries(strategies.text(), JSON, max_size=3)


def put_together(parts: list[str], name: str | None) -> list[dict[str, Any]]:
    """Calls put together as OpenAI's clients do."""
    text, calls = ToolCallText(name), list[dict[str, Any]]()
    for part in parts:
        found = text.add(part)
        assert len({call["index"] for call in found}) == len(found)
        for call in found:
            if call["index"] == len(calls):
                assert call["type"] == "function"
                calls.append({"id": call["id"], "name": call["function"]["name"], "arguments": ""})
            else:
                assert call.keys() == {"index", "function"}
                assert call["function"].keys() == {"arguments"}
            calls[call["index"]]["arguments"] += call["function"]["arguments"]
    return calls


@given(
    strategies.lists(strategies.tuples(strategies.text(min_size=1), OBJECTS), min_size=1, max_size=3),
    strategies.lists(strategies.integers(0, 300)),
    strategies.booleans(),
)
def test_calls_are_found_however_the_text_is_divided(
    calls: list[tuple[str, Any]], cuts: list[int], ensure_ascii: bool
) -> None:
    def parts(text: str) -> list[str]:
        ends = [0, *sorted(min(cut, len(text)) for cut in cuts), len(text)]
        return [text[start:end] for start, end in pairwise(ends)]

    text = json.dumps([{"name": name, "parameters": given} for name, given in calls], ensure_ascii=ensure_ascii)
    for divided in (parts(text), [text]):
        found = put_together(divided, None)
        assert [(one["name"], json.loads(one["arguments"])) for one in found] == calls
        assert len({one["id"] for one in found}) == len(calls)
    first = json.dumps(calls[0][1])
    [one] = put_together(parts(first), "look")
    assert (one["name"], one["arguments"]) == ("look", first)


def test_a_text_that_is_no_call_is_none() -> None:
    for text in ("", "[", '[{"name": "a", "parameters": ', "dog"):
        assert put_together([text], None) == []


SCHEMA = {
    "type": "object",
    "properties": {"text": {"type": "string"}, "kind": {"const": "zebra"}},
    "required": ["text", "kind"],
}
TOOL = {"type": "function", "function": {"name": "say", "strict": True, "parameters": SCHEMA}}
NAMED = {"type": "function", "function": {"name": "say"}}
WAYS: tuple[tuple[Any, str], ...] = (("required", '[{{"name": "say", "parameters": {}}}]'), (NAMED, "{}"))
"""Values of ``tool_choice``, and the text that is a call with these arguments."""


async def ask(world: ReplicaWorld, text: str, tool_choice: Any, **fields: Any) -> list[Any]:
    world.engine.said = [Said([*text, ""])]
    return await world.ask(world.vocabulary, tools=[TOOL], tool_choice=tool_choice, **{"max_tokens": 99, **fields})


async def test_an_answer_has_calls_and_the_engine_only_the_prompt(world: ReplicaWorld) -> None:
    arguments = '{"text": "the cat", "kind": "zebra"}'
    for tool_choice, text in WAYS:
        items = await ask(world, text.format(arguments), tool_choice)
        [made] = read(items)[0][0]["choices"]
        [call] = made["message"]["tool_calls"]
        assert call["function"] == {"name": "say", "arguments": arguments}
        assert (block(items)["num_words"], block(items)["num_fixed_strings"]) == (2, 1 if tool_choice is NAMED else 2)
        assert world.reference.schema is not None


async def test_arguments_that_leave_the_list_or_the_schema_are_never_an_answer(world: ReplicaWorld) -> None:
    faults = []
    for arguments in (
        '{"text": "the zoo", "kind": "zebra"}',
        '{"text": "the cat", "kind": "horse"}',
        '{"word": "the cat", "kind": "zebra"}',
        '{"text": "the cat"}',
        '{"text": "the cat", "kind": "zebra"',
    ):
        for (tool_choice, text), stream in ((way, stream) for way in WAYS for stream in (False, True)):
            *sent, error = await ask(world, text.format(arguments), tool_choice, stream=stream)
            told = json.dumps(read(sent)[0])
            leaks = [one for one in ("zoo", "horse", "word") if f" {one}" in told or f'\\"{one}' in told]
            if (error.status, error.code) != (500, "unlisted_text") or leaks or (sent and not stream):
                faults.append((arguments, tool_choice, stream, leaks, error))
    assert not faults


async def test_too_small_a_budget_for_a_call_is_refused(world: ReplicaWorld) -> None:
    for max_tokens in (1, 8):
        error = refusal(await ask(world, "x", "required", max_tokens=max_tokens))
        assert error.param == "max_tokens"
        assert "must be at least" in error.message
