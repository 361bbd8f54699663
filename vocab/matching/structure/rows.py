"""What may come at each place of a JSON answer, for one schema and list: rows of tokens, made when they are needed.

Around the strings the graph says which tokens may come; within one, its list. A token may lie across the border: it
begins with marks and the quotation mark that closes a string, or ends with one that opens the next.
"""

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from threading import Lock
from typing import Final, NamedTuple

import numpy as np

from vocab.arrays.byte_trie import Int32Array
from vocab.errors import StructureError
from vocab.matching.controls import Controls
from vocab.matching.list_kinds import PlainStates, control
from vocab.matching.mask_kernels import NO_BUDGET
from vocab.matching.structure.graph import NO_LIMIT, Graph
from vocab.matching.structure.needs import ENDLESS, Need, measure
from vocab.matching.structure.places import (
    AROUND,
    MAX_PLACES,
    Place,
    Places,
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
"""Rules that are open around a place: thirty or more objects and arrays in one another. Deeper ones are not begun."""

MAX_ROWS: Final = 4096
"""Of one schema and list that are cached, a few kilobytes each."""


class _Expanded(NamedTuple):
    """The places that are reached without a byte and go on, and whether the answer may end there."""

    leaves: tuple[Place, ...]
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


class Around(NamedTuple):
    """What may come around the strings.

    Attributes:
        row: Tokens that begin there.
        openings: The strings that may begin, each with its kind and the places after it.
        can_end: The answer may end.
    """

    row: Row
    openings: tuple[tuple[int, Places], ...]
    can_end: bool


class After(NamedTuple):
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
    joined: dict[tuple[int, ...], Row | None]

    def after_marks(self, marks: tuple[int, ...]) -> Row | None:
        """Return the tokens that close the string after one of these tokens of marks; None for none."""
        if marks not in self.joined:
            row: Row | None = None
            for before in marks:
                if before in self.marked:
                    row = self.marked[before] if row is None else row.joined(self.marked[before])
            self.joined[marks] = row
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
        self.start: Places = pack([Place(graph.starts[graph.root], ())])
        need = self.needs[graph.starts[graph.root]]
        if need.num_tokens >= ENDLESS:
            raise StructureError("a string that must come cannot be written in the word list")
        if need.depth > MAX_OPEN:
            raise StructureError("its shortest answer is nested too deeply: make it flatter")
        self._around: OrderedDict[Places, Around] = OrderedDict()
        self._after: OrderedDict[Places, After] = OrderedDict()
        self._needs_after: dict[int, Need] = {}
        self._closing_marks: dict[tuple[int, int], tuple[int, ...]] = {}
        self._lock = Lock()

    @property
    def num_bytes(self) -> int:
        """Estimate the bytes of the graph and of the rows made so far, without those of the lists."""
        return 200 * len(self.graph.nodes) + 8192 * (len(self._around) + len(self._after))

    def string_states(self) -> tuple[TextStates, ...]:
        """Return the states of strings by kind, for one text."""
        return tuple(
            control(states, _controls_of(kind)) if kind.is_controlled else states
            for states, kind in zip(self.lists, self.kinds, strict=True)
        )

    def around(self, places: Places) -> Around:
        """Return what may come at places around the strings, cached."""
        with self._lock:
            found = self._around.get(places)
            if found is None:
                found = self._around[places] = self._make_around(places)
                while len(self._around) > MAX_ROWS:
                    self._around.popitem(last=False)
            self._around.move_to_end(places)
            return found

    def after(self, places: Places) -> After:
        """Return what may come where a string ends before these places, cached."""
        with self._lock:
            found = self._after.get(places)
            if found is None:
                found = self._after[places] = self._make_after(places)
                while len(self._after) > MAX_ROWS:
                    self._after.popitem(last=False)
            self._after.move_to_end(places)
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

    def need(self, places: Places) -> int:
        """Return how few tokens complete an answer from places."""
        return min(
            self.needs[place.node].num_tokens + sum(self._need_after(frame).num_tokens for frame in place.stack)
            for place in unpack(places)
        )

    def need_of(self, thread: Thread, strings: Sequence[TextStates]) -> int:
        """Return how few tokens complete an answer from a thread."""
        if thread.kind == AROUND:
            return self.need(thread.places)
        to_end = strings[thread.kind - 1].tokens_to_end(thread.readings)
        return ENDLESS if to_end is None else to_end + 1 + self.need(thread.places)

    # What is reached without a byte.

    def _expand(self, places: Iterable[Place]) -> _Expanded:
        """Return the places that go on with bytes or strings."""
        graph = self.graph
        todo, seen = list(places), set[Place]()
        leaves: list[Place] = []
        can_end = False
        while todo:
            place = todo.pop()
            if place in seen or len(seen) > MAX_PLACES:
                continue
            seen.add(place)
            number, stack = place
            node = graph.nodes[number]
            if node.bytes or node.strings:
                leaves.append(Place(number, stack))
            todo += [Place(target, stack) for target in node.empty]
            for rule, after in node.calls:
                todo += self._opened(rule, stack, after)
            for repeat in node.repeats:
                if not graph.repeats[repeat].least:
                    todo.append(Place(graph.repeats[repeat].after, stack))
                todo += self._begun(repeat, stack, 1)
            if node.is_end and stack:
                rest = stack[:-1]
                if stack[-1] >= 0:
                    todo.append(Place(stack[-1], rest))
                else:
                    repeat, count = read_frame(stack[-1])
                    if count >= graph.repeats[repeat].least:
                        todo.append(Place(graph.repeats[repeat].after, rest))
                    todo += self._begun(repeat, rest, count + 1)
            can_end = can_end or (node.is_end and not stack)
        return _Expanded(tuple(leaves), can_end)

    def _begun(self, repeat: int, stack: Stack, count: int) -> Iterator[Place]:
        """Yield where a rule begins that is repeated, if it may."""
        rule, least, most, _ = self.graph.repeats[repeat]
        if most == NO_LIMIT:
            count = min(count, max(least, 1))
        elif count > most:
            return
        yield from self._opened(rule, stack, write_frame(repeat, count))

    def _opened(self, rule: int, stack: Stack, frame: int) -> Iterator[Place]:
        """Yield where a rule begins, unless it would be too deep to be ended."""
        start = self.graph.starts[rule]
        need, after = self.needs[start], self._need_after(frame)
        if frame >= 0 and self.graph.nodes[frame].is_only_end:
            # A chain of rules, each the last of the one before, opens no more and more.
            if need.num_tokens < ENDLESS and len(stack) + need.depth <= MAX_OPEN:
                yield Place(start, stack)
        elif (
            max(len(stack) + 1 + need.depth, len(stack) + after.depth) <= MAX_OPEN
            and need.num_tokens < ENDLESS
            and after.num_tokens < ENDLESS
        ):
            yield Place(start, (*stack, frame))

    def _need_after(self, frame: int) -> Need:
        """Return the need of what follows an open rule, in the rule around it."""
        if frame >= 0:
            return self.needs[frame]
        known = self._needs_after.get(frame)
        if known is None:
            repeat, count = read_frame(frame)
            rule, least, _, after = self.graph.repeats[repeat]
            known, times = self.needs[after], max(least - count, 0)
            if times:
                inner = self.needs[self.graph.starts[rule]]
                num_tokens = min(inner.num_tokens * times + known.num_tokens, ENDLESS)
                known = Need(num_tokens, max(inner.depth + 1, known.depth))
            self._needs_after[frame] = known
        return known

    def _advance(self, expanded: _Expanded, byte: int) -> list[Place]:
        """Return the places after a byte."""
        nodes = self.graph.nodes
        return [
            Place(target, leaf.stack)
            for leaf in expanded.leaves
            for first, last, target in nodes[leaf.node].bytes
            if first <= byte <= last and self._can_go_on(target, leaf.stack)
        ]

    def _can_go_on(self, node: int, stack: Stack) -> bool:
        """Return whether a rule can be ended from a node."""
        need = self.needs[node]
        return need.num_tokens < ENDLESS and len(stack) + need.depth <= MAX_OPEN

    def _openings(self, expanded: _Expanded) -> dict[int, Places]:
        """Return the strings that may begin, by kind, each with the places after it."""
        found: dict[int, list[Place]] = {}
        for leaf in expanded.leaves:
            for kind, after in self.graph.nodes[leaf.node].strings:
                if self._can_go_on(after, leaf.stack):
                    found.setdefault(kind, []).append(Place(after, leaf.stack))
        return {kind: pack(places) for kind, places in found.items()}

    # Rows.

    def _make_around(self, places: Places) -> Around:
        expanded = self._expand(unpack(places))
        rows = self._rows(self.tokens.spellings, 0, places)
        return Around(rows[NO_TOKEN], tuple(self._openings(expanded).items()), expanded.can_end)

    def _make_after(self, places: Places) -> After:
        closings = self.tokens.closings
        mark = closings.children(0).get(QUOTE)
        rows = {NO_TOKEN: Row({}, {})} if mark is None else self._rows(closings, mark, places)
        closing = rows.pop(NO_TOKEN)
        return After(self.need(places), closing, {before: row for before, row in rows.items() if row.targets}, {})

    def _rows(self, spellings: Spellings, start: int, places: Places) -> dict[int, Row]:
        """Return the rows of the tokens below a node that may come at places, by what stands before in them."""
        targets: dict[int, dict[int, list[Thread]]] = {NO_TOKEN: {}}
        todo = [(start, places)]
        while todo:
            node, here = todo.pop()
            for token, before in spellings.at(node):
                targets.setdefault(before, {}).setdefault(token, []).append(Thread(AROUND, here))
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

    def _opened_with(self, kind: int, after: Places, token: int) -> Iterator[Thread]:
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
