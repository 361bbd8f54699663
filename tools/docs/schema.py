"""JSON schemas in words: "integer, 1 to 8", "list of up to 4 strings"."""

import json
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

Schema: TypeAlias = Mapping[str, Any]
Link: TypeAlias = Callable[[str], str]
"""Makes Markdown of the name of another schema."""

_NUMBERS: Final = ("integer", "number")
_TYPES: Final = {"boolean": "true or false", "object": "object", "string": "string"}
_FORMATS: Final = {"password": "string, kept secret", "path": "path", "binary": "file"}
_LARGEST: Final = 2**31 - 1
"""A bound that says only that numbers have 32 bits, or more."""


def in_words(schema: Schema, link: Link) -> str:
    """Return the type of a value and its bounds as Markdown, null left out."""
    if "$ref" in schema:
        return link(schema["$ref"].rpartition("/")[2])
    for choice in ("anyOf", "oneOf"):
        if choice in schema:
            return " or ".join(dict.fromkeys(in_words(one, link) for one in schema[choice] if one != {"type": "null"}))
    if "const" in schema:
        return show(schema["const"])
    if "enum" in schema:
        return ", ".join(show(value) for value in schema["enum"] if value is not None)
    kind = schema.get("type")
    if kind in _NUMBERS:
        return str(kind) + _bounds(schema, "minimum", "maximum")
    if kind == "array":
        return _list(schema, link)
    if kind == "object" and isinstance(schema.get("additionalProperties"), Mapping):
        return f"object of {in_words(schema['additionalProperties'], link)}"
    name = _FORMATS.get(str(schema.get("format")), _TYPES.get(str(kind), "anything"))
    length = _bounds(schema, "minLength", "maxLength")
    return f"{name}{length} characters" if length and schema.get("maxLength") else name


def show(value: Any) -> str:
    """Return a value as JSON in code."""
    return f"`{json.dumps(value, ensure_ascii=False)}`"


def prose(description: str) -> str:
    """Return a docstring as Markdown of one paragraph, without the blanks of its lines."""
    return " ".join(description.replace("``", "`").split())


def _list(schema: Schema, link: Link) -> str:
    if "prefixItems" in schema:
        return f"list of {', '.join(in_words(one, link) for one in schema['prefixItems'])}"
    most = f"list, up to {schema['maxItems']:,}, of" if "maxItems" in schema else "list of"
    return f"{most} {in_words(schema.get('items', {}), link)}"


def _bounds(schema: Schema, least: str, most: str) -> str:
    low, high = schema.get(least), schema.get(most)
    above, below = schema.get("exclusiveMinimum"), schema.get("exclusiveMaximum")
    if high is not None and abs(high) >= _LARGEST:
        high = None
        low = low if low is not None and low > -_LARGEST else None
    if low is not None and high is not None:
        return f", {low:,} to {high:,}"
    parts = [(low, "at least"), (high, "at most"), (above, "above"), (below, "below")]
    return "".join(f", {words} {number:,}" for number, words in parts if number is not None)
