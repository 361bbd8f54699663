"""A compiled list without some of its words, made without compiling it again.

An excluded word is found in the text itself (``vocab.exclusion.watch``). What would complete one may not come, what
leads nowhere else may not come either, and the distances grow; everything else stays, the ranks of the other words
too. It is exact, or refused: a list in which an excluded word is part of other entries ("front" of "in front of") is
compiled anew without it. Knows nothing of requests or of how entries are chosen.
"""

import hashlib
import json
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final, Self

import numpy as np

from vocab.arrays.byte_trie import Int32Array
from vocab.arrays.tensors import Array, read_tensors, write_tensors
from vocab.automaton.automaton import TokenAutomaton
from vocab.automaton.distance import Distances
from vocab.automaton.token_edges import TokenEdges
from vocab.automaton.token_trie import TokenTrie
from vocab.automaton.tokenizer import TokenizerFacts
from vocab.errors import ArtefactError
from vocab.exclusion.distance_update import measure_again, raised_edges
from vocab.exclusion.exclusion_walk import Findings, follow
from vocab.exclusion.joints import Joints, can_tell, excluded_forms
from vocab.exclusion.watch import build_watch, disturbs
from vocab.lists.wordlists import language_of
from vocab.text.gaps import build_gap_automaton
from vocab.text.text_automaton import NEVER

_FORMAT_VERSION: Final = 1
"""Part of every digest; raised when the same entries would make other differences."""


@dataclass(frozen=True)
class Exclusion:
    """How the automaton without some words differs from that of the list.

    Attributes:
        base_digest: The list's automaton.
        entries: The words left out, sorted.
        edges: int32, the edges with another rank.
        edge_ranks: int32, their ranks; ``vocab.text.text_automaton.NEVER`` for edges that are gone.
        links: int32, the states whose link is gone.
        ends: int32, the states at which a text cannot stop any more.
        states: int32, the states with other distances.
        pair_start: int32 (states + 1,), where their pairs begin in the next two.
        pair_tokens: int32, as ``Distances.num_tokens``.
        pair_ranks: int32, as ``Distances.ranks``.
    """

    base_digest: str
    entries: tuple[str, ...]
    edges: Int32Array
    edge_ranks: Int32Array
    links: Int32Array
    ends: Int32Array
    states: Int32Array
    pair_start: Int32Array
    pair_tokens: Int32Array
    pair_ranks: Int32Array

    @cached_property
    def digest(self) -> str:
        """SHA-256 in hex of all that the automaton without the words depends on."""
        return exclusion_digest(self.base_digest, self.entries)

    def apply(self, automaton: TokenAutomaton) -> TokenAutomaton:
        """The automaton without the words. It shares all arrays with the list's but the ranks of edges, links and
        ends, and the distances: a third of the bytes (8 of 25 MB for 50,000 words).

        Raises:
            ArtefactError: The differences are those of another list, or damaged.
        """
        if automaton.digest != self.base_digest or not self._fits(automaton):
            raise ArtefactError("these excluded words belong to another list")
        edges = automaton.edges
        ranks, link_ranks, complete_ranks = edges.ranks.copy(), edges.link_ranks.copy(), edges.complete_ranks.copy()
        ranks[self.edges] = self.edge_ranks
        link_ranks[self.links] = NEVER
        complete_ranks[self.ends] = NEVER
        return replace(
            automaton,
            digest=self.digest,
            edges=replace(edges, ranks=ranks, link_ranks=link_ranks, complete_ranks=complete_ranks),
            distances=self._spliced(automaton.distances),
        )

    def _fits(self, automaton: TokenAutomaton) -> bool:
        num_states, num_edges = len(automaton.edges.links), len(automaton.edges.tokens)
        inside = ((self.edges, num_edges), (self.links, num_states), (self.ends, num_states), (self.states, num_states))
        return (
            all(not len(indices) or (indices.min() >= 0 and indices.max() < size) for indices, size in inside)
            and len(self.edges) == len(self.edge_ranks)
            and len(self.pair_start) == len(self.states) + 1
            and len(self.pair_tokens) == len(self.pair_ranks) == self.pair_start[-1]
            and bool(self.pair_start[0] == 0 and np.all(np.diff(self.pair_start) >= 0))
            and bool(np.all(np.diff(self.states) > 0))
        )

    def _spliced(self, base: Distances) -> Distances:
        """The list's pairs with those of some states replaced."""
        if not len(self.states):
            return base
        counts = np.diff(base.pair_start)
        is_kept = np.ones(len(counts), dtype=bool)
        is_kept[self.states] = False
        kept = np.repeat(is_kept, counts)
        counts[self.states] = np.diff(self.pair_start)
        is_own = np.repeat(~is_kept, counts)
        pair_start = np.zeros(len(counts) + 1, dtype=np.int32)
        np.cumsum(counts, out=pair_start[1:])

        def spliced(old: Int32Array, new: Int32Array) -> Int32Array:
            together = np.empty(len(is_own), dtype=np.int32)
            together[~is_own] = old[kept]
            together[is_own] = new
            return together

        return Distances(pair_start, spliced(base.num_tokens, self.pair_tokens), spliced(base.ranks, self.pair_ranks))

    def to_bytes(self) -> bytes:
        """The differences as a file."""
        metadata = {"format": _FORMAT_VERSION, "base_digest": self.base_digest, "entries": list(self.entries)}
        return write_tensors({name: getattr(self, name) for name in _ARRAYS}, metadata)

    @classmethod
    def from_bytes(cls, data: Any) -> Self:
        """The differences that ``to_bytes`` wrote, as views of ``data``.

        Raises:
            ArtefactError: These are not its bytes.
        """
        arrays, metadata = read_tensors(data)
        try:
            if metadata["format"] != _FORMAT_VERSION:
                raise ArtefactError(f"it has format {metadata['format']}, not {_FORMAT_VERSION}")
            own: dict[str, Array] = {name: arrays[name] for name in _ARRAYS}
            return cls(base_digest=metadata["base_digest"], entries=tuple(metadata["entries"]), **own)
        except (KeyError, TypeError) as error:
            raise ArtefactError(f"it holds no excluded words: {error}") from None


_ARRAYS: Final = ("edges", "edge_ranks", "links", "ends", "states", "pair_start", "pair_tokens", "pair_ranks")


def exclusion_digest(base_digest: str, entries: tuple[str, ...]) -> str:
    """The digest of a list's automaton without these entries, before it is made."""
    facts = [_FORMAT_VERSION, base_digest, sorted(entries)]
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()


def exclude(
    automaton: TokenAutomaton, entries: tuple[str, ...], tokenizer: TokenizerFacts, trie: TokenTrie
) -> Exclusion | None:
    """What changes when the list does not have these words, while the ranks of all others stay.

    Args:
        automaton: The compiled list.
        entries: Words of the list, with all that differ from them in capitals or the kind of apostrophe only.
        tokenizer: The tokenizer it was compiled for.
        trie: That of the tokenizer.

    Returns:
        The differences, exact; None where the list must be compiled without the words, because one of them is part
        of another entry or could be read as something else: it has a blank, a mark or an elision's apostrophe.

    Raises:
        ArtefactError: The list was compiled for another tokenizer.
    """
    if tokenizer.digest != automaton.tokenizer_digest:
        raise ArtefactError("the list was compiled for another tokenizer")
    language = language_of(automaton.words.lang)
    forms, joints = excluded_forms(entries, language), Joints.of(language)
    if not can_tell(forms, joints, numbers=automaton.options.numbers):
        return None
    watch = build_watch(forms, joints)
    if disturbs(watch, automaton.words.spelled, frozenset(entries)):
        return None
    gaps = build_gap_automaton(automaton.options, language)
    may_start = np.fromiter((state.word_may_start for state in gaps.states), dtype=np.uint8)
    # The states between words come first; the last of them is a place of its own, not a part of a mark.
    num_hubs = int(automaton.gap_states.max()) + 1
    try:
        findings = follow(watch, trie, automaton.edges, automaton.gap_states, may_start, num_hubs)
    except ValueError:
        return None
    return _differences(automaton, entries, findings, num_hubs)


def _differences(automaton: TokenAutomaton, entries: tuple[str, ...], findings: Findings, num_hubs: int) -> Exclusion:
    base = automaton.edges
    edges: TokenEdges = replace(
        base,
        ranks=np.where(findings.edges, NEVER, base.ranks),
        link_ranks=np.where(findings.links, NEVER, base.link_ranks),
        complete_ranks=np.where(findings.ends, NEVER, base.complete_ranks),
    )
    update = measure_again(edges, automaton.distances, findings.links | findings.ends, findings.edges, num_hubs)
    raised, edge_ranks = raised_edges(edges, update, findings.edges)
    pair_start, pair_tokens, pair_ranks = update.pairs()
    return Exclusion(
        base_digest=automaton.digest,
        entries=tuple(sorted(entries)),
        edges=raised,
        edge_ranks=edge_ranks,
        links=np.flatnonzero(findings.links).astype(np.int32),
        ends=np.flatnonzero(findings.ends).astype(np.int32),
        states=update.states,
        pair_start=pair_start,
        pair_tokens=pair_tokens,
        pair_ranks=pair_ranks,
    )
