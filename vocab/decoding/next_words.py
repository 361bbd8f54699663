"""The likeliest next words of a list after a text, by the model's own probabilities: exact for the words returned.

The probability of a word is that of its tokens, times the share of the next token that ends it: one that begins with
no letter, digit, apostrophe or hyphen. So "cat" is not "cats", "category" or "cat's". Words are found best first in
the trie: no word is likelier than the tokens that it begins with, so that where the words found are likelier than all
beginnings that were not looked at, none can be missing.
"""

import heapq
import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any, Final, Generic, NamedTuple, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from vocab.arrays.byte_trie import Int32Array
from vocab.automaton.compiled_list import Root, TrieArrays
from vocab.marks import APOSTROPHES, BLANK
from vocab.matching.states import ListStates

Key = TypeVar("Key")
"""What words are told apart by: their text or their node."""

Tokens: TypeAlias = tuple[int, ...]
Row: TypeAlias = npt.NDArray[np.float32]
Mask: TypeAlias = npt.NDArray[np.bool_]

_GOES_ON: Final = APOSTROPHES + "-"
"""A word may go on after them, as in "don't" and "well-known"."""

_FIRST_BYTES_OF_MARKS: Final = (0xC2, 0xE2, 0xF0)
"""With them begin the code points of U+0080 to U+00BF, U+2000 to U+2FFF (marks) and from U+10000 (emoji): what a token
begins with that has the first bytes of one only."""


class NextWord(NamedTuple):
    """A word as it is written there, and the log of its probability."""

    text: str
    log_p: float


class _Reading(NamedTuple):
    """Where tokens stand in the trie: below which root, with which ranks."""

    root: Root
    mode: int
    node: int


class WordTokens:
    """Which tokens of a tokenizer end a word, and which have a blank inside; made once for each."""

    def __init__(self, token_bytes: Sequence[bytes]) -> None:
        self.token_bytes = token_bytes
        self.ends = np.fromiter(map(ends_word, token_bytes), np.bool_, len(token_bytes))
        blank = BLANK.encode()
        self.has_blank = np.fromiter((blank in token for token in token_bytes), np.bool_, len(token_bytes))
        self.has_blank_inside = np.fromiter((blank in token[1:] for token in token_bytes), np.bool_, len(token_bytes))
        self._beginning: dict[str, Mask] = {}

    def beginning_with(self, text: str) -> Mask:
        """Return the tokens that begin with a text, bool (tokens,); cached."""
        if text not in self._beginning:
            spelled = text.encode()
            begins = (token.startswith(spelled) for token in self.token_bytes)
            self._beginning[text] = np.fromiter(begins, np.bool_, len(self.token_bytes))
        return self._beginning[text]


def ends_word(token: bytes) -> bool:
    """Return whether a token, coming next, ends the word before it; tokens without a text do."""
    if not token:
        return True
    # The first character has four bytes at most, and may break off.
    first = token[:4].decode("utf-8", "ignore")[:1]
    if not first or not token.startswith(first.encode()):
        return token[0] in _FIRST_BYTES_OF_MARKS
    return first not in _GOES_ON and unicodedata.category(first)[0] not in "LMN"


class BestFirstSearch(Generic[Key]):
    """A search for the likeliest next words, best first, by the probabilities of token prefixes.

    Rows are asked for by ``prefixes`` and given by ``add`` until there is none to ask for.

    Args:
        top: How many words.
        max_rows: At most so many rows are asked for.
        may_begin: Whether a word may begin at all.
    """

    def __init__(self, top: int, max_rows: int, *, may_begin: bool) -> None:
        self._top, self._rows_left, self._most_open = top, max_rows, max_rows
        self._log_p: dict[Tokens, float] = {(): 0.0}
        self._open: list[tuple[float, Tokens]] = [(0.0, ())] if may_begin else []
        self._found: dict[Key, float] = {}

    def prefixes(self, most: int) -> list[Tokens]:
        """Return the token prefixes whose rows are needed next, ``most`` at once; none at the end."""
        least = heapq.nlargest(self._top, self._found.values())[-1] if len(self._found) >= self._top else -np.inf
        chosen: list[Tokens] = []
        while self._open and len(chosen) < min(most, self._rows_left) and -self._open[0][0] > least:
            chosen.append(heapq.heappop(self._open)[1])
        self._rows_left -= len(chosen)
        return chosen

    def _bound(self) -> float:
        """Return the log of the most that a word can have which was not found yet."""
        return -self._open[0][0] if self._open else -np.inf

    def _push(self, prefix: Tokens, log_p: float) -> None:
        """Open a prefix, to be looked at in its turn."""
        self._log_p[prefix] = log_p
        heapq.heappush(self._open, (-log_p, prefix))

    def _add_word(self, word: Key, log_p: float, share: float) -> None:
        """Record a word that ends here, or add to its probability; ``share`` is the probability that it ends."""
        if share > 0:
            self._found[word] = float(np.logaddexp(self._found.get(word, -np.inf), log_p + float(np.log(share))))


class NextWordSearch(BestFirstSearch[str]):
    """One search for the likeliest next words of a list.

    Entries of several words, and those that begin with a mark, are not found: of the former the first word is, where it
    is listed itself.

    Args:
        states: Of the list's first ``n_words`` words.
        tokens: Of its tokenizer.
        place: The state of the gap automaton after the text, None for the beginning of one.
        top: How many words.
        max_rows: At most so many rows are asked for. Where that ends the search, there may be fewer words; those found
            are the likeliest all the same.
    """

    def __init__(
        self,
        states: ListStates,
        n_words: int,
        tokens: WordTokens,
        place: int | None,
        *,
        top: int,
        max_rows: int,
    ) -> None:
        self._tries = _Tries(states, n_words)
        self._tokens = tokens
        [start] = states.begin(place)
        # By the tokens, where they stand.
        self._readings: dict[Tokens, list[_Reading]] = {(): self._tries.readings_at(-1 - start)}
        super().__init__(top, max_rows, may_begin=bool(self._readings[()]))

    def add(self, prefix: Tokens, row: Row) -> None:
        """Take a prefix's row, float32 (V,) log-probabilities: record words that end there, open longer prefixes."""
        log_p, readings = self._log_p.pop(prefix), self._readings.pop(prefix)
        row = row[: len(self._tokens.token_bytes)]
        if prefix:
            self._add_words(prefix, log_p, readings, row)
        below: dict[int, list[_Reading]] = defaultdict(list)
        barred = self._tokens.has_blank if prefix else self._tokens.has_blank_inside
        for reading in readings:
            tokens, nodes = self._tries.children(reading)
            kept = ~barred[tokens]
            tokens, nodes = tokens[kept], nodes[kept]
            if len(tokens) > self._most_open:
                # No search looks at more.
                likeliest = np.argpartition(-row[tokens], self._most_open)[: self._most_open]
                tokens, nodes = tokens[likeliest], nodes[likeliest]
            for token, node in zip(tokens.tolist(), nodes.tolist(), strict=True):
                below[token].append(reading._replace(node=node))
        for token, following in below.items():
            self._readings[*prefix, token] = following
            self._push((*prefix, token), log_p + float(row[token]))

    @property
    def words(self) -> list[NextWord]:
        """Return the likeliest words found, best first: those that no other word can be likelier than."""
        likeliest = heapq.nsmallest(self._top, self._found.items(), key=lambda item: (-item[1], item[0]))
        return [NextWord(text, log_p) for text, log_p in likeliest if log_p >= self._bound()]

    def _add_words(self, prefix: Tokens, log_p: float, readings: Iterable[_Reading], row: Row) -> None:
        """Record the words that end after a prefix, with their probabilities."""
        spelled = b"".join(self._tokens.token_bytes[token] for token in prefix)
        try:
            text = spelled.decode().removeprefix(BLANK)
        except UnicodeDecodeError:
            # Inside a character.
            return
        ending = [reading for reading in readings if self._tries.is_word(reading)]
        tails = {reading.root.tail for reading in ending}
        if not tails:
            return
        shares = np.exp(row.astype(np.float64))
        for tail in filter(None, tails):
            self._add_word(text + tail, log_p, shares[self._tokens.beginning_with(tail)].sum())
        if "" in tails and text:
            if unicodedata.category(text[-1])[0] not in "LMN":
                # A tail that the tokenizer draws into the word, as in "qu'": what follows is another word.
                self._add_word(text, log_p, 1.0)
                return
            ends = self._tokens.ends
            for tail in filter(None, tails):
                # "Mr." is not "Mr".
                ends = ends & ~self._tokens.beginning_with(tail)
            self._add_word(text, log_p, shares[ends].sum())


class _Tries:
    """The words of ``states``, with the words added and left out, node by node."""

    def __init__(self, states: ListStates, n_words: int) -> None:
        self._words, self._overlay, self._frame = states.words, states.overlay, states.frame
        self._n_words = n_words

    def readings_at(self, frame_state: int) -> list[_Reading]:
        """Return where words begin in the trie at a frame state, after a blank or nothing."""
        roots = list((self._words if self._overlay is None else self._overlay).roots.items())
        ways = [(*roots[way.root], way) for way in self._frame.ways[frame_state]]
        # Others begin after marks of an entry or of the text, and would be a mark and a word.
        readings = (
            _Reading(root, int(self._frame.modes[way.context]), node)
            for root, node, way in ways
            if root.lead in ("", BLANK) and not root.head and not way.is_after_blank
        )
        return list(dict.fromkeys(readings))

    def children(self, reading: _Reading) -> tuple[Int32Array, Int32Array]:
        """Return the tokens that continue a word towards one within N, and the nodes that they lead to."""
        trie, own = self._at(reading.node)
        edges = slice(trie.edge_start[own], trie.edge_start[own + 1])
        tokens, nodes = trie.tokens[edges], trie.children[edges]
        is_listed = self._ranks("ranks_below", reading.mode, nodes) <= self._n_words
        return tokens[is_listed], nodes[is_listed]

    def is_word(self, reading: _Reading) -> bool:
        """Return whether a word within N ends at a reading."""
        ranks = self._ranks("ranks", reading.mode, np.asarray([reading.node], np.int32))
        return bool(ranks[0] <= self._n_words)

    def _at(self, node: int) -> tuple[TrieArrays, int]:
        """Return the trie or overlay that has a node, and the node's index in it."""
        num_base = self._words.num_nodes
        return (self._words, node) if self._overlay is None or node < num_base else (self._overlay, node - num_base)

    def _ranks(self, name: str, mode: int, nodes: Int32Array) -> Any:
        """Return the ranks of nodes of trie and overlay in a mode, from the array of this name."""
        num_base = self._words.num_nodes
        is_base = nodes < num_base
        # Of a list's own words, only the first bit of the mode counts.
        found = getattr(self._words, name)[mode & 1, np.where(is_base, nodes, 0)]
        if self._overlay is None or is_base.all():
            return found
        return np.where(is_base, found, getattr(self._overlay, name)[mode, np.where(is_base, 0, nodes - num_base)])
