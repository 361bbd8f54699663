"""The compiled code of masks and steps, over one record of numbers and addresses (``ListRecord``), and its rows.

A *reading* of what was written is one integer: between words -1 - f, in frame state f, and within a word the node of
the trie, with its context in the upper half. Each kernel takes the address of a record, by which nothing is copied.
"""

from collections.abc import Sequence
from threading import Lock
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from vocab.arrays.kernels import (
    Int32Array,
    Uint8Array,
    address_of,
    int32_at,
    int64_at,
    kernel,
    position_of,
    record_at,
    uint8_at,
)
from vocab.automaton.compiled_list import NUM_KINDS, TrieArrays

NO_BUDGET: Final = -1

FILLED: Final = -1
FAR: Final = 255
"""Tokens to the end of a word, where it is never reached."""
NEVER_ENDS: Final = 1 << 20


def _record(*fields: str) -> np.dtype[Any]:
    return np.dtype([(field, np.int64) for field in fields])


TRIE_ARRAYS: Final = ("edge_start", "tokens", "children", "ranks", "ranks_below", "kinds")

TrieRecord: Final = _record("first_node", "num_nodes", "num_modes", *TRIE_ARRAYS, "distances")
"""A trie, its nodes numbered from the first on, its modes a power of two; then the addresses of its arrays, as of
``vocab.automaton.compiled_list.TrieArrays``, and of what ``measure_words`` writes."""

ListRecord: Final = _record(
    *("n_words", "row_size", "num_base", "base", "added"),
    *("frame_start", "frame_tokens", "frame_targets", "way_start", "way_nodes", "way_contexts"),
    *("is_complete", "modes", "after", "frame_distances"),
    *("budget", "rows"),
)
"""A list at N. The addresses of two records: of its trie, which has so many nodes, and of the nodes added to it; those
of the arrays of its frame, as of ``vocab.automaton.frame.Frame``; a budget of tokens, and the address of the addresses
of the rows of frame states."""

_list_at: Final = record_at(ListRecord)
_trie_at: Final = record_at(TrieRecord)


def trie_records(tries: Sequence[TrieArrays | None], distances: Sequence[Uint8Array]) -> npt.NDArray[np.void]:
    """Return the records of a trie and of the nodes added to it, (2,), with their distances, which stay as they are."""
    records, first_node = np.zeros(2, TrieRecord), 0
    for record, trie, of_trie in zip(records, tries, distances, strict=True):
        record["first_node"], record["num_modes"] = first_node, len(of_trie)
        record["distances"] = address_of(of_trie)
        if trie is not None:
            record["num_nodes"] = first_node = trie.num_nodes
            for field in TRIE_ARRAYS:
                record[field] = address_of(getattr(trie, field))
    return records


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
def fill_mask(out: Int32Array, stops: Int32Array, open_word: int, next_word: int, reading: int) -> int:
    """Write the mask of a reading; return ``FILLED``, or the frame state whose row must be made first.

    The record at ``open_word`` says how the reading's word goes on and where it ends, that at ``next_word`` what
    follows it.

    Raises:
        ValueError: ``out`` is too short.
    """
    word, following = _list_at(open_word), _list_at(next_word)
    if len(out) < following.row_size:
        raise ValueError("the mask has fewer bits than the tokenizer has tokens")
    frame_state = _frame_state_of(word, reading)
    if frame_state >= 0:
        address = int64_at(following.rows)[frame_state]
        if address == 0:
            return int(frame_state)
        row = int32_at(address)
        # A loop, which is compiled to a plain copy: an assignment of slices looks for overlaps first.
        for at in range(following.row_size):
            out[at] = row[at]
        out[following.row_size :] = 0
    else:
        out[:] = 0
    if reading >= 0:
        _add_children(out, word, reading >> 32, reading & 0xFFFFFFFF)
    set_token_bits(out, stops, frame_state >= 0 and uint8_at(following.is_complete)[frame_state] != 0)
    return FILLED


@kernel
def make_row(row: Int32Array, next_word: int, frame_state: int) -> None:
    """Set the bits of a frame state's row: its own tokens, and those that begin words there."""
    of = _list_at(next_word)
    starts, tokens, targets = int32_at(of.frame_start), int32_at(of.frame_tokens), int32_at(of.frame_targets)
    for edge in range(starts[frame_state], starts[frame_state + 1]):
        if _is_within(of, _distance(of, -1 - targets[edge])):
            row[tokens[edge] >> 5] |= np.int32(1) << np.int32(tokens[edge] & 31)
    way_start, nodes, contexts = int32_at(of.way_start), int32_at(of.way_nodes), int32_at(of.way_contexts)
    for way in range(way_start[frame_state], way_start[frame_state + 1]):
        _add_children(row, of, contexts[way], nodes[way])


@kernel
def add_whole_words(row: Int32Array, address: int, reading: int) -> None:
    """Set the bits of the tokens after a reading that leave no word open, in a mask, whatever the budget."""
    of = _list_at(address)
    frame_state = _frame_state_of(of, reading)
    if frame_state >= 0:
        starts, tokens = int32_at(of.frame_start), int32_at(of.frame_tokens)
        for edge in range(starts[frame_state], starts[frame_state + 1]):
            row[tokens[edge] >> 5] |= np.int32(1) << np.int32(tokens[edge] & 31)
        way_start, nodes, contexts = int32_at(of.way_start), int32_at(of.way_nodes), int32_at(of.way_contexts)
        for way in range(way_start[frame_state], way_start[frame_state + 1]):
            _add_whole_children(row, of, contexts[way], nodes[way])
    if reading >= 0:
        _add_whole_children(row, of, reading >> 32, reading & 0xFFFFFFFF)


@kernel
def step(found: npt.NDArray[np.int64], open_word: int, next_word: int, reading: int, token: int) -> int:
    """Write the readings that a token leads to into ``found``; return their number; records as of ``fill_mask``."""
    word, following, num = _list_at(open_word), _list_at(next_word), 0
    if reading >= 0:
        num = _step_in_word(found, num, word, reading >> 32, reading & 0xFFFFFFFF, token)
    frame_state = _frame_state_of(word, reading)
    if frame_state < 0:
        return num
    starts = int32_at(following.frame_start)
    edge = position_of(int32_at(following.frame_tokens), starts[frame_state], starts[frame_state + 1], token)
    if edge >= 0:
        target = -1 - int32_at(following.frame_targets)[edge]
        if _is_within(following, _distance(following, target)):
            found[num] = target
            num += 1
    way_start, nodes, contexts = (
        int32_at(following.way_start),
        int32_at(following.way_nodes),
        int32_at(following.way_contexts),
    )
    for way in range(way_start[frame_state], way_start[frame_state + 1]):
        if num < len(found):
            num = _step_in_word(found, num, following, contexts[way], nodes[way], token)
    return num


@kernel
def frame_state_of(address: int, reading: int) -> int:
    """Return the frame state of a reading: its own, or the one after the word that ends there; -1 for none."""
    return int(_frame_state_of(_list_at(address), reading))


@kernel
def distance(address: int, reading: int) -> int:
    """Return how few tokens complete a text after a reading, ``NEVER_ENDS`` or more where none do."""
    return int(_distance(_list_at(address), reading))


@kernel
def measure_words(address: int, kind: int) -> None:
    """Write, by mode and node, how few tokens end a word of one kind from there; children follow their parents."""
    of = _list_at(address)
    base = _trie_at(of.base)
    for trie in (base, _trie_at(of.added)):
        starts, children = int32_at(trie.edge_start), int32_at(trie.children)
        ranks, kinds = int32_at(trie.ranks), uint8_at(trie.kinds)
        distances, of_base = uint8_at(trie.distances), uint8_at(base.distances)
        for mode in range(trie.num_modes):
            own_row = (mode * NUM_KINDS + kind) * trie.num_nodes
            base_row = (mode % base.num_modes * NUM_KINDS + kind) * base.num_nodes
            for node in range(trie.num_nodes - 1, -1, -1):
                is_end = kinds[node] == kind and ranks[mode * trie.num_nodes + node] <= of.n_words
                best = 0 if is_end else FAR
                for edge in range(starts[node], starts[node + 1]):
                    child = children[edge]
                    if child >= trie.first_node:
                        best = min(best, distances[own_row + child - trie.first_node] + 1)
                    else:
                        best = min(best, of_base[base_row + child] + 1)
                distances[own_row + node] = min(best, FAR)


@kernel
def measure_frame(address: int, num_states: int) -> None:
    """Compute how few tokens complete a text from each frame state: lower the distances until none changes."""
    of = _list_at(address)
    starts, targets, distances = int32_at(of.frame_start), int32_at(of.frame_targets), int32_at(of.frame_distances)
    way_start, nodes, contexts = int32_at(of.way_start), int32_at(of.way_nodes), int32_at(of.way_contexts)
    has_changed = True
    while has_changed:
        has_changed = False
        for state in range(num_states):
            best = distances[state]
            for edge in range(starts[state], starts[state + 1]):
                best = min(best, 1 + distances[targets[edge]])
            for way in range(way_start[state], way_start[state + 1]):
                best = min(best, _word_distance(of, contexts[way], nodes[way]))
            if best < distances[state]:
                distances[state] = best
                has_changed = True


# Of records.


@kernel
def _frame_state_of(of: Any, reading: int) -> int:
    if reading < 0:
        return -1 - reading
    context, node = reading >> 32, reading & 0xFFFFFFFF
    trie = _trie_of(of, node)
    if int32_at(trie.ranks)[_index(of, trie, context, node)] > of.n_words:
        return -1
    kind = uint8_at(trie.kinds)[node - trie.first_node]
    return int(int32_at(of.after)[NUM_KINDS * context + kind])


@kernel
def _add_children(out: Int32Array, of: Any, context: int, node: int) -> None:
    """Allow the tokens that go on with a word from a node, in a mask."""
    trie = _trie_of(of, node)
    own = node - trie.first_node
    starts, tokens, children = int32_at(trie.edge_start), int32_at(trie.tokens), int32_at(trie.children)
    for edge in range(starts[own], starts[own + 1]):
        is_allowed = _may_follow(of, context, children[edge])
        out[tokens[edge] >> 5] |= np.int32(is_allowed) << np.int32(tokens[edge] & 31)


@kernel
def _add_whole_children(out: Int32Array, of: Any, context: int, node: int) -> None:
    """Allow the tokens that end a word from a node, in a mask."""
    trie = _trie_of(of, node)
    own = node - trie.first_node
    starts, tokens, children = int32_at(trie.edge_start), int32_at(trie.tokens), int32_at(trie.children)
    for edge in range(starts[own], starts[own + 1]):
        is_whole = _frame_state_of(of, (np.int64(context) << 32) | children[edge]) >= 0
        out[tokens[edge] >> 5] |= np.int32(is_whole) << np.int32(tokens[edge] & 31)


@kernel
def _step_in_word(found: npt.NDArray[np.int64], num: int, of: Any, context: int, node: int, token: int) -> int:
    """Add the reading that a token leads to within a word to ``found``, if it is allowed; return their number."""
    trie = _trie_of(of, node)
    own = node - trie.first_node
    starts = int32_at(trie.edge_start)
    edge = position_of(int32_at(trie.tokens), starts[own], starts[own + 1], token)
    if edge >= 0:
        child = int32_at(trie.children)[edge]
        if _may_follow(of, context, child):
            found[num] = (np.int64(context) << 32) | child
            num += 1
    return num


@kernel
def _may_follow(of: Any, context: int, node: int) -> bool:
    """Return whether N allows a word at or below the node and, near the end of a budget, a text ends in time."""
    trie = _trie_of(of, node)
    if int32_at(trie.ranks_below)[_index(of, trie, context, node)] > of.n_words:
        return False
    return of.budget < 0 or _is_within(of, _word_distance(of, context, node))


@kernel
def _is_within(of: Any, num_tokens: int) -> bool:
    """Return whether a distance to the end fits into the budget; always without one."""
    return bool(of.budget < 0 or num_tokens <= of.budget)


@kernel
def _trie_of(of: Any, node: int) -> Any:
    """Return the record of the trie that has a node."""
    return _trie_at(of.base if node < of.num_base else of.added)


@kernel
def _index(of: Any, trie: Any, context: int, node: int) -> int:
    """Return where an array by mode and node has a node in a context's mode."""
    # Of a list's own words, only the first bit of the mode counts.
    mode = int32_at(of.modes)[context] & (trie.num_modes - 1)
    return int(mode * trie.num_nodes + node - trie.first_node)


@kernel
def _distance(of: Any, reading: int) -> int:
    if reading < 0:
        return int(int32_at(of.frame_distances)[-1 - reading])
    return _word_distance(of, reading >> 32, reading & 0xFFFFFFFF)


@kernel
def _word_distance(of: Any, context: int, node: int) -> int:
    """Return how few tokens complete a text from within a word."""
    trie = _trie_of(of, node)
    own = node - trie.first_node
    mode = int32_at(of.modes)[context] & (trie.num_modes - 1)
    distances, best = uint8_at(trie.distances), NEVER_ENDS
    for kind in range(NUM_KINDS):
        word = distances[(mode * NUM_KINDS + kind) * trie.num_nodes + own]
        if word < FAR:
            after = int32_at(of.after)[NUM_KINDS * context + kind]
            best = min(best, word + int32_at(of.frame_distances)[after])
    return best


class MaskRows:
    """The rows of frame states for a budget, each made on first use, and the record with that budget.

    Filling takes no lock: a row is known by its address, which is written when the row is complete.
    """

    def __init__(self, record: npt.NDArray[np.void], budget: int, num_states: int) -> None:
        self._rows: list[Int32Array] = []
        self._addresses = np.zeros(num_states, dtype=np.int64)
        self._lock = Lock()
        self._record = record.copy()
        self._record["budget"], self._record["rows"] = budget, address_of(self._addresses)
        self._row_size = int(record["row_size"][0])
        self.address = address_of(self._record)
        self.num_bytes = 0
        """Bytes of the rows made."""

    def fill(self, out: Int32Array, reading: int, stops: Int32Array, open_word: "MaskRows") -> None:
        """Write the mask of a reading, as ``ListStates.fill``; ``open_word`` are the rows of its word."""
        while (missing := fill_mask(out, stops, open_word.address, self.address, reading)) != FILLED:
            self._make(missing)

    def _make(self, frame_state: int) -> None:
        """Make the row of a frame state, unless another thread has made it."""
        with self._lock:
            if not self._addresses[frame_state]:
                row = np.zeros(self._row_size, dtype=np.int32)
                make_row(row, self.address, frame_state)
                self._rows.append(row)
                self._addresses[frame_state] = address_of(row)
                self.num_bytes += row.nbytes
