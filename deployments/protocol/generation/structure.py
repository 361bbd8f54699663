"""The fields that give an answer a structure: tools, JSON schemas and choices.

Regular expressions and grammars of clients are refused. A JSON schema is compiled by the engine, in a thread that
cannot be killed: a regular expression of 14 characters in it keeps xgrammar 0.2.8 busy for more than 20 s, and so do
some thousand optional members, or overlapping strings of counted length. So the first are refused, the others are
limited (``schemas``), and what passes is tried in a process that can be killed (``deployments.replica.structures``).
"""

from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, BeforeValidator, Discriminator, Field, Tag, model_validator

from deployments.protocol.generation.messages import Name
from deployments.protocol.generation.schemas import check_references, check_size
from deployments.protocol.strict_json import JsonError, loads
from deployments.protocol.validation import AtMost, Body, Info, Loose, by_kind, expected_error

_KINDS: Final = ("json", "choice", "json_object")


def _check_schema(schema: dict[str, Any], info: Info) -> dict[str, Any]:
    check_size(schema, info.context)
    check_references(schema)
    return schema


def _parse_schema(schema: Any, info: Info) -> Any:
    """Parse a JSON schema that came as a string; return others as they are."""
    if not isinstance(schema, str):
        return schema
    try:
        return loads(schema.encode(), info.context.max_json_depth)
    except JsonError as error:
        raise expected_error(f"a JSON schema ({error})") from None


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
        raise expected_error(f"choices of at most {info.context.max_schema_chars} characters together")
    return choices


class StructuredOutputs(Body):
    """vLLM's structured outputs: exactly one of ``json``, ``choice`` and ``json_object``."""

    json_: Annotated[JsonSchema, BeforeValidator(_parse_schema, json_schema_input_type=dict[str, Any] | str)] | None = (
        Field(default=None, alias="json")
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
        """Drop nulls; require exactly one kind of output, and no unknown member."""
        if not isinstance(value, dict):
            return value
        given = {name: member for name, member in value.items() if member is not None}
        switches = {"disable_any_whitespace", "disable_additional_properties"}
        if not given.keys() <= {*_KINDS, *switches} or len(given.keys() & set(_KINDS)) != 1:
            raise expected_error(
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
    """Check the JSON schemas of all tools, their size together."""
    # Where a tool must be used, the engine compiles the schemas of all of them as one.
    schemas = [tool.function.parameters for tool in tools if tool.function.parameters is not None]
    check_size(schemas, info.context)
    for schema in schemas:
        check_references(schema)
    return tools


Tools = Annotated[list[Tool], AtMost("max_tools"), AfterValidator(_check_tools)]
ToolChoice = Annotated[
    Annotated[Literal["none", "auto", "required"], Tag("a scalar")] | Annotated[NamedTool, Tag("an object")], by_kind
]
