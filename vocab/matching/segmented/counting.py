"""The compiled code that counts: which words a token ends, which sentences it begins, and what limits leave of a mask.

Only the longest match is counted, where a text has one segmentation.
"""

from typing import Final

import numpy as np

from vocab.arrays.byte_trie import Int32Array, Uint8Array
from vocab.arrays.kernels import AddressTable, int32_at, kernel, uint8_at
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
    TO_END,
    WHOLE_RANKS,
    Int64Array,
    after_byte,
    after_char,
    can_end_by_bytes,
    chars_of_part,
    child_of,
    context_of,
    first_edge,
    leads_to,
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

WORDS_LEFT, MOST_WORDS, SENTENCES_LEFT, SINCE_NEW, SPACING, NEW_LEFT, OLD_WORDS, NEEDS_MORE = range(8)
"""Limits: words that the sentence may still have, and any sentence; sentences that may still begin; words since the
last new one, and from one to the next; new words that may still come; the rank up to which a word is not new; whether
another word must come."""
NUM_LIMITS: Final = 8


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
                    is_spelled = after < best and edge_tokens[edge] < UNSPELLED
                    # An edge of the node itself goes before one of what is left of it.
                    if is_spelled and (place == node or leads_to(table, node, labels[edge], children[edge])):
                        best = after
                if place == 0 or links[place] <= 0 or cut_ranks[place] > table[N_WORDS]:
                    break
                num, place = num + num_cut[place], links[place]
            if best < words[node]:
                words[node] = best
                has_changed = True
    return words


@kernel
def _add_events(table: AddressTable, before: int, target: int, events: Int64Array, num: int) -> int:
    """Add what happens when a character leads from a place to another to ``events``; return how many there are then."""
    depths, links = int32_at(table[DEPTHS_OF_NODES]), int32_at(table[LINKS])
    context, node = context_of(before), node_of(before)
    if context < 0:
        if context_of(target) >= 0 and uint8_at(table[STARTS_SENTENCE])[node] and num < len(events):
            events[num], num = SENTENCE_BEGINS, num + 1
        return num
    if context_of(target) < 0:
        return int(words_of(table, node, depths[node], events, num))
    # What is cut off before the rest that goes on to the target, whose last character is new.
    place, char = node, int32_at(table[OWN_LABELS])[node_of(target)]
    while place > 0 and child_of(table, place, char) != node_of(target):
        place = links[place]
    if place == node:
        return num
    return int(words_of(table, node, depths[node] - depths[max(place, 0)], events, num))


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
def limit(
    table: AddressTable,
    words_to_end: Uint8Array,
    needs_words: Int64Array,
    out: Int32Array,
    reading: int,
    limits: Int64Array,
    introduced: Int64Array,
    nodes: Int64Array,
) -> None:
    """Clear the tokens of a mask that go beyond limits.

    A token is left where the text can go on, character by character, within the limits.

    Args:
        table: Of the states that allow new words, if any may come.
        words_to_end: Of the states that allow none, as ``measure_words``.
        needs_words: int64 (2, gap states): how few words, and sentences, must still come to the end of the sentence.
        out: The mask, int32.
        reading: Where the text is.
        limits: int64 (``NUM_LIMITS``,).
        introduced: int64, ranks of new words that may come at any time.
        nodes: int64, the nodes on the ways to them.
    """
    events = np.empty(MAX_EVENTS, np.int64)
    for word in range(len(out)):
        bits = out[word]
        if bits == 0:
            continue
        for bit in range(32):
            if (bits >> np.int32(bit)) & 1 and not _is_within(
                table, words_to_end, needs_words, reading, 32 * word + bit, limits, introduced, nodes, events
            ):
                out[word] &= ~(np.int32(1) << np.int32(bit))


@kernel
def _is_within(
    table: AddressTable,
    words_to_end: Uint8Array,
    needs_words: Int64Array,
    reading: int,
    token: int,
    limits: Int64Array,
    introduced: Int64Array,
    nodes: Int64Array,
    events: Int64Array,
) -> bool:
    """Return whether a token leaves a text that can keep to limits."""
    num, target = follow(table, reading, token, events)
    if target < 0 or num >= MAX_EVENTS:
        return False
    place, part = place_of(target), part_of(target)
    if part == 0:
        return bool(_can_go_on(table, words_to_end, needs_words, place, limits, introduced, nodes, events, num))
    # One of the characters that it may become must keep to them.
    first, last, num_left = chars_of_part(part)
    marks, labels, starts = int32_at(table[MARKS]), int32_at(table[LABELS]), int32_at(table[EDGE_START])
    links, cut_ranks = int32_at(table[LINKS]), int32_at(table[CUT_RANKS])
    for mark in range(table[NUM_MARKS]):
        if first <= marks[mark] <= last and _can_go_on_by(
            table, words_to_end, needs_words, place, marks[mark], num_left, limits, introduced, nodes, events, num
        ):
            return True
    node = node_of(place) if context_of(place) >= 0 else 0
    while True:
        for edge in range(first_edge(table, node, first), starts[node + 1]):
            if labels[edge] > last:
                break
            if _can_go_on_by(
                table, words_to_end, needs_words, place, labels[edge], num_left, limits, introduced, nodes, events, num
            ):
                return True
        if node == 0 or cut_ranks[node] > table[N_WORDS]:
            return False
        node = links[node]


@kernel
def _can_go_on_by(
    table: AddressTable,
    words_to_end: Uint8Array,
    needs_words: Int64Array,
    place: int,
    char: int,
    num_left: int,
    limits: Int64Array,
    introduced: Int64Array,
    nodes: Int64Array,
    events: Int64Array,
    num: int,
) -> bool:
    """Return whether a text can keep to limits after one more character, whose last bytes are to come."""
    if not can_end_by_bytes(table, char, num_left):
        return False
    found = np.empty(MAX_PLACES, np.int64)
    if after_char(table, place, char, found, 0) == 0:
        return False
    num = _add_events(table, place, found[0], events, num)
    return bool(_can_go_on(table, words_to_end, needs_words, found[0], limits, introduced, nodes, events, num))


@kernel
def _can_go_on(
    table: AddressTable,
    words_to_end: Uint8Array,
    needs_words: Int64Array,
    place: int,
    limits: Int64Array,
    introduced: Int64Array,
    nodes: Int64Array,
    events: Int64Array,
    num: int,
) -> bool:
    """Return whether a text can go on from a place within limits, after some events."""
    is_within, words, sentences, since, new = _after_events(limits, introduced, events, num)
    if not is_within:
        return False
    context, node = context_of(place), node_of(place)
    if context < 0:
        needs_more = limits[NEEDS_MORE] * uint8_at(table[STARTS_SENTENCE])[node]
        return bool(needs_words[0, node] <= words and sentences >= max(needs_words[1, node], needs_more))
    # In any case the open rest may become old words.
    words -= needs_words[0, int32_at(table[AFTER_WORD])[context]]
    if words_to_end[node] <= words:
        return True
    may_be_new = since + 1 >= limits[SPACING] and new > 0 and int32_at(table[BELOW])[node] <= table[N_WORDS]
    if words >= 1 and (may_be_new or _has(nodes, node)):
        return True
    if int32_at(table[WHOLE_RANKS])[node] > table[N_WORDS]:
        return False
    after = words_of(table, node, int32_at(table[DEPTHS_OF_NODES])[node], events, num)
    is_within, words, _, _, _ = _after_events(limits, introduced, events, after)
    return bool(is_within and words >= needs_words[0, int32_at(table[AFTER_WORD])[context]])


@kernel
def _after_events(
    limits: Int64Array, introduced: Int64Array, events: Int64Array, num: int
) -> tuple[bool, int, int, int, int]:
    """Return whether events are within limits; and words and sentences left, words since a new one, new ones left."""
    words, sentences = limits[WORDS_LEFT], limits[SENTENCES_LEFT]
    since, new = limits[SINCE_NEW], limits[NEW_LEFT]
    for at in range(num):
        rank = events[at]
        if rank == SENTENCE_BEGINS:
            words, sentences = limits[MOST_WORDS], sentences - 1
        else:
            words, since = words - 1, since + 1
            if rank > limits[OLD_WORDS] and not _has(introduced, rank):
                if since < limits[SPACING] or new == 0:
                    return False, words, sentences, since, new
                since, new = 0, new - 1
        if words < 0 or sentences < 0:
            return False, words, sentences, since, new
    return True, words, sentences, since, new


@kernel
def _has(values: Int64Array, value: int) -> bool:
    """Return whether one of some values is this one."""
    for one in values:  # noqa: SIM110 - compiled, where there is no any()
        if one == value:
            return True
    return False


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
