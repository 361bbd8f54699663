"""Tool calls in listed words on the real stack, through the ``openai`` package."""

import json
import re
from collections import Counter
from typing import Any, Literal

import jsonschema
import openai
import pytest
from pydantic import BaseModel, Field

from tests.checker import assert_only_listed_words
from tests.e2e.service import MODEL, Service
from tests.e2e.test_batches import read, start, wait

pytestmark = pytest.mark.e2e

LIST = {"lang": "en", "n_words": 1000, "end": "word"}
ASKED = [{"role": "user", "content": "Put two animals on the farm."}]


def tool(name: str, *, strict: bool | None = True, **properties: Any) -> dict[str, Any]:
    schema = {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}
    return {"type": "function", "function": {"name": name, "strict": strict, "parameters": schema}}


def named(name: str) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name}}


ADD = tool(
    "add_animal",
    kind={"enum": ["dog", "brontosaurus"]},
    names={"type": "array", "items": {"type": "string", "x-vocab": {"max_words": 2}}, "minItems": 1, "maxItems": 2},
    legs={"type": "integer", "minimum": 0, "maximum": 8},
)
SAY = tool("say_aloud", text={"type": "string", "x-vocab": {"end": "sentence", "max_words": 8}})
WAIT = {"type": "function", "function": {"name": "wait", "strict": True}}
TOOLS = [ADD, SAY, WAIT]


def check(calls: Any) -> list[Any]:
    """What calls must be, read by a checker that knows nothing of tokens; returns their arguments."""
    arguments = []
    for call in calls:
        assert (call.type, call.id[:14]) == ("function", "chatcmpl-tool-")
        [function] = [one["function"] for one in TOOLS if one["function"]["name"] == call.function.name]
        made = json.loads(call.function.arguments)
        if "parameters" not in function:
            assert made == {}
        else:
            jsonschema.validate(made, function["parameters"])
        for text in [*made.get("names", ()), *([made["text"]] if "text" in made else [])]:
            assert_only_listed_words(text, "en", 1000)
        arguments.append(made)
    assert len({call.id for call in calls}) == len(calls) > 0
    return arguments


def ask(service: Service, choice: Any, tools: Any = TOOLS, vocab: Any = LIST, **fields: Any) -> Any:
    given = {"max_tokens": 150, "temperature": 1, **fields}
    given["extra_body"] = {**given.get("extra_body", {}), **({"vocab": vocab} if vocab else {})}
    create: Any = service.client.chat.completions.create
    return create(model=MODEL, messages=ASKED, tools=tools, tool_choice=choice, **given)


@pytest.mark.parametrize("one_at_most", [False, True])
def test_required_calls_are_written_in_the_list(service: Service, one_at_most: bool) -> None:
    fields = {"parallel_tool_calls": False} if one_at_most else {}
    made = ask(service, "required", n=4, **fields)
    called = [choice.message.tool_calls for choice in made.choices]
    arguments = [one for calls in called for one in check(calls)]
    for choice in made.choices:
        assert (choice.message.content, choice.finish_reason) == (None, "tool_calls")
        assert not one_at_most or len(choice.message.tool_calls) == 1
    assert {call.function.name for calls in called for call in calls} <= {one["function"]["name"] for one in TOOLS}
    # The names of the tools are the client's, as its enumerated values are.
    block = made.model_extra["vocab"]
    assert block["num_fixed_strings"] == sum(map(len, called)) + sum("kind" in one for one in arguments)
    assert 0 <= block["max_rank"] <= 1000


@pytest.mark.parametrize("name", ["add_animal", "say_aloud", "wait"])
def test_the_tool_that_is_named_is_called(service: Service, name: str) -> None:
    for choice in ask(service, named(name), n=2).choices:
        [call] = choice.message.tool_calls
        assert call.function.name == name
        check([call])
        assert (choice.message.content, choice.finish_reason) == (None, "stop")


@pytest.mark.parametrize("choice", ["required", named("add_animal"), named("wait")])
@pytest.mark.parametrize("fields", [{}, {"stream_options": {"include_usage": True, "token_details": True}}])
def test_a_stream_has_the_same_calls_in_whole_words(service: Service, choice: Any, fields: Any) -> None:
    [whole] = ask(service, choice, seed=5, temperature=0).choices
    chunks = list(ask(service, choice, seed=5, temperature=0, stream=True, **fields))
    calls: list[dict[str, Any]] = []
    pieces = []
    for chunk in chunks:
        for part in chunk.choices:
            assert part.delta.content is None
            for call in part.delta.tool_calls or ():
                if call.id is not None:
                    assert (call.index, call.type) == (len(calls), "function")
                    calls.append({"name": call.function.name, "arguments": ""})
                assert call.index == len(calls) - 1
                calls[call.index]["arguments"] += call.function.arguments
                pieces.append(call.function.arguments)
    assert calls == [
        {"name": call.function.name, "arguments": call.function.arguments} for call in whole.message.tool_calls
    ]
    if choice != named("wait"):
        assert len(pieces) > 5
    reasons = [part.finish_reason for chunk in chunks for part in chunk.choices if part.finish_reason]
    assert reasons == [whole.finish_reason]
    assert "vocab" in chunks[-1].model_extra
    # No part ends inside a word.
    words = Counter(re.findall(r"[a-z]+", " ".join(call["arguments"] for call in calls).lower()))
    assert set(re.findall(r"[a-z]+", " ".join(pieces).lower())) <= set(words)


class Person(BaseModel):
    """A person."""

    name: str
    friends: list["Person"] = Field(max_length=2)


class Item(BaseModel):
    word: str


class Meet(BaseModel):
    """Meet a person."""

    who: Person
    where: Literal["Xanadu"]


class Buy(BaseModel):
    items: list[Item]


def test_the_openai_package_parses_pydantic_models(service: Service) -> None:
    tools = [openai.pydantic_function_tool(one) for one in (Meet, Buy, Person)]
    extra: dict[str, Any] = {"vocab": LIST}
    fields: dict[str, Any] = {"model": MODEL, "messages": ASKED, "tools": tools, "max_tokens": 200}
    for choice in ("required", named("Meet"), named("Buy"), named("Person")):
        parsed = service.client.chat.completions.parse(tool_choice=choice, extra_body=extra, **fields)
        calls = parsed.choices[0].message.tool_calls
        assert calls
        for call in calls:
            assert isinstance(call.function.parsed_arguments, (Meet, Buy, Person))
            assert choice == "required" or call.function.name == choice["function"]["name"]  # type: ignore[index]
    with service.client.chat.completions.stream(tool_choice="required", extra_body=extra, **fields) as stream:
        kinds = {one.type for one in stream}
        final = stream.get_final_completion()
    assert {"tool_calls.function.arguments.delta", "tool_calls.function.arguments.done"} <= kinds
    for call in final.choices[0].message.tool_calls:
        assert isinstance(call.function.parsed_arguments, (Meet, Buy, Person))


def test_two_tools_may_define_one_name_differently(service: Service) -> None:
    def of(name: str, definition: Any) -> Any:
        more = {"type": "array", "items": {"$ref": "#"}, "maxItems": 1}
        made = tool(name, value={"$ref": "#/$defs/Value"}, more=more)
        made["function"]["parameters"]["$defs"] = {"Value": definition}
        return made

    tools = [of("count", {"type": "integer", "minimum": 1, "maximum": 3}), of("tell", {"enum": ["Xanadu"]})]
    for choice in ask(service, "required", tools, n=4).choices:
        for call in choice.message.tool_calls:
            schema = next(one for one in tools if one["function"]["name"] == call.function.name)
            jsonschema.validate(json.loads(call.function.arguments), schema["function"]["parameters"])


def test_none_is_a_text_of_the_list_and_a_conversation_goes_on_with_the_calls(service: Service) -> None:
    [whole] = ask(service, named("add_animal")).choices
    [call] = whole.message.tool_calls
    answered = {"role": "tool", "tool_call_id": call.id, "content": "Done."}
    create: Any = service.client.chat.completions.create
    for strict in (True, None):
        made = create(
            model=MODEL,
            messages=[*ASKED, whole.message.model_dump(exclude_none=True), answered],
            tools=[tool("say_aloud", strict=strict)],
            tool_choice="none",
            max_tokens=20,
            extra_body={"vocab": LIST},
        )
        assert made.choices[0].message.tool_calls is None
        assert_only_listed_words(made.choices[0].message.content, "en", 1000)


def test_a_budget_that_no_call_fits_is_refused_with_the_number_that_is_enough(service: Service) -> None:
    for choice in ("required", named("add_animal")):
        with pytest.raises(openai.BadRequestError) as raised:
            ask(service, choice, [ADD, SAY], max_tokens=4)
        found = re.match(r"'max_tokens' must be at least (\d+)", raised.value.body["message"])
        assert found is not None
        assert raised.value.param == "max_tokens"
        for one in ask(service, choice, [ADD, SAY], max_tokens=int(found[1]), n=2).choices:
            check(one.message.tool_calls)


def test_words_written_again_seeds_and_log_probabilities_have_it(service: Service) -> None:
    check(ask(service, "required", vocab={**LIST, "rescue": True}).choices[0].message.tool_calls)
    same = [ask(service, "required", seed=3).choices[0].message.tool_calls for _ in range(2)]
    assert same[0][0].function == same[1][0].function
    assert same[0][0].id != same[1][0].id
    check(ask(service, "required", logprobs=True, top_logprobs=1).choices[0].message.tool_calls)


def test_a_batch_has_it(service: Service) -> None:
    body = {"model": MODEL, "messages": ASKED, "max_tokens": 150, "vocab": LIST, "tools": TOOLS}
    line = {"custom_id": "one", "method": "POST", "url": "/v1/chat/completions"}
    sent = [{**line, "body": {**body, "tool_choice": "required"}}, {**line, "custom_id": "two", "body": body}]
    batch = wait(service, start(service, "\n".join(map(json.dumps, sent)).encode()).id)
    [answered] = read(service, batch.output_file_id)
    for call in answered["response"]["body"]["choices"][0]["message"]["tool_calls"]:
        assert_only_listed_words(json.loads(call["function"]["arguments"]).get("text", "a"), "en", 1000)
    [failed] = read(service, batch.error_file_id)
    assert "'tool_choice' must be" in failed["error"]["message"]


@pytest.mark.parametrize(
    ("choice", "tools", "fields", "param"),
    [
        ("auto", TOOLS, {}, "tool_choice"),
        (openai.omit, TOOLS, {}, "tool_choice"),
        ("required", [ADD, tool("wave", strict=None)], {}, "tools[1].function.strict"),
        (named("wave"), [ADD, tool("wave", strict=False)], {}, "tools[1].function.strict"),
        (named("wave"), TOOLS, {}, "tool_choice.function.name"),
        ("required", [tool("when", day={"type": "string", "format": "date"})], {}, "tools[0].function.parameters"),
        ("required", TOOLS, {"response_format": {"type": "json_object"}}, "response_format"),
        ("required", TOOLS, {"stop": ["dog"]}, "stop"),
        ("required", TOOLS, {"extra_body": {"num_beams": 2}}, "tool_choice"),
        ("required", TOOLS, {"extra_body": {"best_of": 2}}, "tool_choice"),
        ("required", TOOLS, {"vocab": {"lang": "en-odd"}}, "tools"),
    ],
)
def test_what_cannot_be_is_refused_by_its_field(
    service: Service, choice: Any, tools: Any, fields: Any, param: str
) -> None:
    with pytest.raises(openai.BadRequestError) as raised:
        ask(service, choice, tools, **fields)
    assert raised.value.param == param
