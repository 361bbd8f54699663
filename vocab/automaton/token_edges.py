"""Edges by token between states, and how the steps of a walk become edges. It knows no text and no tokenizer."""

from dataclasses import dataclass

import numpy as np

from vocab.arrays.byte_trie import Int32Array
from vocab.arrays.kernels import kernel


@dataclass(frozen=True)
class TokenEdges:
    """Token edges between states; state arrays have one entry per state.

    Attributes:
        edge_start: int32 (states + 1,), where a state's own edges begin in the next three.
        tokens: int32, ascending within a state.
        targets: int32, states.
        ranks: int32, the N from which on the token may come.
        links: int32, the earlier state whose edges apply besides a state's own (which come first), or -1.
        link_ranks: int32, the N from which on the link applies.
        complete_ranks: int32, the N from which on a text may stop here.
        start: The state of the empty text.
    """

    edge_start: Int32Array
    tokens: Int32Array
    targets: Int32Array
    ranks: Int32Array
    links: Int32Array
    link_ranks: Int32Array
    complete_ranks: Int32Array
    start: int


@kernel
def num_tokens_of(trie_nodes: Int32Array, num_steps: int, token_start: Int32Array) -> int:
    """How many tokens end at the trie nodes of the first so many steps."""
    count = 0
    for step in range(num_steps):
        count += token_start[trie_nodes[step] + 1] - token_start[trie_nodes[step]]
    return count


@kernel
def write_edges(
    step_states: Int32Array,
    trie_nodes: Int32Array,
    step_ranks: Int32Array,
    step_targets: Int32Array,
    token_start: Int32Array,
    trie_tokens: Int32Array,
    first_state: int,
    last_state: int,
    edge_start: Int32Array,
    tokens: Int32Array,
    targets: Int32Array,
    ranks: Int32Array,
) -> None:
    """Writes the edges of the states from first to before last behind those of the states before them.

    Args:
        step_states: int32 (steps,), ascending; beside it the trie node that each step ends at, the rank that it asks
            for and the state that it leads to.
        trie_nodes: int32.
        step_ranks: int32.
        step_targets: int32.
        token_start: int32, where the tokens of a trie node begin in ``trie_tokens``.
        trie_tokens: int32.
        first_state: The first state.
        last_state: The one behind the last.
        edge_start: int32, as in ``TokenEdges``, as are the next three; with room for the edges.
        tokens: int32.
        targets: int32.
        ranks: int32.
    """
    step = 0
    for state in range(first_state, last_state):
        begin = end = edge_start[state]
        while step < len(step_targets) and step_states[step] == state:
            node = trie_nodes[step]
            for place in range(token_start[node], token_start[node + 1]):
                tokens[end] = trie_tokens[place]
                targets[end] = step_targets[step]
                ranks[end] = step_ranks[step]
                end += 1
            step += 1
        _sort_by_token(tokens[begin:end], targets[begin:end], ranks[begin:end])
        edge_start[state + 1] = end


@kernel
def _sort_by_token(tokens: Int32Array, targets: Int32Array, ranks: Int32Array) -> None:
    if len(tokens) > 32:
        order = np.argsort(tokens)
        tokens[:], targets[:], ranks[:] = tokens[order], targets[order], ranks[order]
        return
    for i in range(1, len(tokens)):
        token, target, rank = tokens[i], targets[i], ranks[i]
        j = i - 1
        while j >= 0 and tokens[j] > token:
            tokens[j + 1], targets[j + 1], ranks[j + 1] = tokens[j], targets[j], ranks[j]
            j -= 1
        tokens[j + 1], targets[j + 1], ranks[j + 1] = token, target, rank
