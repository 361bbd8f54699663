"""The texts of a list, as a nondeterministic automaton over bytes whose word ends carry ranks.

It joins the trie of all surface forms with the gap automaton. A node has edges by byte and at most one
*continuation*: another node that it may also be, once a word of a given rank is done. The end of a word continues as
the gap state after a word; the gap state after a blank continues as the root of the words.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from vocab.arrays.byte_trie import ByteTrie, Int32Array, Uint8Array, order_edges
from vocab.arrays.kernels import kernel
from vocab.errors import CompileError
from vocab.options import ListOptions
from vocab.text.forms import Form
from vocab.text.gaps import GapAutomaton, build_gap_automaton
from vocab.text.spelled_forms import SpelledForms

BoolArray = npt.NDArray[np.bool_]

NEVER: Final = np.int32(2**31 - 1)
"""A rank that no list reaches."""

MAX_NODES: Final = 1 << 23
"""Nodes of the words' trie: a list of so many takes about 3 GB to compile; wordfreq's largest have 1.6 million."""


@dataclass(frozen=True)
class TextAutomaton:
    """Texts as byte edges between nodes; all arrays are indexed by node.

    Attributes:
        edge_start: int32 (nodes + 1,), where a node's edges begin in the next two.
        edge_bytes: uint8, ascending within a node.
        edge_targets: int32, nodes.
        continuations: int32, the node that a node may also be, or -1.
        continuation_ranks: int32, the rank of the word that this completes, 0 for none.
        smallest_ranks: int32, the least rank that still leads to a complete text, 0 where none is needed.
        complete_ranks: int32, the rank needed to stop here; ``NEVER`` inside words and gaps.
        is_hub: uint8, 1 for the nodes from which whole words start: their tokens are too many to repeat elsewhere.
        start: The node of the empty text.
        hubs_first: int32, the roots of the words, then the nodes between words, each after its continuation.
        gap_nodes: int32 (gap states,), the node of each.
    """

    edge_start: Int32Array
    edge_bytes: Uint8Array
    edge_targets: Int32Array
    continuations: Int32Array
    continuation_ranks: Int32Array
    smallest_ranks: Int32Array
    complete_ranks: Int32Array
    is_hub: Uint8Array
    start: int
    hubs_first: Int32Array
    gap_nodes: Int32Array


def build_text_automaton(
    forms: list[Form] | SpelledForms, options: ListOptions, language: str, *, possessives: bool = False
) -> TextAutomaton:
    """Build the automaton of all texts written with ``forms``, which must not be empty.

    Args:
        forms: The surface forms; without possessives where the automaton is to add them.
        options: They decide what stands between words.
        language: The list's; it decides which marks are basic ones.
        possessives: Whether a form without an apostrophe may carry 's, with nodes that all words share.

    Raises:
        CompileError: The words need more than ``MAX_NODES``.
    """
    words = _WordNodes.of(forms if isinstance(forms, SpelledForms) else SpelledForms.of(forms))
    gaps = build_gap_automaton(options, language)
    return _Joiner(words, gaps, possessives=possessives).join()


@dataclass(frozen=True)
class _WordNodes:
    """The trie of the forms allowed anywhere, and the nodes that only sentence starts reach.

    A node above forms of both kinds exists twice: for words within a sentence and for words that start one. All other
    nodes are shared.
    """

    num_nodes: int
    root: int
    sentence_root: int
    edge_sources: Int32Array
    edge_bytes: Uint8Array
    edge_targets: Int32Array
    word_ranks: Int32Array
    elides: Uint8Array
    has_apostrophe: Uint8Array

    @classmethod
    def of(cls, forms: SpelledForms) -> "_WordNodes":
        try:
            trie = ByteTrie.of(forms.strings, MAX_NODES)
        except OverflowError:
            raise CompileError(
                f"the list's words have more than {MAX_NODES} different beginnings; take fewer or shorter words"
            ) from None
        num_trie_nodes, ends = len(trie.parents), trie.string_nodes
        anywhere_ranks = np.full(num_trie_nodes, NEVER, dtype=np.int32)
        np.minimum.at(anywhere_ranks, ends[~forms.sentence_only], forms.ranks[~forms.sentence_only])
        sentence_ranks = anywhere_ranks.copy()
        np.minimum.at(sentence_ranks, ends[forms.sentence_only], forms.ranks[forms.sentence_only])
        elides, has_apostrophe = np.zeros((2, num_trie_nodes), dtype=np.uint8)
        elides[ends[forms.elides]] = 1
        has_apostrophe[ends[forms.has_apostrophe]] = 1

        is_anywhere = _with_ancestors(trie.parents, anywhere_ranks != NEVER)
        is_sentence = _with_ancestors(trie.parents, sentence_ranks < anywhere_ranks)
        anywhere_ids = (np.cumsum(is_anywhere) - 1).astype(np.int32)
        num_anywhere = int(is_anywhere.sum())
        sentence_ids = np.where(is_sentence, num_anywhere + np.cumsum(is_sentence) - 1, anywhere_ids).astype(np.int32)

        child = np.arange(1, num_trie_nodes, dtype=np.int32)
        within = child[is_anywhere[1:]]
        starting = child[is_sentence[trie.parents[1:]]]
        parents = trie.parents
        return cls(
            num_nodes=num_anywhere + int(is_sentence.sum()),
            root=int(anywhere_ids[0]),
            sentence_root=int(sentence_ids[0]),
            edge_sources=np.concatenate([anywhere_ids[parents[within]], sentence_ids[parents[starting]]]),
            edge_bytes=np.concatenate([trie.labels[within], trie.labels[starting]]),
            edge_targets=np.concatenate([anywhere_ids[within], sentence_ids[starting]]),
            word_ranks=np.concatenate([anywhere_ranks[is_anywhere], sentence_ranks[is_sentence]]),
            elides=np.concatenate([elides[is_anywhere], elides[is_sentence]]),
            has_apostrophe=np.concatenate([has_apostrophe[is_anywhere], has_apostrophe[is_sentence]]),
        )


@kernel
def _with_ancestors(parents: Int32Array, chosen: BoolArray) -> BoolArray:
    """Mark the chosen nodes and all nodes above them; parents precede their children."""
    marked = chosen.copy()
    for node in range(len(parents) - 1, 0, -1):
        if marked[node]:
            marked[parents[node]] = True
    return marked


class _Joiner:
    """Append the nodes between words to the word nodes and connect the two."""

    def __init__(self, words: _WordNodes, gaps: GapAutomaton, *, possessives: bool) -> None:
        self._possessives = possessives
        self._words = words
        self._gaps = gaps
        self._edges: list[tuple[int, int, int]] = []
        self._num_nodes = words.num_nodes + len(gaps.states)
        self._continuations: dict[int, int] = {}
        self._blanks: dict[int, int] = {}

    def join(self) -> TextAutomaton:
        words, gaps = self._words, self._gaps
        for index, state in enumerate(gaps.states):
            node = self._node_of(index)
            if state.word_may_start:
                self._continuations[node] = words.sentence_root if state.starts_sentence else words.root
            self._add_marks(node, state.transitions)
        return self._finish()

    def _node_of(self, gap_index: int) -> int:
        return self._words.num_nodes + gap_index

    def _new_node(self) -> int:
        self._num_nodes += 1
        return self._num_nodes - 1

    def _add_marks(self, node: int, transitions: dict[str, int]) -> None:
        """Spell the marks in bytes. The blank, behind which whole words lie, gets a node that states share."""
        inner: dict[tuple[int, bytes], int] = {}
        for character, target in transitions.items():
            if character == " " and node not in self._continuations:
                self._continuations[node] = self._blank_node(target)
                continue
            spelled = character.encode()
            at = node
            for depth in range(1, len(spelled)):
                prefix = (node, spelled[:depth])
                if prefix not in inner:
                    inner[prefix] = self._new_node()
                    self._edges.append((at, spelled[depth - 1], inner[prefix]))
                at = inner[prefix]
            self._edges.append((at, spelled[-1], self._node_of(target)))

    def _blank_node(self, target: int) -> int:
        if target not in self._blanks:
            self._blanks[target] = self._new_node()
            self._edges.append((self._blanks[target], ord(" "), self._node_of(target)))
        return self._blanks[target]

    def _finish(self) -> TextAutomaton:
        words, gaps, num_nodes = self._words, self._gaps, self._num_nodes
        continuations = np.full(num_nodes, -1, dtype=np.int32)
        continuation_ranks = np.zeros(num_nodes, dtype=np.int32)
        ends = np.flatnonzero(words.word_ranks != NEVER)
        is_possessable = self._possessives & (words.has_apostrophe[ends] == 0)
        after = np.where(is_possessable, self._node_of(gaps.after_possessable), self._node_of(gaps.after_word))
        continuations[ends] = np.where(words.elides[ends], self._node_of(gaps.after_elision), after)
        continuation_ranks[ends] = words.word_ranks[ends]
        for node, target in self._continuations.items():
            continuations[node] = target

        is_hub = np.zeros(num_nodes, dtype=np.uint8)
        is_hub[[words.root, words.sentence_root, *self._blanks.values()]] = 1
        complete = np.full(num_nodes, NEVER, dtype=np.int32)
        complete[[self._node_of(i) for i, state in enumerate(gaps.states) if state.is_complete]] = 0
        if gaps.states[gaps.after_word].is_complete:
            whole = ends[words.elides[ends] == 0]
            complete[whole] = words.word_ranks[whole]

        extra = np.asarray(self._edges, dtype=np.int32)
        sources = np.concatenate([words.edge_sources, extra[:, 0]])
        labels = np.concatenate([words.edge_bytes, extra[:, 1].astype(np.uint8)])
        targets = np.concatenate([words.edge_targets, extra[:, 2]])
        edge_start, order = order_edges(sources, labels, num_nodes)
        labels, targets = labels[order], targets[order]
        smallest = _smallest_ranks(edge_start, targets, continuations, continuation_ranks, complete)
        return TextAutomaton(
            edge_start=edge_start,
            edge_bytes=labels,
            edge_targets=targets,
            continuations=continuations,
            continuation_ranks=continuation_ranks,
            smallest_ranks=smallest,
            complete_ranks=complete,
            is_hub=is_hub,
            start=self._node_of(gaps.start),
            hubs_first=self._hubs_first(),
            gap_nodes=np.arange(words.num_nodes, words.num_nodes + len(gaps.states), dtype=np.int32),
        )

    def _hubs_first(self) -> Int32Array:
        """Return the roots, then the nodes between words by how many continuations lead on from them."""
        words = self._words

        def depth(node: int) -> int:
            onward = self._continuations.get(node)
            return 0 if onward is None else 1 + depth(onward)

        between = sorted(range(words.num_nodes, self._num_nodes), key=depth)
        return np.fromiter(dict.fromkeys([words.root, words.sentence_root, *between]), dtype=np.int32)


@kernel
def _smallest_ranks(
    edge_start: Int32Array,
    edge_targets: Int32Array,
    continuations: Int32Array,
    continuation_ranks: Int32Array,
    complete_ranks: Int32Array,
) -> Int32Array:
    """Return the least rank that leads from each node to a complete text: a fixed point."""
    # Most edges lead to a later node, so going backwards settles nearly all in the first round.
    smallest = complete_ranks.copy()
    changed = True
    while changed:
        changed = False
        for node in range(len(smallest) - 1, -1, -1):
            best = smallest[node]
            for edge in range(edge_start[node], edge_start[node + 1]):
                best = min(best, smallest[edge_targets[edge]])
            onward = continuations[node]
            if onward >= 0:
                best = min(best, max(continuation_ranks[node], smallest[onward]))
            if best < smallest[node]:
                smallest[node] = best
                changed = True
    return smallest
