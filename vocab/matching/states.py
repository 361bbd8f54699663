"""The states that a matcher walks on: the protocol, and those of one list with N fixed."""

from typing import Protocol

from vocab.arrays.byte_trie import Int32Array
from vocab.automaton.automaton import TokenAutomaton
from vocab.matching.masks import NO_BUDGET, NO_TOKENS, MaskRows, RowTable


class States(Protocol):
    """States of a text, one integer each."""

    @property
    def start(self) -> int:
        """The state of the empty text."""

    def fill(self, out: Int32Array, state: int, budget: int, stops: Int32Array) -> None:
        """Write the mask of a state.

        Args:
            out: int32 (words,), the mask; words past the tokenizer's vocabulary are cleared.
            state: The state.
            budget: How many tokens may follow the next one, or ``NO_BUDGET``.
            stops: int32, tokens allowed only where the text is complete.
        """

    def target(self, state: int, token: int, budget: int) -> int:
        """Return the state that a token leads to, -1 where it is not allowed; ``budget`` as in ``fill``."""

    def can_stop(self, state: int) -> bool:
        """Whether a text is complete in this state."""

    def fewest_tokens(self) -> int | None:
        """Return how many tokens the shortest text has; None where there is no text."""


class ListStates:
    """The states of one automaton for one N, at least 1; its mask rows are shared by all N. Thread-safe."""

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
