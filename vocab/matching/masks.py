"""Bitmask rows in xgrammar's layout: int32 words, token t at bit t % 32 of word t // 32.

The rows of dense states are made once per N (and per budget, near the end of one); every other mask is a copy of one
of these with the state's few own bits added, in one call of compiled code. It knows no request:
``vocab.matching.matcher`` does.
"""

from collections import OrderedDict
from threading import Lock
from typing import Final

import numpy as np

from vocab.arrays.byte_trie import Int32Array
from vocab.automaton.automaton import TokenAutomaton
from vocab.matching.bound import FILLED, bind, fill_mask, find_target, make_row

DEFAULT_CACHE_BYTES: Final = 64 * 1024 * 1024
"""Two thousand rows of 262,144 tokens; a list has some dozens of dense states in use per N."""

NO_BUDGET: Final = -1

NO_TOKENS: Final = np.empty(0, dtype=np.int32)

_WORDS_PER_CACHE_LINE: Final = 16


class MaskRows:
    """The rows of one automaton, those of the N used last. Safe for threads.

    Args:
        automaton: Where the edges come from.
        cache_bytes: How many bytes of rows are kept, besides those that somebody holds.
    """

    def __init__(self, automaton: TokenAutomaton, cache_bytes: int = DEFAULT_CACHE_BYTES) -> None:
        self._automaton = automaton
        self._cache_bytes = cache_bytes
        # No cache of cachetools: those measure an entry once, when it is put in, and tables grow while they are used.
        self._tables: OrderedDict[tuple[int, int], RowTable] = OrderedDict()
        self._lock = Lock()

    def table(self, n_words: int, budget: int) -> "RowTable":
        """The rows for an N, not beyond the list, and a budget that bears on masks, or ``NO_BUDGET``."""
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
    """An automaton with N and a budget fixed, and the rows of its dense states, each made when it is first needed.

    Filling takes no lock: a row is marked as made when it is complete, and does not change after that.
    """

    def __init__(self, automaton: TokenAutomaton, n_words: int, budget: int) -> None:
        # Keeps the arrays of which the table has the addresses.
        self._automaton = automaton
        self._num_words = (automaton.num_tokens + 31) // 32
        # The system gives memory to those rows only that are made.
        stride = -(-(self._num_words + 1) // _WORDS_PER_CACHE_LINE) * _WORDS_PER_CACHE_LINE
        self._rows = np.zeros((len(automaton.dense_states), stride), dtype=np.int32)
        self._table = bind(automaton, n_words, budget, self._rows, self._num_words)
        self._lock = Lock()
        self.num_bytes = 0
        """Bytes of the rows made."""

    def fill(self, out: Int32Array, state: int, stops: Int32Array) -> None:
        """Writes the tokens that may come in a state, and of ``stops`` all or none, into a row, int32 (words,)."""
        while (missing := fill_mask(out, stops, self._table, state)) != FILLED:
            self._make(missing)

    def target(self, state: int, token: int) -> int:
        """The state that a token leads to; -1 where it may not come."""
        return find_target(self._table, state, token)

    def make_hubs(self) -> None:
        """Makes the rows that other states' masks begin with."""
        for index in range(self._automaton.num_hub_rows):
            self._make(index)

    def _make(self, index: int) -> None:
        row = self._rows[index]
        with self._lock:
            if not row[self._num_words]:
                make_row(row, self._table, int(self._automaton.dense_states[index]))
                row[self._num_words] = 1
                self.num_bytes += row.nbytes
