"""The likeliest next words of a list after a text, by the model's own probabilities: exact for the words returned.

They are found best first: no word is likelier than the tokens that it begins with, so that where the words found are
likelier than all beginnings that were not looked at, none can be missing.

Where blanks part the words (``NextWordSearch``), the probability of a word is that of its tokens, times the share of
the next token that ends it: one that begins with no letter, digit, apostrophe or hyphen. So "cat" is not "cats",
"category" or "cat's". In texts without spaces (``NextSegmentSearch``) tokens end anywhere, inside of characters and of
later words. There the probability of a word is that of all tokens after which it is known to be the first one, for no
longer word of the dictionary begins with what was written. With ``segmentation: any`` only listed words make it longer.
Where the text ends in a word, that counts as whole.
"""

import heapq
import unicodedata
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any, Final, Generic, NamedTuple, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt
from typing_extensions import override

from vocab.arrays.kernels import Int32Array
from vocab.automaton.compiled_list import NEVER, Root, TrieArrays
from vocab.automaton.dictionary_trie import is_ascii_letter
from vocab.automaton.token_trie import bytes_of_part, split_chars
from vocab.marks import APOSTROPHES, BLANK
from vocab.matching.segmented.fields import N_WORDS
from vocab.matching.segmented.states import SegmentedStates
from vocab.matching.states import ListStates

Key = TypeVar("Key", str, int)
"""What words are told apart by: their text or their node."""

Reached = TypeVar("Reached")
"""Where the tokens of a prefix lead."""

Tokens: TypeAlias = tuple[int, ...]
Row: TypeAlias = npt.NDArray[np.float32]
Mask: TypeAlias = npt.NDArray[np.bool_]

_GOES_ON: Final = APOSTROPHES + "-"
"""A word may go on after them, as in "don't" and "well-known"."""

_FIRST_BYTES_OF_MARKS: Final = (0xC2, 0xE2, 0xF0)
"""With them begin the code points of U+0080 to U+00BF, U+2000 to U+2FFF (marks) and from U+10000 (emoji): what a token
begins with that has the first bytes of one only."""

_ROOT: Final = 0
_BLANK: Final = ord(BLANK)


class NextWord(NamedTuple):
    """A word as it is written there, and the log of its probability."""

    text: str
    log_p: float


class _BestFirst(ABC, Generic[Key, Reached]):
    """A search for the likeliest next words, best first, by the probabilities of token prefixes.

    Rows are asked for by ``prefixes`` and given by ``add`` until there is none to ask for.
    """

    def __init__(self, start: Reached | None, num_tokens: int, top: int, max_rows: int) -> None:
        self._num_tokens = num_tokens
        self._top, self._rows_left, self._most_open = top, max_rows, max_rows
        self._reached: dict[Tokens, tuple[float, Reached]] = {}
        self._open: list[tuple[float, Tokens]] = []
        self._found: dict[Key, float] = {}
        if start is not None:
            self._push((), 0.0, start)

    def prefixes(self, most: int) -> list[Tokens]:
        """Return the token prefixes whose rows are needed next, ``most`` at once; none at the end."""
        least = heapq.nlargest(self._top, self._found.values())[-1] if len(self._found) >= self._top else -np.inf
        chosen: list[Tokens] = []
        while self._open and len(chosen) < min(most, self._rows_left) and -self._open[0][0] > least:
            chosen.append(heapq.heappop(self._open)[1])
        self._rows_left -= len(chosen)
        return chosen

    def add(self, prefix: Tokens, row: Row) -> None:
        """Take a prefix's row, float32 (V,) log-probabilities: record words that end there, open longer prefixes."""
        log_p, reached = self._reached.pop(prefix)
        row = row[: self._num_tokens]
        words, longer = self._follow(prefix, reached, row)
        for word, share in words:
            if share > 0:
                self._found[word] = float(np.logaddexp(self._found.get(word, -np.inf), log_p + float(np.log(share))))
        for token, further in longer:
            self._push((*prefix, token), log_p + float(row[token]), further)

    @property
    def words(self) -> list[NextWord]:
        """Return the likeliest words found, best first: those that no other word can be likelier than."""
        bound = -self._open[0][0] if self._open else -np.inf
        likeliest = heapq.nsmallest(self._top, self._found.items(), key=lambda item: (-item[1], item[0]))
        return [NextWord(self._spell(word), log_p) for word, log_p in likeliest if log_p >= bound]

    def _push(self, prefix: Tokens, log_p: float, reached: Reached) -> None:
        self._reached[prefix] = log_p, reached
        heapq.heappush(self._open, (-log_p, prefix))

    @abstractmethod
    def _follow(
        self, prefix: Tokens, reached: Reached, row: Row
    ) -> tuple[Iterable[tuple[Key, float]], Iterable[tuple[int, Reached]]]:
        """Return the words that end after a prefix, each with the share of ``row`` that ends it, and the next tokens.

        Of the next tokens those that no search looks at may be missing: all but the ``_most_open`` likeliest.
        """

    @abstractmethod
    def _spell(self, word: Key) -> str: ...


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


class _InTrie(NamedTuple):
    """Where tokens stand in the trie: below which root, with which ranks."""

    root: Root
    mode: int
    node: int


class NextWordSearch(_BestFirst[str, list[_InTrie]]):
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
        self, states: ListStates, n_words: int, tokens: WordTokens, place: int | None, *, top: int, max_rows: int
    ) -> None:
        self._words, self._overlay, self._frame = states.words, states.overlay, states.frame
        self._n_words, self._tokens = n_words, tokens
        [start] = states.begin(place)
        super().__init__(self._starts_at(-1 - start) or None, len(tokens.token_bytes), top, max_rows)

    @override
    def _follow(
        self, prefix: Tokens, reached: list[_InTrie], row: Row
    ) -> tuple[Iterable[tuple[str, float]], Iterable[tuple[int, list[_InTrie]]]]:
        below: dict[int, list[_InTrie]] = defaultdict(list)
        barred = self._tokens.has_blank if prefix else self._tokens.has_blank_inside
        for at in reached:
            tokens, nodes = self._children(at)
            kept = ~barred[tokens]
            tokens, nodes = tokens[kept], nodes[kept]
            if len(tokens) > self._most_open:
                likeliest = np.argpartition(-row[tokens], self._most_open)[: self._most_open]
                tokens, nodes = tokens[likeliest], nodes[likeliest]
            for token, node in zip(tokens.tolist(), nodes.tolist(), strict=True):
                below[token].append(at._replace(node=node))
        return self._words_at(prefix, reached, row), below.items()

    @override
    def _spell(self, word: str) -> str:
        return word

    def _words_at(self, prefix: Tokens, reached: Iterable[_InTrie], row: Row) -> Iterator[tuple[str, float]]:
        """Yield the words that a prefix spells, with the probability that each ends there."""
        spelled = b"".join(self._tokens.token_bytes[token] for token in prefix)
        try:
            text = spelled.decode().removeprefix(BLANK)
        except UnicodeDecodeError:
            # Inside a character.
            return
        tails = {at.root.tail for at in reached if self._is_word(at)} if prefix else set()
        if not tails:
            return
        shares = np.exp(row.astype(np.float64))
        for tail in filter(None, tails):
            yield text + tail, shares[self._tokens.beginning_with(tail)].sum()
        if "" in tails and text:
            if unicodedata.category(text[-1])[0] not in "LMN":
                # A tail that the tokenizer draws into the word, as in "qu'": what follows is another word.
                yield text, 1.0
                return
            ends = self._tokens.ends
            for tail in filter(None, tails):
                # "Mr." is not "Mr".
                ends = ends & ~self._tokens.beginning_with(tail)
            yield text, shares[ends].sum()

    def _starts_at(self, frame_state: int) -> list[_InTrie]:
        """Return where words begin in the trie at a frame state, after a blank or nothing."""
        roots = list((self._words if self._overlay is None else self._overlay).roots.items())
        ways = [(*roots[way.root], way) for way in self._frame.ways[frame_state]]
        # Others begin after marks of an entry or of the text, and would be a mark and a word.
        starts = (
            _InTrie(root, int(self._frame.modes[way.context]), node)
            for root, node, way in ways
            if root.lead in ("", BLANK) and not root.head and not way.is_after_blank
        )
        return list(dict.fromkeys(starts))

    def _children(self, at: _InTrie) -> tuple[Int32Array, Int32Array]:
        """Return the tokens that continue a word towards one within N, and the nodes that they lead to."""
        trie: TrieArrays = self._words
        own = at.node
        if self._overlay is not None and own >= trie.num_nodes:
            trie, own = self._overlay, own - trie.num_nodes
        edges = slice(trie.edge_start[own], trie.edge_start[own + 1])
        tokens, nodes = trie.tokens[edges], trie.children[edges]
        is_listed = self._ranks("ranks_below", at.mode, nodes) <= self._n_words
        return tokens[is_listed], nodes[is_listed]

    def _is_word(self, at: _InTrie) -> bool:
        """Return whether a word within N ends there."""
        ranks = self._ranks("ranks", at.mode, np.asarray([at.node], np.int32))
        return bool(ranks[0] <= self._n_words)

    def _ranks(self, name: str, mode: int, nodes: Int32Array) -> Any:
        """Return the ranks of nodes of trie and overlay in a mode, from the array of this name."""
        num_base = self._words.num_nodes
        is_base = nodes < num_base
        # Of a list's own words, only the first bit of the mode counts.
        found = getattr(self._words, name)[mode & 1, np.where(is_base, nodes, 0)]
        if self._overlay is None or is_base.all():
            return found
        return np.where(is_base, found, getattr(self._overlay, name)[mode, np.where(is_base, 0, nodes - num_base)])


class _InDictionary(NamedTuple):
    """What tokens have written: a node of the dictionary, and the bytes of a character that is not whole."""

    node: int
    part: int = 0


class NextSegmentSearch(_BestFirst[int, _InDictionary]):
    """One search for the likeliest next words of a text without spaces.

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
        self._may_be_blank = True
        may_begin = bool(text.opens_words[text.gaps.start if place is None else place])
        start = _InDictionary(_ROOT) if may_begin else None
        super().__init__(start, len(self._tokens.starts) - 1, top, max_rows)

    @override
    def _follow(
        self, prefix: Tokens, reached: _InDictionary, row: Row
    ) -> tuple[Iterable[tuple[int, float]], Iterable[tuple[int, _InDictionary]]]:
        node, part = reached
        self._may_be_blank = not prefix
        shares = np.exp(row.astype(np.float64))
        longer: list[tuple[int, _InDictionary]] = []
        ended: dict[int, float] = defaultdict(float)
        for tokens, further, is_end in self._after_part(node, part) if part else self._after_char(node):
            if is_end:
                ended[further.node] += float(shares[tokens].sum())
            elif self._may_become_listed(further.node):
                longer += ((token, further) for token in tokens.tolist())
        if not part:
            # All others begin with another character, or with none.
            ended[node] += self._share_of_others(node, shares)
        if len(longer) > self._most_open:
            longer = heapq.nlargest(self._most_open, longer, key=lambda one: row[one[0]])
        words = ((self._word_at(at), share) for at, share in ended.items())
        return ((word, share) for word, share in words if word is not None), longer

    @override
    def _spell(self, word: int) -> str:
        return "".join(chr(self._trie.own_labels[node]) for node in self._trie.path_to(word))

    def _after_char(self, node: int) -> Iterator[tuple[Int32Array, _InDictionary, bool]]:
        """Yield tokens that go on from a node: how far they lead, and whether a word ends there within them."""
        trie = self._tokens
        for at in self._next_chars(node):
            child = self._child(node, int(trie.symbols[at]))
            yield from self._within(child, int(at))
        for at in trie.part_nodes.tolist():
            yield self._at(at), _InDictionary(node, -int(trie.symbols[at])), False

    def _within(self, node: int, at: int) -> Iterator[tuple[Int32Array, _InDictionary, bool]]:
        """Yield the tokens at and below a node of the token trie, whose characters lead to a node of the dictionary."""
        trie = self._tokens
        if trie.token_start[at] < trie.token_start[at + 1]:
            yield self._at(at), _InDictionary(node), False
        below = at + 1
        while below < trie.ends[at]:
            symbol = int(trie.symbols[below])
            if symbol < 0:
                yield self._at(below), _InDictionary(node, -symbol), False
            elif (child := self._child(node, symbol)) >= 0:
                yield from self._within(child, below)
            elif self._ends_before(node, symbol):
                yield self._at_and_below(below), _InDictionary(node), True
            below = int(trie.ends[below])

    def _after_part(self, node: int, part: int) -> Iterator[tuple[Int32Array, _InDictionary, bool]]:
        """Yield the tokens that go on within a character, as ``_after_char``."""
        for token, chars, rest in self._continuing(part):
            reached, is_end = node, False
            for char in chars:
                if (child := self._child(reached, char)) < 0:
                    is_end = True
                    break
                reached = child
            if not is_end or self._ends_before(reached, char):
                yield np.asarray([token], dtype=np.int32), _InDictionary(reached, 0 if is_end else rest), is_end

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
