"""Checks the fields that give an answer a structure: tools, JSON schemas and choices.

A regular expression or a grammar written by the client is refused: it would have to be compiled in a process that can
be killed. Whether a schema can be compiled is not known here.
"""

from typing import Any, Final

from deployments.fields import Check, FieldError, at, boolean, json_object, list_of, one_of, string
from deployments.limits import Limits
from deployments.strict_json import JsonError, loads

_MAX_NAME_CHARS: Final = 256
_KINDS: Final = ("json", "choice", "json_object")
_SWITCHES: Final = ("disable_any_whitespace", "disable_additional_properties")


def response_format(value: Any) -> dict[str, Any]:
    format_ = json_object(value)
    kind = at(".type", one_of("text", "json_object", "json_schema"), format_.get("type"))
    if kind != "json_schema":
        return {"type": kind}
    wrapper = at(".json_schema", json_object, format_.get("json_schema"))
    checked: dict[str, Any] = {
        "name": at(".json_schema.name", string(1, _MAX_NAME_CHARS), wrapper.get("name")),
        "schema": at(".json_schema.schema", json_object, wrapper.get("schema")),
    }
    if wrapper.get("strict") is not None:
        checked["strict"] = at(".json_schema.strict", boolean, wrapper["strict"])
    return {"type": "json_schema", "json_schema": checked}


def structured_outputs(limits: Limits) -> Check:
    choice = list_of(string(1, limits.max_stop_chars), limits.max_choices, min_items=1)

    def check(value: Any) -> dict[str, Any]:
        given = {name: member for name, member in json_object(value).items() if member is not None}
        if not given.keys() <= {*_KINDS, *_SWITCHES} or len(given.keys() & set(_KINDS)) != 1:
            raise FieldError(
                f"an object with exactly one of {', '.join(_KINDS)}: other structured outputs are not supported here"
            )
        checks = {"json": lambda schema: _schema(schema, limits), "choice": choice}
        return {name: at(f".{name}", checks.get(name, boolean), member) for name, member in given.items()}

    return check


def _schema(value: Any, limits: Limits) -> dict[str, Any]:
    """A JSON schema, as an object or as JSON in a string."""
    if isinstance(value, str):
        try:
            value = loads(value.encode(), limits.max_json_depth)
        except JsonError as error:
            raise FieldError(f"a JSON schema ({error})") from None
    return json_object(value)


def tools(limits: Limits) -> Check:
    return list_of(_tool, limits.max_tools)


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
