"""Masks and steps in compiled code: a list, changes, a frame and N as one table of numbers and addresses.

A row is in xgrammar's layout: int32 words, token t at bit t % 32 of word t // 32. The rows of frame states are made
once per N (and per budget, near the end of one); a mask within a word is a copy of the row of the frame state after
it, if it may end there, with the word's few own tokens added.

A *reading* of what was written is one integer: between words -1 - f, in frame state f, and within a word the node of
the trie, with its context in the upper half.
"""

from collections.abc import Iterator
from threading import Lock
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from vocab.arrays.byte_trie import Int32Array, Uint8Array
from vocab.arrays.kernels import AddressTable, address_of, int32_at, int64_at, kernel, position_of, uint8_at
from vocab.automaton.frame import NUM_MODES, SENTENCE, Frame
from vocab.automaton.overlay import Overlay
from vocab.automaton.words import NUM_KINDS, CompiledList, TrieArrays

NO_BUDGET: Final = -1
NO_TOKENS: Final = np.empty(0, dtype=np.int32)

_Array: TypeAlias = Int32Array | Uint8Array

_FILLED: Final = -1
_FAR: Final = 255
"""Tokens to the end of a word, where it is never reached."""
NEVER_ENDS: Final = 1 << 20

CONTINUING, STARTING = 1, 2
"""Which words may begin between words: those that go on with a sentence, and those that start one."""
ANY_WORDS: Final = CONTINUING | STARTING

# Indices into the table: numbers, then addresses of the trie, of the nodes added, and of the frame.
_N_WORDS, _NUM_BASE, _NUM_ADDED, _BUDGET, _ROW_SIZE, _ROWS = range(6)
_EDGE_START, _TOKENS, _CHILDREN, _RANKS, _BELOW, _DISTANCES, _KINDS = range(6, 13)
_ADDED: Final = 7
"""From an array of the trie to that of the nodes added."""
_FRAME_START, _FRAME_TOKENS, _FRAME_TARGETS, _WAY_START, _WAY_NODES, _WAY_CONTEXTS = range(20, 26)
_COMPLETE, _MODES, _AFTER, _FRAME_DISTANCES = range(26, 30)


class Bound:
    """A list with its changes, a frame and N, as compiled code sees them; and how far the end of a text is.

    Args:
        words: The list.
        frame: What stands between its words.
        n_words: N.
        overlay: The changes.
        opens: Which words may begin between words, of ``CONTINUING`` and ``STARTING``.
        ends: Where a text ends as this one says, of fewer words; None where that is measured. A text of more words
            can then go on with those alone.

    Attributes:
        table: int64, numbers and addresses.
        longest_end: How many tokens the shortest end of a text has at most, between words.
        longest_distance: With more tokens left than this, no budget bears on a mask.
        plain_budget: The budget where none bears on a mask: ``NO_BUDGET``, or one so large that it only keeps texts
            from where they never end.
        num_bytes: Of its own arrays.
    """

    def __init__(
        self,
        words: CompiledList,
        frame: Frame,
        n_words: int,
        overlay: Overlay | None,
        opens: int = ANY_WORDS,
        ends: "Bound | None" = None,
    ) -> None:
        self._words, self._frame, self._overlay, self._opens = words, frame, overlay, opens
        num_added = 0 if overlay is None else overlay.num_nodes
        self._distances = np.full((2, NUM_KINDS, words.num_nodes), _FAR, dtype=np.uint8)
        self._added_distances = np.full((NUM_MODES, NUM_KINDS, num_added), _FAR, dtype=np.uint8)
        if ends is None:
            self._frame_distances = np.where(frame.is_complete, 0, NEVER_ENDS).astype(np.int32)
        else:
            self._frame_distances = ends._frame_distances
        # Keeps alive what the table has the addresses of.
        self._arrays = [*self._trie_arrays(), *self._frame_arrays()]
        row_size = (words.num_tokens + 31) // 32
        numbers = min(n_words, int(np.iinfo(np.int32).max) - 1), words.num_nodes, num_added, NO_BUDGET
        self.table = np.asarray([*numbers, row_size, 0, *map(address_of, self._arrays)], dtype=np.int64)
        self._measure(has_ends=ends is not None)
        self.num_bytes = self._distances.nbytes + self._added_distances.nbytes

    def _trie_arrays(self) -> list[_Array]:
        """Return the arrays of the trie, then those of the nodes added, in the order of the table."""
        words, added = self._words, self._overlay
        arrays: list[_Array] = [words.edge_start, words.tokens, words.children, words.ranks, words.ranks_below]
        arrays += [self._distances, words.kinds]
        if added is None:
            nothing = np.zeros(1, dtype=np.int32)
            return [*arrays, *[nothing] * 5, self._added_distances, nothing.view(np.uint8)]
        arrays += [added.edge_start, added.tokens, added.children, added.ranks, added.ranks_below]
        return [*arrays, self._added_distances, added.kinds]

    def _frame_arrays(self) -> list[_Array]:
        """Return the arrays of the frame, with the ways into words that may begin, in the order of the table."""
        frame = self._frame
        roots = list((self._words if self._overlay is None else self._overlay).roots.values())
        way_start, nodes, contexts = [0], [], []
        for ways in frame.ways:
            for way in ways:
                node = self.child(roots[way.root], frame.blank) if way.is_after_blank else roots[way.root]
                kind = STARTING if frame.modes[way.context] & SENTENCE else CONTINUING
                if node >= 0 and self._opens & kind:
                    nodes.append(node)
                    contexts.append(way.context)
            way_start.append(len(nodes))
        self._ways = way_start, nodes, contexts
        columns = [np.asarray(column or [0], dtype=np.int32) for column in (way_start, nodes, contexts)]
        arrays: list[_Array] = [frame.edge_start, frame.tokens, frame.targets, *columns]
        return [*arrays, frame.is_complete, frame.modes, frame.after, self._frame_distances]

    def child(self, node: int, token: int) -> int:
        """Return the trie node that a token leads to from a node within a word; -1 for none."""
        num_base = self._words.num_nodes
        trie: TrieArrays = self._words if self._overlay is None or node < num_base else self._overlay
        own = node if trie is self._words else node - num_base
        edge = position_of(trie.tokens, trie.edge_start[own], trie.edge_start[own + 1], token)
        return int(trie.children[edge]) if edge >= 0 else -1

    def ways(self, frame_state: int) -> Iterator[tuple[int, int]]:
        """Yield the nodes where words begin in a frame state, each with its context."""
        way_start, nodes, contexts = self._ways
        for way in range(way_start[frame_state], way_start[frame_state + 1]):
            yield nodes[way], contexts[way]

    def _measure(self, *, has_ends: bool) -> None:
        """Compute how few tokens complete a word and a text, from every node and frame state."""
        for kind in range(NUM_KINDS):
            # Few lists have words of every kind.
            if any(kind in trie.kinds for trie in (self._words, self._overlay) if trie is not None):
                _measure_words(self.table, kind)
        if not has_ends:
            _measure_frame(self.table, self._frame.num_states)
        is_dead = self._frame_distances >= NEVER_ENDS
        longest_word = max(int(one[one < _FAR].max(initial=0)) for one in (self._distances, self._added_distances))
        self.longest_end = int(self._frame_distances[~is_dead].max(initial=0))
        self.longest_distance = longest_word + self.longest_end
        # Where something leads nowhere, every target is measured, and else only near the end of a budget.
        self.plain_budget = NEVER_ENDS - 1 if is_dead.any() else NO_BUDGET


class RowTable:
    """The rows of frame states for a budget, each made on first use, and the table with that budget.

    Filling takes no lock: a row is known by its address, which is written when the row is complete.
    """

    def __init__(self, bound: Bound, budget: int, num_states: int) -> None:
        self._bound = bound
        self._rows: list[Int32Array] = []
        self._addresses = np.zeros(num_states, dtype=np.int64)
        self._lock = Lock()
        self._table: AddressTable = bound.table.copy()
        self._table[_BUDGET], self._table[_ROWS] = budget, address_of(self._addresses)
        self.num_bytes = 0
        """Bytes of the rows made."""

    def fill(self, out: Int32Array, reading: int, stops: Int32Array, inside: "RowTable | None" = None) -> None:
        """Write the mask of a reading into ``out``, int32 (words,); ``stops`` are allowed where a text may end.

        ``inside`` says how the word of the reading goes on and where it ends, and this table what follows it; None
        where both are this one's.

        Raises:
            ValueError: ``out`` is too short.
        """
        word = self._table if inside is None else inside._table
        while (missing := _fill_mask(out, stops, word, self._table, reading)) != _FILLED:
            self._make(missing)

    def fill_many(
        self, out: Int32Array, readings: tuple[int, ...], stops: Int32Array, inside: "RowTable | None" = None
    ) -> None:
        """Write the union of the masks of several readings into ``out``; as ``fill``."""
        out[:] = 0
        one = np.empty_like(out)
        for reading in readings:
            self.fill(one, reading, NO_TOKENS, inside)
            out |= one
        word = self._table if inside is None else inside._table
        set_token_bits(out, stops, any(is_complete(word, reading) for reading in readings))

    def step(self, found: npt.NDArray[np.int64], reading: int, token: int, inside: "RowTable | None" = None) -> int:
        """Write the readings that a token leads to into ``found``; return their number. The same one may come twice."""
        num: int = _step(found, self._table if inside is None else inside._table, self._table, reading, token)
        return num

    def _make(self, frame_state: int) -> None:
        """Make the row of a frame state, unless another thread has made it."""
        with self._lock:
            if not self._addresses[frame_state]:
                row = np.zeros(self._table[_ROW_SIZE], dtype=np.int32)
                _make_row(row, self._table, frame_state)
                self._rows.append(row)
                self._addresses[frame_state] = address_of(row)
                self.num_bytes += row.nbytes


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
def _fill_mask(out: Int32Array, stops: Int32Array, inside: AddressTable, table: AddressTable, reading: int) -> int:
    """Write the mask of a reading; return ``_FILLED``, or the frame state whose row must be made first.

    ``inside`` says how the reading's word goes on and where it ends, ``table`` what follows it.

    Raises:
        ValueError: ``out`` is too short.
    """
    row_size = table[_ROW_SIZE]
    if len(out) < row_size:
        raise ValueError("the mask has fewer bits than the tokenizer has tokens")
    frame_state = frame_state_of(inside, reading)
    if frame_state >= 0:
        address = int64_at(table[_ROWS])[frame_state]
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
    return _FILLED


@kernel
def _make_row(row: Int32Array, table: AddressTable, frame_state: int) -> None:
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
def _step(found: npt.NDArray[np.int64], inside: AddressTable, table: AddressTable, reading: int, token: int) -> int:
    """Write the readings that a token leads to into ``found``; return their number; tables as of ``_fill_mask``."""
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
    return table[_BUDGET] < 0 or _is_within(table, _word_distance(table, context, node))


@kernel
def _is_within(table: AddressTable, distance: int) -> bool:
    """Return whether a distance to the end fits into the budget; always without one."""
    return bool(table[_BUDGET] < 0 or distance <= table[_BUDGET])


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
        if word < _FAR:
            after = int32_at(table[_AFTER])[NUM_KINDS * context + kind]
            best = min(best, word + int32_at(table[_FRAME_DISTANCES])[after])
    return best


@kernel
def _tokens_to_end(table: AddressTable, context: int, kind: int, node: int) -> int:
    """Return how few tokens end a word of one kind from a node; ``_FAR`` where none do."""
    mode, num_base = int32_at(table[_MODES])[context], table[_NUM_BASE]
    if node < num_base:
        return int(uint8_at(table[_DISTANCES])[((mode & 1) * NUM_KINDS + kind) * num_base + node])
    num_added = table[_NUM_ADDED]
    return int(uint8_at(table[_DISTANCES + _ADDED])[(mode * NUM_KINDS + kind) * num_added + node - num_base])


@kernel
def _measure_words(table: AddressTable, kind: int) -> None:
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
                best = 0 if is_end else _FAR
                for edge in range(starts[node], starts[node + 1]):
                    child = children[edge]
                    if child >= first_node:
                        of_child = distances[(mode * NUM_KINDS + kind) * num_nodes + child - first_node]
                    else:
                        of_child = of_base[((mode & 1) * NUM_KINDS + kind) * num_base + child]
                    best = min(best, of_child + 1)
                distances[(mode * NUM_KINDS + kind) * num_nodes + node] = min(best, _FAR)


@kernel
def _measure_frame(table: AddressTable, num_states: int) -> None:
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
