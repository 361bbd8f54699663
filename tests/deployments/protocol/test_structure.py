"""What a JSON schema of the client's, which the engine compiles, may hold.

It has no regular expression, it is of bounded size, and its references lead to a definition that a finite value fits.
"""

import json
import time
from enum import Enum
from typing import Any, Literal, Optional

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field

from deployments.errors import ApiError
from tests.deployments.protocol.readers import not_taken, read_chat, refusal, refused_otherwise

LOOP = {"$ref": "#/$defs/a"}
SLOW = "(a?){1,30000}b"


def everywhere(schema: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """The schema in each field that may hold one, and the place."""
    tool = {"type": "function", "function": {"name": "look", "parameters": schema}}
    wrapper = {"type": "json_schema", "json_schema": {"name": "a", "schema": schema}}
    return [
        ("response_format.json_schema.schema", {"response_format": wrapper}),
        ("structured_outputs.json", {"structured_outputs": {"json": schema}}),
        ("tools", {"tools": [tool], "tool_choice": "required"}),
    ]


def refused_elsewhere(schemas: list[tuple[dict[str, Any], str]]) -> list[str]:
    """Those that a field takes, or refuses with another message than one with this part."""
    return refused_otherwise((fields, place, part) for schema, part in schemas for place, fields in everywhere(schema))


def test_a_keyword_that_could_keep_the_engine_busy_is_refused() -> None:
    slow: dict[str, Any] = {"type": "string", "pattern": SLOW}
    schemas: list[tuple[dict[str, Any], str]] = [
        (slow, "'pattern'"),
        ({"type": "object", "properties": {"a": {"anyOf": [slow]}}}, "'pattern'"),
        ({"$ref": "#/default", "default": slow}, "'pattern'"),
        ({"$ref": "#/enum/0", "enum": [slow]}, "'pattern'"),
        ({"type": "object", "patternProperties": {SLOW: {}}}, "'patternProperties'"),
        ({"type": "object", "propertyNames": {"pattern": SLOW}}, "'propertyNames'"),
        ({"type": "object", "minProperties": 100}, "'minProperties'"),
        ({"type": "object", "maxProperties": 1.0}, "'maxProperties'"),
    ]
    assert not refused_elsewhere(schemas)
    for schema, _ in schemas:
        assert not any(SLOW in refusal(**fields).message for _, fields in everywhere(schema))


@pytest.mark.fault(67)
def test_a_schema_that_is_too_large_is_refused() -> None:
    schemas: list[tuple[dict[str, Any], str]] = [
        ({"type": "object", "properties": {f"p{i}": {} for i in range(1000)}}, "1000 names and values"),
        ({"enum": ["x" * 40_000]}, "characters"),
        ({"type": "object", "properties": {"x" * 40_000: {}}}, "characters"),
        ({"anyOf": [{"type": "string", "maxLength": 500}] * 5}, "2000 together"),
        ({"type": "array", "minItems": 10**9}, "2000 together"),
    ]
    assert not refused_elsewhere(schemas)


@pytest.mark.fault(29)
def test_choices_are_bounded_together() -> None:
    read_chat(structured_outputs={"choice": ["x" * 30] * 1000})
    assert refusal(structured_outputs={"choice": ["x" * 256] * 1000}).param == "structured_outputs.choice"


def test_a_reference_that_leads_nowhere_is_refused_with_its_place() -> None:
    references: list[tuple[dict[str, Any], str, str]] = [
        ({"$ref": "#"}, "#/$ref", "leads back"),
        ({"allOf": [{"$ref": "#"}]}, "#/allOf/0/$ref", "leads back"),
        ({"anyOf": [{"$ref": "#"}]}, "#/anyOf/0/$ref", "leads back"),
        ({**LOOP, "$defs": {"a": {"$ref": "#/$defs/a"}}}, "#/$ref", "leads back"),
        ({**LOOP, "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}}, "#/$ref", "leads back"),
        ({**LOOP, "$defs": {"a": {"allOf": [{"type": "object"}, LOOP]}}}, "#/$ref", "leads back"),
        ({"properties": {"a": {"$ref": "#"}}, "required": ["a"]}, "#/properties/a/$ref", "leads back"),
        ({"type": "array", "items": {"$ref": "#"}, "minItems": 1}, "#/items/$ref", "leads back"),
        ({"type": "object", "properties": {"x/y~": LOOP}, "$defs": {"a": LOOP}}, "#/properties/x~1y~0/$ref", "leads"),
        (LOOP, "#/$ref", "nothing in '$defs'"),
        ({**LOOP, "$defs": {"a": 7}}, "#/$ref", "nothing in '$defs'"),
        ({**LOOP, "$defs": []}, "#/$ref", "nothing in '$defs'"),
        ({"$ref": "#/$defs/a~1b", "$defs": {"a/b": {}}}, "#/$ref", "nothing in '$defs'"),
        ({"$ref": "#/properties/a", "properties": {"a": {}}}, "#/$ref", "is neither"),
        ({"$ref": "#/$defs/a/b", "$defs": {"a": {"b": {}}}}, "#/$ref", "is neither"),
        ({"$ref": "https://example.com/#/$defs/a", "$defs": {"a": {}}}, "#/$ref", "is neither"),
        ({"$ref": "a"}, "#/$ref", "is neither"),
        ({"$ref": ""}, "#/$ref", "is neither"),
        ({"$ref": "#" + "/a" * 10_000}, "#/$ref", "is neither"),
        ({"$ref": "#/$defs/" + "a" * 129, "$defs": {"a" * 129: {}}}, "#/$ref", "is neither"),
        ({"properties": {"p" * 30_000: {"$ref": "a"}}}, "#/properties/" + "p" * 110, "is neither"),
    ]
    for schema, place, reason in references:
        # As a client's arrives: no object stands in two places.
        for param, fields in everywhere(json.loads(json.dumps(schema))):
            assert not refused_otherwise([(fields, param, place), (fields, param, reason)])
            assert len(refusal(**fields).message) < 500


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Leaf(BaseModel):
    name: str = Field(description="What it is called.")
    colour: Colour
    weight: float | None = None


class Tree(BaseModel):
    kind: Literal["tree"]
    leaf: Leaf
    children: list["Tree"]
    parent: Optional["Tree"] = None
    by_name: dict[str, Leaf] = {}


FRIENDLY: list[dict[str, Any]] = [
    Tree.model_json_schema(),
    {"type": "object", "properties": {"children": {"type": "array", "items": {"$ref": "#"}}}, "required": ["children"]},
    {"properties": {"next": {"anyOf": [{"$ref": "#"}, {"type": "null"}]}}, "required": ["next"]},
    # As OpenAI's client for JavaScript writes it.
    {
        "type": "object",
        "properties": {"step": {"$ref": "#/definitions/step"}},
        "required": ["step"],
        "definitions": {"step": {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}},
    },
    {"anyOf": [{"$ref": "#"}, {"type": "string"}]},
    {"type": "object", "properties": {"$ref": {"type": "string"}, "allOf": {"type": "integer"}}, "required": ["$ref"]},
    {"properties": {"a": {"$ref": "#/$defs/yes"}}, "required": ["a", "b"], "$defs": {"yes": True}},
    {"type": ["object", "null"], "properties": {"a": {"$ref": "#"}}, "required": ["a"]},
    {"type": "array", "items": {"$ref": "#"}},
    {"oneOf": [], "anyOf": [True, {"$ref": "#"}]},
    # Members that have the names of keywords.
    {
        "type": "object",
        "properties": {
            name: {"type": "string", "maxLength": 100} for name in ("pattern", "minProperties", "maxLength", "format")
        },
        "required": ["pattern"],
        "additionalProperties": False,
    },
    # A form of a hundred members.
    {
        "type": "object",
        "properties": {f"member_{i}": {"type": "string", "description": "What it says."} for i in range(100)},
        "required": [f"member_{i}" for i in range(100)],
    },
]


def test_schemas_that_clients_write_are_accepted() -> None:
    assert not not_taken(fields for schema in FRIENDLY for _, fields in everywhere(schema))


def test_the_largest_schema_is_checked_in_little_time() -> None:
    """A chain of definitions in the worst order, each of which needs the next."""
    chain = {f"d{i}": {"allOf": [{"$ref": f"#/$defs/d{i + 1}"}]} for i in range(140)}
    schema = {"$ref": "#/$defs/d0", "$defs": {**chain, "d140": {}}}
    start = time.process_time()
    read_chat(structured_outputs={"json": schema})
    assert time.process_time() - start < 0.5


NAMES = st.sampled_from(["a", "b", "$ref", "allOf"])
REFERENCES = st.sampled_from(["#", "#/$defs/a", "#/$defs/b", "#/definitions/a", "#/$defs/c", "#/a/b", ""])


def _larger(parts: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    several = st.lists(parts, max_size=3)
    named = st.dictionaries(NAMES, parts, max_size=3)
    return st.fixed_dictionaries(
        {},
        optional={
            "$ref": REFERENCES | parts,
            "allOf": several | parts,
            "anyOf": several,
            "oneOf": several,
            "type": st.sampled_from(["object", "array", "string"]),
            "properties": named | parts,
            "required": st.lists(NAMES | st.integers()) | st.none(),
            "items": parts,
            "minItems": st.integers(-1, 2) | st.booleans(),
            "$defs": named | parts,
            "definitions": named,
        },
    )


SCHEMAS = st.recursive(
    st.booleans() | st.none() | st.fixed_dictionaries({"$ref": REFERENCES}) | st.just({"type": "string"}),
    _larger,
    max_leaves=12,
).filter(lambda schema: isinstance(schema, dict))


@given(schema=SCHEMAS)
def test_random_references_are_accepted_or_refused_as_the_callers_mistake(schema: dict[str, Any]) -> None:
    for param, fields in everywhere(schema):
        try:
            read_chat(**fields)
        except ApiError as refused:
            assert refused.status == 400
            assert (refused.param or "").startswith(param.partition(".")[0])
