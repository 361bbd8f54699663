"""Read a JSON schema for answers in listed words: which of its strings are written in the list, and how.

The subset is what OpenAI documents for structured outputs. ``prepare`` checks it and puts a placeholder in the place of
every string that the list writes, so that a library which knows JSON schemas can do the rest.
"""

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import astuple, dataclass, replace
from typing import Any, Final, NoReturn

from vocab.errors import StructureError
from vocab.matching.controls import UNLIMITED
from vocab.options import End, ListOptions, Punctuation

STRING_OPTIONS: Final = "x-vocab"
"""The keyword of a string with the options that hold for it alone."""

FIRST_PLACEHOLDER: Final = 0xF0000
"""A code point of a private plane; the next ones stand for further kinds of strings."""

MAX_KINDS: Final = 64
"""Different ``x-vocab`` of one schema."""

MAX_ITEMS: Final = 2**31 - 1
"""Of an array; larger bounds mean this, which no answer reaches."""

_MAX_DEPTH: Final = 64
"""Of a schema, in subschemas."""

_MAX_SHOWN: Final = 128
"""Characters of a pointer in a message."""

_NOTES: Final = frozenset(
    [
        "$schema",
        "$id",
        "$comment",
        "title",
        "description",
        "default",
        "examples",
        "example",
        "deprecated",
        "readOnly",
        "writeOnly",
        "nullable",
        "discriminator",
    ]
)
"""They change nothing about which answers fit; ``nullable`` is OpenAPI's, and refused where it is true."""

_OF_TYPE: Final[Mapping[str, frozenset[str]]] = {
    "object": frozenset({"properties", "required", "additionalProperties"}),
    "array": frozenset({"items", "minItems", "maxItems"}),
    "string": frozenset({STRING_OPTIONS, "minLength"}),
    "integer": frozenset({"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"}),
    "number": frozenset({"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"}),
    "boolean": frozenset(),
    "null": frozenset(),
}

_ANY_TYPE: Final = frozenset({"type", "$defs", "definitions", *_NOTES})

_COMBINING: Final = ("$ref", "const", "enum", "anyOf", "allOf")
"""Each says all of what fits; beside it only ``type`` may stand, where it agrees."""

_REASONS: Final[Mapping[str, str]] = {
    "pattern": "the strings are written in the word list; leave it out, or give the possible strings as 'enum'",
    "format": "the strings are written in the word list; leave it out, or give the possible strings as 'enum'",
    "maxLength": f"count words instead: '{STRING_OPTIONS}': {{'max_words': 3}}",
    "minLength": "only 0 and 1 are possible beside a word list, whose texts have a word",
    "oneOf": "use 'anyOf'",
    "allOf": "only one subschema is possible beside a word list: join them",
    "multipleOf": "leave it out",
}


@dataclass(frozen=True, slots=True)
class StringKind:
    """How strings of a schema are written.

    Attributes:
        end: Where such a text may end, and
        punctuation: which marks it may have; None as the request says.
        max_words: Words at most; they are then one sentence.
        min_sentences: The text does not end before.
        max_sentences: The text ends with it.
    """

    end: End | None = None
    punctuation: Punctuation | None = None
    max_words: int = UNLIMITED
    min_sentences: int = 0
    max_sentences: int = UNLIMITED

    def options(self, asked: ListOptions) -> ListOptions:
        """Return the options of such strings in a request that asks for these."""
        end = self.end or asked.end
        punctuation = "none" if asked.punctuation == "none" else self.punctuation or asked.punctuation
        # Without marks no sentence ends.
        return replace(asked, end="word" if punctuation == "none" else end, punctuation=punctuation)

    @property
    def is_controlled(self) -> bool:
        """Return whether more than the list and its options holds for it."""
        return (self.max_words, self.min_sentences, self.max_sentences) != (UNLIMITED, 0, UNLIMITED)


KEY: Final = StringKind(end="word", punctuation="none", max_words=3, max_sentences=1)
"""Of members whose names are left to the model."""

KEY_NUMBER, PLAIN_NUMBER = 0, 1
"""Among a schema's kinds: of such names, and of strings without options."""


@dataclass(frozen=True, slots=True)
class PreparedSchema:
    """A checked schema.

    Attributes:
        text: JSON, with a placeholder for each string of the list.
        kinds: What each placeholder stands for, by its number; the first two are the same for all.
    """

    text: str
    kinds: tuple[StringKind, ...]

    def to_text(self) -> str:
        """Serialize, for a grammar reference."""
        kinds = [astuple(one) for one in self.kinds]
        return json.dumps([self.text, kinds])

    @classmethod
    def from_text(cls, text: str) -> "PreparedSchema":
        """Parse what ``to_text`` wrote."""
        schema, kinds = json.loads(text)
        return cls(schema, tuple(StringKind(*one) for one in kinds))


def prepare(schema: Any) -> PreparedSchema:
    """Check a JSON schema, and put placeholders in the place of the strings that the list writes.

    Raises:
        StructureError: It is no schema of the supported subset; the message has the JSON pointer and the keyword.
    """
    reader = _Reader()
    text = json.dumps(reader.read(schema, "#", 0), ensure_ascii=False)
    return PreparedSchema(text, tuple(reader.kinds))


def placeholder(number: int) -> str:
    """Return the text that stands for a string of the kind with this number."""
    return chr(FIRST_PLACEHOLDER + number)


class _Reader:
    """Read a schema, and collect the kinds of its strings."""

    def __init__(self) -> None:
        self.kinds = [KEY, StringKind()]

    def read(self, schema: Any, pointer: str, depth: int) -> Any:
        """Return a schema with placeholders."""
        if schema is True or schema == {}:
            return True
        if not isinstance(schema, dict):
            _refuse(pointer, "must be an object")
        if depth > _MAX_DEPTH:
            _refuse(pointer, f"is nested in more than {_MAX_DEPTH} others: make the schema flatter")
        if schema.get("nullable"):
            _refuse(f"{pointer}/nullable", 'is not JSON Schema: write \'type\': ["string", "null"]')
        read = self._read_meaning(schema, pointer, depth)
        for name in ("$defs", "definitions"):
            if name in schema:
                if not isinstance(schema[name], dict):
                    _refuse(f"{pointer}/{name}", "must be an object")
                of_this = {
                    key: self.read(one, below(pointer, name, key), depth + 1) for key, one in schema[name].items()
                }
                _check_texts(list(of_this), f"{pointer}/{name}")
                read = {**({} if read is True else read), name: of_this}
        return read

    def _read_meaning(self, schema: dict[str, Any], pointer: str, depth: int) -> Any:
        """Return a schema without its definitions, by the keyword that says what fits."""
        types = _types(schema, pointer)
        combining = [name for name in _COMBINING if name in schema]
        if combining:
            _check_keywords(schema, _ANY_TYPE | {combining[0]}, pointer)
            return self._read_combining(schema, combining[0], types, pointer, depth)
        if len(types) == 1:
            return self._read_type(schema, types[0], pointer, depth)
        if not types:
            _check_keywords(schema, _ANY_TYPE, pointer)
            return True
        allowed = frozenset().union(*(_OF_TYPE[one] for one in types))
        _check_keywords(schema, _ANY_TYPE | allowed, pointer)
        return {
            "anyOf": [
                self._read_type({k: v for k, v in schema.items() if k in _OF_TYPE[one]}, one, pointer, depth)
                for one in types
            ]
        }

    def _read_combining(self, schema: dict[str, Any], name: str, types: list[str], pointer: str, depth: int) -> Any:
        """Return a schema that is a reference, a choice of values or of schemas."""
        value, here = schema[name], f"{pointer}/{name}"
        if name == "$ref":
            if not isinstance(value, str):
                _refuse(here, "must be a string")
            return {"$ref": value}
        if name in ("const", "enum"):
            values = [value] if name == "const" else value
            if not isinstance(values, list) or not values:
                _refuse(here, "must be a list of at least one value")
            for index, one in enumerate(values):
                at = here if name == "const" else f"{here}/{index}"
                if types and not any(_has_type(one, of) for of in types):
                    _refuse(at, "is not of the 'type' beside it")
                _check_texts(one, at)
            return {"enum": values}
        if not isinstance(value, list) or not value:
            _refuse(here, "must be a list of at least one schema")
        if types:
            _refuse(f"{pointer}/type", f"cannot stand beside {name!r}: write it into each of its schemas")
        if name == "allOf" and len(value) > 1:
            _refuse(here, _REASONS[name])
        parts = [self.read(one, f"{here}/{index}", depth + 1) for index, one in enumerate(value)]
        return parts[0] if name == "allOf" else {"anyOf": parts}

    def _read_type(self, schema: dict[str, Any], type_: str, pointer: str, depth: int) -> Any:
        """Return a schema of one type."""
        _check_keywords(schema, _ANY_TYPE | _OF_TYPE[type_], pointer)
        if type_ == "string":
            return {"const": placeholder(self._number_of(_read_kind(schema, pointer)))}
        if type_ == "object":
            return self._read_object(schema, pointer, depth)
        if type_ == "array":
            return self._read_array(schema, pointer, depth)
        return {"type": type_, **_read_bounds(schema, type_, pointer)}

    def _read_object(self, schema: dict[str, Any], pointer: str, depth: int) -> Any:
        """Return an object: with named members, or with members whose names the model writes in words of the list."""
        properties, others = schema.get("properties", {}), schema.get("additionalProperties", True)
        if not isinstance(properties, dict):
            _refuse(f"{pointer}/properties", "must be an object")
        required = schema.get("required", [])
        if not isinstance(required, list) or not all(isinstance(name, str) for name in required):
            _refuse(f"{pointer}/required", "must be a list of names")
        for index, name in enumerate(required):
            if name not in properties:
                _refuse(f"{pointer}/required/{index}", "is not one of the 'properties': name it there")
        _check_texts(list(properties), f"{pointer}/properties")
        if not isinstance(others, bool):
            others = self.read(others, f"{pointer}/additionalProperties", depth + 1)
        if not properties:
            return {"type": "object", "additionalProperties": others}
        members = {
            name: self.read(one, below(pointer, "properties", name), depth + 1) for name, one in properties.items()
        }
        # What fits with named members alone fits with others too.
        made = {"type": "object", "properties": members, "additionalProperties": False}
        return {**made, "required": required} if required else made

    def _read_array(self, schema: dict[str, Any], pointer: str, depth: int) -> Any:
        """Return an array, with bounds of its length."""
        made: dict[str, Any] = {"type": "array"}
        for name in ("minItems", "maxItems"):
            if name in schema:
                made[name] = min(_whole_number(schema[name], f"{pointer}/{name}"), MAX_ITEMS)
        if made.get("minItems", 0) > made.get("maxItems", MAX_ITEMS):
            _refuse(f"{pointer}/minItems", "is more than 'maxItems'")
        if "items" in schema:
            made["items"] = self.read(schema["items"], f"{pointer}/items", depth + 1)
        if made.get("maxItems") == MAX_ITEMS:
            del made["maxItems"]
        return made

    def _number_of(self, kind: StringKind) -> int:
        """Return the number of a kind of strings, added if it is new."""
        if kind not in self.kinds:
            if len(self.kinds) == MAX_KINDS:
                raise StructureError(f"it has more than {MAX_KINDS - 2} different '{STRING_OPTIONS}'")
            self.kinds.append(kind)
        return self.kinds.index(kind)


def _read_kind(schema: dict[str, Any], pointer: str) -> StringKind:
    """Read how a string is written."""
    least = schema.get("minLength", 0)
    if type(least) not in (int, float) or least > 1:
        _refuse(f"{pointer}/minLength", _REASONS["minLength"])
    options, here = schema.get(STRING_OPTIONS, {}), f"{pointer}/{STRING_OPTIONS}"
    if not isinstance(options, dict):
        _refuse(here, "must be an object")
    known = ("end", "punctuation", "max_words", "min_sentences", "max_sentences")
    for name in options:
        if name not in known:
            _refuse(below(here, name), f"is not known: there are {', '.join(known)}")
    end = options.get("end")
    if end not in (None, "word", "sentence"):
        _refuse(f"{here}/end", "must be 'word' or 'sentence'")
    punctuation = options.get("punctuation")
    if punctuation not in (None, "none", "basic"):
        _refuse(f"{here}/punctuation", "must be 'none' or 'basic'")
    if punctuation == "none" and end == "sentence":
        _refuse(f"{here}/end", "cannot be 'sentence' without marks: set 'punctuation' to 'basic', or 'end' to 'word'")
    numbers = {
        name: _whole_number(options[name], f"{here}/{name}", least=int(name.startswith("max")))
        for name in known[2:]
        if name in options
    }
    if "max_words" in numbers:
        numbers.setdefault("max_sentences", 1)
    kind = StringKind(end, punctuation, **{name: min(number, UNLIMITED) for name, number in numbers.items()})
    if kind.min_sentences > kind.max_sentences:
        _refuse(f"{here}/min_sentences", "is more than 'max_sentences' (1 beside 'max_words')")
    return kind


def _read_bounds(schema: dict[str, Any], type_: str, pointer: str) -> dict[str, Any]:
    """Return the bounds of a number."""
    bounds = {name: schema[name] for name in sorted(_OF_TYPE[type_]) if name in schema}
    for name, value in bounds.items():
        if type(value) not in (int, float) or not math.isfinite(value) or abs(value) > 2**53:
            _refuse(f"{pointer}/{name}", "must be a number between -2^53 and 2^53")
    return bounds


def _types(schema: dict[str, Any], pointer: str) -> list[str]:
    """Return the types of a schema; those that its keywords imply, where it names none."""
    given = schema.get("type")
    if given is None:
        implied = [name for name in ("object", "array", "string", "number") if _OF_TYPE[name] & schema.keys()]
        return implied[:1]
    types = [given] if isinstance(given, str) else given
    if not isinstance(types, list) or not types or not all(one in _OF_TYPE for one in types):
        _refuse(f"{pointer}/type", f"must be one of {', '.join(_OF_TYPE)}, or a list of these")
    return list(dict.fromkeys(types))


def _check_keywords(schema: dict[str, Any], allowed: frozenset[str], pointer: str) -> None:
    """Refuse keywords that are not allowed in a schema."""
    for name in schema:
        if name not in allowed:
            _refuse(below(pointer, name), _REASONS.get(name, "is not supported here beside a word list: leave it out"))


def _check_texts(value: Any, pointer: str) -> None:
    """Refuse placeholders, and halves of characters, in the names and strings of a schema."""
    for text in texts_of(value):
        if any(FIRST_PLACEHOLDER <= ord(char) < FIRST_PLACEHOLDER + MAX_KINDS for char in text):
            _refuse(pointer, f"has a character of the private plane from U+{FIRST_PLACEHOLDER:X}: leave it out")
        if any(0xD800 <= ord(char) < 0xE000 for char in text):
            _refuse(pointer, "has half of a surrogate pair, which is no text: leave it out")


def texts_of(value: Any) -> Iterator[str]:
    """Yield all strings of a JSON value, names too."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for name, member in value.items():
            yield name
            yield from texts_of(member)
    elif isinstance(value, list):
        for member in value:
            yield from texts_of(member)


def _has_type(value: Any, type_: str) -> bool:
    """Return whether a JSON value has a type of JSON Schema."""
    if isinstance(value, bool):
        return type_ == "boolean"
    if type_ == "integer":
        return isinstance(value, int) or (isinstance(value, float) and value.is_integer())
    python: dict[str, type | tuple[type, ...]] = {
        "object": dict, "array": list, "string": str, "number": (int, float), "null": type(None)
    }  # fmt: skip
    return type_ in python and isinstance(value, python[type_])


def _whole_number(value: Any, pointer: str, least: int = 0) -> int:
    """Return a number that counts something."""
    if type(value) not in (int, float) or value != value or not least <= value or (value != math.inf and value % 1):
        _refuse(pointer, f"must be a whole number of at least {least}")
    return MAX_ITEMS if value == math.inf else int(value)


def below(pointer: str, *names: str) -> str:
    """Return the pointer to a member."""
    steps = (name.replace("~", "~0").replace("/", "~1") for name in names)
    return "/".join((pointer, *steps))


def _refuse(pointer: str, reason: str) -> NoReturn:
    shown = "".join(char if char.isprintable() else "?" for char in pointer)
    raise StructureError(f"{shown if len(shown) <= _MAX_SHOWN else shown[: _MAX_SHOWN - 1] + '…'} {reason}")
