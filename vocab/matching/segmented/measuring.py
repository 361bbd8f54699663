"""The compiled code that measures a dictionary's trie for one N: how far from each node the end of a word is."""

import numpy as np

from vocab.arrays.byte_trie import Int32Array, Uint8Array
from vocab.arrays.kernels import AddressTable, int32_at, kernel, uint8_at
from vocab.automaton.token_trie import UNSPELLED
from vocab.matching.segmented.kernels import (
    CHILDREN,
    CUT_RANKS,
    EDGE_START,
    FAR,
    IS_ANY,
    LABELS,
    LINKS,
    N_WORDS,
    NUM_CUT,
    TO_END,
    WHOLE_RANKS,
    child_of,
)


@kernel
def measure_nodes(table: AddressTable, num_nodes: int, edge_tokens: Int32Array) -> None:
    """Write how few tokens lead from each node to the end of a word; lowered until nothing changes.

    ``edge_tokens`` has, for each edge, how few tokens spell its character.
    """
    starts, labels, children = int32_at(table[EDGE_START]), int32_at(table[LABELS]), int32_at(table[CHILDREN])
    links, cut_ranks = int32_at(table[LINKS]), int32_at(table[CUT_RANKS])
    to_end = uint8_at(table[TO_END])
    has_changed = True
    while has_changed:
        has_changed = False
        for node in range(num_nodes - 1, -1, -1):
            if to_end[node] == 0:
                continue
            best, place = to_end[node], node
            while True:
                for edge in range(starts[place], starts[place + 1]):
                    tokens = edge_tokens[edge] + to_end[children[edge]]
                    # An edge of the node itself goes before one of what is left of it.
                    if tokens < best and (place == node or leads_to(table, node, labels[edge], children[edge])):
                        best = tokens
                if table[IS_ANY] or place == 0 or links[place] <= 0 or cut_ranks[place] > table[N_WORDS]:
                    break
                place = links[place]
            if best < to_end[node]:
                to_end[node] = best
                has_changed = True


@kernel
def leads_to(table: AddressTable, node: int, char: int, target: int) -> bool:
    """Return whether longest match goes on from a node to ``target`` with a character."""
    links, cut_ranks = int32_at(table[LINKS]), int32_at(table[CUT_RANKS])
    while node >= 0:
        child = child_of(table, node, char)
        if child >= 0:
            return bool(child == target)
        if cut_ranks[node] > table[N_WORDS]:
            return False
        node = links[node]
    return False


@kernel
def measure_words(table: AddressTable, num_nodes: int, edge_tokens: Int32Array) -> Uint8Array:
    """Return with how few listed words, by node, an open rest becomes whole; ``FAR`` where it cannot. uint8 (nodes,).

    ``edge_tokens`` has, for each edge, how few tokens spell its character.
    """
    starts, labels, children = int32_at(table[EDGE_START]), int32_at(table[LABELS]), int32_at(table[CHILDREN])
    links, cut_ranks, num_cut = int32_at(table[LINKS]), int32_at(table[CUT_RANKS]), int32_at(table[NUM_CUT])
    whole_ranks, to_end = int32_at(table[WHOLE_RANKS]), uint8_at(table[TO_END])
    words = np.full(num_nodes, FAR, np.uint8)
    for node in range(1, num_nodes):
        if whole_ranks[node] <= table[N_WORDS]:
            num, place = 0, node
            while place > 0:
                num, place = num + num_cut[place], links[place]
            words[node] = min(num, FAR - 1)
    has_changed = True
    while has_changed:
        has_changed = False
        for node in range(num_nodes - 1, -1, -1):
            if words[node] <= 1 or to_end[node] == FAR:
                continue
            best, place, num = int(words[node]), node, 0
            while True:
                for edge in range(starts[place], starts[place + 1]):
                    after = num + words[children[edge]]
                    # An edge of the node itself goes before one of what is left of it.
                    is_way = place == node or leads_to(table, node, labels[edge], children[edge])
                    if after < best and edge_tokens[edge] < UNSPELLED and is_way:
                        best = after
                if place == 0 or links[place] <= 0 or cut_ranks[place] > table[N_WORDS]:
                    break
                num, place = num + num_cut[place], links[place]
            if best < words[node]:
                words[node] = best
                has_changed = True
    return words
