"""Which states lie between words, and at which of its places: where two automata of one gap automaton can meet.

A state with one reading and nothing owed is the place of its own node, or the one it links to. The few others, the
crowded ones, may be several places at once, each from a rank on; only these are written down.
"""

from dataclasses import dataclass

import numpy as np

from vocab.arrays.byte_trie import Int32Array, group_starts
from vocab.text.text_automaton import TextAutomaton


@dataclass(frozen=True)
class Places:
    """Places are indices of the gap automaton's states.

    Attributes:
        gap_states: int32 (gap states,), the state of each place.
        crowded_states: int32, ascending, the states with several readings or with a rank owed.
        place_start: int32 (crowded states + 1,), where a crowded state's places begin in the next two.
        places: int32, ascending within a state: the places where a text in this state also stands.
        place_ranks: int32, the N from which on it does.
    """

    gap_states: Int32Array
    crowded_states: Int32Array
    place_start: Int32Array
    places: Int32Array
    place_ranks: Int32Array


def find_places(
    text: TextAutomaton, gap_states: Int32Array, reading_start: Int32Array, nodes: Int32Array, owed: Int32Array
) -> Places:
    """The places of the states whose readings are given: ``nodes`` and ``owed`` from ``reading_start`` on."""
    counts = np.diff(reading_start)
    is_owing = np.zeros(len(counts), dtype=bool)
    is_owing[np.repeat(np.arange(len(counts)), counts)[owed > 0]] = True
    crowded = np.flatnonzero((counts > 1) | is_owing).astype(np.int32)
    place_of_node = np.full(len(text.continuations), -1, dtype=np.int32)
    place_of_node[text.gap_nodes] = np.arange(len(text.gap_nodes), dtype=np.int32)

    order = np.repeat(np.arange(len(crowded)), counts[crowded])
    reading = np.flatnonzero(np.repeat((counts > 1) | is_owing, counts))
    node, rank = nodes[reading], owed[reading]
    onward = text.continuations[node]
    # A word that is done stands at the place after it; a place between words is itself.
    is_word_end = (onward >= 0) & (place_of_node[node] < 0)
    place = np.where(is_word_end, place_of_node[onward], place_of_node[node])
    rank = np.where(is_word_end, np.maximum(rank, text.continuation_ranks[node]), rank)

    kept = place >= 0
    order, place, rank = order[kept], place[kept], rank[kept]
    by_rank = np.lexsort((rank, place, order))
    order, place, rank = order[by_rank], place[by_rank], rank[by_rank]
    is_best = np.ones(len(order), dtype=bool)
    is_best[1:] = (np.diff(order) != 0) | (np.diff(place) != 0)
    place_start = group_starts(order[is_best], len(crowded))
    return Places(gap_states, crowded, place_start, place[is_best], rank[is_best])
