"""The product of the text automaton and the token trie: which token leads from which state to which.

A state is a small set of readings (see ``vocab.readings``). Nearly all states are one node with nothing owed; entries
with blanks, elisions beside whole entries and tokens that end inside a character give the others. The rank that a
token asks for pays what its readings owe up to that rank, so states do not depend on N.

A state whose first step may also be that of a node between words *links* to that node's state instead of repeating
its tokens; the states of those nodes come first. This module knows nothing of budgets, files or vLLM.
"""

from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from vocab.byte_trie import Int32Array
from vocab.errors import CompileError
from vocab.places import Places, find_places
from vocab.readings import FULL, MAX_READINGS, index_states, intern_sets
from vocab.text_automaton import TextAutomaton
from vocab.token_trie import TokenTrie
from vocab.walk import Int64Array, Scratch, StateArrays, Steps, TextArrays, TrieArrays, walk_states

Integer = TypeVar("Integer", np.int32, np.int64)


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


def multiply(text: TextAutomaton, tokens: TokenTrie) -> tuple[TokenEdges, Places]:
    """Walks both automata side by side, once for every N; also says which states lie between words.

    Raises:
        CompileError: A text of the list can be read in more than ``MAX_READINGS`` ways at once.
    """
    return _Product(text, tokens).compute()


class _Product:
    """Discovers states batch by batch: first those that others link to, then whatever tokens lead to."""

    def __init__(self, text: TextAutomaton, tokens: TokenTrie) -> None:
        trie = tokens.trie
        self._trie = TrieArrays(
            trie.child_start, tokens.child_labels, trie.children, tokens.roots, tokens.token_start, tokens.tokens
        )
        self._num_hubs = len(text.hubs_first)
        hub_states = np.full(len(text.continuations), -1, dtype=np.int32)
        hub_states[text.hubs_first] = np.arange(self._num_hubs, dtype=np.int32)
        self._text = TextArrays(
            text.edge_start,
            text.edge_bytes,
            text.edge_targets,
            text.continuations,
            text.continuation_ranks,
            text.smallest_ranks,
            text.is_hub,
            hub_states,
        )
        self._source = text
        # All bytes of a token path are on the stack at most once per child: 256 children times the longest token.
        self._work = Scratch.empty(256 * 64)
        self._steps = Steps.empty(1 << 16)
        self._num_states = self._num_hubs
        self._reading_start = np.arange(self._num_hubs + 1, dtype=np.int64)
        self._reading_nodes = text.hubs_first.copy()
        self._reading_owed = np.zeros(self._num_hubs, dtype=np.int32)
        self._table = np.empty(0, dtype=np.int32)
        self._links = np.full(self._num_hubs, -1, dtype=np.int32)
        self._link_ranks = np.zeros(self._num_hubs, dtype=np.int32)
        self._counts: list[Int64Array] = []
        self._edges: list[tuple[Int32Array, Int32Array, Int32Array]] = []
        self._hub_edges = self._concatenated_hubs()

    def compute(self) -> tuple[TokenEdges, Places]:
        done = 0
        for level_end in self._hub_levels():
            self._process(done, level_end)
            done = level_end
            self._hub_edges = self._concatenated_hubs()
        while done < self._num_states:
            batch_end = self._num_states
            self._process(done, batch_end)
            done = batch_end
        tokens, targets, ranks = (np.concatenate(parts) for parts in zip(*self._edges, strict=True))
        reading_start = self._reading_start[: done + 1].astype(np.int32)
        nodes, owed = self._reading_nodes[: reading_start[-1]], self._reading_owed[: reading_start[-1]]
        complete = np.minimum.reduceat(np.maximum(owed, self._source.complete_ranks[nodes]), reading_start[:-1])
        edges = TokenEdges(
            _starts(np.concatenate(self._counts)).astype(np.int32),
            tokens,
            targets,
            ranks,
            self._links[:done].copy(),
            self._link_ranks[:done].copy(),
            complete,
            int(self._text.hub_states[self._source.start]),
        )
        gap_states = self._text.hub_states[self._source.gap_nodes]
        return edges, find_places(self._source, gap_states, reading_start, nodes, owed)

    def _hub_levels(self) -> list[int]:
        """Where runs of hubs end of which none links to another of its run."""
        depth = np.zeros(self._num_hubs, dtype=np.int32)
        for state, node in enumerate(self._source.hubs_first):
            onward = self._source.continuations[node]
            if onward >= 0:
                depth[state] = depth[self._text.hub_states[onward]] + 1
        return [*(np.flatnonzero(np.diff(depth)) + 1).tolist(), self._num_hubs]

    def _concatenated_hubs(self) -> tuple[Int64Array, Int32Array, Int32Array, Int32Array]:
        counts = np.concatenate([np.empty(0, dtype=np.int64), *self._counts])
        counts = np.concatenate([counts, np.zeros(self._num_hubs - len(counts), dtype=np.int64)])
        none = np.empty(0, dtype=np.int32)
        parts = [np.concatenate([none, *(edges[i] for edges in self._edges)]) for i in range(3)]
        return _starts(counts), parts[0], parts[1], parts[2]

    def _process(self, first: int, last: int) -> None:
        """Walks from the states first to last, and adds their edges and the states that these lead to."""
        while first < last:
            states = StateArrays(
                self._reading_start,
                self._reading_nodes,
                self._reading_owed,
                self._links,
                self._link_ranks,
                *self._hub_edges,
            )
            reached, num_steps, num_readings = walk_states(
                first, last, self._text, self._trie, states, self._steps, self._work
            )
            if reached == FULL:
                raise CompileError(
                    f"entries of the list overlap in more than {MAX_READINGS} ways; remove some entries with spaces"
                )
            if reached == first:
                self._steps = Steps.empty(2 * len(self._steps.states))
                continue
            self._add_edges(first, reached, num_steps, num_readings)
            first = reached

    def _add_edges(self, first: int, last: int, num_steps: int, num_readings: int) -> None:
        set_states = np.empty(num_steps, dtype=np.int32)
        self._make_room(num_steps, num_readings)
        self._num_states = intern_sets(
            self._steps.set_start,
            self._steps.set_nodes,
            self._steps.set_owed,
            num_steps,
            self._reading_start,
            self._reading_nodes,
            self._reading_owed,
            self._num_states,
            self._table,
            set_states,
        )
        nodes = self._steps.trie_nodes[:num_steps]
        num_tokens = (self._trie.token_start[nodes + 1] - self._trie.token_start[nodes]).astype(np.int64)
        step = np.repeat(np.arange(num_steps), num_tokens)
        place = np.arange(len(step)) - np.repeat(_starts(num_tokens)[:-1], num_tokens)
        tokens = self._trie.tokens[self._trie.token_start[nodes[step]] + place]
        sources = self._steps.states[step]
        order = np.lexsort((tokens, sources))
        step = step[order]
        self._edges.append((tokens[order], set_states[step], self._steps.ranks[step]))
        self._counts.append(np.bincount(sources - first, minlength=last - first).astype(np.int64))

    def _make_room(self, num_steps: int, num_readings: int) -> None:
        """Sizes the state arrays and the index for as many new states as there are steps."""
        most = self._num_states + num_steps
        if most + 1 > len(self._reading_start):
            self._reading_start = _resized(self._reading_start, 2 * most + 1)
            self._links = _resized(self._links, 2 * most, -1)
            self._link_ranks = _resized(self._link_ranks, 2 * most)
        most_readings = int(self._reading_start[self._num_states]) + num_readings
        if most_readings > len(self._reading_nodes):
            self._reading_nodes = _resized(self._reading_nodes, 2 * most_readings)
            self._reading_owed = _resized(self._reading_owed, 2 * most_readings)
        if 2 * most > len(self._table):
            self._table = index_states(
                self._reading_start,
                self._reading_nodes,
                self._reading_owed,
                self._num_states,
                1 << (4 * most).bit_length(),
            )


def _starts(counts: Int64Array) -> Int64Array:
    starts = np.zeros(len(counts) + 1, dtype=np.int64)
    np.cumsum(counts, out=starts[1:])
    return starts


def _resized(array: npt.NDArray[Integer], size: int, fill: int = 0) -> npt.NDArray[Integer]:
    larger = np.full(size, fill, dtype=array.dtype)
    larger[: len(array)] = array
    return larger
