"""Distances measured in part are those measured in full."""

import random
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from tests.vocab.toys import toy_automaton
from vocab.automaton.distance import Distances, measure_distances
from vocab.exclusion.distance_update import measure_again, raised_edges
from vocab.text.text_automaton import NEVER

AUTOMATON, _ = toy_automaton(["sol", "mar", "solar", "a", "marea", "so"], [" sol", "ar", " mar", "ol", " a", "so"])


def pairs_of(distances: Distances) -> list[list[tuple[int, int]]]:
    """(tokens, rank) of each state."""
    pairs = list(zip(distances.num_tokens.tolist(), distances.ranks.tolist(), strict=True))
    starts = distances.pair_start.tolist()
    return [pairs[first:last] for first, last in pairwise(starts)]


@pytest.mark.parametrize("seed", range(30))
def test_an_update_has_the_distances_of_a_full_measure(seed: int) -> None:
    chance = random.Random(seed)
    base, old = AUTOMATON.edges, AUTOMATON.distances
    num_hubs = int(AUTOMATON.gap_states.max()) + 1
    gone = np.zeros(len(base.tokens), dtype=np.uint8)
    inner = range(int(base.edge_start[num_hubs]), len(base.tokens))
    gone[chance.sample(inner, chance.randint(0, 6))] = 1
    touched = np.zeros(len(base.links), dtype=np.uint8)
    ended = chance.sample(range(num_hubs, len(base.links)), chance.randint(0, 3))
    touched[ended] = 1
    edges = replace(
        base,
        ranks=np.where(gone, NEVER, base.ranks),
        link_ranks=np.where(touched, NEVER, base.link_ranks),
        complete_ranks=np.where(touched, NEVER, base.complete_ranks),
    )
    full = measure_distances(edges)
    update = measure_again(edges, old, touched, gone, num_hubs)
    pair_start, num_tokens, ranks = update.pairs()
    ours = pairs_of(old)
    for place, state in enumerate(update.states):
        own = slice(pair_start[place], pair_start[place + 1])
        ours[state] = list(zip(num_tokens[own].tolist(), ranks[own].tolist(), strict=True))
    theirs = pairs_of(full)
    assert ours == theirs

    chosen, chosen_ranks = raised_edges(edges, update, gone)
    needed = np.asarray([pairs[-1][1] if pairs else NEVER for pairs in theirs], dtype=np.int32)
    expected = np.maximum(edges.ranks, needed[base.targets])
    raised = base.ranks.copy()
    raised[chosen] = chosen_ranks
    np.testing.assert_array_equal(raised, expected)
