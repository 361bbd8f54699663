"""Row 22 of the faults: a JSON schema of the client's, which the engine compiles, holds no regular expression."""

from typing import Any

import pytest

from deployments.errors import ApiError
from deployments.protocol.reader import ChatRequestReader
from tests.deployments.front import LIMITS, MODEL, chat_body

READER = ChatRequestReader(MODEL, LIMITS)
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


def assert_refused(schema: dict[str, Any], part: str) -> None:
    for place, fields in everywhere(schema):
        with pytest.raises(ApiError) as refused:
            READER.read(chat_body(**fields))
        assert (refused.value.status, refused.value.param) == (400, place)
        assert part in refused.value.message
        assert SLOW not in refused.value.message


@pytest.mark.parametrize(
    ("schema", "keyword"),
    [
        ({"type": "string", "pattern": SLOW}, "pattern"),
        ({"type": "object", "properties": {"a": {"anyOf": [{"type": "string", "pattern": SLOW}]}}}, "pattern"),
        ({"$ref": "#/default", "default": {"pattern": SLOW, "type": "string"}}, "pattern"),
        ({"$ref": "#/enum/0", "enum": [{"pattern": SLOW, "type": "string"}]}, "pattern"),
        ({"type": "object", "patternProperties": {SLOW: {}}}, "patternProperties"),
        ({"type": "object", "propertyNames": {"pattern": SLOW}}, "propertyNames"),
        ({"type": "object", "minProperties": 100}, "minProperties"),
        ({"type": "object", "maxProperties": 1.0}, "maxProperties"),
    ],
)
def test_a_keyword_that_could_keep_the_engine_busy_is_refused(schema: dict[str, Any], keyword: str) -> None:
    assert_refused(schema, f"'{keyword}'")


@pytest.mark.parametrize(
    ("schema", "part"),
    [
        ({"type": "object", "properties": {f"p{i}": {} for i in range(1000)}}, "1000 names and values"),
        ({"enum": ["x" * 40_000]}, "characters"),
        ({"type": "object", "properties": {"x" * 40_000: {}}}, "characters"),
        ({"anyOf": [{"type": "string", "maxLength": 500}] * 5}, "2000 together"),
        ({"type": "array", "minItems": 10**9}, "2000 together"),
    ],
)
def test_a_schema_that_is_too_large_is_refused(schema: dict[str, Any], part: str) -> None:
    assert_refused(schema, part)


def test_choices_are_bounded_together() -> None:
    READER.read(chat_body(structured_outputs={"choice": ["x" * 30] * 1000}))
    with pytest.raises(ApiError) as refused:
        READER.read(chat_body(structured_outputs={"choice": ["x" * 256] * 1000}))
    assert refused.value.param == "structured_outputs.choice"


def test_a_member_may_have_the_name_of_a_keyword() -> None:
    named = ("pattern", "minProperties", "maxLength", "format")
    schema = {
        "type": "object",
        "properties": {name: {"type": "string", "maxLength": 100} for name in named},
        "required": ["pattern"],
        "additionalProperties": False,
    }
    for _, fields in everywhere(schema):
        READER.read(chat_body(**fields))


def test_a_form_of_a_hundred_members_is_accepted() -> None:
    members = {f"member_{i}": {"type": "string", "description": "What it says."} for i in range(100)}
    for _, fields in everywhere({"type": "object", "properties": members, "required": list(members)}):
        READER.read(chat_body(**fields))
