"""The compiled code of text without spaces: where bytes lead, how far the end is, which tokens may come.

A reading is one integer: a place and the bytes of a character that is not whole yet. A place is a state of the gap
automaton, or a node of the dictionary's trie in one of its contexts. All code reads one table of numbers and addresses
(``vocab.matching.segmented.states``).
"""

from typing import Final

import numpy as np
import numpy.typing as npt

from vocab.arrays.byte_trie import Int32Array
from vocab.arrays.kernels import AddressTable, int32_at, kernel, position_of, uint8_at
from vocab.automaton.dictionary_trie import is_ascii_letter
from vocab.automaton.token_trie import MAX_CHARS
from vocab.matching.mask_kernels import NEVER_ENDS, NO_BUDGET

Int64Array = npt.NDArray[np.int64]

DEAD: Final = -1
FAR: Final = 255
"""Tokens to the end of a word, where it is never reached."""

MAX_PLACES: Final = 16
"""Of one text. More, which only ``any`` can have, are dropped: that forbids texts and allows none."""

SCRATCH_SHAPE: Final = (MAX_CHARS + 2, MAX_PLACES + 1)
_LAST: Final = MAX_CHARS + 1

# Indices into the table: numbers, then addresses.
N_WORDS, IS_ANY, NUM_MARKS = range(3)
EDGE_START, LABELS, CHILDREN, OWN_LABELS, RANKS, BELOW, LINKS, CUT_RANKS, WHOLE_RANKS, TO_END = range(3, 13)
MARKS, GAP_TARGETS, IS_COMPLETE, OPENS_WORDS, CONTEXTS, AFTER_WORD, GAP_TO_END = range(13, 20)
SYMBOLS, DEPTHS, ENDS, TOKEN_START, TOKENS, CHARS, CHAR_NODES, NUM_CHARS = range(20, 28)
PARTS, PART_NODES, NUM_PARTS, PART_COUNTS, DATA, DATA_START, ROOT_CHILDREN, MARK_NUMBERS = range(28, 36)
SINGLE, HAS_ALL_BYTES, EDGE_NODES, PARENTS, DEPTHS_OF_NODES, STARTS_SENTENCE, NUM_CUT = range(36, 43)
TABLE_SIZE: Final = 43

NUM_DIRECT: Final = 0x10000
"""Code points whose mark and root child stand in arrays."""

_SHIFT: Final = 24
_LOW: Final = (1 << _SHIFT) - 1

_is_ascii_letter = kernel(is_ascii_letter)


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
def _mark_of(table: AddressTable, char: int) -> int:
    """Return the number of a mark; -1 for another character."""
    return int(uint8_at(table[MARK_NUMBERS])[char]) - 1 if char < NUM_DIRECT else -1


@kernel
def child_of(table: AddressTable, node: int, char: int) -> int:
    """Return the node that a character leads to; -1 for none."""
    if node == 0 and char < NUM_DIRECT:
        return int(int32_at(table[ROOT_CHILDREN])[char])
    starts = int32_at(table[EDGE_START])
    edge = position_of(int32_at(table[LABELS]), starts[node], starts[node + 1], char)
    return int(int32_at(table[CHILDREN])[edge]) if edge >= 0 else -1


@kernel
def _is_whole(table: AddressTable, node: int) -> bool:
    """Return whether a run of characters that ends at a node consists of listed words."""
    ranks = int32_at(table[RANKS]) if table[IS_ANY] else int32_at(table[WHOLE_RANKS])
    return bool(ranks[node] <= table[N_WORDS])


@kernel
def gap_state_of(table: AddressTable, place: int) -> int:
    """Return the gap state of a place: its own, or the one after its words where they are whole; -1 for none."""
    if context_of(place) < 0:
        return int(node_of(place))
    if not _is_whole(table, node_of(place)):
        return -1
    return int(int32_at(table[AFTER_WORD])[context_of(place)])


@kernel
def after_char(table: AddressTable, place: int, char: int, found: Int64Array, num: int) -> int:
    """Add the places that a character leads to from a place to ``found``; return how many there are then."""
    mark = _mark_of(table, char)
    if mark >= 0:
        state = gap_state_of(table, place)
        target = int32_at(table[GAP_TARGETS])[state * table[NUM_MARKS] + mark] if state >= 0 else -1
        return _offer(found, num, target) if target >= 0 else num
    context, node = context_of(place), node_of(place)
    if context < 0:
        if not uint8_at(table[OPENS_WORDS])[node]:
            return num
        child = child_of(table, 0, char)
        own_context = int32_at(table[CONTEXTS])[node]
        return _offer_node(table, found, num, own_context, child)
    before = int32_at(table[OWN_LABELS])[node]
    is_joined = _is_ascii_letter(before) and _is_ascii_letter(char)
    if table[IS_ANY]:
        num = _offer_node(table, found, num, context, child_of(table, node, char))
        if _is_whole(table, node) and not is_joined:
            num = _offer_node(table, found, num, context, child_of(table, 0, char))
        return num
    links, cut_ranks = int32_at(table[LINKS]), int32_at(table[CUT_RANKS])
    while True:
        child = child_of(table, node, char)
        if child >= 0:
            return num if node == 0 and is_joined else _offer_node(table, found, num, context, child)
        if node == 0 or cut_ranks[node] > table[N_WORDS]:
            return num
        node = links[node]


@kernel
def _offer_node(table: AddressTable, found: Int64Array, num: int, context: int, node: int) -> int:
    """Add the place of a node, unless nothing ends after it; return how many there are then."""
    if node < 0 or uint8_at(table[TO_END])[node] == FAR:
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
def after_byte(
    table: AddressTable, places: Int64Array, num: int, part: int, byte: int, found: Int64Array
) -> tuple[int, int]:
    """Write the places that a byte leads to into ``found``; return their number and the bytes of the open character.

    The number is 0 where the byte cannot come.
    """
    if part == 0:
        if byte < 0x80:
            num_found = 0
            for one in range(num):
                num_found = after_char(table, places[one], byte, found, num_found)
            return num_found, 0
        if _length_of(byte) == 0:
            return 0, 0
        found[:num] = places[:num]
        return num, byte
    if byte & 0xC0 != 0x80:
        return 0, 0
    part = (part << 8) | byte
    if not _is_complete_part(part):
        found[:num] = places[:num]
        return num, part
    char, num_found = _char_of(part), 0
    for one in range(num):
        num_found = after_char(table, places[one], char, found, num_found)
    return num_found, 0


@kernel
def _num_part_bytes(part: int) -> int:
    """Return how many bytes of a character were read."""
    num = 0
    while part:
        num, part = num + 1, part >> 8
    return num


@kernel
def _is_complete_part(part: int) -> bool:
    """Return whether the bytes of a character are all there."""
    num = _num_part_bytes(part)
    return bool(_length_of(part >> (8 * (num - 1))) == num)


@kernel
def _char_of_beginning(part: int, num: int, num_bytes: int) -> int:
    """Return the first bits of a code point, from the first bytes of a character that has ``num_bytes``."""
    char = (part >> (8 * (num - 1))) & (0x7F >> num_bytes)
    for place in range(num - 2, -1, -1):
        char = (char << 6) | ((part >> (8 * place)) & 0x3F)
    return char


@kernel
def _char_of(part: int) -> int:
    """Return the code point of the bytes of a whole character."""
    num = _num_part_bytes(part)
    return int(_char_of_beginning(part, num, num))


@kernel
def distance(table: AddressTable, place: int) -> int:
    """Return how few tokens complete a text after a place; ``NEVER_ENDS`` or more where none do."""
    context, node = context_of(place), node_of(place)
    to_end = int32_at(table[GAP_TO_END])
    if context < 0:
        return int(to_end[node])
    tokens = uint8_at(table[TO_END])[node]
    return NEVER_ENDS if tokens == FAR else int(tokens + to_end[int32_at(table[AFTER_WORD])[context]])


@kernel
def chars_of_part(part: int) -> tuple[int, int, int]:
    """Return the first and last code point that some bytes begin, and how many bytes they lack."""
    num_read = _num_part_bytes(part)
    num_bytes = _length_of(part >> (8 * (num_read - 1)))
    rest = 6 * (num_bytes - num_read)
    first = _char_of_beginning(part, num_read, num_bytes) << rest
    # Smaller ones have fewer bytes.
    smallest = 0x10000 if num_bytes == 4 else 0x800 if num_bytes == 3 else 0x80
    return max(first, smallest), first | ((1 << rest) - 1), num_bytes - num_read


@kernel
def first_edge(table: AddressTable, node: int, char: int) -> int:
    """Return a node's first edge whose label is a character or a greater one."""
    starts, labels = int32_at(table[EDGE_START]), int32_at(table[LABELS])
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
    if not table[HAS_ALL_BYTES]:
        for at in range(num_left):
            if not uint8_at(table[SINGLE])[0x80 | ((char >> (6 * at)) & 0x3F)]:
                return False
    return True


@kernel
def part_distance(table: AddressTable, places: Int64Array, num: int, part: int, budget: int) -> int:
    """Return how few tokens complete a text after places and the beginning of a character.

    Each byte that is left counts as a token. Without a budget any number below ``NEVER_ENDS`` may be returned where
    there is an end.
    """
    first, last, num_left = chars_of_part(part)
    marks, best = int32_at(table[MARKS]), NEVER_ENDS
    starts, labels = int32_at(table[EDGE_START]), int32_at(table[LABELS])
    links, cut_ranks = int32_at(table[LINKS]), int32_at(table[CUT_RANKS])
    for one in range(num):
        place = places[one]
        for mark in range(table[NUM_MARKS]):
            if first <= marks[mark] <= last:
                best = min(best, _distance_by(table, place, marks[mark], num_left))
        node = node_of(place) if context_of(place) >= 0 else 0
        while True:
            for edge in range(first_edge(table, node, first), starts[node + 1]):
                if labels[edge] > last or (budget == NO_BUDGET and best < NEVER_ENDS):
                    break
                best = min(best, _distance_by(table, place, labels[edge], num_left))
            if node == 0 or (budget == NO_BUDGET and best < NEVER_ENDS):
                break
            if table[IS_ANY]:
                node = 0
            elif cut_ranks[node] > table[N_WORDS]:
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
    num = after_char(table, place, char, found, 0)
    best = NEVER_ENDS
    for one in range(num):
        best = min(best, distance(table, found[one]))
    return int(best)


@kernel
def _ends_within(table: AddressTable, places: Int64Array, num: int, part: int, budget: int) -> bool:
    """Return whether a text can end after these places within a budget of tokens."""
    most = NEVER_ENDS - 1 if budget == NO_BUDGET else budget
    if part:
        return bool(num > 0 and part_distance(table, places, num, part, budget) <= most)
    for one in range(num):  # noqa: SIM110 - compiled, where there is no any()
        if distance(table, places[one]) <= most:
            return True
    return False


@kernel
def step(table: AddressTable, readings: Int64Array, token: int, budget: int, found: Int64Array) -> int:
    """Write the readings that a token leads to into ``found``; return their number, 0 where it is not allowed."""
    places, after = np.empty(MAX_PLACES, np.int64), np.empty(MAX_PLACES, np.int64)
    num, part = len(readings), part_of(readings[0])
    for one in range(num):
        places[one] = place_of(readings[one])
    data, starts = uint8_at(table[DATA]), int32_at(table[DATA_START])
    if starts[token] == starts[token + 1]:
        return 0
    for at in range(starts[token], starts[token + 1]):
        num, part = after_byte(table, places, num, part, data[at], after)
        if num == 0:
            return 0
        places, after = after, places
    if not _ends_within(table, places, num, part, budget):
        return 0
    for one in range(num):
        found[one] = reading_of(places[one], part)
    return num


@kernel
def collect_tokens(
    table: AddressTable, row: Int32Array, reading: int, budget: int, tokens: Int32Array, toggles: Int32Array
) -> int:
    """Write those of some tokens whose bit in a row is wrong after a reading into ``toggles``; return their number."""
    readings, found, num = np.empty(1, np.int64), np.empty(MAX_PLACES, np.int64), 0
    readings[0] = reading
    for token in tokens:
        is_allowed = step(table, readings, token, budget, found) > 0
        if ((row[token >> 5] >> np.int32(token & 31)) & 1) != is_allowed:
            toggles[num] = token
            num += 1
    return num


@kernel
def tokens_to_end(table: AddressTable, readings: Int64Array) -> int:
    """Return how few tokens complete a text with these readings; ``NEVER_ENDS`` or more where none do."""
    places, best = np.empty(MAX_PLACES, np.int64), NEVER_ENDS
    for one in range(len(readings)):
        places[one] = place_of(readings[one])
    if part_of(readings[0]):
        return int(part_distance(table, places, len(readings), part_of(readings[0]), 0))
    for one in range(len(readings)):
        best = min(best, distance(table, places[one]))
    return int(best)


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
    symbols, depths, ends = int32_at(table[SYMBOLS]), int32_at(table[DEPTHS]), int32_at(table[ENDS])
    starts, tokens = int32_at(table[TOKEN_START]), int32_at(table[TOKENS])
    # By depth: places, then how many there are.
    base, node, last = depths[first], first, ends[first]
    scratch[0, :num_first] = first_places[:num_first]
    scratch[0, MAX_PLACES] = num_first
    while node < last:
        depth, symbol = depths[node] - base, symbols[node]
        is_allowed = False
        if symbol < 0:
            is_allowed = _ends_within(table, scratch[depth - 1], scratch[depth - 1, MAX_PLACES], -symbol, budget)
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
                    token = tokens[one]
                    if (row[token >> 5] >> np.int32(token & 31)) & 1:
                        toggles[num_toggles] = token
                        num_toggles += 1
                node = ends[node]
                continue
            if starts[node] < starts[node + 1]:
                is_allowed = _ends_within(table, scratch[depth], num, 0, budget)
        for one in range(starts[node], starts[node + 1]):
            token = tokens[one]
            if ((row[token >> 5] >> np.int32(token & 31)) & 1) != is_allowed:
                toggles[num_toggles] = token
                num_toggles += 1
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
    counts: Int32Array,
    scratch: Int64Array,
) -> int:
    """As ``collect_all`` after a whole character, where ``row`` has what follows if the open word does not go on.

    That is the mask of the node to which the word links, or what follows a whole word, or nothing. Only tokens are
    looked at whose first character goes on with the word.

    Args:
        counts: int32 (2, parts): zeros, and so again afterwards.
    """
    starts, labels, children = int32_at(table[EDGE_START]), int32_at(table[LABELS]), int32_at(table[CHILDREN])
    to_end, edge_nodes = uint8_at(table[TO_END]), int32_at(table[EDGE_NODES])
    context, node, num = context_of(place), node_of(place), 0
    found = scratch[_LAST]
    for edge in range(starts[node], starts[node + 1]):
        char, is_alive = labels[edge], to_end[children[edge]] != FAR
        # A mark follows as it does in the row.
        if _mark_of(table, char) >= 0:
            continue
        _count_parts(table, char, is_alive, counts)
        if edge_nodes[edge] > 0:
            found[0], num_found = place_in_word(context, children[edge]), 1 if is_alive else 0
            if table[IS_ANY]:
                num_found = after_char(table, place, char, found, 0)
            num = _collect(table, row, found, num_found, budget, edge_nodes[edge], toggles, num, scratch)
    if _is_ascii_letter(int32_at(table[OWN_LABELS])[node]) and int32_at(table[LINKS])[node] <= 0:
        chars = int32_at(table[CHARS])
        for at in range(table[NUM_CHARS]):
            if chars[at] > 122:
                break
            if _is_ascii_letter(chars[at]) and child_of(table, node, chars[at]) < 0:
                num = _collect(table, row, found, 0, budget, int32_at(table[CHAR_NODES])[at], toggles, num, scratch)
    return _collect_parts(table, row, place, budget, counts, toggles, num)


@kernel
def count_parts(table: AddressTable, counts: Int32Array) -> None:
    """Count, by beginning of a character, with how many characters words may begin, in row 1 of ``counts``.

    ``counts`` is int32 (2, parts); row 0 is for others to clear.
    """
    starts, labels, children = int32_at(table[EDGE_START]), int32_at(table[LABELS]), int32_at(table[CHILDREN])
    to_end = uint8_at(table[TO_END])
    for edge in range(starts[0], starts[1]):
        if _mark_of(table, labels[edge]) < 0:
            _count_parts(table, labels[edge], to_end[children[edge]] != FAR, counts)


@kernel
def _count_parts(table: AddressTable, char: int, is_alive: bool, counts: Int32Array) -> None:
    """Count a character for its beginnings: in row 0, and in row 1 where a word may go on with it."""
    num_bytes = 1 if char < 0x80 else 2 if char < 0x800 else 3 if char < 0x10000 else 4
    parts = int32_at(table[PARTS])
    for num_left in range(1, num_bytes):
        at = position_of(parts, 0, table[NUM_PARTS], _beginning_of(char, num_bytes, num_left))
        if at >= 0:
            counts[0, at] += 1
            counts[1, at] += is_alive


@kernel
def _beginning_of(char: int, num_bytes: int, num_left: int) -> int:
    """Return the bytes of a character but for the last ones, as a number."""
    part = ((0xF00 >> num_bytes) & 0xFF) | (char >> (6 * (num_bytes - 1)))
    for place in range(num_bytes - 2, num_left - 1, -1):
        part = (part << 8) | 0x80 | ((char >> (6 * place)) & 0x3F)
    return part


@kernel
def _collect_parts(
    table: AddressTable,
    row: Int32Array,
    place: int,
    budget: int,
    counts: Int32Array,
    toggles: Int32Array,
    num: int,
) -> int:
    """Add the tokens that begin a character, were counted, and whose bit in a row is wrong; clear the counts."""
    starts, tokens = int32_at(table[TOKEN_START]), int32_at(table[TOKENS])
    parts, part_nodes, from_root = int32_at(table[PARTS]), int32_at(table[PART_NODES]), int32_at(table[PART_COUNTS])
    places = np.empty(1, np.int64)
    places[0] = place
    has_root_next = int32_at(table[LINKS])[node_of(place)] == 0
    is_simple = budget == NO_BUDGET and table[HAS_ALL_BYTES] != 0
    for at in range(table[NUM_PARTS]):
        if counts[0, at] == 0:
            continue
        node = part_nodes[at]
        first = tokens[starts[node]]
        is_set = ((row[first >> 5] >> np.int32(first & 31)) & 1) != 0
        is_allowed = counts[1, at] > 0
        # A word that does not go on leaves the row's: one of more characters than go on here is left of them.
        if not is_allowed and is_simple and is_set and has_root_next and from_root[at] > counts[0, at]:
            is_allowed = True
        elif not is_simple or (is_set and not is_allowed):
            is_allowed = _ends_within(table, places, 1, parts[at], budget)
        counts[0, at] = counts[1, at] = 0
        if is_set != is_allowed:
            for one in range(starts[node], starts[node + 1]):
                toggles[num] = tokens[one]
                num += 1
    return num


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
def fill_row(out: Int32Array, row: Int32Array, toggles: Int32Array, stops: Int32Array, is_complete: bool) -> None:
    """Write a row with some bits toggled into ``out``, and the stop tokens where a text is complete."""
    num = len(row)
    for word in range(num):
        out[word] = row[word]
    out[num:] = 0
    for token in toggles:
        out[token >> 5] ^= np.int32(1) << np.int32(token & 31)
    for token in stops:
        if 0 <= token < 32 * len(out):
            bit = np.int32(1) << np.int32(token & 31)
            if is_complete:
                out[token >> 5] |= bit
            else:
                out[token >> 5] &= ~bit
