"""The compiled code of an author's limits: what they leave of a mask."""

from typing import NamedTuple

import numpy as np

from vocab.arrays.kernels import AddressTable, Int32Array, int32_at, int64_at, kernel, position_of, uint8_at
from vocab.matching.segmented import fields
from vocab.matching.segmented.counting import (
    MAX_EVENTS,
    SENTENCE_BEGINS,
    add_events,
    follow,
    follow_tokens,
    room_for,
    words_of,
)
from vocab.matching.segmented.kernels import (
    Int64Array,
    after_longest,
    after_rest,
    can_end_by_bytes,
    chars_of_part,
    context_of,
    first_edge,
    node_of,
    part_of,
    place_in_word,
    place_of,
)


class Left(NamedTuple):
    """What limits leave: words of the sentence, -1 where one is broken; sentences; words since a new one; new words."""

    words: int
    sentences: int
    since_new: int
    new: int


@kernel
def limit(table: AddressTable, out: Int32Array, reading: int) -> None:
    """Clear the tokens of a mask, int32, that go beyond limits.

    A token is left where the text can go on, character by character, within the limits. The table is that of the states
    that allow new words, if any may come, with the limits.
    """
    events, is_done = np.empty(MAX_EVENTS, np.int64), np.zeros(len(out), np.int32)
    if part_of(reading) == 0:
        _limit_followed(table, out, place_of(reading), is_done, events)
    for word in range(len(out)):
        bits = out[word] & ~is_done[word]
        for bit in range(32 if bits else 0):
            if (bits >> np.int32(bit)) & 1 and not _is_within(table, reading, 32 * word + bit, events):
                out[word] &= ~(np.int32(1) << np.int32(bit))


@kernel
def _limit_followed(table: AddressTable, out: Int32Array, place: int, is_done: Int32Array, events: Int64Array) -> None:
    """Clear the tokens without marks that go beyond limits; add all of them to ``is_done``."""
    edge_start, edge_nodes = int32_at(table[fields.EDGE_START]), int32_at(table[fields.EDGE_NODES])
    labels = int32_at(table[fields.LABELS])
    context, node, num, left = context_of(place), node_of(place), 0, _left_now(table)
    if context < 0:
        context = int32_at(table[fields.CONTEXTS])[node]
        if uint8_at(table[fields.STARTS_SENTENCE])[node]:
            events[0], num = SENTENCE_BEGINS, 1
    else:
        # Those whose first character goes on with the open word are not in the others.
        own, rest = room_for(table, table[fields.NUM_TOKENS], node), node
        while rest > 0:
            for edge in range(edge_start[rest], edge_start[rest + 1]):
                at = edge_nodes[edge]
                # The first node with an edge by a character goes on.
                if at > 0 and after_rest(table, node, labels[edge])[1] == rest:
                    num = follow_tokens(table, node, at, int32_at(table[fields.ENDS])[at], own, num)
            rest = int32_at(table[fields.LINKS])[rest]
        _limit_each(table, out, context, left, own.tokens, own.nodes, own.starts, own.ranks, num, is_done, events)
        num = 0
        if int32_at(table[fields.WHOLE_RANKS])[node] <= table[fields.N_WORDS]:
            num = words_of(table, node, 0, events, 0)
    left = _left_after(table, left, events, 0, num)
    tokens, nodes = int32_at(table[fields.FOLLOWED_TOKENS]), int32_at(table[fields.FOLLOWED_NODES])
    starts, ranks = int32_at(table[fields.FOLLOWED_STARTS]), int64_at(table[fields.FOLLOWED_RANKS])
    _limit_each(table, out, context, left, tokens, nodes, starts, ranks, table[fields.NUM_FOLLOWED], is_done, events)


@kernel
def _limit_each(
    table: AddressTable,
    out: Int32Array,
    context: int,
    left: Left,
    tokens: Int32Array,
    nodes: Int32Array,
    starts: Int32Array,
    ranks: Int64Array,
    num: int,
    is_done: Int32Array,
    events: Int64Array,
) -> None:
    """Clear those of some tokens, as of ``FollowedTokens``, that go beyond what limits leave before them."""
    for at in range(num):
        word, bit = tokens[at] >> 5, np.int32(1) << np.int32(tokens[at] & 31)
        if out[word] & ~is_done[word] & bit:
            is_done[word] |= bit
            after = _left_after(table, left, ranks, starts[at], starts[at + 1])
            if not _can_go_on(table, place_in_word(context, nodes[at]), after, events):
                out[word] &= ~bit


@kernel
def _is_within(table: AddressTable, reading: int, token: int, events: Int64Array) -> bool:
    """Return whether a token leaves a text that can keep to limits."""
    num, place, part = follow(table, reading, token, events)
    left = _left_after(table, _left_now(table), events, 0, num)
    if place < 0 or num >= MAX_EVENTS or left.words < 0:
        return False
    if part == 0:
        return bool(_can_go_on(table, place, left, events))
    # One of the characters that it may become must keep to them.
    first, last, num_left = chars_of_part(part)
    marks, labels, starts = (
        int32_at(table[fields.MARKS]),
        int32_at(table[fields.LABELS]),
        int32_at(table[fields.EDGE_START]),
    )
    links, cut_ranks = int32_at(table[fields.LINKS]), int32_at(table[fields.CUT_RANKS])
    for mark in range(table[fields.NUM_MARKS]):
        if first <= marks[mark] <= last and _can_go_on_by(table, place, marks[mark], num_left, left, events):
            return True
    node = node_of(place) if context_of(place) >= 0 else 0
    while True:
        for edge in range(first_edge(table, node, first), starts[node + 1]):
            if labels[edge] > last:
                break
            if _can_go_on_by(table, place, labels[edge], num_left, left, events):
                return True
        if node == 0 or cut_ranks[node] > table[fields.N_WORDS]:
            return False
        node = links[node]


@kernel
def _can_go_on_by(table: AddressTable, place: int, char: int, num_left: int, left: Left, events: Int64Array) -> bool:
    """Return whether a text can keep to limits after one more character, whose last bytes are to come."""
    if not can_end_by_bytes(table, char, num_left):
        return False
    target, rest = after_longest(table, place, char)
    if target < 0:
        return False
    num = add_events(table, place, target, rest, events, 0)
    return bool(_can_go_on(table, target, _left_after(table, left, events, 0, num), events))


@kernel
def _can_go_on(table: AddressTable, place: int, left: Left, events: Int64Array) -> bool:
    """Return whether a text can go on from a place within what limits leave; ``events`` is scratch."""
    needs_words, needs_sentences = int64_at(table[fields.NEEDS_WORDS]), int64_at(table[fields.NEEDS_SENTENCES])
    context, node = context_of(place), node_of(place)
    if left.words < 0:
        return False
    if context < 0:
        needs_more = table[fields.NEEDS_MORE] * uint8_at(table[fields.STARTS_SENTENCE])[node]
        return bool(needs_words[node] <= left.words and left.sentences >= max(needs_sentences[node], needs_more))
    # In any case the open rest may become old words.
    needed = needs_words[int32_at(table[fields.AFTER_WORD])[context]]
    if uint8_at(table[fields.WORDS_TO_END])[node] + needed <= left.words:
        return True
    may_be_new = (
        left.since_new + 1 >= table[fields.SPACING]
        and left.new > 0
        and int32_at(table[fields.BELOW])[node] <= table[fields.N_WORDS]
    )
    if needed + 1 <= left.words and (may_be_new or _has(table, fields.ON_WAYS, node)):
        return True
    # Of one word that was all.
    if int32_at(table[fields.LINKS])[node] <= 0 or int32_at(table[fields.WHOLE_RANKS])[node] > table[fields.N_WORDS]:
        return False
    num = words_of(table, node, 0, events, 0)
    return bool(_left_after(table, left, events, 0, num).words >= needed)


@kernel
def _left_now(table: AddressTable) -> Left:
    return Left(table[fields.WORDS_LEFT], table[fields.SENTENCES_LEFT], table[fields.SINCE_NEW], table[fields.NEW_LEFT])


@kernel
def _left_after(table: AddressTable, left: Left, events: Int64Array, first: int, last: int) -> Left:
    """Return what limits leave after some events."""
    words, sentences, since, new = left
    if words < 0:
        return left
    for at in range(first, last):
        rank = events[at]
        if rank == SENTENCE_BEGINS:
            words, sentences = table[fields.MOST_WORDS], sentences - 1
        else:
            words, since = words - 1, since + 1
            if rank > table[fields.OLD_WORDS] and not _has(table, fields.INTRODUCED, rank):
                new = new - 1 if since >= table[fields.SPACING] else -1
                since = 0
        if words < 0 or sentences < 0 or new < 0:
            return Left(-1, sentences, since, new)
    return Left(words, sentences, since, new)


@kernel
def _has(table: AddressTable, array: int, value: int) -> bool:
    """Return whether a value is in ``INTRODUCED`` or ``ON_WAYS``."""
    return bool(position_of(int64_at(table[array]), 0, table[array + 1], value) >= 0)
