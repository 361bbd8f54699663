"""The compiled artefact: one token automaton for a (list, options, tokenizer), good for every N.

It knows what the arrays mean and how they are made; how they are stored is ``vocab.artefact``'s, and how a mask is
made of them ``vocab.matcher``'s.
"""

import hashlib
import json
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np

from vocab.byte_trie import Uint8Array
from vocab.distance import Distances, measure_distances, rank_within
from vocab.errors import EmptyWordListError
from vocab.forms import has_possessives, surface_forms
from vocab.options import ListOptions
from vocab.product import TokenEdges, multiply
from vocab.text_automaton import NEVER, build_text_automaton
from vocab.token_trie import TokenTrie
from vocab.tokenizer import TokenizerFacts
from vocab.wordlists import WordList

FORMAT_VERSION: Final = 1
"""Part of every digest; raised when the arrays or the texts they allow change."""

DENSE_EDGES: Final = 256
"""States with as many own edges keep a whole row per N; setting so many single bits would cost more than a copy."""


@dataclass(frozen=True)
class TokenAutomaton:
    """Which tokens may come in which state, for every N.

    Attributes:
        digest: Names the artefact: list, options, tokenizer and format.
        tokenizer_digest: The tokenizer that the token ids belong to.
        num_tokens: Size of that tokenizer's vocabulary.
        word_list: The words, in rank order, without those that the tokenizer cannot spell.
        options: The options compiled in.
        dropped_words: What the tokenizer cannot spell.
        edges: Token edges; ranks are those from which on a text can also be completed.
        distances: How few tokens complete a word.
        is_dense: uint8 (states,), 1 where masks keep a whole row.
    """

    digest: str
    tokenizer_digest: str
    num_tokens: int
    word_list: WordList
    options: ListOptions
    dropped_words: tuple[str, ...]
    edges: TokenEdges
    distances: Distances
    is_dense: Uint8Array

    @cached_property
    def longest_distance(self) -> int:
        """With more tokens left than this, no budget bears on a mask."""
        return self.distances.longest

    def clamp(self, n_words: int) -> int:
        """N beyond the list means all of it."""
        return min(n_words, len(self.word_list.words))

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


def compile_automaton(word_list: WordList, options: ListOptions, tokenizer: TokenizerFacts) -> TokenAutomaton:
    """Compiles a list for a tokenizer: once, for every N.

    Raises:
        EmptyWordListError: The tokenizer can spell no word of the list.
        CompileError: The list's entries overlap in too many ways.
    """
    digest = artefact_digest(word_list, options, tokenizer)
    word_list, dropped = _spellable(word_list, tokenizer)
    forms = surface_forms(word_list, options, with_possessives=False)
    text = build_text_automaton(forms, options, word_list.language, possessives=has_possessives(word_list))
    edges = multiply(text, TokenTrie.of(tokenizer))
    distances = measure_distances(edges)
    edges = _without_dead_ends(edges, distances)
    is_dense = (np.diff(edges.edge_start) >= DENSE_EDGES).astype(np.uint8)
    is_dense[edges.links[edges.links >= 0]] = 1
    return TokenAutomaton(
        digest,
        tokenizer.digest,
        len(tokenizer),
        word_list,
        options,
        dropped,
        edges,
        distances,
        is_dense,
    )


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
    edge_start = np.zeros(len(has_pairs) + 1, dtype=np.int64)
    np.cumsum(np.bincount(source, minlength=len(has_pairs)), out=edge_start[1:])
    return TokenEdges(
        edge_start,
        edges.tokens[kept],
        edges.targets[kept],
        ranks[kept],
        edges.links,
        edges.link_ranks,
        edges.complete_ranks,
        edges.start,
    )


def _spellable(word_list: WordList, tokenizer: TokenizerFacts) -> tuple[WordList, tuple[str, ...]]:
    """The list without the words that no tokens spell, and those words."""
    tokens = frozenset(tokenizer.token_bytes)
    lacking = bytes(b for b in range(256) if bytes([b]) not in tokens)
    if not lacking:
        return word_list, ()
    suspects = [
        word for word in word_list.words if len(spelled := word.encode()) != len(spelled.translate(None, lacking))
    ]
    dropped = tuple(word for word in suspects if not _can_spell(word.encode(), tokens))
    if not dropped:
        return word_list, ()
    kept = tuple(word for word in word_list.words if word not in set(dropped))
    if not kept:
        raise EmptyWordListError(f"the model's tokenizer cannot spell any word of the list {word_list.lang!r}")
    return WordList(word_list.lang, kept, word_list.source), dropped


def _can_spell(spelled: bytes, tokens: frozenset[bytes]) -> bool:
    reachable = [True] + [False] * len(spelled)
    for end in range(1, len(spelled) + 1):
        # A token may bring the blank before the word along.
        reachable[end] = b" " + spelled[:end] in tokens or any(
            reachable[start] and spelled[start:end] in tokens for start in range(end)
        )
    return reachable[-1]
