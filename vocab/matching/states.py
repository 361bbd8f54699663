"""The states of a text: a list's words and a frame, with N fixed.

A state is the set of a text's readings (``vocab.matching.mask_kernels``), ascending, nearly always one.

The rows of frame states are made once per N (and per budget, near the end of one); a mask within a word is a copy of
the row of the frame state after it, if it may end there, with the word's few own tokens added.
"""

from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property
from threading import Lock
from typing import Any, Final, Self

import numpy as np
import numpy.typing as npt
from cachetools import LRUCache
from typing_extensions import override

from vocab.arrays.kernels import Int32Array, Uint8Array, address_of, position_of
from vocab.automaton.compiled_list import NUM_KINDS, CompiledList, TrieArrays
from vocab.automaton.frame import NUM_MODES, SENTENCE, Frame, frame_for
from vocab.automaton.frame_tokens import FrameTokens
from vocab.automaton.overlay import Overlay, build_overlay
from vocab.automaton.tokenizer import Speller
from vocab.automaton.trie_builder import build_words
from vocab.lists.wordlists import WordList
from vocab.matching.mask_kernels import (
    FAR,
    NEVER_ENDS,
    NO_BUDGET,
    TRIE_ARRAYS,
    ListRecord,
    MaskRows,
    add_whole_words,
    distance,
    frame_state_of,
    make_row,
    measure_frame,
    measure_words,
    set_token_bits,
    step,
    trie_records,
)
from vocab.matching.paths import WordPaths
from vocab.matching.text_states import NO_TOKENS, State, TextStates
from vocab.options import ListOptions
from vocab.text.changes import NO_CHANGES, ListChanges, entries_left_out

CONTINUING, STARTING = 1, 2
"""Which words may begin between words: those that go on with a sentence, and those that start one."""
ANY_WORDS: Final = CONTINUING | STARTING

MAX_READINGS: Final = 64
"""More are dropped, which forbids texts and allows none."""

NODE: Final = 0xFFFFFFFF
"""Of a reading within a word, the bits of its node; its context is in those above."""

MAX_VIEWS: Final = 16
"""Kept by the states of one list; each takes up to 2 MB for 50,000 words and some milliseconds to make."""

MAX_ROW_BYTES: Final = 64 * 1024 * 1024
"""Of one list, set of options and N, besides rows in use: two thousand rows of 262,144 tokens."""


class ListStates(TextStates):
    """The states for one list, changes, set of options and N. Thread-safe.

    All states of one list, changes and options are numbered alike.

    Args:
        words: The list.
        frame: What stands between its words.
        n_words: N; may be beyond the list.
        overlay: The changes.
        may_begin: Which words may begin between words, of ``CONTINUING`` and ``STARTING``.
        ends: States of fewer words, whose distances to the end of a text hold here too: a text of more words can then
            go on with those alone. None where they are measured.
        like: States of the same N, whose distances to the end of a word hold here too.

    Attributes:
        longest_end: How many tokens the shortest end of a text has at most, between words.
        longest_distance: The same, anywhere: with more tokens left, no budget bears on a mask.
        plain_budget: What a mask is made with then: ``NO_BUDGET``, or so many that only dead ends are left out.
    """

    start: Final[State] = (-1,)

    def __init__(
        self,
        words: CompiledList,
        frame: Frame,
        n_words: int,
        overlay: Overlay | None = None,
        *,
        may_begin: int = ANY_WORDS,
        ends: "ListStates | None" = None,
        like: "ListStates | None" = None,
    ) -> None:
        self.words, self.frame, self.overlay, self.n_words = words, frame, overlay, n_words
        self._may_begin = may_begin
        self._ways = self._make_ways()
        num_added = 0 if overlay is None else overlay.num_nodes
        self._distances: tuple[Uint8Array, Uint8Array] = (
            (
                np.full((2, NUM_KINDS, words.num_nodes), FAR, dtype=np.uint8),
                np.full((NUM_MODES, NUM_KINDS, num_added), FAR, dtype=np.uint8),
            )
            if like is None
            else like._distances
        )
        self._to_end: Int32Array = (
            np.where(frame.is_complete, 0, NEVER_ENDS).astype(np.int32) if ends is None else ends._to_end
        )
        # Keeps alive what the record has the addresses of.
        self._arrays, self._tries = self._record_arrays(), trie_records((words, overlay), self._distances)
        self._record = self._make_record()
        self._measure(words=like is None, ends=ends is None)
        self._plain = MaskRows(self._record, self.plain_budget, frame.num_states)
        # By budget. Not one of cachetools, which measure an entry when it is put in: these grow while they are used.
        self._rows: OrderedDict[int, MaskRows] = OrderedDict()
        self._views: LRUCache[Any, ListStates] = LRUCache(MAX_VIEWS)
        self._lock, self._views_lock = Lock(), Lock()

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
            EmptyWordListError, ListTooLargeError: As ``build_words`` and ``build_frame``.
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
        """Return the bytes of its own arrays, of the rows made so far, and of its views."""
        with self._views_lock:
            views = sum(view.num_bytes for view in self._views.values())
        return sum(one.nbytes for one in self._distances) + self._row_bytes() + views

    @cached_property
    def paths(self) -> WordPaths:
        """Return the paths in the trie, to find single words by their ranks."""
        dead_ends = self._to_end[self.frame.after] >= NEVER_ENDS
        return WordPaths(self.words, self.overlay, self.frame.modes, dead_ends)

    def view(self, n_words: int, may_begin: int = ANY_WORDS, ends: "ListStates | None" = None) -> "ListStates":
        """Return the states for another N and other words that may begin, cached; arguments as of the class."""
        if (n_words, may_begin, ends) == (self.n_words, self._may_begin, None):
            return self
        key = n_words, may_begin, None if ends is None else (ends.n_words, ends._may_begin)
        with self._views_lock:
            view = self._views.get(key)
            if view is None:
                alike = (one for one in (self, *self._views.values()) if one.n_words == n_words)
                view = self._views[key] = ListStates(
                    self.words,
                    self.frame,
                    n_words,
                    self.overlay,
                    may_begin=may_begin,
                    ends=ends,
                    like=next(alike, None),
                )
            return view

    @override
    def fill(
        self,
        out: Int32Array,
        state: State,
        budget: int,
        stops: Int32Array = NO_TOKENS,
        open_word: "ListStates | None" = None,
    ) -> None:
        """Write a mask; ``open_word`` says how the open word goes on and where it ends, which these do by default."""
        rows = self._rows_of(budget)
        word = rows if open_word is None else open_word._rows_of(budget)
        if len(state) == 1:
            rows.fill(out, state[0], stops, word)
            return
        out[:] = 0
        one = np.empty_like(out)
        for reading in state:
            rows.fill(one, reading, NO_TOKENS, word)
            out |= one
        set_token_bits(out, stops, (self if open_word is None else open_word).can_stop(state))

    @override
    def target(self, state: State, token: int, budget: int, open_word: "ListStates | None" = None) -> State:
        next_word = self._rows_of(budget).address
        word = next_word if open_word is None else open_word._rows_of(budget).address
        found = np.empty(MAX_READINGS, dtype=np.int64)
        if len(state) == 1 and (num := step(found, word, next_word, state[0], token)) < 2:
            return (int(found[0]),) if num else ()
        readings: set[int] = set()
        for reading in state:
            readings.update(found[: step(found, word, next_word, reading, token)].tolist())
        return tuple(sorted(readings)[:MAX_READINGS])

    @override
    def can_stop(self, state: State) -> bool:
        frame_states = (self.frame_state(reading) for reading in state)
        return any(number >= 0 and bool(self.frame.is_complete[number]) for number in frame_states)

    @override
    def is_in_word(self, state: State) -> bool:
        return any(reading >= 0 for reading in state)

    @override
    def continues_word(self, state: State, token: int, target: State) -> bool:
        children = {self.child(reading & NODE, token) for reading in state if reading >= 0}
        return any(reading & NODE in children for reading in target if reading >= 0)

    @override
    def ends_word(self, state: State) -> bool:
        return any(reading >= 0 and self.frame_state(reading) >= 0 for reading in state)

    @override
    def starts_sentence(self, state: State) -> bool:
        return any(self.frame.modes[context] & SENTENCE for reading in state for _, context in self.ways(reading))

    @override
    def keep_whole_words(self, out: Int32Array, state: State, stops: Int32Array) -> None:
        whole = np.zeros_like(out)
        for reading in state:
            add_whole_words(whole, self._plain.address, reading)
        set_token_bits(whole, stops, True)
        out &= whole

    @cached_property
    def open_share(self) -> float:
        """Return the share of the tokens allowed after a word that leave another one open, where most are allowed."""
        rows = self.plain_rows()
        after = np.unique(np.asarray(self.frame.after)[np.asarray(self.frame.after) >= 0])
        num_allowed = np.bitwise_count(rows[after].view(np.uint32)).sum(axis=1)
        at = int(after[num_allowed.argmax()])
        row = rows[at].copy()
        self.keep_whole_words(row, (-1 - at,), NO_TOKENS)
        return 1 - float(np.bitwise_count(row.view(np.uint32)).sum() / max(num_allowed.max(), 1))

    def frame_state(self, reading: int) -> int:
        """Return the frame state of a reading: its own, or the one after the word that ends there; -1 for none."""
        return int(frame_state_of(self._plain.address, reading))

    def gap_after(self, reading: int) -> int | None:
        """Return the reading after the word of one: itself between words; None where the word is not whole."""
        frame_state = self.frame_state(reading)
        return None if frame_state < 0 else -1 - frame_state

    def ways(self, reading: int) -> Iterator[tuple[int, int]]:
        """Yield the nodes where words begin after a reading, each with its context."""
        frame_state = self.frame_state(reading)
        if frame_state >= 0:
            way_start, nodes, contexts = self._ways
            own = slice(way_start[frame_state], way_start[frame_state + 1])
            yield from zip(nodes[own], contexts[own], strict=True)

    def child(self, node: int, token: int) -> int:
        """Return the trie node that a token leads to from a node within a word; -1 for none."""
        trie, own = self._trie_of(node)
        edge = position_of(trie.tokens, trie.edge_start[own], trie.edge_start[own + 1], token)
        return int(trie.children[edge]) if edge >= 0 else -1

    def children(self, node: int) -> list[int]:
        """Return the child nodes of a node of the trie or overlay, whatever N."""
        trie, own = self._trie_of(node)
        found: list[int] = trie.children[trie.edge_start[own] : trie.edge_start[own + 1]].tolist()
        return found

    def kind(self, node: int) -> int:
        """Return the kind of the word that ends at a node of the trie or overlay."""
        trie, own = self._trie_of(node)
        return int(trie.kinds[own])

    def rank(self, context: int, node: int) -> int:
        """Return the rank of the word that ends at a node; ``NEVER`` where none does."""
        trie, own = self._trie_of(node)
        # Of a list's own words, only the first bit of the mode counts.
        return int(trie.ranks[int(self.frame.modes[context]) % len(trie.ranks), own])

    def is_bound_by(self, budget: int) -> bool:
        """Return whether a budget is so short that it may change a mask."""
        return budget != NO_BUDGET and budget < self.longest_distance

    @override
    def tokens_to_end(self, state: State) -> int | None:
        fewest = min(distance(self._plain.address, reading) for reading in state)
        return None if fewest >= NEVER_ENDS else int(fewest)

    @override
    def begin(self, place: int | None) -> State:
        if place is None:
            return self.start
        if not 0 <= place < len(self.frame.places):
            raise ValueError(f"no text of this list begins at place {place}")
        return (-1 - int(self.frame.places[place]),)

    @override
    def check(self, state: State) -> None:
        num_nodes = self.words.num_nodes + (0 if self.overlay is None else self.overlay.num_nodes)
        for reading in state:
            if not (
                -self.frame.num_states <= reading < 0
                or (reading >= 0 and reading >> 32 < len(self.frame.modes) and reading & NODE < num_nodes)
            ):
                raise ValueError(f"there is no reading {reading} in this list")

    def plain_rows(self) -> Int32Array:
        """Return the rows of all frame states with any number of tokens left, int32 (states, words)."""
        rows = np.zeros((self.frame.num_states, (self.words.num_tokens + 31) // 32), dtype=np.int32)
        for frame_state, row in enumerate(rows):
            make_row(row, self._plain.address, frame_state)
        return rows

    def arrays(self) -> dict[str, Int32Array | Uint8Array]:
        """Return what a ``ListRecord`` and its two ``TrieRecord`` have the addresses of, by field and trie."""
        arrays = dict(self._arrays)
        for prefix, trie, distances in zip(("base", "added"), (self.words, self.overlay), self._distances, strict=True):
            for field in TRIE_ARRAYS if trie is not None else ():
                arrays[f"{prefix}_{field}"] = getattr(trie, field)
            arrays[f"{prefix}_distances"] = distances
        return arrays

    def _make_ways(self) -> tuple[list[int], list[int], list[int]]:
        """Return the ways into words that may begin: where each frame state's begin, their nodes and contexts."""
        frame = self.frame
        roots = list((self.words if self.overlay is None else self.overlay).roots.values())
        way_start, nodes, contexts = [0], list[int](), list[int]()
        for ways in frame.ways:
            for way in ways:
                node = self.child(roots[way.root], frame.blank) if way.is_after_blank else roots[way.root]
                kind = STARTING if frame.modes[way.context] & SENTENCE else CONTINUING
                if node >= 0 and self._may_begin & kind:
                    nodes.append(node)
                    contexts.append(way.context)
            way_start.append(len(nodes))
        return way_start, nodes, contexts

    def _record_arrays(self) -> dict[str, Int32Array | Uint8Array]:
        """Return the arrays of the record, by field."""
        frame = self.frame
        arrays: dict[str, Int32Array | Uint8Array] = {
            "frame_start": frame.edge_start,
            "frame_tokens": frame.tokens,
            "frame_targets": frame.targets,
            "is_complete": frame.is_complete,
            "modes": frame.modes,
            "after": frame.after,
            "frame_distances": self._to_end,
        }
        for field, column in zip(("way_start", "way_nodes", "way_contexts"), self._ways, strict=True):
            arrays[field] = np.asarray(column or [0], dtype=np.int32)
        return arrays

    def _make_record(self) -> npt.NDArray[np.void]:
        """Return the record of these states, (1,) of ``ListRecord``, without a budget."""
        record = np.zeros(1, ListRecord)
        record["n_words"] = min(self.n_words, int(np.iinfo(np.int32).max) - 1)
        record["row_size"], record["budget"] = (self.words.num_tokens + 31) // 32, NO_BUDGET
        record["num_base"], record["base"] = self.words.num_nodes, address_of(self._tries)
        record["added"] = address_of(self._tries[1:])
        for field, array in self._arrays.items():
            record[field] = address_of(array)
        return record

    def _measure(self, *, words: bool, ends: bool) -> None:
        """Compute how few tokens complete a word and a text, from every node and frame state."""
        address = address_of(self._record)
        for kind in range(NUM_KINDS) if words else ():
            # Few lists have words of every kind.
            if any(kind in trie.kinds for trie in (self.words, self.overlay) if trie is not None):
                measure_words(address, kind)
        if ends:
            measure_frame(address, self.frame.num_states)
        is_dead = self._to_end >= NEVER_ENDS
        longest_word = max(int(one[one < FAR].max(initial=0)) for one in self._distances)
        self.longest_end = int(self._to_end[~is_dead].max(initial=0))
        self.longest_distance = longest_word + self.longest_end
        # Where something leads nowhere, every target is measured, and else only near the end of a budget.
        self.plain_budget = NEVER_ENDS - 1 if is_dead.any() else NO_BUDGET

    def _trie_of(self, node: int) -> tuple[TrieArrays, int]:
        """Return the trie or overlay that has a node, and the node's index in it."""
        num_base = self.words.num_nodes
        if self.overlay is None or node < num_base:
            return self.words, node
        return self.overlay, node - num_base

    def _rows_of(self, budget: int) -> "MaskRows":
        """Return the rows of a budget: the plain ones where it changes no mask, else some of its own, cached."""
        if not self.is_bound_by(budget):
            return self._plain
        rows = self._rows.get(budget)
        if rows is not None:
            return rows
        with self._lock:
            rows = self._rows.setdefault(budget, MaskRows(self._record, budget, self.frame.num_states))
            # Rows are made while they are used, so the bound is enforced when the next ones are asked for.
            while self._row_bytes() > MAX_ROW_BYTES and len(self._rows) > 1:
                self._rows.popitem(last=False)
            return rows

    def _row_bytes(self) -> int:
        return self._plain.num_bytes + sum(rows.num_bytes for rows in list(self._rows.values()))
