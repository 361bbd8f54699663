"""What the states of all N of one text without spaces share: tries, gaps and the table of the compiled code."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from vocab.arrays.kernels import AddressTable, Int32Array, Uint8Array, address_of
from vocab.automaton.compiled_list import CompiledList
from vocab.automaton.dictionary_trie import DictionaryTrie
from vocab.automaton.overlay import Overlay
from vocab.automaton.token_trie import UNSPELLED, TokenTrie
from vocab.marks import LINE_BREAK
from vocab.matching.mask_kernels import NEVER_ENDS
from vocab.matching.segmented import fields, kernels
from vocab.matching.segmented.kernels import Int64Array
from vocab.options import ListOptions
from vocab.text.gaps.automaton import GapAutomaton, build_gap_automaton

_JSON_QUOTE: Final = '"'


class SegmentedText:
    """What the states of all N of one list, its changes and options share: tries and gaps. Thread-safe.

    Args:
        words: The list with its dictionary, of ``build_segmented``.
        overlay: The changes of a request.
        options: Of these ``segmentation``, and what the gap automaton needs.
        tokens: The tokenizer's, which many lists share.
        in_json: The text is that of a JSON string, as for ``vocab.automaton.frame.build_frame``.
    """

    def __init__(
        self,
        words: CompiledList,
        overlay: Overlay | None,
        options: ListOptions,
        tokens: TokenTrie,
        *,
        in_json: bool = False,
    ) -> None:
        self.words, self.overlay, self.tokens = words, overlay, tokens
        self.is_any = options.segmentation == "any"
        gaps = build_gap_automaton(options, words.language)
        self.gaps = _in_json(gaps) if in_json else gaps
        states = self.gaps.states
        marks = sorted({ord(char) for state in states for char in state.transitions})
        self.trie = DictionaryTrie.of(words, overlay, marks)
        places = {mark: place for place, mark in enumerate(marks)}
        self.marks = np.asarray(marks, dtype=np.int32)
        self.gap_targets = np.full(len(states) * len(marks), -1, dtype=np.int32)
        for number, state in enumerate(states):
            for char, target in state.transitions.items():
                self.gap_targets[number * len(marks) + places[ord(char)]] = target
        self.is_complete = np.asarray([state.is_complete for state in states], dtype=np.uint8)
        self.opens_words = np.asarray([state.word_may_start for state in states], dtype=np.uint8)
        self.starts_sentence = np.asarray([state.starts_sentence for state in states], dtype=np.uint8)
        self.contexts = np.asarray([state.context for state in states], dtype=np.int32)
        self.after_word = np.asarray([ends.after_word for ends in self.gaps.contexts], dtype=np.int32)
        self.mark_numbers = np.zeros(kernels.NUM_DIRECT, dtype=np.uint8)
        self.mark_numbers[self.marks] = np.arange(1, len(marks) + 1)
        self.root_children = np.full(kernels.NUM_DIRECT, -1, dtype=np.int32)
        at_root = slice(0, np.searchsorted(self.trie.labels[: self.trie.edge_start[1]], kernels.NUM_DIRECT))
        self.root_children[self.trie.labels[at_root]] = self.trie.children[at_root]
        self.edge_nodes = tokens.nodes_of(self.trie.labels)
        numbers = self.is_any, len(marks), len(tokens.chars), len(tokens.parts), tokens.single[0x80:0xC0].all()
        self.table: AddressTable = np.zeros(fields.TABLE_SIZE, dtype=np.int64)
        self.table[fields.IS_ANY : fields.EDGE_START] = numbers
        self.table[fields.EDGE_START : fields.TO_END] = [address_of(array) for array in self._arrays()]
        self.edge_tokens = self._tokens_of(self.trie.labels)
        self.with_marks = tokens.tokens_with(self.marks, self.trie.labels)
        self.mark_tokens = self._tokens_of(self.marks)

    @property
    def num_bytes(self) -> int:
        return self.trie.num_bytes + self.gap_targets.nbytes + self.edge_tokens.nbytes

    def costs_to(
        self, is_end: Uint8Array, far: int, mark_costs: Int32Array | int, word_costs: Int32Array | Uint8Array | int
    ) -> Int64Array:
        """Return what it costs at least to come from each gap state to the end of something, int64; ``far`` for never.

        Args:
            is_end: uint8 (states,), where that ends.
            far: Greater than any cost.
            mark_costs: Of each mark, or of any.
            word_costs: Of the word after each state, or after any.
        """
        costs: Int64Array = np.where(is_end, 0, far).astype(np.int64)
        targets, after_word = self.gap_targets.reshape(len(costs), -1), self.after_word[self.contexts]
        while True:
            before = costs
            by_marks = np.where(targets >= 0, costs[targets] + mark_costs, far).min(axis=1, initial=far)
            by_words = np.where(self.opens_words, costs[after_word] + word_costs, far)
            costs = np.minimum(costs, np.minimum(by_marks, by_words))
            if np.array_equal(before, costs):
                return costs

    def _arrays(self) -> Sequence[Int32Array | Uint8Array]:
        """Return the arrays in the order of the table."""
        trie, tokens = self.trie, self.tokens
        return (
            *(trie.edge_start, trie.labels, trie.children, trie.parents, trie.depths, trie.own_labels),
            *(trie.ranks, trie.below, trie.links, trie.cut_ranks, trie.num_cut, trie.whole_ranks),
            *(self.marks, self.mark_numbers, self.gap_targets, self.is_complete, self.opens_words),
            *(self.starts_sentence, self.contexts, self.after_word, self.root_children, self.edge_nodes),
            *(tokens.symbols, tokens.depths, tokens.ends, tokens.token_start, tokens.tokens, tokens.chars),
            *(tokens.char_nodes, tokens.parts, tokens.part_nodes, tokens.data, tokens.starts, tokens.single),
        )

    def _tokens_of(self, chars: Int32Array) -> Int32Array:
        """Return how few tokens spell each character."""
        unique, places = np.unique(chars, return_inverse=True)
        counts = np.asarray([self.tokens.fewest_tokens(char) for char in unique.tolist()], dtype=np.int32)
        counts[counts == UNSPELLED] = NEVER_ENDS
        return counts[places]


def _in_json(gaps: GapAutomaton) -> GapAutomaton:
    """Return the gap automaton of a JSON string's text: it begins with the string's quotation mark, on one line."""
    states = [
        replace(state, transitions={char: to for char, to in state.transitions.items() if char != LINE_BREAK})
        for state in gaps.states
    ]
    opening = replace(
        gaps.states[gaps.start],
        transitions={_JSON_QUOTE: gaps.start},
        is_complete=False,
        word_may_start=False,
        starts_sentence=False,
    )
    return replace(gaps, states=(*states, opening), start=len(states))
