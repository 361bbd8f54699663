"""Answers that are JSON in listed words: the field that asks for one, and its schema.

Where a tool has to be called, the model writes what vLLM has it write: the arguments of the tool that is named, else a
list of calls, each of ``name`` and ``parameters``.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final, Literal

from deployments.errors import BadRequestError
from deployments.protocol.structure import DEFINITIONS, SCHEMA_FIELD
from vocab.errors import StructureError
from vocab.matching.structure.schema import PreparedSchema, prepare

_NO_ARGUMENTS: Final[Mapping[str, Any]] = {"type": "object", "properties": {}, "additionalProperties": False}

_SUBSCHEMAS: Final = frozenset({"items", "additionalProperties", "anyOf", "allOf"})
_BY_NAME: Final = frozenset({"properties", *DEFINITIONS})


def json_field(body: Mapping[str, Any]) -> Literal["response_format", "tools"] | None:
    """Return the field of a body by which its answer is JSON; None where it is a text."""
    if body.get("tools") and body.get("tool_choice", "auto") != "none":
        return "tools"
    is_text = (body.get("response_format") or {}).get("type", "text") == "text"
    return None if is_text else "response_format"


def named_tool(body: Mapping[str, Any]) -> str | None:
    """Return the name of the tool that a body's ``tool_choice`` names; None where it names none."""
    choice = body.get("tool_choice")
    return choice["function"]["name"] if isinstance(choice, dict) else None


def listed_schema(body: Mapping[str, Any]) -> tuple[str, PreparedSchema] | None:
    """Return the schema of a body whose answer is JSON in listed words, and the field for its faults; None for a text.

    Raises:
        BadRequestError: It has what cannot stand beside a word list; ``param`` names the member.
    """
    field = json_field(body)
    if field == "tools":
        return field, _prepare(_schema_of_calls(body), field)
    if field is None:
        return None
    form = body["response_format"]
    schema = form["json_schema"]["schema"] if form["type"] == "json_schema" else {"type": "object"}
    return SCHEMA_FIELD, _prepare(schema, SCHEMA_FIELD)


def _prepare(schema: Any, param: str) -> PreparedSchema:
    try:
        return prepare(schema)
    except StructureError as error:
        message = f"'{param}' cannot be written in a word list: {error}."
        raise BadRequestError(message, param, "invalid_schema") from None


def _schema_of_calls(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return the JSON schema of the arguments of the tool that is named, or of a list of calls."""
    if body.get("tool_choice", "auto") == "auto":
        raise BadRequestError(
            "'tool_choice' must be \"required\", \"none\" or a function with 'tools' beside a word list: whether a "
            "tool is called is said beforehand there.",
            "tool_choice",
        )
    if json_field({**body, "tools": []}) is not None:
        message = "'response_format' cannot be combined with tool calls in a word list. Leave one of them out."
        raise BadRequestError(message, "response_format")
    name = named_tool(body)
    called = dict(_called_tools(body["tools"], name))
    if name is not None:
        if name not in called:
            raise BadRequestError("'tool_choice' must name one of the 'tools'.", "tool_choice.function.name")
        return called[name]
    calls: list[dict[str, Any]] = []
    definitions: dict[str, Any] = {}
    for number, (made, schema) in enumerate(called.items()):
        # A reference leads from the beginning of a schema, which another tool's may share no names with.
        moved = _move(schema, str(number))
        for folder in DEFINITIONS:
            of_tool = moved.pop(folder, {})
            definitions |= {f"{number}.{folder}.{key}": one for key, one in of_tool.items()}
        definitions[str(number)] = moved
        members = {"name": {"const": made}, "parameters": {"$ref": f"#/$defs/{number}"}}
        calls.append({"type": "object", "properties": members, "required": [*members]})
    most = {"maxItems": 1} if body.get("parallel_tool_calls") is False else {}
    return {"type": "array", "items": {"anyOf": calls}, "minItems": 1, **most, "$defs": definitions}


def _called_tools(tools: list[dict[str, Any]], name: str | None) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the name and the JSON schema of each tool that may be called: all, or the one of this name."""
    for index, tool in enumerate(tools):
        function, field = tool["function"], f"tools[{index}].function"
        if name is not None and function["name"] != name:
            continue
        if not function.get("strict"):
            message = f"'{field}.strict' must be true for a tool that may be called beside a word list."
            raise BadRequestError(message, f"{field}.strict")
        schema = function.get("parameters") or dict(_NO_ARGUMENTS)
        if schema.get("type", "object") != "object":
            message = f"'{field}.parameters' must be the JSON schema of an object beside a word list."
            raise BadRequestError(message, f"{field}.parameters")
        _prepare(schema, f"{field}.parameters")
        yield function["name"], schema


def _move(schema: Any, place: str) -> Any:
    """Return a checked JSON schema, or a list of them, with references to what is moved to ``place`` in ``$defs``."""
    if isinstance(schema, list):
        return [_move(one, place) for one in schema]
    if not isinstance(schema, dict):
        return schema
    moved = dict(schema)
    for name, value in schema.items():
        if name == "$ref":
            # "#/$defs/a" is at "#/$defs/0.$defs.a" then, and "#" at "#/$defs/0".
            moved[name] = f"#/$defs/{place}{value[1:].replace('/', '.')}"
        elif name in _SUBSCHEMAS:
            moved[name] = _move(value, place)
        elif name in _BY_NAME:
            moved[name] = {key: _move(one, place) for key, one in value.items()}
    return moved
