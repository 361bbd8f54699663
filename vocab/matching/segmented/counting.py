"""The compiled code that counts: which words a token ends, which sentences it begins, and what limits leave of a mask.

Only the longest match is counted, where a text has one segmentation.
"""

from typing import Final

import numpy as np

from vocab.arrays.byte_trie import Int32Array
from vocab.arrays.kernels import AddressTable, int32_at, kernel, uint8_at
from vocab.automaton.compiled_list import NEVER
from vocab.matching.mask_kernels import NEVER_ENDS, NO_BUDGET
from vocab.matching.segmented.kernels import (
    DATA,
    DATA_START,
    DEPTHS_OF_NODES,
    FAR,
    LINKS,
    MAX_PLACES,
    N_WORDS,
    OWN_LABELS,
    PARENTS,
    RANKS,
    STARTS_SENTENCE,
    TO_END,
    WHOLE_RANKS,
    Int64Array,
    after_byte,
    child_of,
    context_of,
    node_of,
    part_distance,
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
def follow(table: AddressTable, reading: int, token: int, events: Int64Array) -> tuple[int, int]:
    """Write what happens in a token into ``events``; return their number and the reading after it, -1 for none."""
    places, after = np.empty(MAX_PLACES, np.int64), np.empty(MAX_PLACES, np.int64)
    places[0], part, num = place_of(reading), part_of(reading), 0
    data, starts = uint8_at(table[DATA]), int32_at(table[DATA_START])
    depths, links = int32_at(table[DEPTHS_OF_NODES]), int32_at(table[LINKS])
    for at in range(starts[token], starts[token + 1]):
        before, part_before = places[0], part
        num_places, part = after_byte(table, places, 1, part, data[at], after)
        if num_places == 0:
            return num, -1
        places, after = after, places
        if part != 0 or (part_before == 0 and data[at] >= 0x80):
            continue
        context, node, target = context_of(before), node_of(before), places[0]
        if context < 0:
            if context_of(target) >= 0 and uint8_at(table[STARTS_SENTENCE])[node] and num < len(events):
                events[num], num = SENTENCE_BEGINS, num + 1
        elif context_of(target) < 0:
            num = words_of(table, node, depths[node], events, num)
        else:
            # What is cut off before the rest that goes on to the target, whose last character is new.
            place = node
            while place > 0 and child_of(table, place, int32_at(table[OWN_LABELS])[node_of(target)]) != node_of(target):
                place = links[place]
            if place != node:
                num = words_of(table, node, depths[node] - depths[max(place, 0)], events, num)
    return num, reading_of(places[0], part)


@kernel
def limit(
    table: AddressTable,
    old_table: AddressTable,
    needs_words: Int64Array,
    out: Int32Array,
    reading: int,
    limits: Int64Array,
    introduced: Int64Array,
    nodes: Int64Array,
) -> None:
    """Clear the tokens of a mask that go beyond limits.

    Args:
        table: Of the states that allow new words, if any may come.
        old_table: Of those that allow none.
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
                table, old_table, needs_words, reading, 32 * word + bit, limits, introduced, nodes, events
            ):
                out[word] &= ~(np.int32(1) << np.int32(bit))


@kernel
def _is_within(
    table: AddressTable,
    old_table: AddressTable,
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
    place = place_of(target)
    is_in_word = context_of(place) >= 0
    node = node_of(place)
    is_whole = is_in_word and int32_at(table[WHOLE_RANKS])[node] <= table[N_WORDS]
    if is_whole:
        num = words_of(table, node, int32_at(table[DEPTHS_OF_NODES])[node], events, num)
    words, sentences = limits[WORDS_LEFT], limits[SENTENCES_LEFT]
    since, new = limits[SINCE_NEW], limits[NEW_LEFT]
    for at in range(num):
        rank = events[at]
        if rank == SENTENCE_BEGINS:
            words, sentences = limits[MOST_WORDS], sentences - 1
            continue
        words -= 1
        since += 1
        if rank > limits[OLD_WORDS] and not _has(introduced, rank):
            if since < limits[SPACING] or new == 0:
                return False
            since, new = 0, new - 1
        if words < 0 or sentences < 0:
            return False
    if part_of(target):
        # The character may begin another word, which must be an old one where there is no room for a new one.
        places = np.full(1, place, np.int64)
        may_be_new = since + 1 >= limits[SPACING] and new > 0
        has_old = may_be_new or part_distance(old_table, places, 1, part_of(target), NO_BUDGET) < NEVER_ENDS
        return bool(has_old and words >= 1 and sentences >= 1)
    if is_in_word:
        if not is_whole:
            # At least one word is still open; without room for a new one it must be one of the others.
            may_be_new = since + 1 >= limits[SPACING] and new > 0
            words -= 1
            if not may_be_new and uint8_at(old_table[TO_END])[node] == FAR and not _has(nodes, node):
                return False
        return bool(words >= 0 and sentences >= 0)
    if needs_words[0, node] > words and needs_words[1, node] == 0:
        return False
    return bool(sentences >= max(needs_words[1, node], limits[NEEDS_MORE] * uint8_at(table[STARTS_SENTENCE])[node]))


@kernel
def _has(values: Int64Array, value: int) -> bool:
    """Return whether one of some values is this one."""
    for one in values:  # noqa: SIM110 - compiled, where there is no any()
        if one == value:
            return True
    return False
