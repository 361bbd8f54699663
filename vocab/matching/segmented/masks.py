"""The compiled code of the masks of text without spaces: in which tokens a row of bits differs from what may come.

It reads the table of ``vocab.matching.segmented.fields``.
"""

from typing import Final

import numpy as np

from vocab.arrays.kernels import AddressTable, Int32Array, Uint8Array, int32_at, kernel, position_of, uint8_at
from vocab.automaton.token_trie import MAX_CHARS
from vocab.matching.mask_kernels import set_token_bits
from vocab.matching.segmented import fields
from vocab.matching.segmented.kernels import (
    FAR,
    MAX_PLACES,
    Int64Array,
    after_char,
    child_of,
    context_of,
    ends_within,
    is_latin,
    node_of,
    place_in_word,
    step,
)

SCRATCH_SHAPE: Final = (MAX_CHARS + 2, MAX_PLACES + 1)
_LAST: Final = MAX_CHARS + 1


@kernel
def collect_tokens(
    table: AddressTable, row: Int32Array, reading: int, budget: int, tokens: Int32Array, toggles: Int32Array
) -> int:
    """Write those of some tokens whose bit in a row is wrong after a reading into ``toggles``; return their number."""
    readings, found, num = np.empty(1, np.int64), np.empty(MAX_PLACES, np.int64), 0
    readings[0] = reading
    for token in tokens:
        num = _toggle(row, token, step(table, readings, token, budget, found) > 0, toggles, num)
    return num


@kernel
def _toggle(row: Int32Array, token: int, is_allowed: bool, toggles: Int32Array, num: int) -> int:
    """Add a token to ``toggles`` where its bit in a row is wrong; return how many there are then."""
    if ((row[token >> 5] >> np.int32(token & 31)) & 1) != is_allowed:
        toggles[num] = token
        return num + 1
    return num


@kernel
def _collect(
    table: AddressTable,
    row: Int32Array,
    first_places: Int64Array,
    num_first: int,
    budget: int,
    first: int,
    toggles: Int32Array,
    num_toggles: int,
    scratch: Int64Array,
) -> int:
    """Add the tokens at and below a node of the token trie whose bit in a row is wrong; return how many there are then.

    The places are those after the characters of that node.
    """
    symbols, depths, ends = (
        int32_at(table[fields.SYMBOLS]),
        int32_at(table[fields.DEPTHS]),
        int32_at(table[fields.ENDS]),
    )
    starts, tokens = int32_at(table[fields.TOKEN_START]), int32_at(table[fields.TOKENS])
    # By depth: places, then how many there are.
    base, node, last = depths[first], first, ends[first]
    scratch[0, :num_first] = first_places[:num_first]
    scratch[0, MAX_PLACES] = num_first
    while node < last:
        depth, symbol = depths[node] - base, symbols[node]
        is_allowed = False
        if symbol < 0:
            is_allowed = ends_within(table, scratch[depth - 1], scratch[depth - 1, MAX_PLACES], -symbol, budget)
        else:
            if depth > 0:
                num = 0
                for one in range(scratch[depth - 1, MAX_PLACES]):
                    num = after_char(table, scratch[depth - 1, one], symbol, scratch[depth], num)
                scratch[depth, MAX_PLACES] = num
            num = scratch[depth, MAX_PLACES]
            if num == 0:
                # Nothing at or below it is allowed: only what the row has there is wrong.
                for one in range(starts[node], starts[ends[node]]):
                    num_toggles = _toggle(row, tokens[one], False, toggles, num_toggles)
                node = ends[node]
                continue
            if starts[node] < starts[node + 1]:
                is_allowed = ends_within(table, scratch[depth], num, 0, budget)
        for one in range(starts[node], starts[node + 1]):
            num_toggles = _toggle(row, tokens[one], is_allowed, toggles, num_toggles)
        node += 1
    return num_toggles


@kernel
def collect_all(
    table: AddressTable, row: Int32Array, place: int, budget: int, toggles: Int32Array, scratch: Int64Array
) -> int:
    """Write the tokens whose bit in a row is wrong after a place into ``toggles``; return their number.

    ``scratch`` is int64 ``SCRATCH_SHAPE``.
    """
    scratch[_LAST, 0] = place
    return int(_collect(table, row, scratch[_LAST], 1, budget, 0, toggles, 0, scratch))


@kernel
def collect_in_word(
    table: AddressTable,
    row: Int32Array,
    place: int,
    budget: int,
    toggles: Int32Array,
    is_begun: Uint8Array,
    scratch: Int64Array,
) -> int:
    """As ``collect_all`` after a whole character, where ``row`` has what follows if the open word does not go on.

    That is the mask of the node to which the word links, or what follows a whole word, or nothing. Only tokens are
    looked at whose first character goes on with the word.

    Args:
        is_begun: uint8 (parts,): zeros, and so again afterwards.
    """
    starts, labels, children = (
        int32_at(table[fields.EDGE_START]),
        int32_at(table[fields.LABELS]),
        int32_at(table[fields.CHILDREN]),
    )
    to_end, edge_nodes = uint8_at(table[fields.TO_END]), int32_at(table[fields.EDGE_NODES])
    context, node, num = context_of(place), node_of(place), 0
    found = scratch[_LAST]
    for edge in range(starts[node], starts[node + 1]):
        char, is_alive = labels[edge], to_end[children[edge]] != FAR
        _add_parts(table, char, is_begun)
        if edge_nodes[edge] > 0:
            found[0], num_found = place_in_word(context, children[edge]), 1 if is_alive else 0
            if table[fields.IS_ANY]:
                num_found = after_char(table, place, char, found, 0)
            num = _collect(table, row, found, num_found, budget, edge_nodes[edge], toggles, num, scratch)
    if is_latin(int32_at(table[fields.OWN_LABELS])[node]) and int32_at(table[fields.LINKS])[node] <= 0:
        chars = int32_at(table[fields.CHARS])
        for at in range(table[fields.NUM_CHARS]):
            if chars[at] > 122:
                break
            if is_latin(chars[at]) and child_of(table, node, chars[at]) < 0:
                num = _collect(
                    table, row, found, 0, budget, int32_at(table[fields.CHAR_NODES])[at], toggles, num, scratch
                )
    return _collect_parts(table, row, place, budget, is_begun, toggles, num)


@kernel
def _add_parts(table: AddressTable, char: int, is_begun: Uint8Array) -> None:
    """Set for the beginnings of a character that these begin one that goes on with the word."""
    num_bytes = 1 if char < 0x80 else 2 if char < 0x800 else 3 if char < 0x10000 else 4
    parts = int32_at(table[fields.PARTS])
    for num_left in range(1, num_bytes):
        at = position_of(parts, 0, table[fields.NUM_PARTS], _beginning_of(char, num_bytes, num_left))
        if at >= 0:
            is_begun[at] = 1


@kernel
def _beginning_of(char: int, num_bytes: int, num_left: int) -> int:
    """Return the bytes of a character but for the last ones, as a number."""
    part = ((0xF00 >> num_bytes) & 0xFF) | (char >> (6 * (num_bytes - 1)))
    for place in range(num_bytes - 2, num_left - 1, -1):
        part = (part << 8) | 0x80 | ((char >> (6 * place)) & 0x3F)
    return part


@kernel
def _collect_parts(
    table: AddressTable, row: Int32Array, place: int, budget: int, is_begun: Uint8Array, toggles: Int32Array, num: int
) -> int:
    """Add the tokens that begin a character, were set, and whose bit in a row is wrong; reset what was set."""
    starts, tokens = int32_at(table[fields.TOKEN_START]), int32_at(table[fields.TOKENS])
    parts, part_nodes = int32_at(table[fields.PARTS]), int32_at(table[fields.PART_NODES])
    places = np.empty(1, np.int64)
    places[0] = place
    for at in range(table[fields.NUM_PARTS]):
        if is_begun[at]:
            is_begun[at], is_allowed = 0, ends_within(table, places, 1, parts[at], budget)
            for one in range(starts[part_nodes[at]], starts[part_nodes[at] + 1]):
                num = _toggle(row, tokens[one], is_allowed, toggles, num)
    return num


@kernel
def fill_row(out: Int32Array, row: Int32Array, toggles: Int32Array, stops: Int32Array, is_complete: bool) -> None:
    """Write a row with some bits toggled into ``out``, and the stop tokens where a text is complete."""
    num = len(row)
    for word in range(num):
        out[word] = row[word]
    out[num:] = 0
    for token in toggles:
        out[token >> 5] ^= np.int32(1) << np.int32(token & 31)
    set_token_bits(out, stops, is_complete)
