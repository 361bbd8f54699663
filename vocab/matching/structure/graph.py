"""A JSON schema as a graph over bytes: what stands around its strings, and where its strings are.

xgrammar turns the schema into a grammar. Its rules become nodes, with edges by bytes, into other rules, and over
strings of the list.
"""

import json
import re
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from vocab.errors import StructureError
from vocab.matching.structure.schema import (
    FIRST_PLACEHOLDER,
    KEY_NUMBER,
    MAX_KINDS,
    PLAIN_NUMBER,
    PreparedSchema,
    placeholder,
)

NO_LIMIT: Final = -1
"""Of a repeat."""

_STRING: Final = re.compile(f'"([{placeholder(0)}-{placeholder(MAX_KINDS - 1)}])"')

_BYTES, _CLASS, _CLASS_STAR, _EMPTY, _RULE, _SEQUENCE, _CHOICES, _REPEAT = 0, 1, 2, 3, 4, 5, 6, 8
"""Kinds of expressions in xgrammar's serialized grammars."""

_ANY_STRING: Final = "basic_string"
"""xgrammar's rule of a string without bounds: where any JSON may stand, and the names of members that the schema does
not name."""

_MAX_NODES: Final = 200_000


class Repeat(NamedTuple):
    """A rule that comes ``least`` to ``most`` times, ``most`` perhaps ``NO_LIMIT``, and then ``after``."""

    rule: int
    least: int
    most: int
    after: int


@dataclass(slots=True)
class Node:
    """A place in a rule.

    Attributes:
        bytes: Edges by a byte: the first and last one, and the node after it.
        empty: Nodes that are reached without a byte.
        calls: Rules that may come here, each with the node after it.
        repeats: Numbers of ``Graph.repeats`` that may begin here.
        strings: Numbers of kinds of strings that may come here, quotation marks included, each with the node after it.
        is_end: The rule may end here.
    """

    bytes: list[tuple[int, int, int]] = field(default_factory=list)
    empty: list[int] = field(default_factory=list)
    calls: list[tuple[int, int]] = field(default_factory=list)
    repeats: list[int] = field(default_factory=list)
    strings: list[tuple[int, int]] = field(default_factory=list)
    is_end: bool = False

    @property
    def is_one_byte(self) -> bool:
        """Return whether a single byte comes here, and nothing else."""
        return (
            len(self.bytes) == 1
            and self.bytes[0][0] == self.bytes[0][1]
            and not (self.empty or self.calls or self.repeats or self.strings or self.is_end)
        )

    @property
    def is_only_end(self) -> bool:
        """Return whether the rule ends here, and nothing else comes."""
        return self.is_end and not (self.bytes or self.empty or self.calls or self.repeats or self.strings)


@dataclass(frozen=True, slots=True)
class Graph:
    """The graph of a schema.

    Attributes:
        starts: The first node of each rule.
        root: The rule of a whole answer.
    """

    nodes: list[Node]
    starts: list[int]
    repeats: list[Repeat]
    root: int

    @classmethod
    def of(cls, schema: PreparedSchema) -> "Graph":
        """Read the graph of a schema.

        Raises:
            StructureError: xgrammar cannot read the schema; or it is too large.
        """
        import xgrammar

        try:
            grammar = xgrammar.Grammar.from_json_schema(
                schema.text, any_whitespace=False, separators=(", ", ": "), strict_mode=False
            )
        except RuntimeError as error:
            raise StructureError(f"it cannot be compiled ({_last_line(str(error))})") from None
        return _Reader(json.loads(grammar.serialize_json())).read()


class _Reader:
    """Read the rules of a serialized grammar that can be reached."""

    def __init__(self, grammar: dict[str, Any]) -> None:
        self._grammar = grammar
        self._names = [rule[0] for rule in grammar["rules"]]
        self._nodes: list[Node] = []
        self._repeats: list[Repeat] = []
        self._starts: list[int] = [-1] * len(self._names)
        self._reached: list[int] = []

    def read(self) -> Graph:
        root: int = self._grammar["root_rule_id"]
        self._reach(root)
        for rule in self._reached:
            end = self._node()
            self._nodes[end].is_end = True
            self._add(self._expression(self._grammar["rules"][rule][1]), self._starts[rule], end)
        return Graph(self._nodes, self._starts, self._repeats, root)

    def _reach(self, rule: int) -> int:
        """Note that a rule is needed; return it."""
        if self._starts[rule] < 0:
            self._starts[rule] = self._node()
            self._reached.append(rule)
        return rule

    def _node(self) -> int:
        if len(self._nodes) == _MAX_NODES:
            raise StructureError("it is too large: make it smaller")
        self._nodes.append(Node())
        return len(self._nodes) - 1

    def _expression(self, number: int) -> list[int]:
        """Return an expression: its kind, then what it is made of."""
        at = self._grammar["grammar_expr_indptr"][number]
        kind, length = self._grammar["grammar_expr_data"][at : at + 2]
        return [kind, *self._grammar["grammar_expr_data"][at + 2 : at + 2 + length]]

    def _add(self, expression: list[int], start: int, end: int) -> None:
        """Add an expression between two nodes."""
        kind, *parts = expression
        node = self._nodes[start]
        if kind == _BYTES:
            self._add_bytes(bytes(part & 0xFF for part in parts), start, end)
        elif kind == _CLASS:
            node.bytes += self._ranges(parts, end)
        elif kind == _CLASS_STAR:
            loop = self._node()
            node.empty.append(loop)
            self._nodes[loop].bytes += self._ranges(parts, loop)
            self._nodes[loop].empty.append(end)
        elif kind == _EMPTY:
            node.empty.append(end)
        elif kind == _RULE:
            self._add_rule(parts[0], start, end)
        elif kind == _SEQUENCE:
            before = start
            for index in range(len(parts)):
                after = end if index == len(parts) - 1 else self._node()
                self._add_part(parts, index, before, after)
                before = after
        elif kind == _CHOICES:
            for part in parts:
                # Each begins at a node of its own: a loop of one is none of the others'.
                begin = self._node()
                node.empty.append(begin)
                self._add(self._expression(part), begin, end)
        elif kind == _REPEAT:
            rule, least, most = parts
            node.repeats.append(len(self._repeats))
            self._repeats.append(Repeat(self._reach(rule), least, most, end))
        else:
            raise StructureError("it has what cannot stand beside a word list: make it simpler")

    def _add_part(self, parts: list[int], index: int, start: int, end: int) -> None:
        """Add a part of a sequence: a string before a colon is the name of a member."""
        expression = self._expression(parts[index])
        is_string = expression[0] == _RULE and self._names[expression[1]] == _ANY_STRING
        if is_string and index + 1 < len(parts):
            following = self._expression(parts[index + 1])
            if following[0] == _BYTES and following[1:2] == [ord(":")]:
                self._nodes[start].strings.append((KEY_NUMBER, end))
                return
        self._add(expression, start, end)

    def _add_rule(self, rule: int, start: int, end: int) -> None:
        if self._names[rule] == _ANY_STRING:
            self._nodes[start].strings.append((PLAIN_NUMBER, end))
        else:
            self._nodes[start].calls.append((self._reach(rule), end))

    def _add_bytes(self, spelled: bytes, start: int, end: int) -> None:
        """Add literal bytes, in which a placeholder stands for a string."""
        found = _STRING.fullmatch(spelled.decode())
        if found is not None:
            self._nodes[start].strings.append((ord(found[1]) - FIRST_PLACEHOLDER, end))
            return
        for index, byte in enumerate(spelled):
            after = end if index == len(spelled) - 1 else self._node()
            self._nodes[start].bytes.append((byte, byte, after))
            start = after

    def _ranges(self, parts: list[int], end: int) -> list[tuple[int, int, int]]:
        """Return the edges of a class of characters."""
        is_negative, *bounds = parts
        ranges = list(zip(bounds[::2], bounds[1::2], strict=True))
        if is_negative or any(last > 0x7F for _, last in ranges):
            raise StructureError("it has what cannot stand beside a word list: make it simpler")
        return [(first, last, end) for first, last in ranges]


def _last_line(message: str) -> str:
    """Return a library's error without time, file and line number, truncated."""
    return re.sub(r"^\[[\d:]+\] \S+: ", "", message.strip())[:100].rstrip()
