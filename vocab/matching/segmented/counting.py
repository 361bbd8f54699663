"""The compiled code that counts: which words a token ends, and which sentences it begins.

Only the longest match is counted, where a text has one segmentation.
"""

from typing import Final, NamedTuple

import numpy as np

from vocab.arrays.kernels import AddressTable, Int32Array, Uint8Array, int32_at, kernel, uint8_at
from vocab.automaton.compiled_list import NEVER
from vocab.automaton.token_trie import MAX_CHARS, UNSPELLED
from vocab.matching.segmented import fields
from vocab.matching.segmented.kernels import (
    FAR,
    Int64Array,
    after_longest,
    after_rest,
    child_of,
    context_of,
    distance,
    mark_of,
    node_of,
    part_distance,
    part_of,
    place_of,
    read_byte,
)

SENTENCE_BEGINS: Final = 1 << 40
"""An event; all others are the rank of a word that ended."""

MAX_EVENTS: Final = 256
NO_WORD: Final = int(NEVER)

MAX_WORD: Final = 128
"""Characters of an open rest whose words are counted."""


@kernel
def words_of(table: AddressTable, node: int, rest: int, events: Int64Array, num: int) -> int:
    """Add the ranks of the words that are cut off from a node to its rest to ``events``; return how many there are."""
    parents, labels, ranks = (
        int32_at(table[fields.PARENTS]),
        int32_at(table[fields.OWN_LABELS]),
        int32_at(table[fields.RANKS]),
    )
    depths, links = int32_at(table[fields.DEPTHS_OF_NODES]), int32_at(table[fields.LINKS])
    if depths[node] > MAX_WORD:
        return num
    while node != rest and int32_at(table[fields.NUM_CUT])[node] == 1 and num < len(events):
        events[num], num, node = int32_at(table[fields.CUT_RANKS])[node], num + 1, links[node]
    if node == rest:
        return num
    chars, depth, length = np.empty(MAX_WORD, np.int32), depths[node], depths[node] - depths[rest]
    for at in range(depth - 1, -1, -1):
        chars[at], node = labels[node], parents[node]
    start = 0
    while start < length:
        place, end, rank = 0, start, 0
        for at in range(start, depth):
            place = child_of(table, place, chars[at])
            if place < 0:
                break
            if ranks[place] != NO_WORD:
                end, rank = at + 1, ranks[place]
        if end == start or num == len(events):
            break
        events[num], num, start = rank, num + 1, end
    return num


@kernel
def words_to_ends(table: AddressTable, num_nodes: int, edge_tokens: Int32Array) -> Uint8Array:
    """Return with how few listed words, by node, an open rest becomes whole; ``FAR`` where it cannot. uint8 (nodes,).

    ``edge_tokens`` has, for each edge, how few tokens spell its character.
    """
    links, num_cut, whole_ranks = (
        int32_at(table[fields.LINKS]),
        int32_at(table[fields.NUM_CUT]),
        int32_at(table[fields.WHOLE_RANKS]),
    )
    words = np.full(num_nodes, FAR, np.uint8)
    for node in range(1, num_nodes):
        if whole_ranks[node] <= table[fields.N_WORDS]:
            num, place = 0, node
            while place > 0:
                num, place = num + num_cut[place], links[place]
            words[node] = min(num, FAR - 1)
    _lower(table, words, edge_tokens, True)
    return words


@kernel
def measure_nodes(table: AddressTable, to_end: Uint8Array, edge_tokens: Int32Array) -> None:
    """Lower ``to_end`` to how few tokens lead from each node to the end of a word; ``edge_tokens`` as there."""
    _lower(table, to_end, edge_tokens, False)


@kernel
def _lower(table: AddressTable, costs: Uint8Array, edge_tokens: Int32Array, in_words: bool) -> None:
    """Lower what it costs to go from each node to the end of a word, in words or tokens, until nothing changes."""
    starts, labels, children = (
        int32_at(table[fields.EDGE_START]),
        int32_at(table[fields.LABELS]),
        int32_at(table[fields.CHILDREN]),
    )
    links, cut_ranks, num_cut = (
        int32_at(table[fields.LINKS]),
        int32_at(table[fields.CUT_RANKS]),
        int32_at(table[fields.NUM_CUT]),
    )
    to_end = uint8_at(table[fields.TO_END])
    has_changed = True
    while has_changed:
        has_changed = False
        for node in range(len(costs) - 1, -1, -1):
            if costs[node] <= 1 or (in_words and to_end[node] == FAR):
                continue
            best, place, num = int(costs[node]), node, 0
            while True:
                for edge in range(starts[place], starts[place + 1]):
                    cost = costs[children[edge]] + (num if in_words else edge_tokens[edge])
                    is_less = cost < best and edge_tokens[edge] < UNSPELLED
                    # An edge of the node itself goes before one of what is left of it.
                    if is_less and (place == node or after_rest(table, node, labels[edge])[0] == children[edge]):
                        best = cost
                if table[fields.IS_ANY] or place == 0 or links[place] <= 0 or cut_ranks[place] > table[fields.N_WORDS]:
                    break
                num, place = num + num_cut[place], links[place]
            if best < costs[node]:
                costs[node] = best
                has_changed = True


@kernel
def add_events(table: AddressTable, place: int, target: int, rest: int, events: Int64Array, num: int) -> int:
    """Add what happens when a character leads from a place to a target to ``events``; return how many there are then.

    ``rest`` as of ``after_longest``.
    """
    node = node_of(place)
    if context_of(place) >= 0:
        return num if rest == node else int(words_of(table, node, rest, events, num))
    if context_of(target) >= 0 and uint8_at(table[fields.STARTS_SENTENCE])[node] and num < len(events):
        events[num], num = SENTENCE_BEGINS, num + 1
    return num


@kernel
def follow(table: AddressTable, reading: int, token: int, events: Int64Array) -> tuple[int, int, int]:
    """Write what happens in a token into ``events``; return their number, the place after it, -1 for none, and part."""
    place, part, num = place_of(reading), part_of(reading), 0
    data, starts = uint8_at(table[fields.DATA]), int32_at(table[fields.DATA_START])
    for at in range(starts[token], starts[token + 1]):
        part, char = read_byte(part, data[at])
        if char >= 0:
            target, rest = after_longest(table, place, char)
            if target >= 0:
                num = add_events(table, place, target, rest, events, num)
            place = target
        if part < 0 or place < 0:
            return num, -1, 0
    return num, place, part


class FollowedTokens(NamedTuple):
    """Tokens without marks, in which words end, that lead from a node to another.

    Attributes:
        tokens: int32.
        nodes: int32, where each leads.
        starts: int32 (tokens + 1,), where those of each begin in ``ranks``.
        ranks: int64, of the words that end.
    """

    tokens: Int32Array
    nodes: Int32Array
    starts: Int32Array
    ranks: Int64Array


@kernel
def follow_all(table: AddressTable, num_tokens: int) -> FollowedTokens:
    """Return those of so many tokens that begin a word, from the root."""
    found = room_for(table, num_tokens, 0)
    num = follow_tokens(table, 0, 1, int32_at(table[fields.ENDS])[0], found, 0)
    tokens, nodes, starts = found.tokens[:num].copy(), found.nodes[:num].copy(), found.starts[: num + 1].copy()
    return FollowedTokens(tokens, nodes, starts, found.ranks[: starts[num]].copy())


@kernel
def room_for(table: AddressTable, num_tokens: int, node: int) -> FollowedTokens:
    """Return arrays for so many tokens after a node, and the words that end in them: no more than have characters."""
    num_chars = int32_at(table[fields.DATA_START])[num_tokens]
    num_ranks = num_chars + min(int32_at(table[fields.DEPTHS_OF_NODES])[node], MAX_WORD) * num_tokens
    tokens, nodes = np.empty(num_tokens, np.int32), np.empty(num_tokens, np.int32)
    starts = np.empty(num_tokens + 1, np.int32)
    starts[0] = 0
    return FollowedTokens(tokens, nodes, starts, np.empty(num_ranks, np.int64))


@kernel
def follow_tokens(table: AddressTable, node: int, at: int, last: int, found: FollowedTokens, num: int) -> int:
    """Add the tokens of nodes ``at`` to ``last`` of the trie of tokens after a node; return how many there are."""
    symbols, depths = int32_at(table[fields.SYMBOLS]), int32_at(table[fields.DEPTHS])
    ends, starts = int32_at(table[fields.ENDS]), int32_at(table[fields.TOKEN_START])
    tokens = int32_at(table[fields.TOKENS])
    # By depth: the rest, and how many words ended before it.
    nodes, nums = np.full(MAX_CHARS + 1, node, np.int32), np.zeros(MAX_CHARS + 1, np.int32)
    ranks = np.empty(MAX_EVENTS, np.int64)
    while at < last:
        depth, child, rest = depths[at], -1, 0
        if symbols[at] >= 0 and mark_of(table, symbols[at]) < 0:
            child, rest = after_rest(table, nodes[depth - 1], symbols[at])
        if child < 0 or uint8_at(table[fields.TO_END])[child] == FAR:
            at = ends[at]
            continue
        nodes[depth], nums[depth] = child, words_of(table, nodes[depth - 1], rest, ranks, nums[depth - 1])
        for one in range(starts[at], starts[at + 1]):
            first = found.starts[num]
            found.tokens[num], found.nodes[num], found.starts[num + 1] = tokens[one], child, first + nums[depth]
            for word in range(nums[depth]):
                found.ranks[first + word] = ranks[word]
            num += 1
        at += 1
    return num


@kernel
def measure_ends(table: AddressTable, out: Int32Array, reading: int, costs: Int32Array) -> None:
    """Write how few tokens complete a text after each token of a mask; -1 after one that ends the open run.

    Within a character no token counts as one that does. ``costs`` is int32 (tokens,).
    """
    places, events = np.empty(1, np.int64), np.empty(MAX_EVENTS, np.int64)
    for token in range(len(costs)):
        if (out[token >> 5] >> np.int32(token & 31)) & 1:
            _, places[0], part = follow(table, reading, token, events)
            if part:
                costs[token] = part_distance(table, places, 1, part, -1)
            elif places[0] >= 0:
                is_end = context_of(places[0]) < 0 and part_of(reading) == 0
                costs[token] = -1 if is_end else distance(table, places[0])
