"""An automaton with N and a budget fixed, as compiled code sees it: what a mask and a step do.

All arrays lie behind one table of addresses and numbers (see ``vocab.arrays.kernels``). Rows of dense states are made
by others and only read here.
"""

from typing import Final

import numpy as np

from vocab.arrays.byte_trie import Int32Array
from vocab.arrays.kernels import AddressTable, address_of, int32_at, kernel, position_of
from vocab.automaton.automaton import TokenAutomaton
from vocab.automaton.distance import rank_within

FILLED: Final = -1

# Places in the table.
_N_WORDS: Final = 0
_BUDGET: Final = 1
_ROWS: Final = 2
_STRIDE: Final = 3
_NUM_WORDS: Final = 4
_MASK_ROWS: Final = 5
_LINKS: Final = 6
_LINK_RANKS: Final = 7
_COMPLETE_RANKS: Final = 8
_EDGE_START: Final = 9
_TOKENS: Final = 10
_TARGETS: Final = 11
_RANKS: Final = 12
_PAIR_START: Final = 13
_PAIR_TOKENS: Final = 14
_PAIR_RANKS: Final = 15


def bind(automaton: TokenAutomaton, n_words: int, budget: int, rows: Int32Array, num_words: int) -> AddressTable:
    """The table for an automaton and its rows, which the caller keeps.

    Args:
        automaton: The automaton.
        n_words: N, not beyond the list.
        budget: How many tokens may come after the next one; negative where any number may.
        rows: int32 (dense states, more than ``num_words``), the rows, each with a word behind it that says that it is
            made.
        num_words: The words of a mask.
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
    numbers = n_words, budget, address_of(rows), rows.shape[1], num_words
    return np.asarray([*numbers, *map(address_of, arrays)], dtype=np.int64)


@kernel
def fill_mask(out: Int32Array, stops: Int32Array, table: AddressTable, state: int) -> int:
    """Writes a mask; ``FILLED``, or the index of the dense row that must be made first.

    Args:
        out: int32 (words,), the mask; words past the tokenizer's vocabulary are cleared.
        stops: int32, the tokens that may come where a text is complete, and only there.
        table: From ``bind``.
        state: The state.

    Raises:
        ValueError: ``out`` is too short.
    """
    n_words = table[_N_WORDS]
    own = int32_at(table[_MASK_ROWS])[state]
    row = own
    if own < 0:
        row = -2 - own if int32_at(table[_LINK_RANKS])[state] <= n_words else -1
    num_words = table[_NUM_WORDS]
    if len(out) < num_words:
        raise ValueError("the mask has fewer bits than the tokenizer has tokens")
    if row >= 0:
        words, begin = int32_at(table[_ROWS]), row * table[_STRIDE]
        if not words[begin + num_words]:
            return int(row)
        # A loop, which is compiled to a plain copy: an assignment of slices looks for overlaps first.
        for word in range(num_words):
            out[word] = words[begin + word]
        out[num_words:] = 0
    else:
        out[:] = 0
    if own < 0:
        _add_bits(out, table, state)
    set_token_bits(out, stops, int32_at(table[_COMPLETE_RANKS])[state] <= n_words)
    return FILLED


@kernel
def make_row(row: Int32Array, table: AddressTable, state: int) -> None:
    """Adds the tokens of a state and of its links to a row."""
    links, link_ranks = int32_at(table[_LINKS]), int32_at(table[_LINK_RANKS])
    while True:
        _add_bits(row, table, state)
        if links[state] < 0 or link_ranks[state] > table[_N_WORDS]:
            return
        state = links[state]


@kernel
def find_target(table: AddressTable, state: int, token: int) -> int:
    """The state that a token leads to, by the state's own edges or those of its links; -1 where it may not come."""
    edge_start, tokens = int32_at(table[_EDGE_START]), int32_at(table[_TOKENS])
    links, link_ranks = int32_at(table[_LINKS]), int32_at(table[_LINK_RANKS])
    while True:
        edge = position_of(tokens, edge_start[state], edge_start[state + 1], token)
        if edge >= 0:
            return int(int32_at(table[_TARGETS])[edge]) if _may_come(table, edge) else -1
        if links[state] < 0 or link_ranks[state] > table[_N_WORDS]:
            return -1
        state = links[state]


@kernel
def set_token_bits(out: Int32Array, tokens: Int32Array, allowed: bool) -> None:
    """Allows or forbids single tokens in a mask; those that it has no bit for are passed over."""
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
        may_come = _may_come(table, edge) if has_budget else ranks[edge] <= n_words
        out[tokens[edge] >> 5] |= np.int32(may_come) << np.int32(tokens[edge] & 31)


@kernel
def _may_come(table: AddressTable, edge: int) -> bool:
    """Whether N allows an edge, and the budget allows to complete the text behind it."""
    n_words, budget = table[_N_WORDS], table[_BUDGET]
    if int32_at(table[_RANKS])[edge] > n_words:
        return False
    if budget < 0:
        return True
    pair_start, pair_tokens = int32_at(table[_PAIR_START]), int32_at(table[_PAIR_TOKENS])
    target = int32_at(table[_TARGETS])[edge]
    return bool(rank_within(pair_start, pair_tokens, int32_at(table[_PAIR_RANKS]), target, budget) <= n_words)
