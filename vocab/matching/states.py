"""What a matcher walks on: the states of one list with N fixed, or anything else that looks the same from outside.

It knows tokens, budgets and masks; it knows no request, no stop tokens, and not where a text has been so far.
"""

from typing import Protocol

from vocab.arrays.byte_trie import Int32Array
from vocab.automaton.automaton import TokenAutomaton
from vocab.matching.masks import NO_BUDGET, NO_TOKENS, MaskRows, RowTable


class States(Protocol):
    """Places where a text may stand, one integer each."""

    @property
    def start(self) -> int:
        """The state of the empty text."""

    def fill(self, out: Int32Array, state: int, budget: int, stops: Int32Array) -> None:
        """Writes the tokens that may come in a state into a row.

        Args:
            out: int32 (words,), the row; words past the tokenizer's vocabulary are cleared.
            state: The state.
            budget: How many tokens may still come after this one, or ``NO_BUDGET``.
            stops: int32, tokens that may come where the text is complete, and only there.
        """

    def target(self, state: int, token: int, budget: int) -> int:
        """The state that a token leads to; -1 where it may not come. ``budget`` as in ``fill``."""

    def can_stop(self, state: int) -> bool:
        """Whether a text is complete there."""

    def fewest_tokens(self) -> int | None:
        """How many tokens the shortest text has; None where there is no text."""


class ListStates:
    """The states of one automaton for one N. Safe for threads.

    Args:
        automaton: The automaton.
        rows: Its mask rows, shared by all N.
        n_words: How many of the list's words count, at least 1; more than the list has mean all of it.
    """

    def __init__(self, automaton: TokenAutomaton, rows: MaskRows, n_words: int) -> None:
        self.automaton = automaton
        self.n_words = automaton.clamp(n_words)
        self.start = automaton.edges.start
        self._rows = rows
        self._table = rows.table(self.n_words, NO_BUDGET)
        self._table.make_hubs()
        self._longest_distance = automaton.longest_distance
        self._complete_ranks = automaton.edges.complete_ranks

    def fill(self, out: Int32Array, state: int, budget: int, stops: Int32Array = NO_TOKENS) -> None:
        self._table_of(budget).fill(out, state, stops)

    def target(self, state: int, token: int, budget: int) -> int:
        return self._table_of(budget).target(state, token)

    def _table_of(self, budget: int) -> RowTable:
        if budget == NO_BUDGET or budget >= self._longest_distance:
            return self._table
        return self._rows.table(self.n_words, budget)

    def can_stop(self, state: int) -> bool:
        return self._complete_ranks.item(state) <= self.n_words

    def fewest_tokens(self) -> int | None:
        return self.automaton.fewest_tokens(self.n_words)
