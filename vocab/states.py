"""What a matcher walks on: the states of one list with N fixed, or anything else that looks the same from outside.

It knows tokens, budgets and masks; it knows no request, no stop tokens, and not where a text has been so far.
"""

from typing import Protocol

from vocab._jit import kernel
from vocab._search import position_of
from vocab.automaton import TokenAutomaton
from vocab.byte_trie import Int32Array
from vocab.masks import NO_BUDGET, MaskRows


class States(Protocol):
    """Places where a text may stand, one integer each."""

    @property
    def start(self) -> int:
        """The state of the empty text."""

    def fill(self, out: Int32Array, state: int, budget: int) -> None:
        """Writes the tokens that may come in a state into a row, int32 (words,).

        Args:
            out: The row; words past the tokenizer's vocabulary are cleared.
            state: The state.
            budget: How many tokens may still come after this one, or ``NO_BUDGET``.
        """

    def target(self, state: int, token: int, budget: int) -> int:
        """The state that a token leads to; -1 where it may not come. ``budget`` as in ``fill``."""

    def can_stop(self, state: int) -> bool:
        """Whether a text is complete there."""

    def fewest_tokens(self) -> int | None:
        """How many tokens the shortest text has; None where there is no text."""


class ListStates:
    """The states of one automaton for one N.

    Args:
        automaton: The automaton.
        rows: Its mask rows, shared by all N.
        n_words: How many of the list's words count, at least 1; more than the list has mean all of it.
    """

    def __init__(self, automaton: TokenAutomaton, rows: MaskRows, n_words: int) -> None:
        self.automaton = automaton
        self.n_words = automaton.clamp(n_words)
        self._rows = rows

    @property
    def start(self) -> int:
        return self.automaton.edges.start

    def fill(self, out: Int32Array, state: int, budget: int) -> None:
        self._rows.fill(out, state, self.n_words, budget)

    def target(self, state: int, token: int, budget: int) -> int:
        edges = self.automaton.edges
        target = int(
            _find_target(
                edges.edge_start,
                edges.tokens,
                edges.targets,
                edges.ranks,
                edges.links,
                edges.link_ranks,
                state,
                token,
                self.n_words,
            )
        )
        if target < 0 or budget == NO_BUDGET or budget >= self.automaton.longest_distance:
            return target
        return target if self.automaton.rank_within(target, budget) <= self.n_words else -1

    def can_stop(self, state: int) -> bool:
        return bool(self.automaton.edges.complete_ranks[state] <= self.n_words)

    def fewest_tokens(self) -> int | None:
        return self.automaton.fewest_tokens(self.n_words)


@kernel
def _find_target(
    edge_start: Int32Array,
    tokens: Int32Array,
    targets: Int32Array,
    ranks: Int32Array,
    links: Int32Array,
    link_ranks: Int32Array,
    state: int,
    token: int,
    n_words: int,
) -> int:
    """The state that a token leads to, by the state's own edges or those of its links; -1 where it may not come."""
    while True:
        edge = position_of(tokens, edge_start[state], edge_start[state + 1], token)
        if edge >= 0:
            return targets[edge] if ranks[edge] <= n_words else -1
        if links[state] < 0 or link_ranks[state] > n_words:
            return -1
        state = links[state]
