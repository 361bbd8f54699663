"""Tool calls in listed words: the form of the answer, and that no other word leaves in their arguments."""

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies
from transformers import AutoTokenizer

from deployments.contract import ResolvedVocabulary
from deployments.replica.answers.forms import ChatForm
from deployments.replica.answers.tool_calls import ToolCallForm
from deployments.replica.engine.engine import parse_event
from tests.deployments.replica.answers.test_chat_answerer import DONE, ScriptedReplica, event, whole
from tests.vocab.toys import toy_speller, toy_tokenizer, word_list
from vocab.artefacts.artefact import ArtefactFolder
from vocab.automaton.trie_builder import build_words
from vocab.matching.reference import GrammarReference
from vocab.options import ListOptions

JSON = strategies.recursive(
    strategies.none() | strategies.integers() | strategies.text(),
    lambda inner: strategies.lists(inner) | strategies.dictionaries(strategies.text(), inner),
    max_leaves=6,
)
OBJECTS = strategies.dictionaries(strategies.text(), JSON, max_size=3)


def message(text: str, name: str | None) -> Any:
    answer = {"choices": [{"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}]}
    [choice] = ToolCallForm(ChatForm(), name, is_stream=False).from_chat(answer)["choices"]
    assert choice["message"]["content"] is None
    assert choice["finish_reason"] == ("stop" if name else "tool_calls")
    return choice["message"]["tool_calls"]


def streamed(parts: list[str], name: str | None) -> list[dict[str, Any]]:
    """Calls put together as OpenAI's clients do."""
    form, calls = ToolCallForm(ChatForm(), name, is_stream=True), list[dict[str, Any]]()
    for text in parts:
        given = {"choices": [{"index": 0, "delta": {"content": text}, "finish_reason": None}]}
        [choice] = form.from_chat(given)["choices"]
        assert "content" not in choice["delta"]
        found = choice["delta"].get("tool_calls", [])
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
    found = streamed(parts(text), None)
    assert [(one["name"], json.loads(one["arguments"])) for one in found] == calls
    assert len({one["id"] for one in found}) == len(calls)
    made = [one["function"] for one in message(text, None)]
    assert made == [{"name": one["name"], "arguments": one["arguments"]} for one in found]
    first = json.dumps(calls[0][1])
    [one] = streamed(parts(first), "look")
    assert (one["name"], one["arguments"]) == ("look", first)
    assert [call["function"] for call in message(first, "look")] == [{"name": "look", "arguments": first}]


def test_a_text_that_is_no_call_is_none() -> None:
    for text in ("", "[", '[{"name": "a", "parameters": ', "dog"):
        assert message(text, None) == []
        assert streamed([text], None) == []


SCHEMA = {
    "type": "object",
    "properties": {"text": {"type": "string"}, "kind": {"const": "zebra"}},
    "required": ["text", "kind"],
}
TOOL = {"type": "function", "function": {"name": "say", "strict": True, "parameters": SCHEMA}}
NAMED = {"type": "function", "function": {"name": "say"}}


@pytest.fixture(scope="module")
def tokenizer(smollm2_path: Path) -> Any:
    return AutoTokenizer.from_pretrained(smollm2_path)


@pytest.fixture
def vocabulary(tmp_path: Path) -> ResolvedVocabulary:
    words = build_words(word_list(["the", "cat", "sat"], "en"), toy_speller(toy_tokenizer([])))
    ArtefactFolder(tmp_path).save(words)
    return ResolvedVocabulary(
        digest=words.digest, options=ListOptions(end="word"), lang="en", n_words=3, fewest_tokens=1
    )


def texts(arguments: str) -> dict[str, Any]:
    return {"required": f'[{{"name": "say", "parameters": {arguments}}}]', "named": arguments}


async def ask(
    folder: Path, tokenizer: Any, vocabulary: ResolvedVocabulary, text: str, choice: Any, **fields: Any
) -> tuple[Any, list[Any]]:
    parts = [event(character) for character in text] + [event("", "stop")]
    script = [[*parts, DONE]] if fields.get("stream") else [whole(text)]
    replica = ScriptedReplica(folder, tokenizer, script, facts=toy_tokenizer([]))
    items = await replica.items(vocabulary, tools=[TOOL], tool_choice=choice, **{"max_tokens": 99, **fields})
    return replica.request, items


@pytest.mark.parametrize("way", ["required", "named"])
async def test_an_answer_has_calls_and_the_engine_only_the_prompt(
    tmp_path: Path, tokenizer: Any, vocabulary: ResolvedVocabulary, way: str
) -> None:
    arguments = '{"text": "the cat", "kind": "zebra"}'
    choice = NAMED if way == "named" else way
    request, [answer] = await ask(tmp_path, tokenizer, vocabulary, texts(arguments)[way], choice)
    [made] = answer["choices"]
    [call] = made["message"]["tool_calls"]
    assert call["function"] == {"name": "say", "arguments": arguments}
    assert answer["vocab"]["num_words"] == 2
    assert answer["vocab"]["num_fixed_strings"] == (1 if way == "named" else 2)
    assert request.tool_choice == "none"
    assert request.tools[0].function.parameters == SCHEMA
    reference = GrammarReference.parse(request.structured_outputs.grammar)
    assert reference is not None
    assert reference.schema is not None


@pytest.mark.parametrize("way", ["required", "named"])
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    "arguments",
    [
        '{"text": "the dog", "kind": "zebra"}',
        '{"text": "the cat", "kind": "horse"}',
        '{"word": "the cat", "kind": "zebra"}',
        '{"text": "the cat"}',
        '{"text": "the cat", "kind": "zebra"',
    ],
)
async def test_arguments_that_leave_the_list_or_the_schema_are_never_an_answer(
    tmp_path: Path, tokenizer: Any, vocabulary: ResolvedVocabulary, way: str, stream: bool, arguments: str
) -> None:
    choice = NAMED if way == "named" else way
    _, items = await ask(tmp_path, tokenizer, vocabulary, texts(arguments)[way], choice, stream=stream)
    error = items[-1]
    assert (error.status, error.code) == (500, "unlisted_text")
    sent = [chunk for item in items[:-1] if (chunk := parse_event(item)) is not None]
    assert stream or not sent
    for part in ("dog", "horse", "word"):
        assert f" {part}" not in json.dumps(sent)
        assert f'"{part}' not in json.dumps(sent).replace("\\", "")


@pytest.mark.parametrize("n_tokens", [1, 20])
async def test_too_small_a_budget_is_refused(
    tmp_path: Path, tokenizer: Any, vocabulary: ResolvedVocabulary, n_tokens: int
) -> None:
    _, [refused] = await ask(tmp_path, tokenizer, vocabulary, "", "required", max_tokens=n_tokens)
    assert refused.param == "max_tokens"
    assert "must be at least" in refused.message
