"""The compiled artefact: one token automaton for a (list, options, tokenizer), good for every N.

``vocab.artefacts.artefact`` stores it, and ``vocab.matching.masks`` fills masks from it.
"""

import hashlib
import json
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np

from vocab.arrays.byte_trie import Int32Array, group_starts
from vocab.automaton.distance import Distances, measure_distances, rank_within
from vocab.automaton.product import multiply
from vocab.automaton.spelling import spellable
from vocab.automaton.token_edges import TokenEdges
from vocab.automaton.token_trie import TokenTrie
from vocab.automaton.tokenizer import TokenizerFacts
from vocab.lists.stored_words import StoredWords
from vocab.lists.wordlists import WordList
from vocab.options import ListOptions
from vocab.text.forms import has_possessives
from vocab.text.spelled_forms import spell_forms
from vocab.text.text_automaton import NEVER, build_text_automaton

FORMAT_VERSION: Final = 2
"""Part of every digest; raised when the arrays or the texts they allow change."""

DENSE_EDGES: Final = 4096
"""States with as many own edges keep a whole row per N. Setting so many single bits takes 5 us where a copy takes 1,
but a row takes 100 us to make: with 1,024 that was the p99 of texts over a whole language, with 4,096 it is 5 us."""

MAX_DENSE_STATES: Final = 512
"""The largest ones, besides links: 16 MB of rows per N at 262,144 tokens. Whole languages have 200."""


@dataclass(frozen=True)
class TokenAutomaton:
    """Which tokens may come in which state, for every N.

    Attributes:
        digest: Names the artefact: list, options, tokenizer and format.
        tokenizer_digest: The tokenizer that the token ids belong to.
        num_tokens: Size of that tokenizer's vocabulary.
        words: The words, in rank order, without those that the tokenizer cannot spell.
        options: The options compiled in.
        dropped_words: What the tokenizer cannot spell.
        edges: Token edges; ranks are those from which on a text can also be completed.
        distances: How few tokens complete a text.
        dense_states: int32, ascending, the states of which masks keep a whole row.
        mask_rows: int32 (states,), where a state's mask begins: r >= 0 is its own row, that of ``dense_states[r]``,
            which is all of it; -2 - r is the row of its link; -1 is an empty row.
        gap_states, crowded_states, place_start, places, place_ranks: As in ``Places``.
    """

    digest: str
    tokenizer_digest: str
    num_tokens: int
    words: StoredWords
    options: ListOptions
    dropped_words: tuple[str, ...]
    edges: TokenEdges
    distances: Distances
    dense_states: Int32Array
    mask_rows: Int32Array
    gap_states: Int32Array
    crowded_states: Int32Array
    place_start: Int32Array
    places: Int32Array
    place_ranks: Int32Array

    @property
    def word_list(self) -> WordList:
        """The words as a list, which are decoded when first asked for: a mask needs none of them."""
        return self.words.word_list

    @cached_property
    def longest_distance(self) -> int:
        """With more tokens left than this, no budget bears on a mask."""
        return self.distances.longest

    @cached_property
    def num_hub_rows(self) -> int:
        """How many of the dense states may be links; they come first."""
        return int(np.searchsorted(self.dense_states, self.edges.links.max(initial=-1), side="right"))

    def clamp(self, n_words: int) -> int:
        """N beyond the list means all of it."""
        return min(n_words, self.words.num_ranks)

    def fewest_tokens(self, n_words: int) -> int | None:
        """The least number of tokens that any text of the first ``n_words`` words has; None where there is no text."""
        distances, start = self.distances, self.edges.start
        for pair in range(distances.pair_start[start], distances.pair_start[start + 1]):
            if distances.ranks[pair] <= self.clamp(n_words):
                return int(distances.num_tokens[pair])
        return None

    def rank_within(self, state: int, budget: int) -> int:
        """The N from which on ``budget`` tokens complete a text from ``state``; int32's largest where none does."""
        distances = self.distances
        return int(rank_within(distances.pair_start, distances.num_tokens, distances.ranks, state, budget))


def artefact_digest(word_list: WordList, options: ListOptions, tokenizer: TokenizerFacts) -> str:
    """SHA-256 in hex of all that an artefact depends on."""
    facts = [FORMAT_VERSION, word_list.digest, options.as_dict(), tokenizer.digest]
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()


def compile_automaton(
    word_list: WordList, options: ListOptions, tokenizer: TokenizerFacts, trie: TokenTrie | None = None
) -> TokenAutomaton:
    """Compiles a list for a tokenizer: once, for every N.

    Args:
        word_list: The list.
        options: Its options.
        tokenizer: The tokenizer.
        trie: That of the tokenizer, where the caller keeps it: making it takes longer than compiling most lists.

    Raises:
        EmptyWordListError: The tokenizer can spell no word of the list.
        CompileError: The list's entries overlap in too many ways.
    """
    digest = artefact_digest(word_list, options, tokenizer)
    trie = trie or TokenTrie.of(tokenizer)
    word_list, dropped = spellable(word_list, trie)
    forms = spell_forms(word_list, options)
    text = build_text_automaton(forms, options, word_list.language, possessives=has_possessives(word_list))
    edges, places = multiply(text, trie)
    distances = measure_distances(edges)
    edges = _without_dead_ends(edges, distances)
    dense_states, mask_rows = _mask_rows(edges)
    return TokenAutomaton(
        digest=digest,
        tokenizer_digest=tokenizer.digest,
        num_tokens=len(tokenizer),
        words=StoredWords.of(word_list),
        options=options,
        dropped_words=dropped,
        edges=edges,
        distances=distances,
        dense_states=dense_states,
        mask_rows=mask_rows,
        **vars(places),
    )


def _mask_rows(edges: TokenEdges) -> tuple[Int32Array, Int32Array]:
    """The dense states, and where the mask of each state begins."""
    num_edges = np.diff(edges.edge_start)
    is_dense = num_edges >= DENSE_EDGES
    if is_dense.sum() > MAX_DENSE_STATES:
        is_dense[np.argsort(num_edges, kind="stable")[:-MAX_DENSE_STATES]] = False
    is_dense[edges.links[edges.links >= 0]] = True
    dense_states = np.flatnonzero(is_dense).astype(np.int32)
    row_of = np.full(len(is_dense), -1, dtype=np.int32)
    row_of[dense_states] = np.arange(len(dense_states), dtype=np.int32)
    of_link = np.where(edges.links >= 0, -2 - row_of[edges.links], -1)
    return dense_states, np.where(is_dense, row_of, of_link).astype(np.int32)


def _without_dead_ends(edges: TokenEdges, distances: Distances) -> TokenEdges:
    """Raises each edge's rank to what its target needs to be completed by tokens, and drops those that never are.

    Bytes alone do not tell: a token may end inside a character whose other bytes the tokenizer lacks.
    """
    last_pairs = distances.pair_start[1:] - 1
    has_pairs = np.diff(distances.pair_start) > 0
    needed = np.full(len(has_pairs), NEVER, dtype=np.int32)
    needed[has_pairs] = distances.ranks[last_pairs[has_pairs]]
    ranks = np.maximum(edges.ranks, needed[edges.targets])
    kept = ranks != NEVER
    source = np.repeat(np.arange(len(has_pairs)), np.diff(edges.edge_start))[kept]
    return TokenEdges(
        group_starts(source, len(has_pairs)),
        edges.tokens[kept],
        edges.targets[kept],
        ranks[kept],
        edges.links,
        edges.link_ranks,
        edges.complete_ranks,
        edges.start,
    )
