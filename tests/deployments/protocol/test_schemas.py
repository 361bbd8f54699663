"""References in a JSON schema lead to a definition that a finite value fits, or are refused with their place."""

import json
import time
from enum import Enum
from typing import Any, Literal, Optional

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field
from pydantic_core import PydanticCustomError

from deployments.errors import ApiError, BadRequestError
from deployments.protocol.reader import ChatRequestReader
from deployments.protocol.structure import check_references, check_size
from tests.deployments.front import LIMITS, MODEL, chat_body
from tests.deployments.protocol.test_structure import everywhere

READER = ChatRequestReader(MODEL, LIMITS)
LOOP = {"$ref": "#/$defs/a"}


def refusal_of(schema: dict[str, Any]) -> str | None:
    try:
        check_size(schema)
        check_references(schema)
    except PydanticCustomError as refused:
        return refused.message()
    return None


@pytest.mark.parametrize(
    ("schema", "place", "reason"),
    [
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
    ],
)
def test_a_reference_that_leads_nowhere_is_refused_with_its_place(
    schema: dict[str, Any], place: str, reason: str
) -> None:
    # As a client's arrives: no object stands in two places.
    for param, fields in everywhere(json.loads(json.dumps(schema))):
        with pytest.raises(ApiError) as refused:
            READER.read(chat_body(**fields))
        assert isinstance(refused.value, BadRequestError)
        assert refused.value.param == param
        assert place in refused.value.message
        assert reason in refused.value.message
        assert len(refused.value.message) < 500


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
    Leaf.model_json_schema(),
    Tree.model_json_schema(),
    # OpenAI's own examples of recursive schemas.
    {
        "type": "object",
        "properties": {
            "type": {"type": "string", "enum": ["div", "button"]},
            "label": {"type": "string"},
            "children": {"type": "array", "items": {"$ref": "#"}},
        },
        "required": ["type", "label", "children"],
        "additionalProperties": False,
    },
    {
        "type": "object",
        "properties": {"linked_list": {"$ref": "#/$defs/linked_list_node"}},
        "$defs": {
            "linked_list_node": {
                "type": "object",
                "properties": {
                    "value": {"type": "number"},
                    "next": {"anyOf": [{"$ref": "#/$defs/linked_list_node"}, {"type": "null"}]},
                },
                "additionalProperties": False,
                "required": ["next", "value"],
            }
        },
        "additionalProperties": False,
        "required": ["linked_list"],
    },
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
]


@pytest.mark.parametrize("schema", FRIENDLY)
def test_schemas_that_clients_write_are_accepted(schema: dict[str, Any]) -> None:
    for _, fields in everywhere(schema):
        READER.read(chat_body(**fields))


def test_the_largest_schema_is_checked_in_little_time() -> None:
    """A chain of definitions in the worst order, each of which needs the next."""
    chain = {f"d{i}": {"allOf": [{"$ref": f"#/$defs/d{i + 1}"}]} for i in range(140)}
    schema = {"$ref": "#/$defs/d0", "$defs": {**chain, "d140": {}}}
    start = time.process_time()
    assert refusal_of(schema) is None
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
            READER.read(chat_body(**fields))
        except ApiError as refused:
            assert refused.status == 400
            assert (refused.param or "").startswith(param.partition(".")[0])
