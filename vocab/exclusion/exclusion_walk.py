"""Follows the search for excluded words along all token edges: which edges must go, and after which states.

The state of the search depends on the text alone, hence on the automaton's state, but for the states between words,
which are the same after every word. It knows tokens as bytes and states as numbers; it changes nothing.
"""

from typing import NamedTuple

import numpy as np

from vocab.arrays.byte_trie import Int32Array, Uint8Array
from vocab.arrays.kernels import kernel
from vocab.automaton.token_edges import TokenEdges
from vocab.automaton.token_trie import TokenTrie
from vocab.exclusion.watch import AT_START, FOUND, OUTSIDE, Watch, step

_UNKNOWN = -1


class _Tokens(NamedTuple):
    """Tokens as ways through the trie of their bytes, and where the search ends that meets one outside a word, or
    where a word may begin."""

    nodes: Int32Array
    parents: Int32Array
    labels: Uint8Array
    from_outside: Int32Array
    from_start: Int32Array


class _Edges(NamedTuple):
    edge_start: Int32Array
    tokens: Int32Array
    targets: Int32Array
    links: Int32Array


class Findings(NamedTuple):
    """What excluded words mean for a list's edges.

    Attributes:
        edges: uint8 (edges,), 1 where an excluded word ends within the token.
        links: uint8 (states,), 1 where one ends before whatever the state's link allows.
        ends: uint8 (states,), 1 where one ends with the state, so that the text must not.
    """

    edges: Uint8Array
    links: Uint8Array
    ends: Uint8Array


def follow(
    watch: Watch, trie: TokenTrie, edges: TokenEdges, gap_states: Int32Array, may_start: Uint8Array, num_hubs: int
) -> Findings:
    """Follows the search along all edges.

    Args:
        watch: The search.
        trie: The tokens.
        edges: The list's edges.
        gap_states: int32, the state of each place between words.
        may_start: uint8, 1 for those of these places where a word may start.
        num_hubs: The states before this one lie between words.

    Raises:
        ValueError: The search stands in several places in one state.
    """
    searched = np.full(len(edges.links), OUTSIDE, dtype=np.int32)
    searched[:num_hubs] = _UNKNOWN
    searched[gap_states] = np.where(may_start, AT_START, OUTSIDE)
    found = Findings(
        np.zeros(len(edges.tokens), dtype=np.uint8),
        np.zeros(len(edges.links), dtype=np.uint8),
        np.zeros(len(edges.links), dtype=np.uint8),
    )
    parts = _Edges(edges.edge_start, edges.tokens, edges.targets, edges.links)
    tokens = _read_tokens(watch, trie)
    _search_hubs(watch, tokens, parts, num_hubs, searched)
    if not (
        _search_edges(watch, tokens, parts, num_hubs, searched, found.edges)
        and _search_ends(watch, tokens, parts, num_hubs, searched, found)
    ):
        raise ValueError("one state stands for several places of the search")
    return found


def _read_tokens(watch: Watch, trie: TokenTrie) -> _Tokens:
    nodes, outside, start = _run_tokens(
        watch, trie.trie.parents, trie.trie.labels, trie.token_start, trie.tokens, trie.num_tokens
    )
    return _Tokens(nodes, trie.trie.parents, trie.trie.labels, outside, start)


@kernel
def _run_tokens(
    watch: Watch,
    parents: Int32Array,
    labels: Uint8Array,
    token_start: Int32Array,
    tokens: Int32Array,
    num_tokens: int,
) -> tuple[Int32Array, Int32Array, Int32Array]:
    step_start, step_bytes, step_results, other_steps, _, _, _ = watch
    nodes = np.zeros(num_tokens, np.int32)
    outside, start = np.zeros(num_tokens, np.int32), np.zeros(num_tokens, np.int32)
    # Parents precede their children.
    by_node = np.empty((len(parents), 2), np.int32)
    by_node[0, 0], by_node[0, 1] = OUTSIDE, AT_START
    for node in range(1, len(parents)):
        parent, label = parents[node], labels[node]
        for way in range(2):
            before = by_node[parent, way]
            if before == OUTSIDE:
                by_node[node, way] = other_steps[label]
            else:
                result = step(step_start, step_bytes, step_results, other_steps, before & ~FOUND, label)
                by_node[node, way] = result | (before & FOUND)
        for place in range(token_start[node], token_start[node + 1]):
            token = tokens[place]
            nodes[token], outside[token], start[token] = node, by_node[node, 0], by_node[node, 1]
    return nodes, outside, start


@kernel
def _run(watch: Watch, tokens: _Tokens, state: int, token: int, spelled: Uint8Array) -> int:
    """Where the search stands after a token, with ``FOUND``; ``spelled`` is room for the token's bytes."""
    if state <= AT_START:
        known: int = tokens.from_outside[token] if state == OUTSIDE else tokens.from_start[token]
        return known
    length, node = 0, tokens.nodes[token]
    while node > 0:
        spelled[length] = tokens.labels[node]
        length += 1
        node = tokens.parents[node]
    found = 0
    for place in range(length - 1, -1, -1):
        result = step(watch.step_start, watch.step_bytes, watch.step_results, watch.other_steps, state, spelled[place])
        state, found = result & ~FOUND, found | (result & FOUND)
    return state | found


@kernel
def _run_all(watch: Watch, tokens: _Tokens, state: int, chosen: Int32Array, spelled: Uint8Array) -> Int32Array:
    results = np.empty(len(chosen), np.int32)
    for i in range(len(chosen)):
        results[i] = _run(watch, tokens, state, chosen[i], spelled)
    return results


@kernel
def _search_hubs(watch: Watch, tokens: _Tokens, edges: _Edges, num_hubs: int, searched: Int32Array) -> None:
    """The states of the search between words: known at the places, from there at what they link to, and at the states
    within the bytes of a mark by the edges that lead there."""
    spelled = np.empty(len(tokens.parents), np.uint8)
    for state in range(num_hubs):
        if edges.links[state] >= 0 and searched[state] >= 0:
            searched[edges.links[state]] = searched[state]
    changed = True
    while changed:
        changed = False
        for state in range(num_hubs):
            if searched[state] < 0:
                continue
            for edge in range(edges.edge_start[state], edges.edge_start[state + 1]):
                target = edges.targets[edge]
                if target < num_hubs and searched[target] < 0:
                    result = _run(watch, tokens, searched[state], edges.tokens[edge], spelled)
                    searched[target] = watch.without_word[result & ~FOUND]
                    changed = True
    for state in range(num_hubs):
        if searched[state] < 0:
            searched[state] = OUTSIDE


@kernel
def _search_edges(
    watch: Watch, tokens: _Tokens, edges: _Edges, num_hubs: int, searched: Int32Array, found: Uint8Array
) -> bool:
    """Marks the edges by which an excluded word ends; False where a state stands for several places of the search."""
    edge_start, edge_tokens, targets, _ = edges
    from_outside, from_start = tokens.from_outside, tokens.from_start
    has_word, has_word_before = watch.has_word, watch.has_word_before
    spelled = np.empty(len(tokens.parents), np.uint8)
    # Nearly all tokens begin no excluded word, and nearly all states are in no such word: 262,144 bytes stay at hand.
    is_telling = np.empty(len(from_outside), np.uint8)
    for token in range(len(from_outside)):
        is_telling[token] = from_outside[token] != OUTSIDE
    results = np.empty(0, np.int32)
    for state in range(len(searched)):
        place, first, last = searched[state], edge_start[state], edge_start[state + 1]
        if place > AT_START:
            results = _run_all(watch, tokens, place, edge_tokens[first:last], spelled)
        for edge in range(first, last):
            token = edge_tokens[edge]
            if place == OUTSIDE:
                if not is_telling[token]:
                    continue
                result = from_outside[token]
            elif place == AT_START:
                result = from_start[token]
            else:
                result = results[edge - first]
            target, reached = targets[edge], result & ~FOUND
            if result & FOUND:
                found[edge] = 1
            if target < num_hubs:
                # Between words no state remembers which word it was: the first bytes of a mark must not come either.
                if has_word_before[reached]:
                    found[edge] = 1
                if has_word[reached]:
                    return False
            elif searched[target] == OUTSIDE and (reached <= AT_START or target > state):
                # A state is first reached from an earlier one, so nothing has been concluded from it yet.
                searched[target] = reached
            elif searched[target] != reached and (searched[target] > AT_START or reached > AT_START):
                return False
    return True


@kernel
def _search_ends(
    watch: Watch, tokens: _Tokens, edges: _Edges, num_hubs: int, searched: Int32Array, found: Findings
) -> bool:
    """Marks ends and links; False where an excluded word ends before some of what a link allows, but not all."""
    spelled = np.empty(len(tokens.parents), np.uint8)
    for state in range(num_hubs, len(searched)):
        place, link = searched[state], edges.links[state]
        if place <= AT_START:
            continue
        if watch.has_word[place]:
            found.ends[state] = found.links[state] = 1
        elif watch.has_word_before[place] and link >= 0:
            # The link may go on with the mark whose first bytes came, or with something else.
            num_ended = num_open = 0
            while link >= 0:
                for edge in range(edges.edge_start[link], edges.edge_start[link + 1]):
                    result = _run(watch, tokens, place, edges.tokens[edge], spelled)
                    if result & FOUND or watch.has_word_before[result & ~FOUND]:
                        num_ended += 1
                    else:
                        num_open += 1
                link = edges.links[link]
            if num_ended and num_open:
                return False
            found.links[state] = num_ended > 0
    return True
