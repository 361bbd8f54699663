"""The fields that give an answer a structure: tools, JSON schemas and choices.

Regular expressions and grammars of clients are refused: they would have to be compiled in a process that can be
killed. A JSON schema is compiled by the engine, in a thread that cannot be: a regular expression of 14 characters in
it keeps xgrammar 0.2.8 busy for more than 20 s, and so do some thousand optional members, or overlapping strings of
counted length. So the first are refused and the others are limited.
"""

from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, BeforeValidator, Discriminator, Field, Tag, model_validator

from deployments.limits import Limits
from deployments.protocol.generation.messages import Name
from deployments.protocol.strict_json import JsonError, loads
from deployments.protocol.validation import AtMost, Body, Info, Loose, by_kind, expected

_KINDS: Final = ("json", "choice", "json_object")

_COUNTS: Final = frozenset({"minLength", "maxLength", "minItems", "maxItems"})

_REFUSED: Final[dict[str, type | tuple[type, ...]]] = {
    "pattern": str,
    "patternProperties": dict,
    "propertyNames": dict,
    "minProperties": (int, float),
    "maxProperties": (int, float),
}
"""Keywords, and the type that tells them from a member of that name in ``properties``, as far as possible. Wherever
they stand: ``$ref`` may point into a default or an example."""


def _check_schemas(value: Any, limits: Limits) -> None:
    """Check all schemas in a value together: names and numbers only, not whether they make sense.

    Raises:
        PydanticCustomError: They have a keyword that is refused, or are larger than the engine should compile.
    """
    num_parts, num_chars, num_repeated = 0, 0, 0
    rest = [value]
    while rest:
        part = rest.pop()
        num_parts += 1
        if isinstance(part, str):
            num_chars += len(part)
        elif isinstance(part, list):
            rest.extend(part)
        elif isinstance(part, dict):
            num_parts += len(part)
            num_chars += sum(map(len, part))
            for name, member in part.items():
                if name in _REFUSED and isinstance(member, _REFUSED[name]):
                    raise expected(f"a JSON schema without {name!r}, which is not supported here")
                if name in _COUNTS and type(member) in (int, float):
                    num_repeated += max(member, 0)
            rest.extend(part.values())
        if num_parts > limits.max_schema_parts:
            raise expected(f"a JSON schema of at most {limits.max_schema_parts} names and values")
        if num_chars > limits.max_schema_chars:
            raise expected(f"a JSON schema whose names and strings have at most {limits.max_schema_chars} characters")
        if num_repeated > limits.max_schema_repeats:
            raise expected(
                f"a JSON schema whose {', '.join(sorted(_COUNTS))} are at most {limits.max_schema_repeats} together"
            )


def _check_schema(schema: dict[str, Any], info: Info) -> dict[str, Any]:
    _check_schemas(schema, info.context)
    return schema


def _parsed(schema: Any, info: Info) -> Any:
    if not isinstance(schema, str):
        return schema
    try:
        return loads(schema.encode(), info.context.max_json_depth)
    except JsonError as error:
        raise expected(f"a JSON schema ({error})") from None


JsonSchema = Annotated[dict[str, Any], AfterValidator(_check_schema)]


class Named(Loose):
    name: Name


class NamedSchema(Named):
    schema_: JsonSchema = Field(alias="schema")
    """A JSON schema without regular expressions, of bounded size."""
    strict: bool | None = None


class PlainFormat(Loose):
    """Text, or any JSON object."""

    type: Literal["text", "json_object"]


class SchemaFormat(Loose):
    """JSON that fits a schema."""

    type: Literal["json_schema"]
    json_schema: NamedSchema


def _kind_of_format(value: Any) -> str:
    # A model when it is serialized.
    kind = value.get("type") if isinstance(value, dict) else getattr(value, "type", None)
    return "by schema" if kind == "json_schema" else "plain"


ResponseFormat = Annotated[
    Annotated[PlainFormat, Tag("plain")] | Annotated[SchemaFormat, Tag("by schema")], Discriminator(_kind_of_format)
]


def _check_choices(choices: list[str], info: Info) -> list[str]:
    if sum(map(len, choices)) > info.context.max_schema_chars:
        raise expected(f"choices of at most {info.context.max_schema_chars} characters together")
    return choices


class StructuredOutputs(Body):
    """vLLM's structured outputs: exactly one of ``json``, ``choice`` and ``json_object``."""

    json_: Annotated[JsonSchema, BeforeValidator(_parsed, json_schema_input_type=dict[str, Any] | str)] | None = Field(
        default=None, alias="json"
    )
    """A JSON schema, as an object or as JSON in a string."""
    choice: (
        Annotated[
            list[Annotated[str, Field(min_length=1), AtMost("max_stop_chars")]],
            Field(min_length=1),
            AtMost("max_choices"),
            AfterValidator(_check_choices),
        ]
        | None
    ) = None
    """The answer is one of these."""
    json_object: bool | None = None
    disable_any_whitespace: bool | None = None
    disable_additional_properties: bool | None = None

    @model_validator(mode="before")
    @classmethod
    def _check_kinds(cls, value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        given = {name: member for name, member in value.items() if member is not None}
        switches = {"disable_any_whitespace", "disable_additional_properties"}
        if not given.keys() <= {*_KINDS, *switches} or len(given.keys() & set(_KINDS)) != 1:
            raise expected(
                f"an object with exactly one of {', '.join(_KINDS)}: other structured outputs are not supported here"
            )
        return given


class ToolFunction(Named):
    description: Annotated[str, Field(max_length=2**20)] | None = None
    parameters: dict[str, Any] | None = None
    """A JSON schema without regular expressions; the schemas of all tools together are of bounded size."""
    strict: bool | None = None


class Tool(Loose):
    type: Literal["function"]
    function: ToolFunction


class NamedTool(Loose):
    type: Literal["function"]
    function: Named


def _check_tools(tools: list[Tool], info: Info) -> list[Tool]:
    # Where a tool must be used, the engine compiles the schemas of all of them as one.
    _check_schemas([tool.function.parameters for tool in tools], info.context)
    return tools


Tools = Annotated[list[Tool], AtMost("max_tools"), AfterValidator(_check_tools)]
ToolChoice = Annotated[
    Annotated[Literal["none", "auto", "required"], Tag("a scalar")] | Annotated[NamedTool, Tag("an object")], by_kind
]
