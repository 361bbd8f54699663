"""Read JSON answers by their schema: whether they fit, which of their strings are texts of the list, and which are not.

It reads the text alone and shares nothing with the states that wrote it.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from vocab.errors import StructureError
from vocab.matching.structure.schema import (
    FIRST_PLACEHOLDER,
    KEY_NUMBER,
    PLAIN_NUMBER,
    PreparedSchema,
    StringKind,
    below,
    texts_of,
)

if TYPE_CHECKING:
    # A check of an answer's strings from the command line reads none of them: no compiled code is loaded for it.
    from vocab.text.reader import Coverage, FollowedText, TextReader

_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f"}


class AnswerString(NamedTuple):
    """A string of an answer.

    Attributes:
        pointer: The JSON pointer to it; of a member's name, to the member.
        text: It.
        kind: The number of the kind of strings that it is of; None for one that the schema's author wrote.
    """

    pointer: str
    text: str
    kind: int | None


class ListedStrings(NamedTuple):
    """The strings of a JSON text that are to be in a list, to be checked as one text.

    Attributes:
        text: A line for each string.
        pointers: The JSON pointer to the string of each line; of a member's name, to the member.
    """

    text: str
    pointers: tuple[str, ...]


def listed_strings(schema: PreparedSchema, text: str) -> ListedStrings:
    """Return the strings of a JSON text that its schema leaves to the list, whatever their words.

    Raises:
        StructureError: The text is no JSON, or does not fit the schema.
    """
    try:
        strings = _read(text, json.loads(schema.text), lambda *_: True)
    except ValueError as error:
        raise StructureError(str(error)) from None
    listed = [one for one in strings if one.kind is not None]
    # So that each has a line: a line break within a string separates words as a blank does.
    lines = (re.sub(r"[\r\n]", " ", one.text) for one in listed)
    return ListedStrings("\n".join(lines), tuple(one.pointer for one in listed))


class _Members(list[tuple[str, Any]]):
    """The members of an object, also those of one name."""


class AnswerReader:
    """Read the answers of a schema.

    Args:
        schema: The schema.
        reader_of: Returns the reader of strings of a kind.
    """

    def __init__(self, schema: PreparedSchema, reader_of: "Callable[[StringKind], TextReader]") -> None:
        self.readers = [reader_of(kind) for kind in schema.kinds]
        self._root = json.loads(schema.text)

    def strings(self, text: str) -> list[AnswerString]:
        """Return the strings of an answer, in order.

        Raises:
            ValueError: ``text`` is no answer of the schema whose strings are texts of the list.
        """
        return _read(text, self._root, lambda kind, one: self.readers[kind].is_text(one))

    def coverage(self, text: str) -> "Coverage":
        """Count the words of the strings in the list, as ``TextReader.coverage``: no word is counted as another's.

        Raises:
            ValueError: ``text`` is no answer of the schema.
        """
        from vocab.text.reader import Coverage

        listed = [(self.readers[one.kind], one.text) for one in self.strings(text) if one.kind is not None]
        numbers = [word.number for reader, string in listed for word in reader.words(string)]
        # Words that were only added have numbers below 0, and no rank.
        return Coverage(len(numbers), len(set(numbers)), max([0, *numbers]))

    def num_fixed_strings(self, text: str) -> int:
        """Return how many strings of an answer the schema's author wrote: enumerated values, not names."""
        return sum(one.kind is None for one in self.strings(text))

    def whole_prefix_length(self, text: str, following: str = "") -> int:
        """Return the length of a text that is an answer of the schema; 0 for any other."""
        try:
            self.strings(text)
        except ValueError:
            return 0
        return 0 if following else len(text)

    def follow(self) -> "FollowedAnswer":
        """Return a follower of an answer, empty so far, that reads it in parts as it is written."""
        return FollowedAnswer(self)

    @cached_property
    def fixed_texts(self) -> frozenset[str]:
        """Return all strings that the schema's author wrote and an answer may have, names too."""
        return frozenset(_fixed_texts(self._root))


def _read(text: str, root: Any, is_text: Callable[[int, str], bool]) -> list[AnswerString]:
    """Return the strings of a JSON text that fits a prepared schema, in order.

    ``is_text`` is whether a string may be one of a kind.

    Raises:
        ValueError: The text is no JSON, or does not fit the schema.
    """
    try:
        value = json.loads(text, object_pairs_hook=_Members)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"the text is no JSON: {error}") from None
    found = _Walk(root, is_text).strings(value, root, "")
    if found is None:
        raise ValueError("the text does not fit the schema")
    return found


class _Walk:
    """Walk one answer along its schema."""

    def __init__(self, root: Any, is_text: Callable[[int, str], bool]) -> None:
        self._root = root
        self._is_text = is_text
        # Choices within choices would be tried again and again.
        self._known: dict[tuple[int, int, str], list[AnswerString] | None] = {}

    def strings(self, value: Any, schema: Any, pointer: str) -> list[AnswerString] | None:
        """Return the strings of a value that fits a schema; None for one that does not."""
        key = id(value), id(schema), pointer
        if key not in self._known:
            self._known[key] = self._strings(value, {} if schema is True else schema, pointer)
        return self._known[key]

    def _strings(self, value: Any, schema: Any, pointer: str) -> list[AnswerString] | None:
        if "$ref" in schema:
            return self.strings(value, self._resolve(schema["$ref"]), pointer)
        if "const" in schema:
            return self._listed(value, ord(schema["const"]) - FIRST_PLACEHOLDER, pointer)
        if "enum" in schema:
            fits = any(_is_same(value, one) for one in schema["enum"])
            return [AnswerString(pointer, text, None) for text in _texts_of(value)] if fits else None
        if "anyOf" in schema:
            tried = (self.strings(value, one, pointer) for one in schema["anyOf"])
            return next((found for found in tried if found is not None), None)
        if "type" in schema and not _has_type(value, schema):
            return None
        if isinstance(value, _Members):
            return self._object(value, schema, pointer)
        if isinstance(value, list):
            items = schema.get("items", True)
            return _joined(self.strings(one, items, f"{pointer}/{index}") for index, one in enumerate(value))
        return self._listed(value, PLAIN_NUMBER, pointer) if isinstance(value, str) else []

    def _object(self, value: _Members, schema: Any, pointer: str) -> list[AnswerString] | None:
        properties, others = schema.get("properties", {}), schema.get("additionalProperties", True)
        names = [name for name, _ in value]
        if not set(schema.get("required", ())) <= set(names) or (properties and len(set(names)) < len(names)):
            return None
        parts: list[list[AnswerString] | None] = []
        for name, member in value:
            here = below(pointer, name)
            if name in properties:
                parts.append(self.strings(member, properties[name], here))
            elif others is False:
                return None
            else:
                parts += [self._listed(name, KEY_NUMBER, here), self.strings(member, others, here)]
        return _joined(parts)

    def _listed(self, value: Any, kind: int, pointer: str) -> list[AnswerString] | None:
        """Return a string that is a text of the list; None for any other value."""
        is_text = isinstance(value, str) and self._is_text(kind, value)
        return [AnswerString(pointer, value, kind)] if is_text else None

    def _resolve(self, reference: str) -> Any:
        """Return the schema that a reference leads to."""
        found = self._root
        for step in reference.split("/")[1:]:
            found = found[step]
        return found


class FollowedAnswer:
    """An answer read as it grows: how much of it is whole words of the list, or was written by the schema's author.

    Attributes:
        num_whole: Characters up to the last that nothing written later can be part of.
        num_complete: 0: no beginning of an answer is one.
    """

    num_complete: Final = 0

    def __init__(self, reader: AnswerReader) -> None:
        self._reader = reader
        self._parts: list[str] = []
        self._num_read = 0
        self._string: _OpenString | None = None
        self.num_whole = 0

    @property
    def is_settled(self) -> bool:
        """Return whether the answer so far is whole words, and no later character can be part of its last one."""
        return self._string is None or self._string.is_settled

    def add(self, text: str) -> bool:
        """Read the next part of the answer; return False where a string leaves the list."""
        self._parts.append(text)
        return all(map(self._read, text))

    def whole_prefix_length(self, following: str = "") -> int:
        """Return what ``AnswerReader.whole_prefix_length`` returns of all that was read."""
        return self._reader.whole_prefix_length("".join(self._parts), following)

    def coverage(self) -> "Coverage":
        """Return what ``AnswerReader.coverage`` returns of all that was read, or raise what it raises."""
        return self._reader.coverage("".join(self._parts))

    def _read(self, character: str) -> bool:
        """Read a character; return whether the string in which it stands may be one of the list, or the author's."""
        self._num_read += 1
        if self._string is None:
            if character == '"':
                self._string = _OpenString(self._reader)
            else:
                self.num_whole = self._num_read
            return True
        may_be = self._string.add(character, self._num_read)
        self.num_whole = max(self.num_whole, self._string.whole_end)
        if self._string.is_closed:
            self._string = None
        return may_be


class _OpenString:
    """A string of an answer as it is read, with its escapes.

    Attributes:
        is_closed: Its closing quotation mark was read.
        whole_end: Where in the answer its last whole word ends, or it itself; 0 for none.
    """

    def __init__(self, reader: AnswerReader) -> None:
        self._fixed = reader.fixed_texts
        # Which kind of string it is, only the whole answer says.
        self._followed: list[FollowedText] = [one.follow() for one in dict.fromkeys(reader.readers)]
        self._text, self._escape = "", ""
        self._ends: list[int] = []
        self.is_closed = False
        self.whole_end = 0

    @property
    def is_settled(self) -> bool:
        return any(one.is_settled for one in self._followed)

    def add(self, character: str, end: int) -> bool:
        """Read a character, which ends at ``end`` in the answer; return False where no string begins so."""
        if not self._escape and character == '"':
            self.is_closed, self.whole_end = True, end
            return self._text in self._fixed or any(one.is_whole for one in self._followed)
        self._escape += character
        read = _unescape(self._escape)
        if read is None:
            return True
        self._escape = ""
        self._text += read
        self._ends.append(end)
        self._followed = [one for one in self._followed if one.add(read)]
        num_whole = max((one.num_whole for one in self._followed), default=0)
        if num_whole:
            self.whole_end = self._ends[num_whole - 1]
        return bool(self._followed) or any(one.startswith(self._text) for one in self._fixed)


def _unescape(written: str) -> str | None:
    """Return the character that was written in a JSON string; None where more of it must come."""
    if written[0] != "\\":
        return written
    if len(written) == 1:
        return None
    if written[1] != "u":
        return _ESCAPES.get(written[1], written[1])
    return chr(int(written[2:], 16)) if len(written) == len("\\u0000") else None


def _joined(parts: Iterable[list[AnswerString] | None]) -> list[AnswerString] | None:
    """Return the strings of all parts; None where one does not fit."""
    joined: list[AnswerString] = []
    for part in parts:
        if part is None:
            return None
        joined += part
    return joined


def _has_type(value: Any, schema: Any) -> bool:
    """Return whether a value has a schema's type, and is within its bounds; strings have placeholders instead."""
    kind = schema["type"]
    if kind == "object":
        return isinstance(value, _Members)
    if kind == "array":
        return type(value) is list and schema.get("minItems", 0) <= len(value) <= schema.get("maxItems", len(value))
    if kind in ("boolean", "null"):
        return isinstance(value, bool) if kind == "boolean" else value is None
    if type(value) not in (int, float) or (schema["type"] == "integer" and value % 1):
        return False
    return bool(
        schema.get("minimum", value) <= value <= schema.get("maximum", value)
        and ("exclusiveMinimum" not in schema or value > schema["exclusiveMinimum"])
        and ("exclusiveMaximum" not in schema or value < schema["exclusiveMaximum"])
    )


def _is_same(value: Any, other: Any) -> bool:
    """Return whether a read value equals one of a schema; true is not 1."""
    if isinstance(value, _Members):
        members = dict(value)
        return (
            isinstance(other, dict)
            and len(members) == len(value) == len(other)
            and all(name in other and _is_same(member, other[name]) for name, member in value)
        )
    if isinstance(value, list):
        return isinstance(other, list) and len(value) == len(other) and all(map(_is_same, value, other))
    return isinstance(value, bool) == isinstance(other, bool) and bool(value == other)


def _texts_of(value: Any) -> Iterator[str]:
    """Yield the strings of a read value, without the names of members."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for one in value:
            yield from _texts_of(one[1] if isinstance(value, _Members) else one)


def _fixed_texts(schema: Any) -> Iterator[str]:
    """Yield the names and values that a prepared schema gives."""
    if not isinstance(schema, dict):
        return
    for value in schema.get("enum", ()):
        yield from texts_of(value)
    for name, one in schema.get("properties", {}).items():
        yield name
        yield from _fixed_texts(one)
    for one in (*schema.get("anyOf", ()), schema.get("items"), schema.get("additionalProperties")):
        yield from _fixed_texts(one)
    for folder in ("$defs", "definitions"):
        for one in schema.get(folder, {}).values():
            yield from _fixed_texts(one)
