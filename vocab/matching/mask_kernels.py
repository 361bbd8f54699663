"""The compiled code of masks and steps, over one table of numbers and addresses (``vocab.matching.masks.Bound``)."""

from typing import Final

import numpy as np
import numpy.typing as npt

from vocab.arrays.byte_trie import Int32Array
from vocab.arrays.kernels import AddressTable, int32_at, int64_at, kernel, position_of, uint8_at
from vocab.automaton.compiled_list import NUM_KINDS
from vocab.automaton.frame import NUM_MODES

NO_BUDGET: Final = -1

FILLED: Final = -1
FAR: Final = 255
"""Tokens to the end of a word, where it is never reached."""
NEVER_ENDS: Final = 1 << 20

# Indices into the table: numbers, then addresses of the trie, of the nodes added, and of the frame.
_N_WORDS, _NUM_BASE, _NUM_ADDED, BUDGET, ROW_SIZE, ROWS = range(6)
_EDGE_START, _TOKENS, _CHILDREN, _RANKS, _BELOW, _DISTANCES, _KINDS = range(6, 13)
_ADDED: Final = 7
"""From an array of the trie to that of the nodes added."""
_FRAME_START, _FRAME_TOKENS, _FRAME_TARGETS, _WAY_START, _WAY_NODES, _WAY_CONTEXTS = range(20, 26)
_COMPLETE, _MODES, _AFTER, _FRAME_DISTANCES = range(26, 30)


@kernel
def set_token_bits(out: Int32Array, tokens: Int32Array, allowed: bool) -> None:
    """Allow or forbid single tokens in a mask, int32 (words,); tokens without a bit are skipped."""
    for token in tokens:
        if not 0 <= token < 32 * len(out):
            continue
        bit = np.int32(1) << np.int32(token & 31)
        if allowed:
            out[token >> 5] |= bit
        else:
            out[token >> 5] &= ~bit


@kernel
def fill_mask(out: Int32Array, stops: Int32Array, inside: AddressTable, table: AddressTable, reading: int) -> int:
    """Write the mask of a reading; return ``FILLED``, or the frame state whose row must be made first.

    ``inside`` says how the reading's word goes on and where it ends, ``table`` what follows it.

    Raises:
        ValueError: ``out`` is too short.
    """
    row_size = table[ROW_SIZE]
    if len(out) < row_size:
        raise ValueError("the mask has fewer bits than the tokenizer has tokens")
    frame_state = frame_state_of(inside, reading)
    if frame_state >= 0:
        address = int64_at(table[ROWS])[frame_state]
        if address == 0:
            return int(frame_state)
        row = int32_at(address)
        # A loop, which is compiled to a plain copy: an assignment of slices looks for overlaps first.
        for word in range(row_size):
            out[word] = row[word]
        out[row_size:] = 0
    else:
        out[:] = 0
    if reading >= 0:
        _add_children(out, inside, reading >> 32, reading & 0xFFFFFFFF)
    set_token_bits(out, stops, frame_state >= 0 and uint8_at(table[_COMPLETE])[frame_state] != 0)
    return FILLED


@kernel
def make_row(row: Int32Array, table: AddressTable, frame_state: int) -> None:
    """Set the bits of a frame state's row: its own tokens, and those that begin words there."""
    starts, tokens, targets = (
        int32_at(table[_FRAME_START]),
        int32_at(table[_FRAME_TOKENS]),
        int32_at(table[_FRAME_TARGETS]),
    )
    for edge in range(starts[frame_state], starts[frame_state + 1]):
        if _is_within(table, distance(table, -1 - targets[edge])):
            row[tokens[edge] >> 5] |= np.int32(1) << np.int32(tokens[edge] & 31)
    way_start, nodes, contexts = (
        int32_at(table[_WAY_START]),
        int32_at(table[_WAY_NODES]),
        int32_at(table[_WAY_CONTEXTS]),
    )
    for way in range(way_start[frame_state], way_start[frame_state + 1]):
        _add_children(row, table, contexts[way], nodes[way])


@kernel
def step(found: npt.NDArray[np.int64], inside: AddressTable, table: AddressTable, reading: int, token: int) -> int:
    """Write the readings that a token leads to into ``found``; return their number; tables as of ``fill_mask``."""
    num = 0
    if reading >= 0:
        num = _step_in_word(found, num, inside, reading >> 32, reading & 0xFFFFFFFF, token)
    frame_state = frame_state_of(inside, reading)
    if frame_state < 0:
        return num
    starts = int32_at(table[_FRAME_START])
    edge = position_of(int32_at(table[_FRAME_TOKENS]), starts[frame_state], starts[frame_state + 1], token)
    if edge >= 0:
        target = -1 - int32_at(table[_FRAME_TARGETS])[edge]
        if _is_within(table, distance(table, target)):
            found[num] = target
            num += 1
    way_start, nodes, contexts = (
        int32_at(table[_WAY_START]),
        int32_at(table[_WAY_NODES]),
        int32_at(table[_WAY_CONTEXTS]),
    )
    for way in range(way_start[frame_state], way_start[frame_state + 1]):
        if num < len(found):
            num = _step_in_word(found, num, table, contexts[way], nodes[way], token)
    return num


@kernel
def frame_state_of(table: AddressTable, reading: int) -> int:
    """Return the frame state of a reading: its own, or the one after the word that ends there; -1 for none."""
    if reading < 0:
        return -1 - reading
    context, node = reading >> 32, reading & 0xFFFFFFFF
    if _rank(table, _RANKS, context, node) > table[_N_WORDS]:
        return -1
    return int(int32_at(table[_AFTER])[NUM_KINDS * context + _kind(table, node)])


@kernel
def is_complete(table: AddressTable, reading: int) -> bool:
    """Return whether a text with this reading is complete, so that it may end."""
    frame_state = frame_state_of(table, reading)
    return frame_state >= 0 and uint8_at(table[_COMPLETE])[frame_state] != 0


@kernel
def _add_children(out: Int32Array, table: AddressTable, context: int, node: int) -> None:
    """Allow the tokens that go on with a word from a node, in a mask."""
    arrays, own = _arrays_of(table, node)
    starts, tokens, children = int32_at(table[arrays]), int32_at(table[arrays + 1]), int32_at(table[arrays + 2])
    for edge in range(starts[own], starts[own + 1]):
        is_allowed = _may_follow(table, context, children[edge])
        out[tokens[edge] >> 5] |= np.int32(is_allowed) << np.int32(tokens[edge] & 31)


@kernel
def _step_in_word(
    found: npt.NDArray[np.int64], num: int, table: AddressTable, context: int, node: int, token: int
) -> int:
    """Add the reading that a token leads to within a word to ``found``, if it is allowed; return their number."""
    arrays, own = _arrays_of(table, node)
    starts = int32_at(table[arrays])
    edge = position_of(int32_at(table[arrays + 1]), starts[own], starts[own + 1], token)
    if edge >= 0:
        child = int32_at(table[arrays + 2])[edge]
        if _may_follow(table, context, child):
            found[num] = (np.int64(context) << 32) | child
            num += 1
    return num


@kernel
def _may_follow(table: AddressTable, context: int, node: int) -> bool:
    """Return whether N allows a word at or below the node and, near the end of a budget, a text ends in time."""
    if _rank(table, _BELOW, context, node) > table[_N_WORDS]:
        return False
    return table[BUDGET] < 0 or _is_within(table, _word_distance(table, context, node))


@kernel
def _is_within(table: AddressTable, distance: int) -> bool:
    """Return whether a distance to the end fits into the budget; always without one."""
    return bool(table[BUDGET] < 0 or distance <= table[BUDGET])


@kernel
def _arrays_of(table: AddressTable, node: int) -> tuple[int, int]:
    """Return where the table has the arrays of a node, and its index in them."""
    if node < table[_NUM_BASE]:
        return _EDGE_START, node
    return _EDGE_START + _ADDED, node - table[_NUM_BASE]


@kernel
def _rank(table: AddressTable, array: int, context: int, node: int) -> int:
    """Return the rank of a node in a context's mode, from the array ``_RANKS`` or ``_BELOW``."""
    mode, num_base = int32_at(table[_MODES])[context], table[_NUM_BASE]
    if node < num_base:
        # Of a list's own words, only the first bit of the mode counts.
        return int(int32_at(table[array])[(mode & 1) * num_base + node])
    return int(int32_at(table[array + _ADDED])[mode * table[_NUM_ADDED] + node - num_base])


@kernel
def _kind(table: AddressTable, node: int) -> int:
    """Return the kind of the word that ends at a node."""
    num_base = table[_NUM_BASE]
    if node < num_base:
        return int(uint8_at(table[_KINDS])[node])
    return int(uint8_at(table[_KINDS + _ADDED])[node - num_base])


@kernel
def distance(table: AddressTable, reading: int) -> int:
    """Return how few tokens complete a text after a reading, ``NEVER_ENDS`` or more where none do."""
    if reading < 0:
        return int(int32_at(table[_FRAME_DISTANCES])[-1 - reading])
    return _word_distance(table, reading >> 32, reading & 0xFFFFFFFF)


@kernel
def _word_distance(table: AddressTable, context: int, node: int) -> int:
    """Return how few tokens complete a text from within a word."""
    best = NEVER_ENDS
    for kind in range(NUM_KINDS):
        word = _tokens_to_end(table, context, kind, node)
        if word < FAR:
            after = int32_at(table[_AFTER])[NUM_KINDS * context + kind]
            best = min(best, word + int32_at(table[_FRAME_DISTANCES])[after])
    return best


@kernel
def _tokens_to_end(table: AddressTable, context: int, kind: int, node: int) -> int:
    """Return how few tokens end a word of one kind from a node; ``FAR`` where none do."""
    mode, num_base = int32_at(table[_MODES])[context], table[_NUM_BASE]
    if node < num_base:
        return int(uint8_at(table[_DISTANCES])[((mode & 1) * NUM_KINDS + kind) * num_base + node])
    num_added = table[_NUM_ADDED]
    return int(uint8_at(table[_DISTANCES + _ADDED])[(mode * NUM_KINDS + kind) * num_added + node - num_base])


@kernel
def measure_words(table: AddressTable, kind: int) -> None:
    """Write, by mode and node, how few tokens end a word of one kind from there; children follow their parents."""
    num_base, num_added = table[_NUM_BASE], table[_NUM_ADDED]
    for is_added in range(2):
        offset = _ADDED * is_added
        num_nodes, first_node = (num_added, num_base) if is_added else (num_base, 0)
        starts, children = int32_at(table[_EDGE_START + offset]), int32_at(table[_CHILDREN + offset])
        ranks, kinds = int32_at(table[_RANKS + offset]), uint8_at(table[_KINDS + offset])
        distances, of_base = uint8_at(table[_DISTANCES + offset]), uint8_at(table[_DISTANCES])
        for mode in range(NUM_MODES if is_added else 2):
            for node in range(num_nodes - 1, -1, -1):
                is_end = kinds[node] == kind and ranks[mode * num_nodes + node] <= table[_N_WORDS]
                best = 0 if is_end else FAR
                for edge in range(starts[node], starts[node + 1]):
                    child = children[edge]
                    if child >= first_node:
                        of_child = distances[(mode * NUM_KINDS + kind) * num_nodes + child - first_node]
                    else:
                        of_child = of_base[((mode & 1) * NUM_KINDS + kind) * num_base + child]
                    best = min(best, of_child + 1)
                distances[(mode * NUM_KINDS + kind) * num_nodes + node] = min(best, FAR)


@kernel
def measure_frame(table: AddressTable, num_states: int) -> None:
    """Compute how few tokens complete a text from each frame state: lower the distances until none changes."""
    starts, targets = int32_at(table[_FRAME_START]), int32_at(table[_FRAME_TARGETS])
    way_start, nodes, contexts = (
        int32_at(table[_WAY_START]),
        int32_at(table[_WAY_NODES]),
        int32_at(table[_WAY_CONTEXTS]),
    )
    distances = int32_at(table[_FRAME_DISTANCES])
    has_changed = True
    while has_changed:
        has_changed = False
        for state in range(num_states):
            best = distances[state]
            for edge in range(starts[state], starts[state + 1]):
                best = min(best, 1 + distances[targets[edge]])
            for way in range(way_start[state], way_start[state + 1]):
                best = min(best, _word_distance(table, contexts[way], nodes[way]))
            if best < distances[state]:
                distances[state] = best
                has_changed = True
