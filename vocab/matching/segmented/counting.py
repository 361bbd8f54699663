"""The compiled code that counts: which words a token ends, which sentences it begins, and what limits leave of a mask.

Only the longest match is counted, where a text has one segmentation.
"""

from typing import Final

import numpy as np

from vocab.arrays.byte_trie import Int32Array, Uint8Array
from vocab.arrays.kernels import AddressTable, int32_at, int64_at, kernel, uint8_at
from vocab.automaton.compiled_list import NEVER
from vocab.automaton.token_trie import UNSPELLED
from vocab.matching.segmented.kernels import (
    AFTER_WORD,
    BELOW,
    CHILDREN,
    CUT_RANKS,
    DATA,
    DATA_START,
    DEPTHS_OF_NODES,
    EDGE_START,
    FAR,
    IS_ANY,
    LABELS,
    LINKS,
    MARKS,
    MAX_PLACES,
    N_WORDS,
    NUM_CUT,
    NUM_MARKS,
    OWN_LABELS,
    PARENTS,
    RANKS,
    STARTS_SENTENCE,
    TABLE_SIZE,
    TO_END,
    WHOLE_RANKS,
    Int64Array,
    after_byte,
    after_char,
    after_rest,
    can_end_by_bytes,
    chars_of_part,
    child_of,
    context_of,
    first_edge,
    node_of,
    part_of,
    place_of,
    reading_of,
)

SENTENCE_BEGINS: Final = 1 << 40
"""An event; all others are the rank of a word that ended."""

MAX_EVENTS: Final = 256
NO_WORD: Final = int(NEVER)

MAX_WORD: Final = 128
"""Characters of an open rest whose words are counted."""

# Indices into the table of a text that is held to limits, after those of all texts: numbers, then arrays.
WORDS_LEFT, MOST_WORDS, SENTENCES_LEFT, SINCE_NEW, SPACING, NEW_LEFT, OLD_WORDS, NEEDS_MORE = range(
    TABLE_SIZE, TABLE_SIZE + 8
)
"""Words that the sentence may still have, and any sentence; sentences that may still begin; words since the last new
one, and from one to the next; new words that may still come; the rank up to which a word is not new; whether another
word must come."""
INTRODUCED, NUM_INTRODUCED, ON_WAYS, NUM_ON_WAYS, WORDS_TO_END, NEEDS_WORDS, NEEDS_SENTENCES = range(
    NEEDS_MORE + 1, NEEDS_MORE + 8
)
"""Ranks of new words that may come at any time, and the nodes on the ways to them, int64; of the states that allow no
new words, as ``measure_words``; how few words, and sentences, must still come to the end of the sentence, by gap state,
int64."""


@kernel
def words_of(table: AddressTable, node: int, length: int, events: Int64Array, num: int) -> int:
    """Add the ranks of the words of the first characters of a rest to ``events``; return how many there are then."""
    parents, labels, ranks = int32_at(table[PARENTS]), int32_at(table[OWN_LABELS]), int32_at(table[RANKS])
    depth = int32_at(table[DEPTHS_OF_NODES])[node]
    if depth > MAX_WORD:
        return num
    chars = np.empty(MAX_WORD, np.int32)
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
def measure_words(table: AddressTable, num_nodes: int, edge_tokens: Int32Array) -> Uint8Array:
    """Return with how few listed words, by node, an open rest becomes whole; ``FAR`` where it cannot. uint8 (nodes,).

    ``edge_tokens`` has, for each edge, how few tokens spell its character.
    """
    links, num_cut, whole_ranks = int32_at(table[LINKS]), int32_at(table[NUM_CUT]), int32_at(table[WHOLE_RANKS])
    words = np.full(num_nodes, FAR, np.uint8)
    for node in range(1, num_nodes):
        if whole_ranks[node] <= table[N_WORDS]:
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
    starts, labels, children = int32_at(table[EDGE_START]), int32_at(table[LABELS]), int32_at(table[CHILDREN])
    links, cut_ranks, num_cut = int32_at(table[LINKS]), int32_at(table[CUT_RANKS]), int32_at(table[NUM_CUT])
    to_end = uint8_at(table[TO_END])
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
                if table[IS_ANY] or place == 0 or links[place] <= 0 or cut_ranks[place] > table[N_WORDS]:
                    break
                num, place = num + num_cut[place], links[place]
            if best < costs[node]:
                costs[node] = best
                has_changed = True


@kernel
def _add_events(table: AddressTable, before: int, target: int, events: Int64Array, num: int) -> int:
    """Add what happens when a character leads from a place to another to ``events``; return how many there are then."""
    depths = int32_at(table[DEPTHS_OF_NODES])
    context, node = context_of(before), node_of(before)
    if context < 0:
        if context_of(target) >= 0 and uint8_at(table[STARTS_SENTENCE])[node] and num < len(events):
            events[num], num = SENTENCE_BEGINS, num + 1
        return num
    if context_of(target) < 0:
        return int(words_of(table, node, depths[node], events, num))
    # What is cut off before the rest that goes on to the target, whose last character is new.
    _, rest = after_rest(table, node, int32_at(table[OWN_LABELS])[node_of(target)])
    return num if rest == node else int(words_of(table, node, depths[node] - depths[rest], events, num))


@kernel
def follow(table: AddressTable, reading: int, token: int, events: Int64Array) -> tuple[int, int]:
    """Write what happens in a token into ``events``; return their number and the reading after it, -1 for none."""
    places, after = np.empty(MAX_PLACES, np.int64), np.empty(MAX_PLACES, np.int64)
    places[0], part, num = place_of(reading), part_of(reading), 0
    data, starts = uint8_at(table[DATA]), int32_at(table[DATA_START])
    for at in range(starts[token], starts[token + 1]):
        before, part_before = places[0], part
        num_places, part = after_byte(table, places, 1, part, data[at], after)
        if num_places == 0:
            return num, -1
        places, after = after, places
        if part == 0 and (part_before != 0 or data[at] < 0x80):
            num = _add_events(table, before, places[0], events, num)
    return num, reading_of(places[0], part)


@kernel
def limit(table: AddressTable, out: Int32Array, reading: int) -> None:
    """Clear the tokens of a mask, int32, that go beyond limits.

    A token is left where the text can go on, character by character, within the limits. The table is that of the states
    that allow new words, if any may come, with the limits.
    """
    events = np.empty(MAX_EVENTS, np.int64)
    for word in range(len(out)):
        bits = out[word]
        if bits == 0:
            continue
        for bit in range(32):
            if (bits >> np.int32(bit)) & 1 and not _is_within(table, reading, 32 * word + bit, events):
                out[word] &= ~(np.int32(1) << np.int32(bit))


@kernel
def _is_within(table: AddressTable, reading: int, token: int, events: Int64Array) -> bool:
    """Return whether a token leaves a text that can keep to limits."""
    num, target = follow(table, reading, token, events)
    if target < 0 or num >= MAX_EVENTS:
        return False
    place, part = place_of(target), part_of(target)
    if part == 0:
        return bool(_can_go_on(table, place, events, num))
    # One of the characters that it may become must keep to them.
    first, last, num_left = chars_of_part(part)
    marks, labels, starts = int32_at(table[MARKS]), int32_at(table[LABELS]), int32_at(table[EDGE_START])
    links, cut_ranks = int32_at(table[LINKS]), int32_at(table[CUT_RANKS])
    for mark in range(table[NUM_MARKS]):
        if first <= marks[mark] <= last and _can_go_on_by(table, place, marks[mark], num_left, events, num):
            return True
    node = node_of(place) if context_of(place) >= 0 else 0
    while True:
        for edge in range(first_edge(table, node, first), starts[node + 1]):
            if labels[edge] > last:
                break
            if _can_go_on_by(table, place, labels[edge], num_left, events, num):
                return True
        if node == 0 or cut_ranks[node] > table[N_WORDS]:
            return False
        node = links[node]


@kernel
def _can_go_on_by(table: AddressTable, place: int, char: int, num_left: int, events: Int64Array, num: int) -> bool:
    """Return whether a text can keep to limits after one more character, whose last bytes are to come."""
    if not can_end_by_bytes(table, char, num_left):
        return False
    found = np.empty(MAX_PLACES, np.int64)
    if after_char(table, place, char, found, 0) == 0:
        return False
    num = _add_events(table, place, found[0], events, num)
    return bool(_can_go_on(table, found[0], events, num))


@kernel
def _can_go_on(table: AddressTable, place: int, events: Int64Array, num: int) -> bool:
    """Return whether a text can go on from a place within limits, after some events."""
    needs_words, needs_sentences = int64_at(table[NEEDS_WORDS]), int64_at(table[NEEDS_SENTENCES])
    is_within, words, sentences, since, new = _after_events(table, events, num)
    if not is_within:
        return False
    context, node = context_of(place), node_of(place)
    if context < 0:
        needs_more = table[NEEDS_MORE] * uint8_at(table[STARTS_SENTENCE])[node]
        return bool(needs_words[node] <= words and sentences >= max(needs_sentences[node], needs_more))
    # In any case the open rest may become old words.
    words -= needs_words[int32_at(table[AFTER_WORD])[context]]
    if uint8_at(table[WORDS_TO_END])[node] <= words:
        return True
    may_be_new = since + 1 >= table[SPACING] and new > 0 and int32_at(table[BELOW])[node] <= table[N_WORDS]
    if words >= 1 and (may_be_new or _has(table, ON_WAYS, node)):
        return True
    if int32_at(table[WHOLE_RANKS])[node] > table[N_WORDS]:
        return False
    after = words_of(table, node, int32_at(table[DEPTHS_OF_NODES])[node], events, num)
    is_within, words, _, _, _ = _after_events(table, events, after)
    return bool(is_within and words >= needs_words[int32_at(table[AFTER_WORD])[context]])


@kernel
def _after_events(table: AddressTable, events: Int64Array, num: int) -> tuple[bool, int, int, int, int]:
    """Return whether events are within limits; and words and sentences left, words since a new one, new ones left."""
    words, sentences = table[WORDS_LEFT], table[SENTENCES_LEFT]
    since, new = table[SINCE_NEW], table[NEW_LEFT]
    for at in range(num):
        rank = events[at]
        if rank == SENTENCE_BEGINS:
            words, sentences = table[MOST_WORDS], sentences - 1
        else:
            words, since = words - 1, since + 1
            if rank > table[OLD_WORDS] and not _has(table, INTRODUCED, rank):
                if since < table[SPACING] or new == 0:
                    return False, words, sentences, since, new
                since, new = 0, new - 1
        if words < 0 or sentences < 0:
            return False, words, sentences, since, new
    return True, words, sentences, since, new


@kernel
def _has(table: AddressTable, array: int, value: int) -> bool:
    """Return whether a value is in ``INTRODUCED`` or ``ON_WAYS``."""
    values = int64_at(table[array])
    for at in range(table[array + 1]):  # noqa: SIM110 - compiled, where there is no any()
        if values[at] == value:
            return True
    return False
