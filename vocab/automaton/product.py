"""The product of the text automaton and the token trie: which token leads from which state to which.

A state is a small set of readings (see ``vocab.automaton.readings``). Nearly all states are one node with nothing
owed; entries with blanks, elisions beside whole entries and tokens that end inside a character give the others. The
rank that a token asks for pays what its readings owe up to that rank, so states do not depend on N.

A state whose first step may also be that of a node between words *links* to that node's state instead of repeating
its tokens; the states of those nodes come first. This module knows nothing of budgets, files or vLLM.
"""

from typing import Final

import numpy as np

from vocab.arrays.kernels import address_of
from vocab.automaton.interning import InternedSets, resized
from vocab.automaton.places import Places, find_places
from vocab.automaton.readings import FULL, MAX_READINGS
from vocab.automaton.token_edges import TokenEdges, num_tokens_of, write_edges
from vocab.automaton.token_trie import TokenTrie
from vocab.automaton.walk import walk_states
from vocab.automaton.walk_arrays import Scratch, StateAddresses, Steps, addresses_of_text, addresses_of_trie
from vocab.errors import CompileError
from vocab.text.text_automaton import TextAutomaton

MAX_EDGES: Final = 1 << 25
"""Twelve bytes each, and as much again while they are made; wordfreq's largest lists have 7 million. Lists that have
most words twice, with a mark behind them and without, or that chain hundreds of phrases reach it."""


def multiply(text: TextAutomaton, tokens: TokenTrie) -> tuple[TokenEdges, Places]:
    """Walks both automata side by side, once for every N; also says which states lie between words.

    Raises:
        CompileError: A text of the list can be read in more than ``MAX_READINGS`` ways at once, or there are more than
            ``MAX_EDGES`` edges.
    """
    return _Product(text, tokens).compute()


class _Product:
    """Discovers states batch by batch: first those that others link to, then whatever tokens lead to."""

    def __init__(self, text: TextAutomaton, tokens: TokenTrie) -> None:
        self._text, self._tokens = text, tokens
        self._num_hubs = len(text.hubs_first)
        self._hub_states = np.full(len(text.continuations), -1, dtype=np.int32)
        self._hub_states[text.hubs_first] = np.arange(self._num_hubs, dtype=np.int32)
        self._sets = InternedSets(len(text.continuations), text.hubs_first)
        self._links = np.full(self._num_hubs, -1, dtype=np.int32)
        self._link_ranks = np.zeros(self._num_hubs, dtype=np.int32)
        self._edge_start = np.zeros(self._num_hubs + 1, dtype=np.int32)
        self._edge_tokens, self._edge_targets, self._edge_ranks = (np.empty(0, dtype=np.int32) for _ in range(3))
        # All bytes of a token path are on the stack at most once per child: 256 children times the longest token.
        self._scratch = Scratch(256 * 64)
        self._steps = Steps(1 << 16)

    def compute(self) -> tuple[TokenEdges, Places]:
        done = 0
        for level_end in self._hub_levels():
            self._process(done, level_end)
            done = level_end
        while done < self._sets.num_states:
            batch_end = self._sets.num_states
            self._process(done, batch_end)
            done = batch_end
        reading_start = self._sets.start[: done + 1]
        nodes, owed = self._sets.nodes[: reading_start[-1]], self._sets.owed[: reading_start[-1]]
        num_edges = self._edge_start[done]
        edges = TokenEdges(
            self._edge_start[: done + 1].copy(),
            self._edge_tokens[:num_edges].copy(),
            self._edge_targets[:num_edges].copy(),
            self._edge_ranks[:num_edges].copy(),
            self._links[:done].copy(),
            self._link_ranks[:done].copy(),
            np.minimum.reduceat(np.maximum(owed, self._text.complete_ranks[nodes]), reading_start[:-1]),
            int(self._hub_states[self._text.start]),
        )
        gap_states = self._hub_states[self._text.gap_nodes]
        return edges, find_places(self._text, gap_states, reading_start, nodes, owed)

    def _hub_levels(self) -> list[int]:
        """Where runs of hubs end of which none links to another of its run."""
        depth = np.zeros(self._num_hubs, dtype=np.int32)
        for state, node in enumerate(self._text.hubs_first):
            onward = self._text.continuations[node]
            if onward >= 0:
                depth[state] = depth[self._hub_states[onward]] + 1
        return [*(np.flatnonzero(np.diff(depth)) + 1).tolist(), self._num_hubs]

    def _process(self, first: int, last: int) -> None:
        """Walks from the states first to last, and adds their edges and the states that these lead to."""
        while first < last:
            reached, num_steps, _ = walk_states(
                first,
                last,
                addresses_of_text(self._text, self._hub_states),
                addresses_of_trie(self._tokens),
                self._state_addresses(),
                self._steps.addresses,
                self._scratch.addresses,
            )
            if reached == FULL:
                raise CompileError(
                    f"entries of the list overlap in more than {MAX_READINGS} ways; remove some entries with spaces"
                )
            if reached == first:
                self._steps = Steps(2 * self._steps.size)
                continue
            self._add_edges(first, reached, num_steps)
            first = reached

    def _state_addresses(self) -> StateAddresses:
        arrays = (
            self._sets.start,
            self._sets.nodes,
            self._sets.owed,
            self._links,
            self._link_ranks,
            self._edge_start,
            self._edge_tokens,
            self._edge_targets,
            self._edge_ranks,
        )
        return StateAddresses(*map(address_of, arrays))

    def _add_edges(self, first: int, last: int, num_steps: int) -> None:
        steps = self._steps
        targets = self._sets.intern(steps.set_start, steps.set_nodes, steps.set_owed, num_steps)
        token_start = self._tokens.token_start
        num_edges = self._edge_start[first] + num_tokens_of(steps.trie_nodes, num_steps, token_start)
        self._make_room(int(num_edges))
        write_edges(
            steps.states,
            steps.trie_nodes,
            steps.ranks,
            targets,
            token_start,
            self._tokens.tokens,
            first,
            last,
            self._edge_start,
            self._edge_tokens,
            self._edge_targets,
            self._edge_ranks,
        )

    def _make_room(self, num_edges: int) -> None:
        num_states = self._sets.num_states
        if num_states > len(self._links):
            known = len(self._links)
            self._links = resized(self._links, 2 * num_states)
            self._link_ranks = resized(self._link_ranks, 2 * num_states)
            self._links[known:], self._link_ranks[known:] = -1, 0
            self._edge_start = resized(self._edge_start, 2 * num_states + 1)
        if num_edges > MAX_EDGES:
            raise CompileError(f"the list has more than {MAX_EDGES} token edges; take fewer words or fewer phrases")
        if num_edges > len(self._edge_tokens):
            self._edge_tokens, self._edge_targets, self._edge_ranks = (
                resized(array, 2 * num_edges) for array in (self._edge_tokens, self._edge_targets, self._edge_ranks)
            )
