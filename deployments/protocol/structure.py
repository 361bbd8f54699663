"""Checks the fields that give an answer a structure: tools, JSON schemas and choices.

A regular expression or a grammar written by the client is refused: it would have to be compiled in a process that can
be killed. What a JSON schema may hold is ``deployments.protocol.schemas``'s to say.
"""

from typing import Any, Final

from deployments.limits import Limits
from deployments.protocol.fields import Check, FieldError, at, boolean, json_object, list_of, one_of, string
from deployments.protocol.schemas import check_schemas, json_schema
from deployments.protocol.strict_json import JsonError, loads

_MAX_NAME_CHARS: Final = 256
_KINDS: Final = ("json", "choice", "json_object")
_SWITCHES: Final = ("disable_any_whitespace", "disable_additional_properties")


def response_format(limits: Limits) -> Check:
    schema = json_schema(limits)

    def check(value: Any) -> dict[str, Any]:
        format_ = json_object(value)
        kind = at(".type", one_of("text", "json_object", "json_schema"), format_.get("type"))
        if kind != "json_schema":
            return {"type": kind}
        wrapper = at(".json_schema", json_object, format_.get("json_schema"))
        checked: dict[str, Any] = {
            "name": at(".json_schema.name", string(1, _MAX_NAME_CHARS), wrapper.get("name")),
            "schema": at(".json_schema.schema", schema, wrapper.get("schema")),
        }
        if wrapper.get("strict") is not None:
            checked["strict"] = at(".json_schema.strict", boolean, wrapper["strict"])
        return {"type": "json_schema", "json_schema": checked}

    return check


def structured_outputs(limits: Limits) -> Check:
    choice = list_of(string(1, limits.max_stop_chars), limits.max_choices, min_items=1)

    def check(value: Any) -> dict[str, Any]:
        given = {name: member for name, member in json_object(value).items() if member is not None}
        if not given.keys() <= {*_KINDS, *_SWITCHES} or len(given.keys() & set(_KINDS)) != 1:
            raise FieldError(
                f"an object with exactly one of {', '.join(_KINDS)}: other structured outputs are not supported here"
            )
        checks = {"json": lambda schema: _schema(schema, limits), "choice": choice}
        checked = {name: at(f".{name}", checks.get(name, boolean), member) for name, member in given.items()}
        if sum(map(len, checked.get("choice", ()))) > limits.max_schema_chars:
            raise FieldError(f"choices of at most {limits.max_schema_chars} characters together", ".choice")
        return checked

    return check


def _schema(value: Any, limits: Limits) -> dict[str, Any]:
    """A JSON schema, as an object or as JSON in a string."""
    if isinstance(value, str):
        try:
            value = loads(value.encode(), limits.max_json_depth)
        except JsonError as error:
            raise FieldError(f"a JSON schema ({error})") from None
    schema: dict[str, Any] = json_schema(limits)(value)
    return schema


def tools(limits: Limits) -> Check:
    one_by_one = list_of(_tool, limits.max_tools)

    def check(value: Any) -> list[dict[str, Any]]:
        checked: list[dict[str, Any]] = one_by_one(value)
        # Where a tool must be used, the engine compiles the schemas of all of them as one.
        check_schemas([tool["function"].get("parameters") for tool in checked], limits)
        return checked

    return check


def _tool(value: Any) -> dict[str, Any]:
    tool = json_object(value)
    at(".type", one_of("function"), tool.get("type"))
    function = at(".function", json_object, tool.get("function"))
    checked: dict[str, Any] = {"name": at(".function.name", string(1, _MAX_NAME_CHARS), function.get("name"))}
    for name, check in (("description", string(0, 2**20)), ("parameters", json_object), ("strict", boolean)):
        if function.get(name) is not None:
            checked[name] = at(f".function.{name}", check, function[name])
    return {"type": "function", "function": checked}


def tool_choice(value: Any) -> str | dict[str, Any]:
    if isinstance(value, str):
        checked: str = one_of("none", "auto", "required")(value)
        return checked
    choice = json_object(value)
    at(".type", one_of("function"), choice.get("type"))
    function = at(".function", json_object, choice.get("function"))
    name = at(".function.name", string(1, _MAX_NAME_CHARS), function.get("name"))
    return {"type": "function", "function": {"name": name}}
