"""Which schemas can be written in a word list, and what is said of the others."""

import json
from typing import Any

import pytest

from vocab.errors import StructureError
from vocab.matching.controls import UNLIMITED
from vocab.matching.structure.graph import Graph
from vocab.matching.structure.schema import KEY, MAX_ITEMS, PreparedSchema, StringKind, placeholder, prepare

STRING = {"type": "string"}


def in_object(**members: Any) -> dict[str, Any]:
    return {"type": "object", "properties": members}


def refusal(schema: Any) -> str:
    """Why a schema is refused; empty where it is not."""
    try:
        prepare(schema)
    except StructureError as error:
        return str(error)
    return ""


@pytest.mark.fault(67)
def test_what_cannot_be_written_is_named_by_its_pointer() -> None:
    faults: list[tuple[Any, str]] = [
        (in_object(a={"type": "string", "pattern": "a+"}), "#/properties/a/pattern the strings are written in the"),
        (in_object(a={"type": "string", "format": "date"}), "#/properties/a/format the strings are written in the"),
        (in_object(a={"type": "string", "maxLength": 3}), "#/properties/a/maxLength count words instead"),
        (in_object(a={"type": "string", "minLength": 2}), "#/properties/a/minLength only 0 and 1"),
        (in_object(**{"a/b": {"type": "text"}}), "#/properties/a~1b/type must be one of object, array"),
        ({"type": "array", "items": {"oneOf": [STRING]}}, "#/items/oneOf use 'anyOf'"),
        ({"anyOf": [STRING, {"not": {}}]}, "#/anyOf/1/not is not supported here"),
        ({"allOf": [STRING, STRING]}, "#/allOf only one subschema"),
        ({"anyOf": [STRING], "type": "string"}, "#/type cannot stand beside 'anyOf'"),
        ({"anyOf": []}, "#/anyOf must be a list of at least one schema"),
        ({"enum": []}, "#/enum must be a list of at least one value"),
        ({"type": "string", "enum": ["a", 1]}, "#/enum/1 is not of the 'type' beside it"),
        ({"enum": ["\ud800"]}, "#/enum/0 has half of a surrogate pair"),
        ({"const": placeholder(3)}, "#/const has a character of the private plane"),
        (in_object(**{placeholder(0): STRING}), "#/properties has a character of the private plane"),
        ({"type": "object", "properties": {}, "required": ["a"]}, "#/required/0 is not one of the 'properties'"),
        ({"type": "object", "required": "a"}, "#/required must be a list of names"),
        ({"type": "object", "patternProperties": {}}, "#/patternProperties is not supported here"),
        ({"type": "array", "minItems": 2, "maxItems": 1}, "#/minItems is more than 'maxItems'"),
        ({"type": "array", "minItems": -1}, "#/minItems must be a whole number of at least 0"),
        ({"type": "array", "maxItems": 1.5}, "#/maxItems must be a whole number of at least 0"),
        ({"type": "array", "uniqueItems": True}, "#/uniqueItems is not supported here"),
        ({"type": "integer", "multipleOf": 2}, "#/multipleOf leave it out"),
        ({"type": "integer", "minimum": "1"}, "#/minimum must be a number between"),
        ({"type": "number", "maximum": float("inf")}, "#/maximum must be a number between"),
        ({"type": []}, "#/type must be one of object, array"),
        ({"$ref": 1}, "#/$ref must be a string"),
        ({"$ref": "#/$defs/a", "$defs": []}, "#/$defs must be an object"),
        ({"type": "string", "nullable": True}, "#/nullable is not JSON Schema"),
        ([], "# must be an object"),
        (in_object(a=False), "#/properties/a must be an object"),
        ({"type": "string", "x-vocab": {"lang": "en"}}, "#/x-vocab/lang is not known: there are end, punctuation"),
        ({"type": "string", "x-vocab": {"end": "line"}}, "#/x-vocab/end must be 'word' or 'sentence'"),
        ({"type": "string", "x-vocab": {"punctuation": "full"}}, "#/x-vocab/punctuation must be 'none' or 'basic'"),
        (
            {"type": "string", "x-vocab": {"punctuation": "none", "end": "sentence"}},
            "#/x-vocab/end cannot be 'sentence' without marks",
        ),
        ({"type": "string", "x-vocab": {"max_words": 0}}, "#/x-vocab/max_words must be a whole number of at least 1"),
        ({"type": "string", "x-vocab": {"max_words": 2, "min_sentences": 2}}, "#/x-vocab/min_sentences is more than"),
        ({"type": "string", "x-vocab": 1}, "#/x-vocab must be an object"),
        ({"type": "integer", "x-vocab": {}}, "#/x-vocab is not supported here"),
    ]
    wrong = [(message, said) for schema, message in faults if not (said := refusal(schema)).startswith(message)]
    assert not wrong


def test_a_long_pointer_is_truncated() -> None:
    said = refusal(in_object(**{"n\n" * 500: {"type": "string", "pattern": "a"}}))
    assert said and len(said) < 300
    assert "\n" not in said


def test_a_schema_in_too_many_others_is_refused() -> None:
    schema: Any = STRING
    for _ in range(70):
        schema = {"type": "array", "items": schema}
    assert "is nested in more than 64 others" in refusal(schema)


def test_strings_become_placeholders_by_how_they_are_written() -> None:
    short = {"type": "string", "x-vocab": {"end": "word", "max_words": 3}}
    prepared = prepare(in_object(a=STRING, b=short, c=short, d={"type": ["string", "null"]}, e={"enum": ["x"]}))
    assert prepared.kinds == (KEY, StringKind(), StringKind(end="word", max_words=3, max_sentences=1))
    members = json.loads(prepared.text)["properties"]
    assert members["a"] == {"const": placeholder(1)}
    assert members["b"] == members["c"] == {"const": placeholder(2)}
    assert members["d"] == {"anyOf": [{"const": placeholder(1)}, {"type": "null"}]}
    assert members["e"] == {"enum": ["x"]}


def test_a_prepared_schema_is_the_same_after_its_journey() -> None:
    prepared = prepare(in_object(a={"type": "string", "x-vocab": {"max_sentences": 10**12}}, ñ=STRING))
    assert PreparedSchema.from_text(prepared.to_text()) == prepared
    assert prepared.to_text().isascii()
    assert prepared.kinds == (KEY, StringKind(max_sentences=UNLIMITED))


def test_what_pydantic_and_zod_write_is_taken() -> None:
    """Of ``model_json_schema()`` and ``zodResponseFormat``, as their current releases write them."""
    prepare(
        {
            "$defs": {
                "Colour": {"enum": ["red", "blue"], "title": "Colour", "type": "string"},
                "Item": {
                    "properties": {
                        "colour": {"$ref": "#/$defs/Colour", "description": "its colour"},
                        "note": {"anyOf": [{"type": "string"}, {"type": "null"}], "default": None, "title": "Note"},
                        "more": {"additionalProperties": {"type": "integer"}, "title": "More", "type": "object"},
                    },
                    "required": ["colour", "more"],
                    "title": "Item",
                    "type": "object",
                },
            },
            "properties": {"items": {"items": {"$ref": "#/$defs/Item"}, "minItems": 1, "type": "array"}},
            "required": ["items"],
            "title": "Sheet",
            "type": "object",
        }
    )
    prepare(
        {
            "type": "object",
            "properties": {"name": {"type": ["string", "null"]}, "age": {"type": "number", "minimum": 0}},
            "required": ["name", "age"],
            "additionalProperties": False,
            "$schema": "http://json-schema.org/draft-07/schema#",
        }
    )


def test_a_huge_bound_is_no_bound() -> None:
    prepared = prepare({"type": "array", "items": STRING, "maxItems": 10**30})
    assert "maxItems" not in json.loads(prepared.text)
    assert prepare({"type": "array", "minItems": MAX_ITEMS + 5})


def test_what_the_library_cannot_read_is_refused() -> None:
    for bounds in ({"minimum": 5, "maximum": 2}, {"exclusiveMinimum": 1, "maximum": 1}):
        with pytest.raises(StructureError, match="cannot be compiled"):
            Graph.of(prepare({"type": "integer", **bounds}))


def test_two_hundred_members_and_ten_thousand_values_make_a_graph() -> None:
    many = Graph.of(prepare(in_object(**{f"member_{i}": STRING for i in range(200)})))
    values = Graph.of(prepare({"enum": [f"value {i}" for i in range(10_000)]}))
    assert sum(len(node.strings) for node in many.nodes) >= 200
    assert len(values.nodes) > 10_000
