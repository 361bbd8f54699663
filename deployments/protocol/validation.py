"""The base of all models of requests, and the translation of pydantic's errors into ours.

Where a bound is one of the service's limits, a field has ``AtMost("max_n")``: it is read from the context of the
validation, and put into the JSON schema. Errors are described by the field's JSON schema, which the OpenAPI document
shows too, so that what is checked, published and answered cannot differ.
"""

import difflib
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, Final, TypeAlias, TypeVar, cast

from pydantic import (
    BaseModel,
    ConfigDict,
    Discriminator,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    ValidationError,
    ValidationInfo,
    model_validator,
)
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from deployments.errors import BadRequestError, printable
from deployments.settings.limits import Limits

INT32_MAX: Final = 2**31 - 1
INT64_MAX: Final = 2**63 - 1

ModelName = Annotated[str, Field(min_length=1, max_length=1024)]

_MAX_LISTED: Final = 30
"""The members of a larger model are not listed in an error."""

_SIZES: Final = (("min", "at least"), ("max", "at most"))

_LIMIT: Final = "x-limit"
_BOUNDS: Final = {"integer": "maximum", "string": "maxLength", "array": "maxItems"}
"""The keyword of JSON schema for the most of a type."""

Schema = dict[str, Any]

Info: TypeAlias = "ValidationInfo[Limits]"
"""The type of the second argument of validators."""


Function = TypeVar("Function", bound=Callable[..., Any])


def _cached(function: Function) -> Function:
    # Keeps the function's type; under ``cache`` mypy does not take a class for hashable.
    return cast("Function", cache(function))


@dataclass(frozen=True)
class AtMost:
    """In ``Annotated``: the largest number, length or size is this field of ``Limits``, the validation's context."""

    limit: str

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        # Before the items of a list: pydantic checks them first.
        return core_schema.with_info_before_validator_function(self._check, handler(source))

    def __get_pydantic_json_schema__(self, core: CoreSchema, handler: GetJsonSchemaHandler) -> Schema:
        return {**handler(core), _LIMIT: self.limit}

    def _check(self, value: Any, info: Info) -> Any:
        size = len(value) if isinstance(value, str | list | dict) else value
        if isinstance(size, int | float) and size > getattr(info.context, self.limit):
            raise PydanticCustomError("at_most", "too large")
        return value


def at_most(number: int) -> Any:
    """Return the field of a list or an object of so many items, which is read up to its first fault."""
    return Field(max_length=number, fail_fast=True)


def _kind(value: Any) -> str:
    # A model when it is serialized.
    if isinstance(value, dict | BaseModel):
        return "an object"
    return "a list" if isinstance(value, list) else "a scalar"


by_kind: Final = Discriminator(_kind)
"""Tells the types of a union apart, so that an error is of the type that was meant."""


class Body(BaseModel):
    """Part of a body: no other members, no conversions but from whole numbers to floats, null is the same as missing.

    ``x-expected`` in a field's JSON schema replaces the description of the schema in errors.
    """

    model_config = ConfigDict(
        strict=True,
        extra="forbid",
        frozen=True,
        allow_inf_nan=False,
        serialize_by_alias=True,
        use_attribute_docstrings=True,
    )

    @model_validator(mode="before")
    @classmethod
    def _check_names(cls, value: Any) -> Any:
        # Before pydantic, which would list them all.
        if isinstance(value, dict) and cls.model_config["extra"] == "forbid":
            known = member_names(cls)
            for name in value:
                if name not in known:
                    raise PydanticCustomError("unknown_name", "unknown", {"name": name, "known": known})
        return value


class Loose(Body):
    """Unknown members are dropped."""

    model_config = ConfigDict(extra="ignore")


class NamesModel(Body):
    model: ModelName | None = None
    """The model that is served, or one of its adapters; by default the model."""


Model = TypeVar("Model", bound=Body)


@_cached
def member_names(model: type[BaseModel]) -> list[str]:
    """Return the names of a model's members, as a body has them."""
    return [field.alias or name for name, field in model.model_fields.items()]


def expected_error(text: str, path: str = "") -> PydanticCustomError:
    """Return an error for a validator to raise: "'field' must be " and the text.

    ``path`` is the path inside the field, such as ``.name``.
    """
    return PydanticCustomError("expected", "{expected}", {"expected": text, "path": path})


def validate(model: type[Model], value: Any, limits: Limits | None = None, name: str = "") -> Model:
    """Validate parsed JSON; ``name`` is its path in the request, empty for a whole body.

    ``limits`` are needed where the model has ``AtMost`` bounds.

    Raises:
        BadRequestError: The first fault; ``param`` is the path.
    """
    if not name and not isinstance(value, dict):
        raise BadRequestError("The body must be a JSON object.")
    try:
        return model.model_validate(value, context=limits)
    except ValidationError as error:
        # At most one for each field of the model: each list, object and union stops at its first.
        fault = error.errors(include_url=False, include_input=False)[0]
    raise _bad_request(fault, json_schema(model, limits or Limits()), name)


def unknown_name(name: str, known: Collection[str], path: str = "") -> BadRequestError:
    """Return the error for an unknown member, with a near name, and all names where they are few."""
    shown = printable(name)
    message = f"Unknown member of '{path}': '{shown}'." if path else f"Unknown parameter: '{shown}'."
    if near := difflib.get_close_matches(name[:64], known, n=1, cutoff=0.7):
        message += f" Did you mean '{near[0]}'?"
    if len(known) <= _MAX_LISTED:
        message += f" Known are {', '.join(known)}."
    return BadRequestError(message, f"{path}.{shown}" if path else shown)


@_cached
def json_schema(model: type[BaseModel], limits: Limits) -> Schema:
    """Return the JSON schema of a model whose ``AtMost`` bounds are the numbers of ``limits``."""
    return cast("Schema", with_limits(model.model_json_schema(), limits))


def with_limits(schema: Any, limits: Limits) -> Any:
    """Return a JSON schema, or a part of one, with the numbers of ``limits`` in place of their names."""
    if isinstance(schema, list):
        return [with_limits(part, limits) for part in schema]
    if not isinstance(schema, dict):
        return schema
    bound = {_BOUNDS[schema["type"]]: getattr(limits, schema[_LIMIT])} if _LIMIT in schema else {}
    return {name: with_limits(part, limits) for name, part in schema.items() if name != _LIMIT} | bound


def _bad_request(fault: Mapping[str, Any], schema: Schema, name: str) -> BadRequestError:
    path, branches = _find(fault["loc"], schema, name)
    context = fault.get("ctx", {})
    if fault["type"] == "unknown_name":
        return unknown_name(context["name"], context["known"], path)
    if fault["type"] == "expected":
        path += context["path"]
        return BadRequestError(f"'{path}' must be {context['expected']}.", path)
    missing = "is missing: it " if fault["type"] == "missing" else ""
    return BadRequestError(f"'{path}' {missing}must be {_describe(branches)}.", path)


def _find(loc: tuple[str | int, ...], schema: Schema, name: str) -> tuple[str, list[Schema]]:
    """Find the field of a pydantic error: its path in our notation, and the schemas of which it must fit one.

    Parts of ``loc`` that are no member of the schema are names of a union's branches, or keys of an object with any
    keys.
    """
    path, branches = name, list(_branches(schema, schema))
    for part in loc:
        if isinstance(part, int):
            inside = [branch["items"] for branch in branches if "items" in branch]
        else:
            inside = [branch["properties"][part] for branch in branches if part in branch.get("properties", {})]
        if inside:
            path += f"[{part}]" if isinstance(part, int) else f".{part}" if path else part
            branches = [branch for one in inside for branch in _branches(one, schema)]
    return path, branches


def _branches(schema: Schema, root: Schema) -> Iterator[Schema]:
    """Yield the alternatives of a schema, with references followed and null left out."""
    if "$ref" in schema:
        yield from _branches(root["$defs"][schema["$ref"].rpartition("/")[2]], root)
    elif "x-expected" not in schema and (several := schema.get("anyOf") or schema.get("oneOf")):
        for one in several:
            yield from _branches(one, root)
    elif schema.get("type") != "null":
        yield schema


def _describe(branches: list[Schema]) -> str:
    choices = [choice for one in branches for choice in one.get("enum", [one["const"]] if "const" in one else [])]
    texts = [_describe_one(one) for one in branches if not one.keys() & {"enum", "const"}]
    if choices:
        texts.append(("one of " if len(choices) > 1 else "") + ", ".join(map(repr, dict.fromkeys(choices))))
    return " or ".join(dict.fromkeys(texts))


def _describe_one(schema: Schema) -> str:
    if "x-expected" in schema:
        return cast("str", schema["x-expected"])
    match schema.get("type", "string"):
        case "boolean":
            return "true or false"
        case "integer" if "minimum" not in schema:
            return "an integer"
        case "integer" if schema["minimum"] >= 0 and schema.get("maximum", INT64_MAX) >= INT64_MAX:
            return f"an integer of at least {schema['minimum']}"
        case "integer":
            return f"an integer from {schema['minimum']} to {schema['maximum']}"
        case "number":
            return f"a number from {schema['minimum']:g} to {schema['maximum']:g}"
        case "string":
            return "a string" + (f" like {schema['pattern']}" if "pattern" in schema else _size(schema, "characters"))
        case "array":
            return "a list" + _size(schema, "items")
    text = "an object" + _size(schema, "members")
    pairs = [({"pattern": pattern}, value) for pattern, value in schema.get("patternProperties", {}).items()]
    if "propertyNames" in schema:
        pairs = [(schema["propertyNames"], schema["additionalProperties"])]
    return text + "".join(f", of {_describe_one(name)} and {_describe_one(value)} each" for name, value in pairs)


def _size(schema: Schema, unit: str) -> str:
    given = [(words, schema[key]) for start, words in _SIZES for key in schema if key.startswith(start) and schema[key]]
    return f" of {' and '.join(f'{words} {number}' for words, number in given)} {unit}" if given else ""
