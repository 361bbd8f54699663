"""The states of a text: a list's words and a frame, with N fixed.

A state is the set of a text's readings (``vocab.matching.masks``), nearly always one.

Single words of a list are found in its trie, to allow them or to ask for them one by one.
"""

from collections import OrderedDict
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from threading import Lock
from typing import Any, Final, Self, TypeAlias

import numpy as np
import numpy.typing as npt

from vocab.arrays.byte_trie import Int32Array, Uint8Array
from vocab.automaton.compiled_list import NEVER, CompiledList, TrieArrays
from vocab.automaton.frame import Frame, build_frame
from vocab.automaton.frame_tokens import FrameTokens
from vocab.automaton.overlay import Overlay, build_overlay
from vocab.automaton.tokenizer import Speller
from vocab.automaton.trie_builder import build_words
from vocab.lists.wordlists import WordList
from vocab.matching.mask_kernels import NEVER_ENDS, NO_BUDGET, distance, frame_state_of, is_complete
from vocab.matching.masks import ANY_WORDS, NO_TOKENS, Bound, RowTable
from vocab.options import ListOptions
from vocab.text.changes import NO_CHANGES, ListChanges, entries_left_out
from vocab.text.forms import case_of

_FAR: Final = 1 << 20


@dataclass(slots=True)
class ContextPaths:
    """The nodes on the ways to some words, in contexts of one mode where words of the same kinds may end.

    Attributes:
        children: By node, the tokens that lead on to one of these words, each with the node after it.
        ends: Where one of these words ends, and its rank.
        to_end: By node, how few tokens complete one of them.
    """

    children: dict[int, list[tuple[int, int]]] = field(default_factory=dict)
    ends: dict[int, int] = field(default_factory=dict)
    to_end: dict[int, int] = field(default_factory=dict)


class WordPaths:
    """Find words in a trie with its changes by their ranks, in the contexts where a text may go on after them.

    ``modes`` has the mode of each context, ``dead_ends`` is as of ``Bound``.
    """

    def __init__(
        self, words: CompiledList, overlay: Overlay | None, modes: Iterable[int], dead_ends: npt.NDArray[np.bool_]
    ) -> None:
        self._words, self._overlay = words, overlay
        kinds = [frozenset(np.flatnonzero(~one).tolist()) for one in dead_ends]
        self._contexts = [(int(mode), one) for mode, one in zip(modes, kinds, strict=True)]
        self._roots = frozenset((words if overlay is None else overlay).roots.values())
        num_added = 0 if overlay is None else overlay.num_nodes
        self._parents = np.full(words.num_nodes + num_added, -1, dtype=np.int32)
        self._tokens = np.full(words.num_nodes + num_added, -1, dtype=np.int32)
        # Those added last: a node of the trie below a changed one is reached from that.
        self._link(words, 0)
        if overlay is not None:
            self._link(overlay, words.num_nodes)

    def of(self, ranks: Collection[int]) -> tuple[ContextPaths, ...]:
        """Return the paths to all forms of the words of these ranks, by context."""
        ends = {mode: list(self._ends(ranks, mode)) for mode in {mode for mode, _ in self._contexts}}
        made = {context: self._of_ends(ends[context[0]], context[1]) for context in set(self._contexts)}
        return tuple(made[context] for context in self._contexts)

    def _link(self, trie: TrieArrays, first_node: int) -> None:
        """Record the parent of each child in a trie, and the token between them."""
        owners = np.repeat(np.arange(trie.num_nodes, dtype=np.int32), np.diff(trie.edge_start))
        self._parents[trie.children] = owners + np.int32(first_node)
        self._tokens[trie.children] = trie.tokens

    def _of_ends(self, ends: Iterable[tuple[int, int, int]], kinds: Collection[int]) -> ContextPaths:
        """Return the paths to the words of these kinds among those that end at some nodes."""
        found = ContextPaths()
        for node, rank, kind in ends:
            if kind not in kinds:
                continue
            path = [node]
            while (parent := int(self._parents[path[-1]])) >= 0:
                path.append(parent)
            if path[-1] not in self._roots:
                # The changes have put another node in its place.
                continue
            found.ends[node] = rank
            for num_tokens, one in enumerate(path):
                found.to_end[one] = min(found.to_end.get(one, _FAR), num_tokens)
            for child, parent in pairwise(path):
                edge = int(self._tokens[child]), child
                edges = found.children.setdefault(parent, [])
                if edge not in edges:
                    edges.append(edge)
        return found

    def _ends(self, ranks: Collection[int], mode: int) -> Iterator[tuple[int, int, int]]:
        """Yield the nodes where words of these ranks end, in one mode, each with its rank and kind."""
        wanted = np.asarray(sorted(ranks), dtype=np.int32)
        parts: list[tuple[Int32Array, Uint8Array, int]] = [(self._words.ranks[mode & 1], self._words.kinds, 0)]
        if self._overlay is not None:
            parts.append((self._overlay.ranks[mode], self._overlay.kinds, self._words.num_nodes))
        for of_nodes, kinds, first_node in parts:
            places = [np.flatnonzero(of_nodes == rank) for rank in wanted]
            for node in np.concatenate(places) if places else ():
                yield int(node) + first_node, int(of_nodes[node]), int(kinds[node])


State: TypeAlias = tuple[int, ...]
"""Readings, ascending; empty where no text begins so."""

MAX_READINGS: Final = 64
"""More are dropped, which forbids texts and allows none."""

_NODE: Final = 0xFFFFFFFF
"""Of a reading within a word, the bits of its node."""

MAX_VARIANTS: Final = 16
"""Kept by the states of one list; each takes 2 MB for 50,000 words and some milliseconds to make."""

MAX_ROW_BYTES: Final = 64 * 1024 * 1024
"""Of one list, set of options and N, besides rows in use: two thousand rows of 262,144 tokens."""


class ListStates:
    """The states for one list, changes, set of options and N. Thread-safe.

    ``n_words`` may be beyond the list; ``opens`` and ``ends`` are as of ``vocab.matching.masks.Bound``. All states of
    one list, changes and options are numbered alike.
    """

    start: Final[State] = (-1,)

    def __init__(
        self,
        words: CompiledList,
        frame: Frame,
        n_words: int,
        overlay: Overlay | None = None,
        *,
        opens: int = ANY_WORDS,
        ends: "ListStates | None" = None,
    ) -> None:
        self.words, self.frame, self.overlay, self.n_words = words, frame, overlay, n_words
        self._opens = opens
        self._bound: Bound = Bound(words, frame, n_words, overlay, opens, None if ends is None else ends._bound)
        self._variants: OrderedDict[Any, ListStates] = OrderedDict()
        self._plain = RowTable(self._bound, self._bound.plain_budget, frame.num_states)
        # By budget. Not one of cachetools, which measure an entry when it is put in: these grow while they are used.
        self._tables: OrderedDict[int, RowTable] = OrderedDict()
        self._lock, self._variants_lock = Lock(), Lock()

    @classmethod
    def of(
        cls,
        word_list: WordList,
        options: ListOptions,
        speller: Speller,
        n_words: int,
        changes: ListChanges = NO_CHANGES,
        *,
        has_places: bool = False,
    ) -> Self:
        """Build trie, overlay, frame and states in memory; ``exclude_words`` are as a request has them.

        Raises:
            EmptyWordListError, CompileError: As ``build_words``.
        """
        words = build_words(word_list, speller)
        overlay = None
        if changes:
            left_out = entries_left_out(words.listed.word_list, changes.exclude_words)
            overlay = build_overlay(words, replace(changes, exclude_words=left_out), speller)
        frame = frame_for(words, overlay, options, FrameTokens.of(speller.facts), has_places=has_places)
        return cls(words, frame, n_words, overlay)

    @property
    def num_bytes(self) -> int:
        """Return the bytes of its own arrays, of the rows made so far, and of its variants."""
        variants = sum(variant.num_bytes for variant in list(self._variants.values()))
        return self._bound.num_bytes + self._row_bytes() + variants

    @cached_property
    def paths(self) -> WordPaths:
        """Return the paths in the trie, to find single words by their ranks."""
        return WordPaths(self.words, self.overlay, self.frame.modes, self._bound.dead_ends())

    @property
    def longest_end(self) -> int:
        """Return how many tokens a text has at most after a word, if it ends as soon as it may."""
        return self._bound.longest_end

    def variant(self, n_words: int, opens: int = ANY_WORDS, ends: "ListStates | None" = None) -> "ListStates":
        """Return the states for another N and other words that may begin, cached; arguments as of ``ListStates``."""
        if (n_words, opens, ends) == (self.n_words, self._opens, None):
            return self
        key = n_words, opens, None if ends is None else (ends.n_words, ends._opens)
        with self._variants_lock:
            if key not in self._variants:
                self._variants[key] = ListStates(self.words, self.frame, n_words, self.overlay, opens=opens, ends=ends)
                if len(self._variants) > MAX_VARIANTS:
                    self._variants.popitem(last=False)
            self._variants.move_to_end(key)
            return self._variants[key]

    def fill(
        self,
        out: Int32Array,
        state: State,
        budget: int,
        stops: Int32Array = NO_TOKENS,
        inside: "ListStates | None" = None,
    ) -> None:
        """Write the mask of a state: the tokens that may come next.

        Args:
            out: int32 (words,), the mask; words past the tokenizer's vocabulary are cleared.
            state: The state.
            budget: How many tokens may follow the next one, or ``NO_BUDGET``.
            stops: int32, tokens allowed only where the text is complete.
            inside: How the word in which the text ends goes on, and where it ends; None where these say it.
        """
        rows, word = self._rows(budget), None if inside is None else inside._rows(budget)
        if len(state) == 1:
            rows.fill(out, state[0], stops, word)
        else:
            rows.fill_many(out, state, stops, word)

    def target(self, state: State, token: int, budget: int, inside: "ListStates | None" = None) -> State:
        """Return the state that a token leads to, empty where it is not allowed; arguments as of ``fill``."""
        rows, word = self._rows(budget), None if inside is None else inside._rows(budget)
        found = np.empty(MAX_READINGS, dtype=np.int64)
        if len(state) == 1 and (num := rows.step(found, state[0], token, word)) < 2:
            return (int(found[0]),) if num else ()
        readings: set[int] = set()
        for reading in state:
            readings.update(found[: rows.step(found, reading, token, word)].tolist())
        return tuple(sorted(readings)[:MAX_READINGS])

    def can_stop(self, state: State) -> bool:
        """Return whether a text is complete in this state, so that it may end."""
        return any(is_complete(self._bound.table, reading) for reading in state)

    may_stop = can_stop
    """As ``ControlledStates.may_stop``: nobody asks more."""

    def is_in_word(self, state: State) -> bool:
        """Return whether the text ends in a word, which may be whole."""
        return any(reading >= 0 for reading in state)

    def continues_word(self, state: State, token: int, target: State) -> bool:
        """Return whether a token that leads from a state to ``target`` goes on with the word in which the text ends."""
        children = {self._bound.child(reading & _NODE, token) for reading in state if reading >= 0}
        return any(reading & _NODE in children for reading in target if reading >= 0)

    def frame_state(self, reading: int) -> int:
        """Return the frame state of a reading: its own, or the one after the word that ends there; -1 for none."""
        return int(frame_state_of(self._bound.table, reading))

    def gap_after(self, reading: int) -> int | None:
        """Return the reading after the word of one: itself between words; None where the word is not whole."""
        frame_state = self.frame_state(reading)
        return None if frame_state < 0 else -1 - frame_state

    def ends_word(self, reading: int) -> bool:
        """Return whether a reading is a whole word, after which the text may go on between words."""
        return reading >= 0 and self.frame_state(reading) >= 0

    def ways(self, reading: int) -> Iterator[tuple[int, int]]:
        """Yield the nodes where words begin after a reading, each with its context."""
        frame_state = frame_state_of(self._bound.table, reading)
        return self._bound.ways(frame_state) if frame_state >= 0 else iter(())

    def child(self, node: int, token: int) -> int:
        """Return the trie node that a token leads to from a node within a word; -1 for none."""
        return self._bound.child(node, token)

    def children(self, node: int) -> list[int]:
        """Return the child nodes of a node of the trie or overlay, whatever N."""
        num_base = self.words.num_nodes
        trie: TrieArrays = self.words if self.overlay is None or node < num_base else self.overlay
        own = node if trie is self.words else node - num_base
        found: list[int] = trie.children[trie.edge_start[own] : trie.edge_start[own + 1]].tolist()
        return found

    def rank(self, context: int, node: int) -> int:
        """Return the rank of the word that ends at a node; ``NEVER`` where none does."""
        mode, num_base = int(self.frame.modes[context]), self.words.num_nodes
        if node < num_base:
            return int(self.words.ranks[mode & 1, node])
        return int(self.overlay.ranks[mode, node - num_base]) if self.overlay is not None else int(NEVER)

    def is_bound_by(self, budget: int) -> bool:
        """Return whether a budget, as in ``fill``, is so short that it may change a mask."""
        return budget != NO_BUDGET and budget < self._bound.longest_distance

    def fewest_tokens(self) -> int | None:
        """Return how many tokens the shortest text has; None where there is no text."""
        return self.tokens_to_end(self.start)

    def tokens_to_end(self, state: State) -> int | None:
        """Return how few tokens complete a text from a state; None where none do."""
        fewest = min(distance(self._bound.table, reading) for reading in state)
        return None if fewest >= NEVER_ENDS else int(fewest)

    def begin(self, place: int | None) -> State:
        """Return the state after a prefill that left the gap automaton at ``place``; None for a text's start.

        Raises:
            ValueError: There is none: the frame has no places, or not this one.
        """
        if place is None:
            return self.start
        if not 0 <= place < len(self.frame.places):
            raise ValueError(f"no text of this list begins at place {place}")
        return (-1 - int(self.frame.places[place]),)

    def check(self, state: State) -> None:
        """Raise ``ValueError`` where a state cannot be one of these: compiled code does not check bounds."""
        num_nodes = self.words.num_nodes + (0 if self.overlay is None else self.overlay.num_nodes)
        for reading in state:
            if not (
                -self.frame.num_states <= reading < 0
                or (reading >= 0 and reading >> 32 < len(self.frame.modes) and reading & 0xFFFFFFFF < num_nodes)
            ):
                raise ValueError(f"there is no reading {reading} in this list")

    def _rows(self, budget: int) -> RowTable:
        """Return the row table of a budget: the plain one where it changes no mask, else one of its own, cached."""
        if not self.is_bound_by(budget):
            return self._plain
        rows = self._tables.get(budget)
        if rows is not None:
            return rows
        with self._lock:
            rows = self._tables.setdefault(budget, RowTable(self._bound, budget, self.frame.num_states))
            # Tables grow while they are used, so the bound is enforced when the next one is asked for.
            while self._row_bytes() > MAX_ROW_BYTES and len(self._tables) > 1:
                self._tables.popitem(last=False)
            return rows

    def _row_bytes(self) -> int:
        return self._plain.num_bytes + sum(table.num_bytes for table in list(self._tables.values()))


def frame_for(
    words: CompiledList,
    overlay: Overlay | None,
    options: ListOptions,
    tokens: FrameTokens,
    *,
    has_places: bool = False,
    in_json: bool = False,
) -> Frame:
    """Build the frame of a list with its changes; with places for texts after others, or for JSON strings, if asked."""
    roots = tuple((words if overlay is None else overlay).roots)
    case = case_of(options, has_capitals=words.has_capitals)
    return build_frame(options, case, words.language, roots, tokens, has_places=has_places, in_json=in_json)
