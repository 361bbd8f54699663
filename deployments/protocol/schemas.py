"""What a client's JSON schema may ask of the engine, which compiles it in a thread that nobody can end.

A regular expression of 14 characters in a schema keeps xgrammar 0.2.8 busy for more than 20 s, and so do some thousand
optional members, or strings of counted length that overlap. So there are none of the first and few of the others. It
looks at names and numbers only; whether the schema makes sense is not known here.
"""

from typing import Any, Final

from deployments.limits import Limits
from deployments.protocol.fields import Check, FieldError, json_object

_COUNTS: Final = frozenset({"minLength", "maxLength", "minItems", "maxItems"})

_REFUSED: Final[dict[str, type | tuple[type, ...]]] = {
    "pattern": str,
    "patternProperties": dict,
    "propertyNames": dict,
    "minProperties": (int, float),
    "maxProperties": (int, float),
}
"""Keywords, and the type by which they are told from a member of that name in ``properties``, as far as they can be.
Wherever they stand: ``$ref`` may point into a default or an example."""


def json_schema(limits: Limits) -> Check:
    """A JSON schema, or several in one value, within the limits."""

    def check(value: Any) -> dict[str, Any]:
        check_schemas(json_object(value), limits)
        schema: dict[str, Any] = value
        return schema

    return check


def check_schemas(value: Any, limits: Limits) -> None:
    """Looks at all schemas in a value together.

    Raises:
        FieldError: They have a keyword that is refused, or are larger than the engine should compile.
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
                _check_keyword(name, member)
                if name in _COUNTS and type(member) in (int, float):
                    num_repeated += max(member, 0)
            rest.extend(part.values())
        if num_parts > limits.max_schema_parts:
            raise FieldError(f"a JSON schema of at most {limits.max_schema_parts} names and values")
        if num_chars > limits.max_schema_chars:
            raise FieldError(f"a JSON schema whose names and strings have at most {limits.max_schema_chars} characters")
        if num_repeated > limits.max_schema_repeats:
            raise FieldError(
                f"a JSON schema whose {', '.join(sorted(_COUNTS))} are at most {limits.max_schema_repeats} together"
            )


def _check_keyword(name: str, member: Any) -> None:
    if name in _REFUSED and isinstance(member, _REFUSED[name]):
        raise FieldError(f"a JSON schema without {name!r}, which is not supported here")
