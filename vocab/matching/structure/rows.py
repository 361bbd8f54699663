"""What may come at each position of a JSON answer, for one schema and list: rows of tokens, made when they are needed.

Outside the strings the graph says which tokens may come; within one, its list. A token may lie across the border: it
begins with marks and the quotation mark that closes a string, or ends with one that opens the next.
"""

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import reduce
from threading import Lock
from typing import Final, NamedTuple

import numpy as np

from vocab.arrays.kernels import Int32Array
from vocab.errors import StructureError
from vocab.matching.controls import Controls
from vocab.matching.list_kinds import PlainStates, control
from vocab.matching.mask_kernels import NO_BUDGET
from vocab.matching.structure.graph import NO_LIMIT, Graph
from vocab.matching.structure.needs import ENDLESS, Need, after_rule, measure
from vocab.matching.structure.positions import (
    MAX_POSITIONS,
    OUTSIDE,
    Position,
    Positions,
    Stack,
    Thread,
    merge,
    pack,
    read_frame,
    unpack,
    write_frame,
)
from vocab.matching.structure.schema import StringKind
from vocab.matching.structure.tokens import NO_TOKEN, QUOTE, Spellings, StructureTokens
from vocab.matching.text_states import TextStates

MAX_OPEN: Final = 64
"""Rules that are open at a position: thirty or more objects and arrays in one another. Deeper ones are not begun."""

MAX_ROWS: Final = 4096
"""Of one schema and list that are cached, a few kilobytes each."""


class _Expanded(NamedTuple):
    """The positions that are reached without a byte and go on, and whether the answer may end there."""

    leaves: tuple[Position, ...]
    can_end: bool


class Row:
    """Tokens with the threads after each, and how few tokens complete an answer then.

    Attributes:
        targets: The threads, by token.
        most: The largest need.
    """

    def __init__(self, targets: Mapping[int, tuple[Thread, ...]], needs: Mapping[int, int]) -> None:
        self.targets, self._need_of = targets, needs
        self._tokens = np.fromiter(targets, dtype=np.int32, count=len(targets))
        self._needs = np.fromiter((needs[token] for token in targets), dtype=np.int64, count=len(targets))
        self.most = int(self._needs.max(initial=0))

    def within(self, budget: int) -> Int32Array:
        """Return the tokens after which an answer is completed within a budget, int32."""
        if budget == NO_BUDGET or self.most <= budget:
            return self._tokens
        found: Int32Array = self._tokens[self._needs <= budget]
        return found

    def allows(self, token: int, budget: int) -> bool:
        """Return whether a token may come, and an answer be completed within the budget after it."""
        need = self._need_of.get(token)
        return need is not None and (budget == NO_BUDGET or need <= budget)

    def joined(self, other: "Row") -> "Row":
        """Return the row of the tokens of both, which have none in common."""
        return Row({**self.targets, **other.targets}, {**self._need_of, **other._need_of})


class Outside(NamedTuple):
    """What may come outside the strings.

    Attributes:
        row: Tokens that begin there.
        openings: The strings that may begin, each with its kind and the positions after it.
        can_end: The answer may end.
    """

    row: Row
    openings: tuple[tuple[int, Positions], ...]
    can_end: bool


class StringEnd(NamedTuple):
    """What may come where a string ends.

    Attributes:
        need: How few tokens complete the answer after the string.
        closing: Tokens that begin with its quotation mark.
        marked: Tokens that have marks of the text before it, by the token of those marks.
        joined: Rows of several marks, by them; made when they are needed.
    """

    need: int
    closing: Row
    marked: dict[int, Row]
    joined: dict[tuple[int, ...], Row]

    def after_marks(self, marks: tuple[int, ...]) -> Row:
        """Return the tokens that close the string after one of these tokens of marks."""
        if marks not in self.joined:
            rows = (self.marked[before] for before in marks if before in self.marked)
            self.joined[marks] = reduce(Row.joined, rows, Row({}, {}))
        return self.joined[marks]


class StructuredList:
    """A schema with the states of its strings, for all answers. Thread-safe.

    Args:
        graph: The schema.
        tokens: The tokenizer's.
        strings: By kind, the states of such strings in JSON frames, in whose list ``kinds`` hold.
        kinds: How each is written.

    Raises:
        StructureError: No answer fits: a string that must come cannot be written in the list.
    """

    def __init__(
        self, graph: Graph, tokens: StructureTokens, strings: Sequence[PlainStates], kinds: Sequence[StringKind]
    ) -> None:
        self.graph, self.tokens, self.kinds, self.lists = graph, tokens, tuple(kinds), tuple(strings)
        self.words = strings[0].words
        self.num_words = (self.words.num_tokens + 31) // 32
        self.strings = self.string_states()
        fewest = [states.tokens_to_end(states.start) for states in self.strings]
        self.needs = measure(graph, tokens, [ENDLESS if few is None else few + 1 for few in fewest])
        self.start: Positions = pack([Position(graph.starts[graph.root], ())])
        need = self.needs[graph.starts[graph.root]]
        if need.num_tokens >= ENDLESS:
            raise StructureError("a string that must come cannot be written in the word list")
        if need.depth > MAX_OPEN:
            raise StructureError("its shortest answer is nested too deeply: make it flatter")
        self._outside: OrderedDict[Positions, Outside] = OrderedDict()
        self._string_ends: OrderedDict[Positions, StringEnd] = OrderedDict()
        self._needs_after: dict[int, Need] = {}
        self._closing_marks: dict[tuple[int, int], tuple[int, ...]] = {}
        self._lock = Lock()

    @property
    def num_bytes(self) -> int:
        """Estimate the bytes of the graph and of the rows made so far, without those of the lists."""
        return 200 * len(self.graph.nodes) + 8192 * (len(self._outside) + len(self._string_ends))

    def string_states(self) -> tuple[TextStates, ...]:
        """Return the states of strings by kind, for one text."""
        return tuple(
            control(states, _controls_of(kind)) if kind.is_controlled else states
            for states, kind in zip(self.lists, self.kinds, strict=True)
        )

    def outside(self, positions: Positions) -> Outside:
        """Return what may come at positions outside the strings, cached."""
        with self._lock:
            found = self._outside.get(positions)
            if found is None:
                found = self._outside[positions] = self._make_outside(positions)
                while len(self._outside) > MAX_ROWS:
                    self._outside.popitem(last=False)
            self._outside.move_to_end(positions)
            return found

    def string_end(self, positions: Positions) -> StringEnd:
        """Return what may come where a string ends before these positions, cached."""
        with self._lock:
            found = self._string_ends.get(positions)
            if found is None:
                found = self._string_ends[positions] = self._make_string_end(positions)
                while len(self._string_ends) > MAX_ROWS:
                    self._string_ends.popitem(last=False)
            self._string_ends.move_to_end(positions)
            return found

    def closing_marks(self, kind: int, reading: int) -> tuple[int, ...]:
        """Return the tokens of marks after which a string without controls may be closed, at a reading; cached."""
        states = self.lists[kind]
        gap = states.gap_after(reading)
        if gap is None:
            return ()
        known = self._closing_marks.get((kind, gap))
        if known is None:
            targets = ((marks, states.target((gap,), marks, NO_BUDGET)) for marks in self.tokens.marks)
            known = tuple(marks for marks, target in targets if target and states.can_stop(target))
            self._closing_marks[kind, gap] = known
        return known

    def need(self, positions: Positions) -> int:
        """Return how few tokens complete an answer from positions."""
        return min(
            self.needs[position.node].num_tokens + sum(self._need_after(frame).num_tokens for frame in position.stack)
            for position in unpack(positions)
        )

    def need_of(self, thread: Thread, strings: Sequence[TextStates]) -> int:
        """Return how few tokens complete an answer from a thread."""
        if thread.kind == OUTSIDE:
            return self.need(thread.positions)
        to_end = strings[thread.kind - 1].tokens_to_end(thread.readings)
        return ENDLESS if to_end is None else to_end + 1 + self.need(thread.positions)

    # What is reached without a byte.

    def _expand(self, positions: Iterable[Position]) -> _Expanded:
        """Return the positions that go on with bytes or strings."""
        graph = self.graph
        todo, seen = list(positions), set[Position]()
        leaves: list[Position] = []
        can_end = False
        while todo:
            position = todo.pop()
            if position in seen or len(seen) > MAX_POSITIONS:
                continue
            seen.add(position)
            number, stack = position
            node = graph.nodes[number]
            if node.bytes or node.strings:
                leaves.append(Position(number, stack))
            todo += [Position(target, stack) for target in node.empty]
            for rule, after in node.calls:
                todo += self._opened(rule, stack, after)
            for repeat in node.repeats:
                if not graph.repeats[repeat].least:
                    todo.append(Position(graph.repeats[repeat].after, stack))
                todo += self._begun(repeat, stack, 1)
            if node.is_end and stack:
                rest = stack[:-1]
                if stack[-1] >= 0:
                    todo.append(Position(stack[-1], rest))
                else:
                    repeat, count = read_frame(stack[-1])
                    if count >= graph.repeats[repeat].least:
                        todo.append(Position(graph.repeats[repeat].after, rest))
                    todo += self._begun(repeat, rest, count + 1)
            can_end = can_end or (node.is_end and not stack)
        return _Expanded(tuple(leaves), can_end)

    def _begun(self, repeat: int, stack: Stack, count: int) -> Iterator[Position]:
        """Yield where a rule begins that is repeated, if it may."""
        rule, least, most, _ = self.graph.repeats[repeat]
        if most == NO_LIMIT:
            count = min(count, max(least, 1))
        elif count > most:
            return
        yield from self._opened(rule, stack, write_frame(repeat, count))

    def _opened(self, rule: int, stack: Stack, frame: int) -> Iterator[Position]:
        """Yield where a rule begins, unless it would be too deep to be ended."""
        start = self.graph.starts[rule]
        need, after = self.needs[start], self._need_after(frame)
        if frame >= 0 and self.graph.nodes[frame].is_only_end:
            # A chain of rules, each the last of the one before, opens no more and more.
            if need.num_tokens < ENDLESS and len(stack) + need.depth <= MAX_OPEN:
                yield Position(start, stack)
        elif (
            max(len(stack) + 1 + need.depth, len(stack) + after.depth) <= MAX_OPEN
            and need.num_tokens < ENDLESS
            and after.num_tokens < ENDLESS
        ):
            yield Position(start, (*stack, frame))

    def _need_after(self, frame: int) -> Need:
        """Return the need of what follows an open rule, in the rule around it."""
        if frame >= 0:
            return self.needs[frame]
        known = self._needs_after.get(frame)
        if known is None:
            repeat, count = read_frame(frame)
            rule, least, _, after = self.graph.repeats[repeat]
            known = after_rule(self.needs[self.graph.starts[rule]], max(least - count, 0), self.needs[after])
            self._needs_after[frame] = known
        return known

    def _advance(self, expanded: _Expanded, byte: int) -> list[Position]:
        """Return the positions after a byte."""
        nodes = self.graph.nodes
        return [
            Position(target, leaf.stack)
            for leaf in expanded.leaves
            for first, last, target in nodes[leaf.node].bytes
            if first <= byte <= last and self._can_go_on(target, leaf.stack)
        ]

    def _can_go_on(self, node: int, stack: Stack) -> bool:
        """Return whether a rule can be ended from a node."""
        need = self.needs[node]
        return need.num_tokens < ENDLESS and len(stack) + need.depth <= MAX_OPEN

    def _openings(self, expanded: _Expanded) -> dict[int, Positions]:
        """Return the strings that may begin, by kind, each with the positions after it."""
        found: dict[int, list[Position]] = {}
        for leaf in expanded.leaves:
            for kind, after in self.graph.nodes[leaf.node].strings:
                if self._can_go_on(after, leaf.stack):
                    found.setdefault(kind, []).append(Position(after, leaf.stack))
        return {kind: pack(positions) for kind, positions in found.items()}

    # Rows.

    def _make_outside(self, positions: Positions) -> Outside:
        expanded = self._expand(unpack(positions))
        rows = self._rows(self.tokens.spellings, 0, positions)
        return Outside(rows[NO_TOKEN], tuple(self._openings(expanded).items()), expanded.can_end)

    def _make_string_end(self, positions: Positions) -> StringEnd:
        closings = self.tokens.closings
        mark = closings.children(0).get(QUOTE)
        rows = {NO_TOKEN: Row({}, {})} if mark is None else self._rows(closings, mark, positions)
        closing = rows.pop(NO_TOKEN)
        return StringEnd(
            self.need(positions), closing, {before: row for before, row in rows.items() if row.targets}, {}
        )

    def _rows(self, spellings: Spellings, start: int, positions: Positions) -> dict[int, Row]:
        """Return the rows of the tokens below a node that may come at positions, by what stands before in them."""
        targets: dict[int, dict[int, list[Thread]]] = {NO_TOKEN: {}}
        todo = [(start, positions)]
        while todo:
            node, here = todo.pop()
            for token, before in spellings.at(node):
                targets.setdefault(before, {}).setdefault(token, []).append(Thread(OUTSIDE, here))
            expanded, children = self._expand(unpack(here)), spellings.children(node)
            if node and QUOTE in children:
                for kind, after in self._openings(expanded).items():
                    for spelled, (token, before) in spellings.below(children[QUOTE], bytes((QUOTE,))):
                        opened = self._opened_with(kind, after, self.tokens.id_of(spelled))
                        targets.setdefault(before, {}).setdefault(token, []).extend(opened)
            todo += [
                (children[byte], pack(following))
                for byte in self._next_bytes(expanded, children)
                if (following := self._advance(expanded, byte))
            ]
        return {before: self._row(one) for before, one in targets.items()}

    def _next_bytes(self, expanded: _Expanded, among: Iterable[int]) -> list[int]:
        """Return the bytes that may come, of those among which a token goes on."""
        ranges = {edge[:2] for leaf in expanded.leaves for edge in self.graph.nodes[leaf.node].bytes}
        return [byte for byte in among if any(first <= byte <= last for first, last in ranges)]

    def _opened_with(self, kind: int, after: Positions, token: int) -> Iterator[Thread]:
        """Yield the thread within a string that begins with a token."""
        if token != NO_TOKEN and (readings := self.strings[kind].target(self.strings[kind].start, token, NO_BUDGET)):
            yield Thread(1 + kind, after, readings)

    def _row(self, targets: dict[int, list[Thread]]) -> Row:
        """Make a row of tokens with the threads after them; those after which nothing can be completed are left out."""
        kept: dict[int, tuple[Thread, ...]] = {}
        needs: dict[int, int] = {}
        for token, threads in targets.items():
            if threads and (need := min(self.need_of(thread, self.strings) for thread in threads)) < ENDLESS:
                kept[token], needs[token] = merge(threads), need
        return Row(kept, needs)


def _controls_of(kind: StringKind) -> Controls:
    """Return what the schema's author asks of a string beyond its list."""
    return Controls(
        max_sentence_words=kind.max_words, min_sentences=kind.min_sentences, max_sentences=kind.max_sentences
    )
