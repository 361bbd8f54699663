"""Tools beside a word list: which may be called, and the schema of what the model writes."""

import json
from functools import partial
from typing import Any

import pytest

from deployments.contract import ResolvedVocabulary
from deployments.errors import ApiError
from deployments.protocol.listed_json import json_field, listed_schema
from deployments.protocol.reader import check_max_tokens
from tests.deployments.protocol.readers import read_chat, refused_otherwise
from tests.vocab.toys import word_list
from vocab.matching.structure.answers import AnswerReader
from vocab.matching.structure.schema import PreparedSchema, StringKind, prepare
from vocab.options import DEFAULT_OPTIONS
from vocab.text.reader import TextReader

TEXT = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}


def tool(name: str, parameters: Any = TEXT, *, strict: Any = True) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, "parameters": parameters, "strict": strict}}


def named(name: str) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name}}


def read(*tools: Any, choice: Any = "required", **fields: Any) -> dict[str, Any]:
    return read_chat(tools=list(tools), tool_choice=choice, vocab={"lang": "en"}, **fields).body


def prepared(*tools: Any, choice: Any = "required", **fields: Any) -> PreparedSchema:
    found = listed_schema(read(*tools, choice=choice, **fields))
    assert found is not None
    assert found[0] == "tools"
    return found[1]


def fits(schema: PreparedSchema, value: Any) -> bool:
    """Return whether JSON is an answer of a schema in a list of one word."""
    words = TextReader(word_list(["dog"], "en"), DEFAULT_OPTIONS, 1)
    text = json.dumps(value)
    return AnswerReader(schema, lambda _: words).whole_prefix_length(text) == len(text)


def call(name: str, **arguments: Any) -> dict[str, Any]:
    return {"name": name, "parameters": arguments}


def test_the_tool_that_is_named_has_its_arguments_written() -> None:
    assert prepared(tool("say"), tool("free", strict=None), choice=named("say")) == prepare(TEXT)


def test_one_of_all_tools_has_to_be_called() -> None:
    schema = prepared(tool("say"), tool("wait", None))
    for value in ([call("say", text="dog")], [call("wait"), call("say", text="Dog"), call("wait")]):
        assert fits(schema, value)
    for value in ([], [call("say")], [call("say", text="cat")], [call("wait", text="dog")], [call("dog", text="dog")]):
        assert not fits(schema, value)
    assert not fits(prepared(tool("wait", {}), parallel_tool_calls=False), [call("wait")] * 2)


def test_definitions_and_references_belong_to_their_tool() -> None:
    def of(definition: Any, folder: str) -> Any:
        more = {"anyOf": [{"type": "null"}, {"$ref": "#"}]}
        members = {"$ref": {"$ref": f"#/{folder}/A"}, "enum": {"enum": [{"$ref": "#"}]}, "more": more}
        return {"type": "object", "properties": members, folder: {"A": definition}}

    schema = prepared(tool("x", of({"const": 1}, "$defs")), tool("y", of({"const": 2}, "definitions")))
    kept: Any = {"enum": {"$ref": "#"}}
    for name, number in (("x", 1), ("y", 2)):
        inner = {**kept, "$ref": number}
        assert fits(schema, [call(name, **inner, more={**inner, "more": None})])
        assert not fits(schema, [call(name, **kept, **{"$ref": 3 - number})])
        assert not fits(schema, [call(name, **inner, more={**inner, "$ref": 3 - number})])


def test_kinds_of_strings_are_those_of_all_tools() -> None:
    short = {"type": "object", "properties": {"a": {"type": "string", "x-vocab": {"max_words": 2}}}}
    assert StringKind(max_words=2, max_sentences=1) in prepared(tool("x"), tool("y", short)).kinds


def test_what_cannot_stand_beside_calls_in_a_list_is_named() -> None:
    faults: list[tuple[dict[str, Any], str, str]] = [
        ({"choice": "auto"}, "tool_choice", '"required", "none" or a function'),
        ({"choice": None}, "tool_choice", '"required", "none" or a function'),
        ({"choice": named("unknown")}, "tool_choice.function.name", "one of the 'tools'"),
        ({"response_format": {"type": "json_object"}}, "response_format", "cannot be combined with tool calls"),
        ({"stop": "a"}, "stop", "cannot be combined with JSON in a word list"),
        ({"num_beams": 2}, "tool_choice", "cannot be combined with 'num_beams'"),
        ({"no_repeat_ngram_size": 2}, "no_repeat_ngram_size", "cannot be combined with JSON"),
    ]
    assert not refused_otherwise(faults, partial(read, tool("say")))


def test_a_tool_that_no_list_can_write_is_named() -> None:
    dated = {"properties": {"a": {"type": "string", "format": "date"}}}
    for wrong, member, part in (
        (tool("b", strict=None), "strict", "must be true"),
        (tool("b", strict=False), "strict", "must be true"),
        (tool("b", {"type": "string"}), "parameters", "schema of an object"),
        (tool("b", dated), "parameters", "#/properties/a/format"),
    ):
        choices = [({"choice": choice}, f"tools[1].function.{member}", part) for choice in ("required", named("b"))]
        assert not refused_otherwise(choices, partial(read, tool("a"), wrong))
        assert listed_schema(read(tool("a"), wrong, choice="none")) is None
        assert listed_schema(read(tool("a"), wrong, choice=named("a"))) is not None


def test_without_a_call_the_answer_is_a_text() -> None:
    resolved = ResolvedVocabulary(digest="d", options=DEFAULT_OPTIONS, lang="en", n_words=1, fewest_tokens=5)
    for choice, is_text in (("none", True), ("required", False)):
        request = read_chat(tools=[tool("a")], tool_choice=choice, vocab={"lang": "en"}, max_tokens=4)
        assert (json_field(request.body) is None) == is_text
        if is_text:
            with pytest.raises(ApiError, match="must be at least 5"):
                check_max_tokens(request, resolved)
        else:
            check_max_tokens(request, resolved)


def test_without_a_list_tools_are_the_engines() -> None:
    body = read_chat(tools=[tool("a", {"type": "string", "format": "date"}, strict=None)]).body
    assert "tool_choice" not in body
