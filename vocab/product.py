"""The product of the text automaton and the token trie: which token leads from which state to which.

A state is a small set of readings (see ``vocab.readings``). Nearly all states are one node with nothing owed; entries
with blanks, elisions beside whole entries and tokens that end inside a character give the others. The rank that a
token asks for pays what its readings owe up to that rank, so states do not depend on N.

A state whose first step may also be that of a node between words *links* to that node's state instead of repeating
its tokens; the states of those nodes come first. This module knows nothing of budgets, files or vLLM.
"""

from dataclasses import dataclass
from typing import NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from vocab._jit import kernel
from vocab.byte_trie import Int32Array, Uint8Array
from vocab.errors import CompileError
from vocab.readings import FULL, MAX_READINGS, add_reading, index_states, intern_sets, settle
from vocab.text_automaton import TextAutomaton
from vocab.token_trie import TokenTrie

Int64Array = npt.NDArray[np.int64]
Integer = TypeVar("Integer", np.int32, np.int64)


@dataclass(frozen=True)
class TokenEdges:
    """Token edges between states; state arrays have one entry per state.

    Attributes:
        edge_start: int64 (states + 1,), where a state's own edges begin in the next three.
        tokens: int32, ascending within a state.
        targets: int32, states.
        ranks: int32, the N from which on the token may come.
        links: int32, the earlier state whose edges apply besides a state's own (which come first), or -1.
        link_ranks: int32, the N from which on the link applies.
        complete_ranks: int32, the N from which on a text may stop here.
        start: The state of the empty text.
    """

    edge_start: Int64Array
    tokens: Int32Array
    targets: Int32Array
    ranks: Int32Array
    links: Int32Array
    link_ranks: Int32Array
    complete_ranks: Int32Array
    start: int


def multiply(text: TextAutomaton, tokens: TokenTrie) -> TokenEdges:
    """Walks both automata side by side, once for every N.

    Raises:
        CompileError: A text of the list can be read in more than ``MAX_READINGS`` ways at once.
    """
    return _Product(text, tokens).compute()


class _Text(NamedTuple):
    """The text automaton's arrays, as kernels take them; ``hub_states`` is -1 but for the nodes between words."""

    edge_start: Int32Array
    edge_bytes: Uint8Array
    edge_targets: Int32Array
    continuations: Int32Array
    continuation_ranks: Int32Array
    smallest_ranks: Int32Array
    is_hub: Uint8Array
    hub_states: Int32Array


class _Trie(NamedTuple):
    """The token trie's arrays; ``child_labels`` lies beside ``children``, ``roots`` is the root's child by byte."""

    child_start: Int32Array
    child_labels: Uint8Array
    children: Int32Array
    roots: Int32Array
    token_start: Int32Array
    tokens: Int32Array


class _States(NamedTuple):
    """Readings of each state, links, and the finished edges of the states that others link to."""

    reading_start: Int64Array
    reading_nodes: Int32Array
    reading_owed: Int32Array
    links: Int32Array
    link_ranks: Int32Array
    hub_edge_start: Int64Array
    hub_tokens: Int32Array
    hub_targets: Int32Array
    hub_ranks: Int32Array


class _Steps(NamedTuple):
    """Where a walk writes: a step from a state to a trie node where tokens end, with the readings there."""

    states: Int32Array
    trie_nodes: Int32Array
    ranks: Int32Array
    set_start: Int64Array
    set_nodes: Int32Array
    set_owed: Int32Array

    @classmethod
    def empty(cls, size: int) -> "_Steps":
        def ints() -> Int32Array:
            return np.empty(size, dtype=np.int32)

        return cls(ints(), ints(), ints(), np.zeros(size + 1, dtype=np.int64), ints(), ints())


class _Work(NamedTuple):
    """Scratch space of a walk: sets of readings, and a stack of (trie node, set)."""

    nodes: Int32Array
    owed: Int32Array
    stack_trie: Int32Array
    stack_count: Int32Array
    stack_nodes: Int32Array
    stack_owed: Int32Array

    @classmethod
    def empty(cls, depth: int) -> "_Work":
        def sets(rows: int) -> Int32Array:
            return np.empty((rows, MAX_READINGS), dtype=np.int32)

        return cls(
            sets(2),
            sets(2),
            np.empty(depth, dtype=np.int32),
            np.empty(depth, dtype=np.int32),
            sets(depth),
            sets(depth),
        )


class _Product:
    """Discovers states batch by batch: first those that others link to, then whatever tokens lead to."""

    def __init__(self, text: TextAutomaton, tokens: TokenTrie) -> None:
        trie = tokens.trie
        roots = np.full(256, -1, dtype=np.int32)
        first = trie.children[trie.child_start[0] : trie.child_start[1]]
        roots[trie.labels[first]] = first
        self._trie = _Trie(
            trie.child_start, trie.labels[trie.children], trie.children, roots, tokens.token_start, tokens.tokens
        )
        self._num_hubs = len(text.hubs_first)
        hub_states = np.full(len(text.continuations), -1, dtype=np.int32)
        hub_states[text.hubs_first] = np.arange(self._num_hubs, dtype=np.int32)
        self._text = _Text(
            text.edge_start,
            text.edge_bytes,
            text.edge_targets,
            text.continuations,
            text.continuation_ranks,
            text.smallest_ranks,
            text.is_hub,
            hub_states,
        )
        self._source = text
        # All bytes of a token path are on the stack at most once per child: 256 children times the longest token.
        self._work = _Work.empty(256 * 64)
        self._steps = _Steps.empty(1 << 16)
        self._num_states = self._num_hubs
        self._reading_start = np.arange(self._num_hubs + 1, dtype=np.int64)
        self._reading_nodes = text.hubs_first.copy()
        self._reading_owed = np.zeros(self._num_hubs, dtype=np.int32)
        self._table = np.empty(0, dtype=np.int32)
        self._links = np.full(self._num_hubs, -1, dtype=np.int32)
        self._link_ranks = np.zeros(self._num_hubs, dtype=np.int32)
        self._counts: list[Int64Array] = []
        self._edges: list[tuple[Int32Array, Int32Array, Int32Array]] = []
        self._hub_edges = self._concatenated_hubs()

    def compute(self) -> TokenEdges:
        done = 0
        for level_end in self._hub_levels():
            self._process(done, level_end)
            done = level_end
            self._hub_edges = self._concatenated_hubs()
        while done < self._num_states:
            batch_end = self._num_states
            self._process(done, batch_end)
            done = batch_end
        tokens, targets, ranks = (np.concatenate(parts) for parts in zip(*self._edges, strict=True))
        complete = np.minimum.reduceat(
            np.maximum(
                self._reading_owed[: self._reading_start[done]],
                self._source.complete_ranks[self._reading_nodes[: self._reading_start[done]]],
            ),
            self._reading_start[:done],
        )
        start = self._text.hub_states[self._source.start]
        return TokenEdges(
            _starts(np.concatenate(self._counts)),
            tokens,
            targets,
            ranks,
            self._links[:done].copy(),
            self._link_ranks[:done].copy(),
            complete,
            int(start),
        )

    def _hub_levels(self) -> list[int]:
        """Where runs of hubs end of which none links to another of its run."""
        depth = np.zeros(self._num_hubs, dtype=np.int32)
        for state, node in enumerate(self._source.hubs_first):
            onward = self._source.continuations[node]
            if onward >= 0:
                depth[state] = depth[self._text.hub_states[onward]] + 1
        return [*(np.flatnonzero(np.diff(depth)) + 1).tolist(), self._num_hubs]

    def _concatenated_hubs(self) -> tuple[Int64Array, Int32Array, Int32Array, Int32Array]:
        counts = np.concatenate([np.empty(0, dtype=np.int64), *self._counts])
        counts = np.concatenate([counts, np.zeros(self._num_hubs - len(counts), dtype=np.int64)])
        none = np.empty(0, dtype=np.int32)
        parts = [np.concatenate([none, *(edges[i] for edges in self._edges)]) for i in range(3)]
        return _starts(counts), parts[0], parts[1], parts[2]

    def _process(self, first: int, last: int) -> None:
        """Walks from the states first to last, and adds their edges and the states that these lead to."""
        while first < last:
            states = _States(
                self._reading_start,
                self._reading_nodes,
                self._reading_owed,
                self._links,
                self._link_ranks,
                *self._hub_edges,
            )
            reached, num_steps, num_readings = _walk_states(
                first, last, self._text, self._trie, states, self._steps, self._work
            )
            if reached == FULL:
                raise CompileError(
                    f"entries of the list overlap in more than {MAX_READINGS} ways; remove some entries with spaces"
                )
            if reached == first:
                self._steps = _Steps.empty(2 * len(self._steps.states))
                continue
            self._add_edges(first, reached, num_steps, num_readings)
            first = reached

    def _add_edges(self, first: int, last: int, num_steps: int, num_readings: int) -> None:
        set_states = np.empty(num_steps, dtype=np.int32)
        self._make_room(num_steps, num_readings)
        self._num_states = intern_sets(
            self._steps.set_start,
            self._steps.set_nodes,
            self._steps.set_owed,
            num_steps,
            self._reading_start,
            self._reading_nodes,
            self._reading_owed,
            self._num_states,
            self._table,
            set_states,
        )
        nodes = self._steps.trie_nodes[:num_steps]
        num_tokens = (self._trie.token_start[nodes + 1] - self._trie.token_start[nodes]).astype(np.int64)
        step = np.repeat(np.arange(num_steps), num_tokens)
        place = np.arange(len(step)) - np.repeat(_starts(num_tokens)[:-1], num_tokens)
        tokens = self._trie.tokens[self._trie.token_start[nodes[step]] + place]
        sources = self._steps.states[step]
        order = np.lexsort((tokens, sources))
        step = step[order]
        self._edges.append((tokens[order], set_states[step], self._steps.ranks[step]))
        self._counts.append(np.bincount(sources - first, minlength=last - first).astype(np.int64))

    def _make_room(self, num_steps: int, num_readings: int) -> None:
        """Sizes the state arrays and the index for as many new states as there are steps."""
        most = self._num_states + num_steps
        if most + 1 > len(self._reading_start):
            self._reading_start = _resized(self._reading_start, 2 * most + 1)
            self._links = _resized(self._links, 2 * most, -1)
            self._link_ranks = _resized(self._link_ranks, 2 * most)
        most_readings = int(self._reading_start[self._num_states]) + num_readings
        if most_readings > len(self._reading_nodes):
            self._reading_nodes = _resized(self._reading_nodes, 2 * most_readings)
            self._reading_owed = _resized(self._reading_owed, 2 * most_readings)
        if 2 * most > len(self._table):
            self._table = index_states(
                self._reading_start,
                self._reading_nodes,
                self._reading_owed,
                self._num_states,
                1 << (4 * most).bit_length(),
            )


def _starts(counts: Int64Array) -> Int64Array:
    starts = np.zeros(len(counts) + 1, dtype=np.int64)
    np.cumsum(counts, out=starts[1:])
    return starts


def _resized(array: npt.NDArray[Integer], size: int, fill: int = 0) -> npt.NDArray[Integer]:
    larger = np.full(size, fill, dtype=array.dtype)
    larger[: len(array)] = array
    return larger


@kernel
def _position(labels: Uint8Array, first: int, last: int, label: int) -> int:
    """The position of a byte among the ascending ones from first to last, or -1."""
    end = last
    while first < last:
        middle = (first + last) >> 1
        if labels[middle] < label:
            first = middle + 1
        else:
            last = middle
    return first if first < end and labels[first] == label else -1


@kernel
def _add_with_continuations(text: _Text, nodes: Int32Array, owed: Int32Array, count: int, node: int, rank: int) -> int:
    """Adds a reading and all that its node may also be."""
    count = add_reading(nodes, owed, count, node, rank)
    while text.continuations[node] >= 0:
        rank = max(rank, text.continuation_ranks[node])
        node = text.continuations[node]
        count = add_reading(nodes, owed, count, node, rank)
    return count


@kernel
def _split_link(state: int, text: _Text, states: _States, work: _Work) -> int:
    """Parts a state's readings into its link and the rest, which is left at the bottom of the stack; its size.

    One reading links to what its node may also be. Several link to the place between words that they share; where
    they differ, to one of the hubs behind those places, and walk the others themselves.
    """
    nodes, owed = work.stack_nodes[0], work.stack_owed[0]
    places, place_owed = work.nodes[0], work.owed[0]
    first, last = states.reading_start[state], states.reading_start[state + 1]
    count, num_places = 0, 0
    for i in range(first, last):
        node, rank = states.reading_nodes[i], states.reading_owed[i]
        if last - first > 1 and text.hub_states[node] >= 0:
            num_places = add_reading(places, place_owed, num_places, node, rank)
            continue
        count = add_reading(nodes, owed, count, node, rank)
        onward = text.continuations[node]
        if onward >= 0:
            num_places = add_reading(places, place_owed, num_places, onward, max(rank, text.continuation_ranks[node]))
    if num_places > 1:
        behind, behind_owed = work.nodes[1], work.owed[1]
        num_behind = 0
        for i in range(num_places):
            node, rank = places[i], place_owed[i]
            num_behind = _add_with_continuations(text, behind, behind_owed, num_behind, node, rank)
        num_places = 0
        for i in range(num_behind):
            if text.is_hub[behind[i]] and num_places == 0:
                num_places = add_reading(places, place_owed, 0, behind[i], behind_owed[i])
            else:
                count = add_reading(nodes, owed, count, behind[i], behind_owed[i])
    if count == FULL or num_places == FULL:
        return FULL
    if num_places == 1:
        states.links[state] = text.hub_states[places[0]]
        states.link_ranks[state] = place_owed[0]
    return count


@kernel
def _add_link_readings(state: int, token: int, states: _States, nodes: Int32Array, owed: Int32Array, count: int) -> int:
    """Adds the readings that a token has through the state's link. What was paid there is owed again here."""
    floor = np.int32(0)
    while states.links[state] >= 0:
        floor = max(floor, states.link_ranks[state])
        state = states.links[state]
        first, last = states.hub_edge_start[state], states.hub_edge_start[state + 1]
        end = last
        while first < last:
            middle = (first + last) >> 1
            if states.hub_tokens[middle] < token:
                first = middle + 1
            else:
                last = middle
        if first < end and states.hub_tokens[first] == token:
            target, rank = states.hub_targets[first], states.hub_ranks[first]
            for i in range(states.reading_start[target], states.reading_start[target + 1]):
                rest = states.reading_owed[i] if states.reading_owed[i] > 0 else rank
                count = add_reading(nodes, owed, count, states.reading_nodes[i], max(floor, rest))
            return count
    return count


@kernel
def _push_children(at: int, count: int, top: int, text: _Text, trie: _Trie, work: _Work) -> int:
    """Steps over every byte that follows both the trie node and the ``count`` readings in ``work``; the new top."""
    nodes, owed = work.nodes[0], work.owed[0]
    for lead in range(count):
        for edge in range(text.edge_start[nodes[lead]], text.edge_start[nodes[lead] + 1]):
            label = text.edge_bytes[edge]
            child = trie.roots[label]
            if at != 0:
                place = _position(trie.child_labels, trie.child_start[at], trie.child_start[at + 1], label)
                child = trie.children[place] if place >= 0 else -1
            if child < 0:
                continue
            target_nodes, target_owed = work.stack_nodes[top], work.stack_owed[top]
            size = 0
            for other in range(count):
                place = edge
                if other != lead:
                    node = nodes[other]
                    place = _position(text.edge_bytes, text.edge_start[node], text.edge_start[node + 1], label)
                if place >= 0:
                    if other < lead:
                        size = 0
                        break
                    size = add_reading(target_nodes, target_owed, size, text.edge_targets[place], owed[other])
            if size == 0:
                continue
            if size == FULL or top == len(work.stack_trie) - 1:
                return FULL
            work.stack_trie[top] = child
            work.stack_count[top] = size
            top += 1
    return top


@kernel
def _walk_states(
    first_state: int,
    last_state: int,
    text: _Text,
    trie: _Trie,
    states: _States,
    steps: _Steps,
    work: _Work,
) -> tuple[int, int, int]:
    """Writes the steps from as many of the states as ``steps`` has room for.

    Returns:
        The first state not walked (``FULL`` where a set of readings outgrew its place), the number of steps, and the
        number of readings written.
    """
    nodes, owed = work.nodes[0], work.owed[0]
    num_steps, num_readings = 0, 0
    for state in range(first_state, last_state):
        steps_before, readings_before = num_steps, num_readings
        count = _split_link(state, text, states, work)
        if count == FULL:
            return FULL, 0, 0
        work.stack_trie[0] = 0
        work.stack_count[0] = count
        top = 1
        while top > 0:
            top -= 1
            at = work.stack_trie[top]
            count = 0
            for i in range(work.stack_count[top]):
                node, rank = work.stack_nodes[top, i], work.stack_owed[top, i]
                if at == 0:
                    count = add_reading(nodes, owed, count, node, rank)
                else:
                    count = _add_with_continuations(text, nodes, owed, count, node, rank)
            here = work.stack_count[top]
            if trie.token_start[at] < trie.token_start[at + 1]:
                # Tokens end here: write the step, in the very places that `_push_children` reuses after it.
                if num_steps == len(steps.states) or num_readings + 2 * MAX_READINGS > len(steps.set_nodes):
                    return state, steps_before, readings_before
                set_nodes = steps.set_nodes[num_readings : num_readings + MAX_READINGS]
                set_owed = steps.set_owed[num_readings : num_readings + MAX_READINGS]
                set_nodes[:here] = work.stack_nodes[top, :here]
                set_owed[:here] = work.stack_owed[top, :here]
                token = trie.tokens[trie.token_start[at]]
                here = _add_link_readings(state, token, states, set_nodes, set_owed, here)
                if here == FULL:
                    return FULL, 0, 0
                steps.ranks[num_steps] = settle(set_nodes, set_owed, here, text.smallest_ranks)
                steps.states[num_steps] = state
                steps.trie_nodes[num_steps] = at
                num_readings += here
                num_steps += 1
                steps.set_start[num_steps] = num_readings
            top = _push_children(at, count, top, text, trie, work)
            if count == FULL or top < 0:
                return FULL, 0, 0
    return last_state, num_steps, num_readings
