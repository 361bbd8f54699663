"""How few tokens complete a word from each state, for every N at once.

For a state the answer depends on N: with rarer words the end may be nearer. So each state has a short list of pairs
(tokens, rank): with so many tokens the text can be complete if N is at least that rank. It knows states and edges
only.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np

from vocab.arrays.byte_trie import Int32Array, group_starts
from vocab.arrays.kernels import kernel
from vocab.automaton.token_edges import TokenEdges
from vocab.text.text_automaton import NEVER

_NEVER: Final = int(NEVER)


@dataclass(frozen=True)
class Distances:
    """Pairs per state, the tokens ascending and the ranks descending.

    Attributes:
        pair_start: int32 (states + 1,), where a state's pairs begin in the next two.
        num_tokens: int32, tokens until the text is complete.
        ranks: int32, the N from which on so few are enough.
    """

    pair_start: Int32Array
    num_tokens: Int32Array
    ranks: Int32Array

    @property
    def longest(self) -> int:
        """The largest number of tokens in any pair: with so many left no state needs a look."""
        return int(self.num_tokens.max(initial=0))


def measure_distances(edges: TokenEdges) -> Distances:
    """Finds the pairs round by round: one token more may lower the rank that a state needs."""
    reached = edges.complete_ranks.copy()
    changed = np.flatnonzero(reached != NEVER).astype(np.int32)
    states, rounds, ranks = [changed], [np.zeros(len(changed), dtype=np.int32)], [reached[changed]]
    num_tokens = 0
    while len(changed):
        num_tokens += 1
        previous = reached.copy()
        _one_token_more(edges.edge_start, edges.targets, edges.ranks, edges.links, edges.link_ranks, previous, reached)
        changed = np.flatnonzero(reached < previous).astype(np.int32)
        states.append(changed)
        rounds.append(np.full(len(changed), num_tokens, dtype=np.int32))
        ranks.append(reached[changed])
    all_states = np.concatenate(states)
    order = np.argsort(all_states, kind="stable")
    pair_start = group_starts(all_states, len(reached))
    return Distances(pair_start, np.concatenate(rounds)[order], np.concatenate(ranks)[order])


@kernel
def _one_token_more(
    edge_start: Int32Array,
    targets: Int32Array,
    ranks: Int32Array,
    links: Int32Array,
    link_ranks: Int32Array,
    previous: Int32Array,
    reached: Int32Array,
) -> None:
    # Links lead to earlier states, which are done when a state is reached.
    for state in range(len(reached)):
        best = reached[state]
        for edge in range(edge_start[state], edge_start[state + 1]):
            best = min(best, max(ranks[edge], previous[targets[edge]]))
        if links[state] >= 0:
            best = min(best, max(link_ranks[state], reached[links[state]]))
        reached[state] = best


@kernel
def rank_within(pair_start: Int32Array, num_tokens: Int32Array, ranks: Int32Array, state: int, budget: int) -> int:
    """The N from which on ``budget`` tokens complete a text from ``state``; the largest int32 where none does."""
    best: int = _NEVER
    for pair in range(pair_start[state], pair_start[state + 1]):
        if num_tokens[pair] > budget:
            break
        best = ranks[pair]
    return best
