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
from vocab.arrays.kernels import AddressTable, address_of, position_of
from vocab.automaton.compiled_list import NUM_KINDS, CompiledList, TrieArrays
from vocab.automaton.frame import NUM_MODES, SENTENCE, Frame
from vocab.automaton.overlay import Overlay
from vocab.matching.mask_kernels import (
    BUDGET,
    FAR,
    FILLED,
    NEVER_ENDS,
    NO_BUDGET,
    ROW_SIZE,
    ROWS,
    fill_mask,
    is_complete,
    make_row,
    measure_frame,
    measure_words,
    set_token_bits,
    step,
)

NO_TOKENS: Final = np.empty(0, dtype=np.int32)

_Array: TypeAlias = Int32Array | Uint8Array

CONTINUING, STARTING = 1, 2
"""Which words may begin between words: those that go on with a sentence, and those that start one."""
ANY_WORDS: Final = CONTINUING | STARTING


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
        self._distances = np.full((2, NUM_KINDS, words.num_nodes), FAR, dtype=np.uint8)
        self._added_distances = np.full((NUM_MODES, NUM_KINDS, num_added), FAR, dtype=np.uint8)
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

    def dead_ends(self) -> npt.NDArray[np.bool_]:
        """Return after which kinds of words no text ends, bool (contexts, kinds): elisions that no word may follow."""
        return self._frame_distances[self._frame.after] >= NEVER_ENDS

    def _measure(self, *, has_ends: bool) -> None:
        """Compute how few tokens complete a word and a text, from every node and frame state."""
        for kind in range(NUM_KINDS):
            # Few lists have words of every kind.
            if any(kind in trie.kinds for trie in (self._words, self._overlay) if trie is not None):
                measure_words(self.table, kind)
        if not has_ends:
            measure_frame(self.table, self._frame.num_states)
        is_dead = self._frame_distances >= NEVER_ENDS
        longest_word = max(int(one[one < FAR].max(initial=0)) for one in (self._distances, self._added_distances))
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
        self._table[BUDGET], self._table[ROWS] = budget, address_of(self._addresses)
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
        while (missing := fill_mask(out, stops, word, self._table, reading)) != FILLED:
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
        num: int = step(found, self._table if inside is None else inside._table, self._table, reading, token)
        return num

    def _make(self, frame_state: int) -> None:
        """Make the row of a frame state, unless another thread has made it."""
        with self._lock:
            if not self._addresses[frame_state]:
                row = np.zeros(self._table[ROW_SIZE], dtype=np.int32)
                make_row(row, self._table, frame_state)
                self._rows.append(row)
                self._addresses[frame_state] = address_of(row)
                self.num_bytes += row.nbytes
