"""The compiled code of text without spaces: where bytes and tokens lead, and how far the end is.

A reading is one integer: a place and the bytes of a character that is not whole yet. A place is a state of the gap
automaton, or a node of the dictionary's trie in one of its contexts. All code reads one table of numbers and addresses
(``vocab.matching.segmented.fields``).
"""

from typing import Final

import numpy as np
import numpy.typing as npt

from vocab.arrays.kernels import AddressTable, int32_at, kernel, position_of, uint8_at
from vocab.automaton.dictionary_trie import is_ascii_letter
from vocab.matching.mask_kernels import NEVER_ENDS, NO_BUDGET
from vocab.matching.segmented import fields

Int64Array = npt.NDArray[np.int64]

FAR: Final = 255
"""Tokens to the end of a word, where it is never reached."""

MAX_PLACES: Final = 16
"""Of one text. More, which only ``any`` can have, are dropped: that forbids texts and allows none."""

NUM_DIRECT: Final = 0x10000
"""Code points whose mark and root child stand in arrays."""

_SHIFT: Final = 24
_LOW: Final = (1 << _SHIFT) - 1

is_latin = kernel(is_ascii_letter)


@kernel
def node_of(place: int) -> int:
    """Return the node of a place within a word, or the gap state of one between words."""
    return place & _LOW


@kernel
def context_of(place: int) -> int:
    """Return the context of a place within a word; -1 between words."""
    return (place >> _SHIFT) - 1


@kernel
def place_in_word(context: int, node: int) -> int:
    """Return the place of a node in a context."""
    return ((context + 1) << _SHIFT) | node


@kernel
def place_of(reading: int) -> int:
    """Return the place of a reading."""
    return reading >> _SHIFT


@kernel
def part_of(reading: int) -> int:
    """Return the bytes, as a number, that a reading has of its last character; 0 where that is whole."""
    return reading & _LOW


@kernel
def reading_of(place: int, part: int) -> int:
    """Return the reading of a place and the bytes of a character."""
    return (place << _SHIFT) | part


@kernel
def _length_of(first_byte: int) -> int:
    """Return how many bytes a character has in UTF-8, by its first; 0 for a byte that begins none."""
    if first_byte < 0x80:
        return 1
    if first_byte < 0xC2 or first_byte > 0xF4:
        return 0
    return 2 if first_byte < 0xE0 else 3 if first_byte < 0xF0 else 4


@kernel
def mark_of(table: AddressTable, char: int) -> int:
    """Return the number of a mark; -1 for another character."""
    return int(uint8_at(table[fields.MARK_NUMBERS])[char]) - 1 if char < NUM_DIRECT else -1


@kernel
def child_of(table: AddressTable, node: int, char: int) -> int:
    """Return the node that a character leads to; -1 for none."""
    if node == 0 and char < NUM_DIRECT:
        return int(int32_at(table[fields.ROOT_CHILDREN])[char])
    starts = int32_at(table[fields.EDGE_START])
    edge = position_of(int32_at(table[fields.LABELS]), starts[node], starts[node + 1], char)
    return int(int32_at(table[fields.CHILDREN])[edge]) if edge >= 0 else -1


@kernel
def _is_whole(table: AddressTable, node: int) -> bool:
    """Return whether a run of characters that ends at a node consists of listed words."""
    ranks = int32_at(table[fields.RANKS]) if table[fields.IS_ANY] else int32_at(table[fields.WHOLE_RANKS])
    return bool(ranks[node] <= table[fields.N_WORDS])


@kernel
def gap_state_of(table: AddressTable, place: int) -> int:
    """Return the gap state of a place: its own, or the one after its words where they are whole; -1 for none."""
    if context_of(place) < 0:
        return int(node_of(place))
    if not _is_whole(table, node_of(place)):
        return -1
    return int(int32_at(table[fields.AFTER_WORD])[context_of(place)])


@kernel
def after_char(table: AddressTable, place: int, char: int, found: Int64Array, num: int) -> int:
    """Add the places that a character leads to from a place to ``found``; return how many there are then."""
    context, node = context_of(place), node_of(place)
    if not table[fields.IS_ANY] or context < 0 or mark_of(table, char) >= 0:
        target, _ = after_longest(table, place, char)
        return _offer(found, num, target) if target >= 0 else num
    num = _offer_node(table, found, num, context, child_of(table, node, char))
    if _is_whole(table, node) and not _parts_letters(table, node, char):
        num = _offer_node(table, found, num, context, child_of(table, 0, char))
    return num


@kernel
def after_longest(table: AddressTable, place: int, char: int) -> tuple[int, int]:
    """Return the place that a character leads to, -1 for none, and what is left of the node when words are cut off.

    But for ``any`` that is the only one.
    """
    context, node = context_of(place), node_of(place)
    mark = mark_of(table, char)
    if mark >= 0:
        state = gap_state_of(table, place)
        return (int32_at(table[fields.GAP_TARGETS])[state * table[fields.NUM_MARKS] + mark] if state >= 0 else -1), 0
    if context < 0:
        if not uint8_at(table[fields.OPENS_WORDS])[node]:
            return -1, 0
        context, node = int32_at(table[fields.CONTEXTS])[node], 0
    child, rest = after_rest(table, node, char)
    is_alive = child >= 0 and uint8_at(table[fields.TO_END])[child] != FAR
    return (place_in_word(context, child) if is_alive else -1), rest


@kernel
def after_rest(table: AddressTable, node: int, char: int) -> tuple[int, int]:
    """Return the node to which longest match goes on with a character, -1 for none, and its parent.

    That is ``node``, or what is left of it when its first words are cut off.
    """
    links, cut_ranks = int32_at(table[fields.LINKS]), int32_at(table[fields.CUT_RANKS])
    parent = node
    while True:
        child = child_of(table, parent, char)
        if child >= 0:
            return (-1 if parent == 0 and _parts_letters(table, node, char) else child), parent
        if parent == 0 or cut_ranks[parent] > table[fields.N_WORDS]:
            return -1, parent
        parent = links[parent]


@kernel
def _parts_letters(table: AddressTable, node: int, char: int) -> bool:
    """Return whether a cut between a node's character and another would part two Latin letters."""
    return bool(is_latin(int32_at(table[fields.OWN_LABELS])[node]) and is_latin(char))


@kernel
def _offer_node(table: AddressTable, found: Int64Array, num: int, context: int, node: int) -> int:
    """Add the place of a node, unless nothing ends after it; return how many there are then."""
    if node < 0 or uint8_at(table[fields.TO_END])[node] == FAR:
        return num
    return int(_offer(found, num, place_in_word(context, node)))


@kernel
def _offer(found: Int64Array, num: int, place: int) -> int:
    """Add a place that is not there yet, while there is room."""
    for one in range(num):
        if found[one] == place:
            return num
    if num < MAX_PLACES:
        found[num] = place
        return num + 1
    return num


@kernel
def read_byte(part: int, byte: int) -> tuple[int, int]:
    """Return the bytes of the open character after one more, 0 for none, and the character that it ends, -1 for none.

    Both are -1 where the byte cannot come.
    """
    if part == 0 and byte < 0x80:
        return 0, byte
    if (byte & 0xC0 != 0x80) if part else (_length_of(byte) == 0):
        return -1, -1
    part = (part << 8) | byte
    first, char, num_left = chars_of_part(part)
    if num_left:
        return part, -1
    # Nothing where fewer bytes would do: UTF-8 has no such character.
    return (0, char) if first == char else (-1, -1)


@kernel
def distance(table: AddressTable, place: int) -> int:
    """Return how few tokens complete a text after a place; ``NEVER_ENDS`` or more where none do."""
    context, node = context_of(place), node_of(place)
    to_end = int32_at(table[fields.GAP_TO_END])
    if context < 0:
        return int(to_end[node])
    tokens = uint8_at(table[fields.TO_END])[node]
    return NEVER_ENDS if tokens == FAR else int(tokens + to_end[int32_at(table[fields.AFTER_WORD])[context]])


@kernel
def chars_of_part(part: int) -> tuple[int, int, int]:
    """Return the first and last code point that some bytes begin, and how many bytes they lack."""
    num_read = 1
    while part >> (8 * num_read):
        num_read += 1
    num_bytes = _length_of(part >> (8 * (num_read - 1)))
    first = (part >> (8 * (num_read - 1))) & (0x7F >> num_bytes)
    for at in range(num_read - 2, -1, -1):
        first = (first << 6) | ((part >> (8 * at)) & 0x3F)
    rest = 6 * (num_bytes - num_read)
    first <<= rest
    # Smaller ones have fewer bytes.
    smallest = 0x10000 if num_bytes == 4 else 0x800 if num_bytes == 3 else 0x80
    return max(first, smallest), first | ((1 << rest) - 1), num_bytes - num_read


@kernel
def first_edge(table: AddressTable, node: int, char: int) -> int:
    """Return a node's first edge whose label is a character or a greater one."""
    starts, labels = int32_at(table[fields.EDGE_START]), int32_at(table[fields.LABELS])
    low, high = starts[node], starts[node + 1]
    while low < high:
        middle = (low + high) >> 1
        if labels[middle] < char:
            low = middle + 1
        else:
            high = middle
    return int(low)


@kernel
def can_end_by_bytes(table: AddressTable, char: int, num_left: int) -> bool:
    """Return whether the last bytes of a character are tokens, each by itself."""
    if not table[fields.HAS_ALL_BYTES]:
        for at in range(num_left):
            if not uint8_at(table[fields.SINGLE])[0x80 | ((char >> (6 * at)) & 0x3F)]:
                return False
    return True


@kernel
def part_distance(table: AddressTable, places: Int64Array, num: int, part: int, enough: int) -> int:
    """Return how few tokens complete a text after places and the beginning of a character.

    Each byte that is left counts as a token. Where some number is ``enough`` or less, it need not be the fewest.
    """
    first, last, num_left = chars_of_part(part)
    marks, best = int32_at(table[fields.MARKS]), NEVER_ENDS
    starts, labels = int32_at(table[fields.EDGE_START]), int32_at(table[fields.LABELS])
    links, cut_ranks = int32_at(table[fields.LINKS]), int32_at(table[fields.CUT_RANKS])
    for one in range(num):
        place = places[one]
        for mark in range(table[fields.NUM_MARKS]):
            if first <= marks[mark] <= last:
                best = min(best, _distance_by(table, place, marks[mark], num_left))
        node = node_of(place) if context_of(place) >= 0 else 0
        while True:
            for edge in range(first_edge(table, node, first), starts[node + 1]):
                if labels[edge] > last or best + num_left <= enough:
                    break
                best = min(best, _distance_by(table, place, labels[edge], num_left))
            if node == 0 or best + num_left <= enough:
                break
            if table[fields.IS_ANY]:
                node = 0
            elif cut_ranks[node] > table[fields.N_WORDS]:
                break
            else:
                node = links[node]
    return int(best if best >= NEVER_ENDS else best + num_left)


@kernel
def _distance_by(table: AddressTable, place: int, char: int, num_left: int) -> int:
    """Return how few tokens complete a text after a place and a character whose last bytes can be single tokens."""
    if not can_end_by_bytes(table, char, num_left):
        return NEVER_ENDS
    found = np.empty(MAX_PLACES, np.int64)
    return int(distance_after(table, found, after_char(table, place, char, found, 0)))


@kernel
def distance_after(table: AddressTable, places: Int64Array, num: int) -> int:
    """Return how few tokens complete a text after places; ``NEVER_ENDS`` where none do."""
    best = NEVER_ENDS
    for one in range(num):
        best = min(best, distance(table, places[one]))
    return int(best)


@kernel
def ends_within(table: AddressTable, places: Int64Array, num: int, part: int, budget: int) -> bool:
    """Return whether a text can end after these places within a budget of tokens."""
    most = NEVER_ENDS - 1 if budget == NO_BUDGET else budget
    tokens = part_distance(table, places, num, part, most) if part else distance_after(table, places, num)
    return bool(tokens <= most)


@kernel
def step(table: AddressTable, readings: Int64Array, token: int, budget: int, found: Int64Array) -> int:
    """Write the readings that a token leads to into ``found``; return their number, 0 where it is not allowed."""
    places, after = np.empty(MAX_PLACES, np.int64), np.empty(MAX_PLACES, np.int64)
    num, part = len(readings), part_of(readings[0])
    for one in range(num):
        places[one] = place_of(readings[one])
    data, starts = uint8_at(table[fields.DATA]), int32_at(table[fields.DATA_START])
    if starts[token] == starts[token + 1]:
        return 0
    for at in range(starts[token], starts[token + 1]):
        part, char = read_byte(part, data[at])
        if char >= 0:
            num_after = 0
            for one in range(num):
                num_after = after_char(table, places[one], char, after, num_after)
            places, after, num = after, places, num_after
        if part < 0 or num == 0:
            return 0
    if not ends_within(table, places, num, part, budget):
        return 0
    for one in range(num):
        found[one] = reading_of(places[one], part)
    return num
