"""The likeliest next words of a list after a text without spaces, by the model's own probabilities.

Tokens end anywhere there: inside of characters and of later words. So the probability of a word is that of all tokens
after which it is known to be the first one, for no longer word of the dictionary begins with what was written. With
``segmentation: any`` only listed words make it longer. Where the text ends in a word, that counts as whole.
"""

import heapq
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Final, NamedTuple

import numpy as np

from vocab.arrays.byte_trie import Int32Array
from vocab.automaton.compiled_list import NEVER
from vocab.automaton.dictionary_trie import is_ascii_letter
from vocab.automaton.token_trie import bytes_of_part, split_chars
from vocab.decoding.next_words import BestFirstSearch, NextWord, Row, Tokens
from vocab.marks import BLANK
from vocab.matching.segmented.fields import N_WORDS
from vocab.matching.segmented.states import SegmentedStates

_ROOT: Final = 0
_BLANK: Final = ord(BLANK)


class _Reached(NamedTuple):
    """What tokens have written: a node of the dictionary, and the bytes of a character that is not whole."""

    node: int
    part: int = 0


class NextSegmentSearch(BestFirstSearch[int]):
    """One search for the likeliest next words.

    Args:
        states: Of the list's first words.
        place: The state of the gap automaton after the text, None for the beginning of one.
        top: How many words.
        max_rows: At most so many rows are asked for. Where that ends the search, there may be fewer words, and what
            was not looked at is missing in their probabilities.
    """

    def __init__(self, states: SegmentedStates, place: int | None, *, top: int, max_rows: int) -> None:
        text = states.text
        self._trie, self._tokens, self._is_any = text.trie, text.tokens, text.is_any
        self._n_words = int(states.table[N_WORDS])
        self._continuing = lru_cache(maxsize=64)(self._continuations)
        super().__init__(top, max_rows, may_begin=bool(text.opens_words[text.gaps.start if place is None else place]))
        self._reached: dict[Tokens, _Reached] = {(): _Reached(_ROOT)}
        self._may_be_blank = True

    def add(self, prefix: Tokens, row: Row) -> None:
        """Take a prefix's row, float32 (V,) log-probabilities: record words that end there, open longer prefixes."""
        log_p, (node, part) = self._log_p.pop(prefix), self._reached.pop(prefix)
        self._may_be_blank = not prefix
        row = row[: len(self._tokens.starts) - 1]
        shares = np.exp(row.astype(np.float64))
        longer: list[tuple[int, _Reached]] = []
        ended: dict[int, float] = {}
        for tokens, reached, is_end in self._after_part(node, part) if part else self._after_char(node):
            if is_end:
                ended[reached.node] = ended.get(reached.node, 0.0) + float(shares[tokens].sum())
            elif self._may_become_listed(reached.node):
                longer += ((token, reached) for token in tokens.tolist())
        if not part:
            # All others begin with another character, or with none.
            ended[node] = ended.get(node, 0.0) + self._share_of_others(node, shares)
        for at, share in ended.items():
            word = self._word_at(at)
            if word is not None:
                self._add_word(word, log_p, share)
        if len(longer) > self._most_open:
            # No search looks at more.
            longer = heapq.nlargest(self._most_open, longer, key=lambda one: row[one[0]])
        for token, reached in longer:
            self._reached[*prefix, token] = reached
            self._push((*prefix, token), log_p + float(row[token]))

    @property
    def words(self) -> list[NextWord]:
        """Return the likeliest words found, best first: those that no other word can be likelier than."""
        likeliest = heapq.nlargest(self._top, self._found.items(), key=lambda item: item[1])
        return [NextWord(self._spelled(node), log_p) for node, log_p in likeliest if log_p >= self._bound()]

    def _after_char(self, node: int) -> Iterator[tuple[Int32Array, _Reached, bool]]:
        """Yield tokens that go on from a node: how far they lead, and whether a word ends there within them."""
        trie = self._tokens
        for at in self._next_chars(node):
            child = self._child(node, int(trie.symbols[at]))
            yield from self._within(child, int(at))
        for at in trie.part_nodes.tolist():
            yield self._at(at), _Reached(node, -int(trie.symbols[at])), False

    def _within(self, node: int, at: int) -> Iterator[tuple[Int32Array, _Reached, bool]]:
        """Yield the tokens at and below a node of the token trie, whose characters lead to a node of the dictionary."""
        trie = self._tokens
        if trie.token_start[at] < trie.token_start[at + 1]:
            yield self._at(at), _Reached(node), False
        below = at + 1
        while below < trie.ends[at]:
            symbol = int(trie.symbols[below])
            if symbol < 0:
                yield self._at(below), _Reached(node, -symbol), False
            elif (child := self._child(node, symbol)) >= 0:
                yield from self._within(child, below)
            elif self._ends_before(node, symbol):
                yield self._at_and_below(below), _Reached(node), True
            below = int(trie.ends[below])

    def _after_part(self, node: int, part: int) -> Iterator[tuple[Int32Array, _Reached, bool]]:
        """Yield the tokens that go on within a character, as ``_after_char``."""
        for token, chars, rest in self._continuing(part):
            reached, is_end = node, False
            for char in chars:
                if (child := self._child(reached, char)) < 0:
                    is_end = True
                    break
                reached = child
            if not is_end or self._ends_before(reached, char):
                yield np.asarray([token], dtype=np.int32), _Reached(reached, 0 if is_end else rest), is_end

    def _continuations(self, part: int) -> tuple[tuple[int, tuple[int, ...], int], ...]:
        """Return the tokens that go on after some bytes of a character: each with characters, and bytes of the next."""
        data, starts = self._tokens.data, self._tokens.starts
        found = []
        for token in self._tokens.continuing.tolist():
            split = split_chars(bytes_of_part(part) + data[starts[token] : starts[token + 1]].tobytes())
            if split is not None:
                found.append((token, *split))
        return tuple(found)

    def _share_of_others(self, node: int, shares: np.ndarray[tuple[int], np.dtype[np.float64]]) -> float:
        """Return the probability of tokens that begin with a character that no word goes on with, or with none."""
        trie = self._tokens
        goes_on = [*self._next_chars(node), *trie.part_nodes.tolist()]
        if is_ascii_letter(int(self._trie.own_labels[node])):
            is_letter = [is_ascii_letter(char) for char in trie.chars.tolist()]
            goes_on = list({*goes_on, *trie.char_nodes[is_letter].tolist()})
        taken = sum(float(shares[self._at_and_below(at)].sum()) for at in goes_on)
        return max(float(shares.sum()) - taken - float(shares[trie.continuing].sum()), 0.0)

    def _next_chars(self, node: int) -> Iterable[int]:
        """Return the nodes of the token trie with the characters that go on from a node of the dictionary."""
        edges = slice(self._trie.edge_start[node], self._trie.edge_start[node + 1])
        labels = self._trie.labels[edges]
        if self._is_any:
            labels = labels[self._trie.below[self._trie.children[edges]] <= self._n_words]
        if node == _ROOT and self._may_be_blank:
            labels = np.append(labels, np.int32(_BLANK))
        found = self._tokens.nodes_of(labels)
        return [at for at in found.tolist() if at]

    def _child(self, node: int, char: int) -> int:
        """Return the node that a character leads to; -1 for none. The first token may begin with a blank."""
        if node == _ROOT and char == _BLANK and self._may_be_blank:
            return _ROOT
        child = self._trie.child(node, char)
        return -1 if self._is_any and child >= 0 and self._trie.below[child] > self._n_words else child

    def _at(self, at: int) -> Int32Array:
        """Return the tokens at a node of the token trie."""
        return self._tokens.tokens[self._tokens.token_start[at] : self._tokens.token_start[at + 1]]

    def _at_and_below(self, at: int) -> Int32Array:
        starts = self._tokens.token_start
        return self._tokens.tokens[starts[at] : starts[self._tokens.ends[at]]]

    def _ends_before(self, node: int, char: int) -> bool:
        """Return whether a word may end between a node's character and another."""
        return not (is_ascii_letter(int(self._trie.own_labels[node])) and is_ascii_letter(char))

    def _word_at(self, node: int) -> int | None:
        """Return the node of the longest word that what leads to a node begins with; None where it is not listed."""
        ranks = self._trie.ranks
        while node > 0 and (ranks[node] == NEVER or (self._is_any and ranks[node] > self._n_words)):
            node = int(self._trie.parents[node])
        return node if node > 0 and ranks[node] <= self._n_words else None

    def _may_become_listed(self, node: int) -> bool:
        return bool(self._trie.below[node] <= self._n_words) or self._word_at(node) is not None

    def _spelled(self, node: int) -> str:
        return "".join(chr(self._trie.own_labels[one]) for one in self._trie.path_to(node))
