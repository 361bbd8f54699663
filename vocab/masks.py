"""Bitmask rows in xgrammar's layout: int32 words, token t at bit t % 32 of word t // 32.

It makes the rows of dense states once per N (and per budget, near the end of one) and adds the few bits of all other
states to a copy. It knows no request: ``vocab.matcher`` does.
"""

from collections import OrderedDict
from threading import Lock
from typing import Final

import numpy as np

from vocab._jit import kernel
from vocab.automaton import TokenAutomaton
from vocab.byte_trie import Int32Array
from vocab.distance import rank_within

DEFAULT_CACHE_BYTES: Final = 64 * 1024 * 1024
"""Two thousand rows of 262,144 tokens; a list has some dozens of dense states in use per N."""

NO_BUDGET: Final = -1


class MaskRows:
    """The rows of one automaton's dense states, least recently used ones dropped. Safe for threads.

    Args:
        automaton: Where the edges come from.
        cache_bytes: How many bytes of rows are kept.
    """

    def __init__(self, automaton: TokenAutomaton, cache_bytes: int = DEFAULT_CACHE_BYTES) -> None:
        self._automaton = automaton
        self._num_words = (automaton.num_tokens + 31) // 32
        self._most_rows = max(16, cache_bytes // (4 * self._num_words))
        self._rows: OrderedDict[tuple[int, int, int], Int32Array] = OrderedDict()
        self._lock = Lock()
        self._empty = np.zeros(self._num_words, dtype=np.int32)

    def fill(self, out: Int32Array, state: int, n_words: int, budget: int) -> None:
        """Writes the tokens that may come in ``state`` into a row.

        Args:
            out: int32 (words,), the row; words past the tokenizer's vocabulary are cleared.
            state: The state.
            n_words: N, not beyond the list.
            budget: How many tokens may still come after this one, or ``NO_BUDGET``.
        """
        automaton, edges = self._automaton, self._automaton.edges
        if budget >= automaton.longest_distance:
            budget = NO_BUDGET
        if automaton.is_dense[state]:
            _copy_row(out, self._row(state, n_words, budget))
            return
        link = edges.links[state]
        row = self._row(link, n_words, budget) if link >= 0 and edges.link_ranks[state] <= n_words else self._empty
        _copy_row(out, row)
        self._add_bits(out, state, n_words, budget)

    def _row(self, state: int, n_words: int, budget: int) -> Int32Array:
        key = (int(state), n_words, budget)
        with self._lock:
            row = self._rows.get(key)
            if row is not None:
                self._rows.move_to_end(key)
                return row
        edges = self._automaton.edges
        link = edges.links[state]
        has_link = link >= 0 and edges.link_ranks[state] <= n_words
        row = self._row(link, n_words, budget).copy() if has_link else self._empty.copy()
        self._add_bits(row, state, n_words, budget)
        with self._lock:
            self._rows[key] = row
            while len(self._rows) > self._most_rows:
                self._rows.popitem(last=False)
        return row

    def _add_bits(self, out: Int32Array, state: int, n_words: int, budget: int) -> None:
        edges, distances = self._automaton.edges, self._automaton.distances
        first, last = edges.edge_start[state], edges.edge_start[state + 1]
        if budget == NO_BUDGET:
            _set_bits(out, edges.tokens[first:last], edges.ranks[first:last], n_words)
        else:
            _set_bits_within(
                out,
                edges.tokens[first:last],
                edges.targets[first:last],
                edges.ranks[first:last],
                n_words,
                budget,
                distances.pair_start,
                distances.num_tokens,
                distances.ranks,
            )


def set_token_bits(out: Int32Array, tokens: Int32Array, allowed: bool) -> None:
    """Allows or forbids single tokens in a row."""
    for token in tokens:
        word, bit = int(token) >> 5, np.int32(np.uint32(1 << (int(token) & 31)).view(np.int32))
        if allowed:
            out[word] |= bit
        else:
            out[word] &= ~bit


@kernel
def _copy_row(out: Int32Array, row: Int32Array) -> None:
    out[: len(row)] = row
    out[len(row) :] = 0


@kernel
def _set_bits(out: Int32Array, tokens: Int32Array, ranks: Int32Array, n_words: int) -> None:
    for i in range(len(tokens)):
        if ranks[i] <= n_words:
            out[tokens[i] >> 5] |= np.int32(1) << np.int32(tokens[i] & 31)


@kernel
def _set_bits_within(
    out: Int32Array,
    tokens: Int32Array,
    targets: Int32Array,
    ranks: Int32Array,
    n_words: int,
    budget: int,
    pair_start: Int32Array,
    num_tokens: Int32Array,
    pair_ranks: Int32Array,
) -> None:
    for i in range(len(tokens)):
        if ranks[i] <= n_words and rank_within(pair_start, num_tokens, pair_ranks, targets[i], budget) <= n_words:
            out[tokens[i] >> 5] |= np.int32(1) << np.int32(tokens[i] & 31)
