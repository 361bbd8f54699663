"""Distances after some edges have gone: measured again where they can have changed, if all others can be seen to stay.

Words lie behind places between words, which reach the end of a text by very many ways. So the distances from these
places are not measured again: it is checked that each of them still has a way. Where one has lost its last, everything
is measured. It knows states and edges only.
"""

from dataclasses import dataclass

import numpy as np

from vocab.arrays.byte_trie import Int32Array, Uint8Array
from vocab.arrays.kernels import kernel
from vocab.automaton.distance import Distances, measure_distances, rank_within
from vocab.automaton.token_edges import TokenEdges
from vocab.text.text_automaton import NEVER


@dataclass(frozen=True)
class Update:
    """Distances of some states, as in ``Distances``.

    Attributes:
        states: int32, ascending.
        by_tokens: int32 (tokens + 1, states), the N from which on so many tokens complete a text from a state.
    """

    states: Int32Array
    by_tokens: Int32Array

    def pairs(self) -> tuple[Int32Array, Int32Array, Int32Array]:
        """``pair_start``, ``num_tokens`` and ``ranks``, as in ``Distances``."""
        is_pair = np.vstack([self.by_tokens[:1] != NEVER, self.by_tokens[1:] < self.by_tokens[:-1]]).T
        num_tokens = np.nonzero(is_pair)[1].astype(np.int32)
        pair_start = np.concatenate([[0], np.cumsum(is_pair.sum(axis=1))]).astype(np.int32)
        return pair_start, num_tokens, self.by_tokens.T[is_pair]


def measure_again(edges: TokenEdges, old: Distances, touched: Uint8Array, gone: Uint8Array, num_hubs: int) -> Update:
    """The distances of all states where they can have changed.

    Args:
        edges: The edges; those that are gone have the rank ``NEVER``.
        old: The distances when none was gone.
        touched: uint8 (states,), 1 for the states that have lost their link or the end of a text. It is changed.
        gone: uint8 (edges,), 1 for the edges that are gone.
        num_hubs: The states before this one lie between words.
    """
    parts = (edges.edge_start, edges.targets, edges.ranks, edges.links, edges.link_ranks)
    pairs = (old.pair_start, old.num_tokens, old.ranks)
    _mark_owners(edges.edge_start, gone, touched)
    _mark_ways_to(edges.edge_start, edges.targets, touched, num_hubs)
    states = np.flatnonzero(touched[num_hubs:]).astype(np.int32) + np.int32(num_hubs)
    columns = np.full(len(touched), -1, dtype=np.int32)
    columns[states] = np.arange(len(states), dtype=np.int32)
    rounds = [edges.complete_ranks[states]]
    # Further away than the old distances only states of this update can lie, one by one.
    while len(rounds) <= old.longest or (rounds[-1] != rounds[-2]).any():
        rounds.append(np.empty_like(rounds[0]))
        _one_token_more(*parts, *pairs, states, columns, len(rounds) - 1, rounds[-2], rounds[-1])
    by_tokens = np.vstack(rounds)
    if _hubs_stay(*parts, edges.complete_ranks, *pairs, columns, by_tokens, num_hubs):
        return Update(states, by_tokens)
    return _difference(measure_distances(edges), old)


def _difference(new: Distances, old: Distances) -> Update:
    longest = max(new.longest, old.longest)
    by_tokens = _by_tokens(new, longest)
    states = np.flatnonzero((by_tokens != _by_tokens(old, longest)).any(axis=0)).astype(np.int32)
    return Update(states, by_tokens[:, states])


def _by_tokens(distances: Distances, longest: int) -> Int32Array:
    """As in ``Update``, for all states."""
    counts = np.diff(distances.pair_start)
    by_tokens = np.full((longest + 1, len(counts)), NEVER, dtype=np.int32)
    by_tokens[distances.num_tokens, np.repeat(np.arange(len(counts)), counts)] = distances.ranks
    return np.minimum.accumulate(by_tokens, axis=0, out=by_tokens)


def raised_edges(edges: TokenEdges, update: Update, gone: Uint8Array) -> tuple[Int32Array, Int32Array]:
    """The edges that are gone, or that ask for more because the states they lead to do; and their ranks."""
    needed = np.zeros(len(edges.links), dtype=np.int32)
    needed[update.states] = update.by_tokens[-1]
    chosen = np.empty(len(edges.tokens), dtype=np.int32)
    chosen = chosen[: _choose_raised(edges.targets, edges.ranks, needed, gone, chosen)].copy()
    return chosen, np.maximum(edges.ranks[chosen], needed[edges.targets[chosen]])


@kernel
def _choose_raised(
    targets: Int32Array, ranks: Int32Array, needed: Int32Array, gone: Uint8Array, chosen: Int32Array
) -> int:
    count = 0
    for edge in range(len(targets)):
        if gone[edge] or needed[targets[edge]] > ranks[edge]:
            chosen[count] = edge
            count += 1
    return count


@kernel
def _mark_owners(edge_start: Int32Array, gone: Uint8Array, touched: Uint8Array) -> None:
    for state in range(len(touched)):
        for edge in range(edge_start[state], edge_start[state + 1]):
            if gone[edge]:
                touched[state] = 1
                break


@kernel
def _mark_ways_to(edge_start: Int32Array, targets: Int32Array, touched: Uint8Array, num_hubs: int) -> None:
    """Marks the states that lead to marked ones without passing a place between words."""
    changed = True
    while changed:
        changed = False
        # Most edges lead to a later state.
        for state in range(len(touched) - 1, num_hubs - 1, -1):
            if touched[state]:
                continue
            for edge in range(edge_start[state], edge_start[state + 1]):
                if targets[edge] >= num_hubs and touched[targets[edge]]:
                    touched[state] = 1
                    changed = True
                    break


@kernel
def _one_token_more(
    edge_start: Int32Array,
    targets: Int32Array,
    ranks: Int32Array,
    links: Int32Array,
    link_ranks: Int32Array,
    pair_start: Int32Array,
    pair_tokens: Int32Array,
    pair_ranks: Int32Array,
    states: Int32Array,
    columns: Int32Array,
    num_tokens: int,
    previous: Int32Array,
    reached: Int32Array,
) -> None:
    """The ranks from which on ``num_tokens`` complete a text, given those for one token less."""
    for column in range(len(states)):
        state = states[column]
        best = previous[column]
        for edge in range(edge_start[state], edge_start[state + 1]):
            if ranks[edge] < best:
                target = targets[edge]
                if columns[target] >= 0:
                    rest = previous[columns[target]]
                else:
                    rest = rank_within(pair_start, pair_tokens, pair_ranks, target, num_tokens - 1)
                best = min(best, max(ranks[edge], rest))
        if links[state] >= 0 and link_ranks[state] < best:
            rest = rank_within(pair_start, pair_tokens, pair_ranks, links[state], num_tokens)
            best = min(best, max(link_ranks[state], rest))
        reached[column] = best


@kernel
def _hubs_stay(
    edge_start: Int32Array,
    targets: Int32Array,
    ranks: Int32Array,
    links: Int32Array,
    link_ranks: Int32Array,
    complete_ranks: Int32Array,
    pair_start: Int32Array,
    pair_tokens: Int32Array,
    pair_ranks: Int32Array,
    columns: Int32Array,
    by_tokens: Int32Array,
    num_hubs: int,
) -> bool:
    """Whether each old distance of a place between words still has a way of so many tokens.

    Such a way may lead through another place: its first step is a token, or a link to a place without links."""
    for state in range(num_hubs):
        for pair in range(pair_start[state], pair_start[state + 1]):
            rank, budget = pair_ranks[pair], pair_tokens[pair]
            stays = complete_ranks[state] <= rank
            if not stays and links[state] >= 0 and link_ranks[state] <= rank:
                stays = rank_within(pair_start, pair_tokens, pair_ranks, links[state], budget) <= rank
            if not stays and budget > 0:
                for edge in range(edge_start[state], edge_start[state + 1]):
                    if ranks[edge] <= rank:
                        column = columns[targets[edge]]
                        if column >= 0:
                            stays = by_tokens[budget - 1, column] <= rank
                        else:
                            stays = rank_within(pair_start, pair_tokens, pair_ranks, targets[edge], budget - 1) <= rank
                        if stays:
                            break
            if not stays:
                return False
    return True
