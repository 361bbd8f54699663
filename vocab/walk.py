"""The product walk itself: from given states along all tokens, in compiled code over flat arrays.

It writes down where a walk leads as sets of readings and makes no states of them; ``vocab.product`` does. The arrays
come in named tuples, which compiled code can take.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from vocab._jit import kernel
from vocab._search import position_of
from vocab.byte_trie import Int32Array, Uint8Array
from vocab.readings import FULL, MAX_READINGS, add_reading, settle

Int64Array = npt.NDArray[np.int64]


class TextArrays(NamedTuple):
    """The text automaton's arrays, as kernels take them; ``hub_states`` is -1 but for the nodes between words."""

    edge_start: Int32Array
    edge_bytes: Uint8Array
    edge_targets: Int32Array
    continuations: Int32Array
    continuation_ranks: Int32Array
    smallest_ranks: Int32Array
    is_hub: Uint8Array
    hub_states: Int32Array


class TrieArrays(NamedTuple):
    """The token trie's arrays; ``child_labels`` lies beside ``children``, ``roots`` is the root's child by byte."""

    child_start: Int32Array
    child_labels: Uint8Array
    children: Int32Array
    roots: Int32Array
    token_start: Int32Array
    tokens: Int32Array


class StateArrays(NamedTuple):
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


class Steps(NamedTuple):
    """Where a walk writes: a step from a state to a trie node where tokens end, with the readings there."""

    states: Int32Array
    trie_nodes: Int32Array
    ranks: Int32Array
    set_start: Int64Array
    set_nodes: Int32Array
    set_owed: Int32Array

    @classmethod
    def empty(cls, size: int) -> "Steps":
        def ints() -> Int32Array:
            return np.empty(size, dtype=np.int32)

        return cls(ints(), ints(), ints(), np.zeros(size + 1, dtype=np.int64), ints(), ints())


class Scratch(NamedTuple):
    """Scratch space of a walk: sets of readings, and a stack of (trie node, set)."""

    nodes: Int32Array
    owed: Int32Array
    stack_trie: Int32Array
    stack_count: Int32Array
    stack_nodes: Int32Array
    stack_owed: Int32Array

    @classmethod
    def empty(cls, depth: int) -> "Scratch":
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


@kernel
def _add_with_continuations(
    text: TextArrays, nodes: Int32Array, owed: Int32Array, count: int, node: int, rank: int
) -> int:
    """Adds a reading and all that its node may also be."""
    count = add_reading(nodes, owed, count, node, rank)
    while text.continuations[node] >= 0:
        rank = max(rank, text.continuation_ranks[node])
        node = text.continuations[node]
        count = add_reading(nodes, owed, count, node, rank)
    return count


@kernel
def _split_link(state: int, text: TextArrays, states: StateArrays, work: Scratch) -> int:
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
        if num_behind == FULL:
            return FULL
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
def _add_link_readings(
    state: int, token: int, states: StateArrays, nodes: Int32Array, owed: Int32Array, count: int
) -> int:
    """Adds the readings that a token has through the state's link. What was paid there is owed again here."""
    floor = np.int32(0)
    while states.links[state] >= 0:
        floor = max(floor, states.link_ranks[state])
        state = states.links[state]
        edge = position_of(states.hub_tokens, states.hub_edge_start[state], states.hub_edge_start[state + 1], token)
        if edge >= 0:
            target, rank = states.hub_targets[edge], states.hub_ranks[edge]
            for i in range(states.reading_start[target], states.reading_start[target + 1]):
                rest = states.reading_owed[i] if states.reading_owed[i] > 0 else rank
                count = add_reading(nodes, owed, count, states.reading_nodes[i], max(floor, rest))
            return count
    return count


@kernel
def _push_children(at: int, count: int, top: int, text: TextArrays, trie: TrieArrays, work: Scratch) -> int:
    """Steps over every byte that follows both the trie node and the ``count`` readings in ``work``; the new top."""
    nodes, owed = work.nodes[0], work.owed[0]
    for lead in range(count):
        for edge in range(text.edge_start[nodes[lead]], text.edge_start[nodes[lead] + 1]):
            label = text.edge_bytes[edge]
            child = trie.roots[label]
            if at != 0:
                place = position_of(trie.child_labels, trie.child_start[at], trie.child_start[at + 1], label)
                child = trie.children[place] if place >= 0 else -1
            if child < 0:
                continue
            target_nodes, target_owed = work.stack_nodes[top], work.stack_owed[top]
            size = 0
            for other in range(count):
                place = edge
                if other != lead:
                    node = nodes[other]
                    place = position_of(text.edge_bytes, text.edge_start[node], text.edge_start[node + 1], label)
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
def walk_states(
    first_state: int,
    last_state: int,
    text: TextArrays,
    trie: TrieArrays,
    states: StateArrays,
    steps: Steps,
    work: Scratch,
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
