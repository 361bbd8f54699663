"""The fields that give an answer a structure: tools, JSON schemas, choices, regular expressions and grammars.

The engine compiles them in a thread that cannot be killed: a regular expression of 14 characters keeps xgrammar 0.2.8
busy for more than 20 s, and so do some thousand optional members of a schema, or overlapping strings of counted length.
So their sizes are limited here, and what passes is tried in a process that can be killed
(``deployments.replica.engine.structures``). Expressions within a schema are refused.

References of a schema are checked here too, where the place of a fault is known.
"""

from collections import defaultdict, deque
from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Annotated, Any, Final, Literal, NamedTuple

from pydantic import AfterValidator, BeforeValidator, Discriminator, Field, Tag, model_validator

from deployments.errors import printable
from deployments.protocol.messages import Name
from deployments.protocol.strict_json import JsonError, loads
from deployments.protocol.validation import Body, Loose, at_most, by_kind, expected_error
from deployments.settings.limits import (
    MAX_CHOICES,
    MAX_SCHEMA_CHARS,
    MAX_SCHEMA_PARTS,
    MAX_SCHEMA_REPEATS,
    MAX_STOP_CHARS,
    MAX_TOOLS,
)

SCHEMA_FIELD: Final = "response_format.json_schema.schema"

_KINDS: Final = ("json", "regex", "choice", "grammar", "json_object")


def _check_schema(schema: dict[str, Any]) -> dict[str, Any]:
    check_size(schema)
    check_references(schema)
    return schema


def _parse_schema(schema: Any) -> Any:
    if not isinstance(schema, str):
        return schema
    try:
        return loads(schema.encode())
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


def _check_choices(choices: list[str]) -> list[str]:
    if sum(map(len, choices)) > MAX_SCHEMA_CHARS:
        raise expected_error(f"choices of at most {MAX_SCHEMA_CHARS} characters together")
    return choices


class StructuredOutputs(Body):
    """vLLM's structured outputs: exactly one of ``json``, ``regex``, ``choice``, ``grammar`` and ``json_object``."""

    json_: Annotated[JsonSchema, BeforeValidator(_parse_schema, json_schema_input_type=dict[str, Any] | str)] | None = (
        Field(default=None, alias="json")
    )
    """A JSON schema, as an object or as JSON in a string."""
    choice: (
        Annotated[
            list[Annotated[str, Field(min_length=1, max_length=MAX_STOP_CHARS)]],
            Field(min_length=1),
            at_most(MAX_CHOICES),
            AfterValidator(_check_choices),
        ]
        | None
    ) = None
    """The answer is one of these."""
    regex: Annotated[str, Field(min_length=1, max_length=MAX_SCHEMA_CHARS)] | None = None
    """The answer as a whole matches this regular expression."""
    grammar: Annotated[str, Field(min_length=1, max_length=MAX_SCHEMA_CHARS)] | None = None
    """The answer is a text of this grammar: in EBNF (rules have ``::=``) or in llguidance's Lark."""
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
    """Has to be true for a tool that may be called beside a vocabulary."""


class Tool(Loose):
    type: Literal["function"]
    function: ToolFunction


class NamedTool(Loose):
    type: Literal["function"]
    function: Named


def _check_tools(tools: list[Tool]) -> list[Tool]:
    # Where a tool must be used, the engine compiles the schemas of all of them as one.
    schemas = [tool.function.parameters for tool in tools if tool.function.parameters is not None]
    check_size(schemas)
    for schema in schemas:
        check_references(schema)
    return tools


Tools = Annotated[list[Tool], at_most(MAX_TOOLS), AfterValidator(_check_tools)]
ToolChoice = Annotated[
    Annotated[Literal["none", "auto", "required"], Tag("a scalar")] | Annotated[NamedTool, Tag("an object")], by_kind
]


def structure_field(body: Mapping[str, Any]) -> str | None:
    """Return the field of a body without a vocabulary that gives its answer a structure; None where none may."""
    wanted = body.get("structured_outputs") or {}
    if kinds := [kind for kind in _KINDS if kind in wanted]:
        return f"structured_outputs.{kinds[0]}"
    if (body.get("response_format") or {}).get("type", "text") != "text":
        return "response_format"
    return "tools" if body.get("tools") else None


DEFINITIONS: Final = ("$defs", "definitions")
"""Members that references may lead to. The second is what OpenAI's client for JavaScript and pydantic 1 write."""

MAX_REFERENCE_CHARS: Final = 128

_COUNTS: Final = frozenset({"minLength", "maxLength", "minItems", "maxItems"})

_REFUSED: Final[dict[str, type | tuple[type, ...]]] = {
    "pattern": str,
    "patternProperties": dict,
    "propertyNames": dict,
    "minProperties": (int, float),
    "maxProperties": (int, float),
}
"""Keywords, and the type that tells them from a member of that name in ``properties``, as far as possible. Wherever
they stand: what is an example and what is a schema is not told apart."""


def check_size(value: Any) -> None:
    """Refuse JSON schemas in ``value`` that together are too large to compile, or have refused keywords.

    Names and numbers only, not whether they make sense.

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
                    raise expected_error(f"a JSON schema without {name!r}, which is not supported here")
                if name in _COUNTS and type(member) in (int, float):
                    num_repeated += max(member, 0)
            rest.extend(part.values())
        if num_parts > MAX_SCHEMA_PARTS:
            raise expected_error(f"a JSON schema of at most {MAX_SCHEMA_PARTS} names and values")
        if num_chars > MAX_SCHEMA_CHARS:
            raise expected_error(f"a JSON schema whose names and strings have at most {MAX_SCHEMA_CHARS} characters")
        if num_repeated > MAX_SCHEMA_REPEATS:
            raise expected_error(
                f"a JSON schema whose {', '.join(sorted(_COUNTS))} are at most {MAX_SCHEMA_REPEATS} together"
            )


def check_references(schema: dict[str, Any]) -> None:
    """Check that each ``$ref`` of a schema leads to a definition that a finite value fits.

    Call ``check_size`` first: this takes time and stack by the size and the depth of the schema.

    Raises:
        PydanticCustomError: One does not; the text has the JSON pointer to it.
    """
    objects = list(_objects(schema, "#"))
    references = [one for one in objects if isinstance(one.schema.get("$ref"), str)]
    for one in references:
        _target(schema, one)
    ends = _finite(schema, objects) if references else set()
    for one in references:
        if id(one.schema) not in ends:
            raise expected_error(f"a JSON schema that a finite answer fits: {one.shown} leads back to where it stands")


class _Object(NamedTuple):
    """An object in a JSON schema, with the JSON pointer to it."""

    schema: dict[str, Any]
    pointer: str

    @property
    def shown(self) -> str:
        """The JSON pointer to its ``$ref``, truncated for a message."""
        return printable(f"{self.pointer}/$ref", MAX_REFERENCE_CHARS)


def _objects(value: Any, pointer: str) -> Iterator[_Object]:
    """Yield all objects in a value, in the order of the text."""
    if isinstance(value, dict):
        yield _Object(value, pointer)
        for name, member in value.items():
            step = name[:MAX_REFERENCE_CHARS].replace("~", "~0").replace("/", "~1")
            yield from _objects(member, f"{pointer[:MAX_REFERENCE_CHARS]}/{step}")
    elif isinstance(value, list):
        for index, member in enumerate(value):
            yield from _objects(member, f"{pointer}/{index}")


def _target(schema: dict[str, Any], node: _Object) -> Any:
    """Resolve the ``$ref`` of a node; raise ``PydanticCustomError`` where it leads nowhere or is not allowed."""
    reference = node.schema["$ref"]
    if reference == "#":
        return schema
    hash_mark, _, rest = reference.partition("/")
    folder, _, name = rest.partition("/")
    if hash_mark != "#" or folder not in DEFINITIONS or "/" in name or len(name) > MAX_REFERENCE_CHARS:
        raise expected_error(
            f"a JSON schema whose '$ref' are '#' or '#/$defs/<name>', the name of at most {MAX_REFERENCE_CHARS} "
            f"characters: {node.shown} is neither"
        )
    found = schema.get(folder)
    # As the engine reads it: escapes of JSON pointers and of URLs are part of the name.
    target = found.get(name) if isinstance(found, dict) else None
    if not isinstance(target, dict | bool):
        raise expected_error(f"a JSON schema that defines what it names: {node.shown} leads to nothing in '{folder}'")
    return target


def _finite(schema: dict[str, Any], objects: list[_Object]) -> set[int]:
    """Return the ids of the schema objects that a finite value may fit: the least set that the references allow."""
    conditions: dict[int, list[list[Any]]] = {}
    needed_by = defaultdict[int, list[int]](list)
    for one in objects:
        part = id(one.schema)
        groups = [[needed] for needed in _all_needed(schema, one)]
        # One of these is enough.
        groups += [
            several for name in ("anyOf", "oneOf") if isinstance(several := one.schema.get(name), list) and several
        ]
        conditions[part] = groups
        for needed in chain.from_iterable(groups):
            needed_by[id(needed)].append(part)
    ends = set[int]()
    ready = deque(conditions)
    while ready:
        part = ready.popleft()
        if part not in ends and all(
            any(not isinstance(one, dict) or id(one) in ends for one in group) for group in conditions[part]
        ):
            ends.add(part)
            ready.extend(needed_by[part])
    return ends


def _all_needed(schema: dict[str, Any], node: _Object) -> Iterator[Any]:
    """Yield the subschemas that every value of a node must fit, as far as they are known."""
    part = node.schema
    if isinstance(part.get("$ref"), str):
        yield _target(schema, node)
    if isinstance(both := part.get("allOf"), list):
        yield from both
    properties, required = part.get("properties"), part.get("required")
    if part.get("type", "object") == "object" and isinstance(properties, dict) and isinstance(required, list):
        names = {name for name in required if isinstance(name, str)}
        yield from (properties[name] for name in names if name in properties)
    least = part.get("minItems")
    if part.get("type", "array") == "array" and isinstance(least, int | float) and least > 0 and "items" in part:
        yield part["items"]
