"""Bitmask rows in xgrammar's layout: int32 words, token t at bit t % 32 of word t // 32.

The rows of dense states are made once per N (and per budget, near the end of one); every other mask is a copy of one of
these with the state's few own bits added, in one call of compiled code. Compiled code sees an automaton with N and a
budget fixed as one table of addresses and numbers (see ``vocab.arrays.kernels``).
"""

from collections import OrderedDict
from threading import Lock
from typing import Final

import numpy as np

from vocab.arrays.byte_trie import Int32Array
from vocab.arrays.kernels import AddressTable, address_of, int32_at, kernel, position_of
from vocab.automaton.automaton import TokenAutomaton
from vocab.automaton.distance import rank_within

DEFAULT_CACHE_BYTES: Final = 64 * 1024 * 1024
"""Two thousand rows of 262,144 tokens; a list has some dozens of dense states in use per N."""

NO_BUDGET: Final = -1
NO_TOKENS: Final = np.empty(0, dtype=np.int32)

_FILLED: Final = -1
_WORDS_PER_CACHE_LINE: Final = 16

# Indices into the table: numbers, then the addresses of arrays.
_N_WORDS, _BUDGET, _ROWS, _STRIDE, _ROW_SIZE = range(5)
_MASK_ROWS, _LINKS, _LINK_RANKS, _COMPLETE_RANKS, _EDGE_START, _TOKENS, _TARGETS, _RANKS = range(5, 13)
_PAIR_START, _PAIR_TOKENS, _PAIR_RANKS = range(13, 16)


class MaskRows:
    """The rows of one automaton, at most ``cache_bytes`` besides those in use elsewhere. Thread-safe.

    The rows of the N used longest ago are dropped first.
    """

    def __init__(self, automaton: TokenAutomaton, cache_bytes: int = DEFAULT_CACHE_BYTES) -> None:
        self._automaton = automaton
        self._cache_bytes = cache_bytes
        # No cache of cachetools: those measure an entry once, when it is put in, and tables grow while they are used.
        self._tables: OrderedDict[tuple[int, int], RowTable] = OrderedDict()
        self._lock = Lock()

    def table(self, n_words: int, budget: int) -> "RowTable":
        """Return the rows for an N, not beyond the list, and a budget that affects masks, or ``NO_BUDGET``."""
        key = n_words, budget
        with self._lock:
            if key not in self._tables:
                self._tables[key] = RowTable(self._automaton, n_words, budget)
            self._tables.move_to_end(key)
            # Tables grow while they are used, so the bound is kept when the next one is asked for.
            while self.num_bytes > self._cache_bytes and len(self._tables) > 1:
                self._tables.popitem(last=False)
            return self._tables[key]

    @property
    def num_bytes(self) -> int:
        """Bytes of the rows kept."""
        return sum(table.num_bytes for table in list(self._tables.values()))


class RowTable:
    """An automaton with N and a budget fixed, and the rows of its dense states, each made on first use.

    Filling takes no lock: a row is marked when it is complete and does not change after that.
    """

    def __init__(self, automaton: TokenAutomaton, n_words: int, budget: int) -> None:
        # Keeps alive the arrays whose addresses the table holds.
        self._automaton = automaton
        self._row_size = (automaton.num_tokens + 31) // 32
        # The system allocates memory only for rows that are made.
        stride = -(-(self._row_size + 1) // _WORDS_PER_CACHE_LINE) * _WORDS_PER_CACHE_LINE
        self._rows = np.zeros((len(automaton.dense_states), stride), dtype=np.int32)
        self._table = _bind(automaton, n_words, budget, self._rows, self._row_size)
        self._lock = Lock()
        self.num_bytes = 0
        """Bytes of the rows made."""

    def fill(self, out: Int32Array, state: int, stops: Int32Array) -> None:
        """Write the mask of a state into ``out``, int32 (words,); ``stops`` are allowed where a text is complete."""
        while (missing := _fill_mask(out, stops, self._table, state)) != _FILLED:
            self._make(missing)

    def target(self, state: int, token: int) -> int:
        """Return the state that a token leads to; -1 where it is not allowed."""
        return _find_target(self._table, state, token)

    def make_hubs(self) -> None:
        """Make the rows that other states' masks are copied from."""
        for index in range(self._automaton.num_hub_rows):
            self._make(index)

    def _make(self, index: int) -> None:
        row = self._rows[index]
        with self._lock:
            if not row[self._row_size]:
                _make_row(row, self._table, int(self._automaton.dense_states[index]))
                row[self._row_size] = 1
                self.num_bytes += row.nbytes


def _bind(automaton: TokenAutomaton, n_words: int, budget: int, rows: Int32Array, row_size: int) -> AddressTable:
    """Make the table of an automaton and its rows, which the caller keeps alive.

    ``rows`` is int32 (dense states, more than ``row_size``), each row with a word behind it that is 1 once it is made.
    """
    edges, distances = automaton.edges, automaton.distances
    arrays = (
        automaton.mask_rows,
        edges.links,
        edges.link_ranks,
        edges.complete_ranks,
        edges.edge_start,
        edges.tokens,
        edges.targets,
        edges.ranks,
        distances.pair_start,
        distances.num_tokens,
        distances.ranks,
    )
    numbers = n_words, budget, address_of(rows), rows.shape[1], row_size
    return np.asarray([*numbers, *map(address_of, arrays)], dtype=np.int64)


@kernel
def _fill_mask(out: Int32Array, stops: Int32Array, table: AddressTable, state: int) -> int:
    """Write a mask; return ``_FILLED``, or the index of the dense row that must be made first.

    ``out`` and ``stops`` are as in ``States.fill``.

    Raises:
        ValueError: ``out`` is too short.
    """
    n_words = table[_N_WORDS]
    own = int32_at(table[_MASK_ROWS])[state]
    row = own
    if own < 0:
        row = -2 - own if int32_at(table[_LINK_RANKS])[state] <= n_words else -1
    row_size = table[_ROW_SIZE]
    if len(out) < row_size:
        raise ValueError("the mask has fewer bits than the tokenizer has tokens")
    if row >= 0:
        rows, begin = int32_at(table[_ROWS]), row * table[_STRIDE]
        if not rows[begin + row_size]:
            return int(row)
        # A loop, which is compiled to a plain copy: an assignment of slices looks for overlaps first.
        for word in range(row_size):
            out[word] = rows[begin + word]
        out[row_size:] = 0
    else:
        out[:] = 0
    if own < 0:
        _add_bits(out, table, state)
    set_token_bits(out, stops, int32_at(table[_COMPLETE_RANKS])[state] <= n_words)
    return _FILLED


@kernel
def _make_row(row: Int32Array, table: AddressTable, state: int) -> None:
    """Add the tokens of a state and of its links to a row."""
    links, link_ranks = int32_at(table[_LINKS]), int32_at(table[_LINK_RANKS])
    while True:
        _add_bits(row, table, state)
        if links[state] < 0 or link_ranks[state] > table[_N_WORDS]:
            return
        state = links[state]


@kernel
def _find_target(table: AddressTable, state: int, token: int) -> int:
    """Return the state that a token leads to, by the state's own edges or those of its links; -1 where not allowed."""
    edge_start, tokens = int32_at(table[_EDGE_START]), int32_at(table[_TOKENS])
    links, link_ranks = int32_at(table[_LINKS]), int32_at(table[_LINK_RANKS])
    while True:
        edge = position_of(tokens, edge_start[state], edge_start[state + 1], token)
        if edge >= 0:
            return int(int32_at(table[_TARGETS])[edge]) if _is_allowed(table, edge) else -1
        if links[state] < 0 or link_ranks[state] > table[_N_WORDS]:
            return -1
        state = links[state]


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
def _add_bits(out: Int32Array, table: AddressTable, state: int) -> None:
    edge_start, tokens, ranks = int32_at(table[_EDGE_START]), int32_at(table[_TOKENS]), int32_at(table[_RANKS])
    n_words, has_budget = table[_N_WORDS], table[_BUDGET] >= 0
    for edge in range(edge_start[state], edge_start[state + 1]):
        # No branch on the rank: which of a hub's tokens N allows cannot be guessed.
        is_allowed = _is_allowed(table, edge) if has_budget else ranks[edge] <= n_words
        out[tokens[edge] >> 5] |= np.int32(is_allowed) << np.int32(tokens[edge] & 31)


@kernel
def _is_allowed(table: AddressTable, edge: int) -> bool:
    """Whether N allows an edge and the text behind it can be completed within the budget."""
    n_words, budget = table[_N_WORDS], table[_BUDGET]
    if int32_at(table[_RANKS])[edge] > n_words:
        return False
    if budget < 0:
        return True
    pair_start, pair_tokens = int32_at(table[_PAIR_START]), int32_at(table[_PAIR_TOKENS])
    target = int32_at(table[_TARGETS])[edge]
    return bool(rank_within(pair_start, pair_tokens, int32_at(table[_PAIR_RANKS]), target, budget) <= n_words)
