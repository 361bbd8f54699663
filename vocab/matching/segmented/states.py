"""The states of a text without spaces: a list with its dictionary, options and N.

A mask is the row of what may follow a word, which all words share, with the bits toggled that differ after this one:
those of tokens whose first character may go on with the open word. A row or a node's toggles are made on first use.
"""

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from threading import Lock
from typing import Final, Self

import numpy as np
import numpy.typing as npt
from cachetools import LRUCache
from typing_extensions import override

from vocab.arrays.kernels import Int32Array, Uint8Array, address_of
from vocab.automaton.dictionary_trie import UNLISTED, ReferenceWords, build_segmented, build_segmented_overlay
from vocab.automaton.token_trie import TokenTrie, bytes_of_part, split_chars
from vocab.automaton.tokenizer import Speller
from vocab.lists.wordlists import WordList
from vocab.matching.mask_kernels import NEVER_ENDS, NO_BUDGET, set_token_bits
from vocab.matching.segmented import counting, fields, kernels, masks
from vocab.matching.segmented.text import SegmentedText
from vocab.matching.text_states import NO_TOKENS, State, TextStates
from vocab.options import ListOptions
from vocab.text.changes import NO_CHANGES, ListChanges, entries_left_out

MAX_MASK_BYTES: Final = 64 * 1024 * 1024
"""Of one list, set of options and N: rows of some hundred gap states, and the toggles of tens of thousands of nodes."""

MAX_VIEWS: Final = 4
"""Of other N, with the new words of authors, each with masks of its own."""

_MASK_BYTES: Final = 512
"""The Python objects of a mask."""

# As Python functions: a call of compiled code costs more than these.
_place_of: Callable[[int], int] = getattr(kernels.place_of, "py_func")  # noqa: B009 - unknown to mypy
_part_of: Callable[[int], int] = getattr(kernels.part_of, "py_func")  # noqa: B009
_node_of: Callable[[int], int] = getattr(kernels.node_of, "py_func")  # noqa: B009
_context_of: Callable[[int], int] = getattr(kernels.context_of, "py_func")  # noqa: B009
_reading_of: Callable[[int, int], int] = getattr(kernels.reading_of, "py_func")  # noqa: B009
_place_in_word: Callable[[int, int], int] = getattr(kernels.place_in_word, "py_func")  # noqa: B009


@dataclass(frozen=True, slots=True)
class _Mask:
    """A row and what differs from it."""

    row: Int32Array
    toggles: Int32Array
    is_complete: bool


class SegmentedStates(TextStates):
    """The states for one N of a text without spaces. Thread-safe.

    A state is the set of a text's readings (``vocab.matching.segmented.kernels``): one, but for ``segmentation: any``.
    """

    def __init__(self, text: SegmentedText, n_words: int) -> None:
        self.text, self.n_words = text, n_words
        self.words, self.overlay = text.words, text.overlay
        self.table = text.table.copy()
        # A word of the dictionary that is not listed is beyond any N.
        self.table[fields.N_WORDS] = min(n_words, UNLISTED - 1)
        self._to_end = self._measure_nodes()
        self._gap_to_end = self._measure_gaps()
        self._is_begun = np.zeros(len(text.tokens.parts), dtype=np.uint8)
        self._no_row = np.zeros((self.words.num_tokens + 31) // 32, dtype=np.int32)
        self._base_row = self._no_row.copy()
        self._masks: OrderedDict[tuple[int, int], _Mask] = OrderedDict()
        self._rows: dict[tuple[int, int], Int32Array] = {}
        self._mask_bytes = 0
        self._views: LRUCache[int, SegmentedStates] = LRUCache(MAX_VIEWS)
        self._lock, self._views_lock = Lock(), Lock()
        self._toggles = np.empty(2 * self.words.num_tokens, dtype=np.int32)
        self._scratch = np.empty(masks.SCRATCH_SHAPE, dtype=np.int64)

    @classmethod
    def of(
        cls,
        word_list: WordList,
        options: ListOptions,
        speller: Speller,
        n_words: int,
        changes: ListChanges = NO_CHANGES,
        reference: ReferenceWords | None = None,
    ) -> Self:
        """Build trie, overlay and states in memory; arguments as of ``ListStates.of``.

        All of the list counts for the dictionary, and ``reference`` besides, by default the language's.

        Raises:
            EmptyWordListError, ListTooLargeError: As ``build_segmented``.
        """
        words, overlay = build_segmented(word_list, speller, reference), None
        if changes:
            left_out = entries_left_out(words.listed.word_list, changes.exclude_words)
            overlay = build_segmented_overlay(words, replace(changes, exclude_words=left_out), speller)
        return cls(SegmentedText(words, overlay, options, TokenTrie.of(speller.facts)), n_words)

    @property
    @override
    def start(self) -> State:
        return (_reading_of(self.text.gaps.start, 0),)

    @property
    def num_bytes(self) -> int:
        """Return the bytes of its own arrays and of the rows made so far, and of what all N share."""
        with self._views_lock:
            views = sum(view.num_own_bytes for view in self._views.values())
        return self.text.num_bytes + self.num_own_bytes + views

    @property
    def num_own_bytes(self) -> int:
        """Return the bytes of its own arrays and of the rows made so far."""
        return self._to_end.nbytes + self.num_mask_bytes + self._toggles.nbytes

    @cached_property
    def words_to_end(self) -> Uint8Array:
        """Return with how few words an open rest becomes whole, for what authors ask: made in 40 ms."""
        return counting.words_to_ends(self.table, self.text.trie.num_nodes, self.text.edge_tokens)

    @cached_property
    def followed(self) -> counting.FollowedTokens:
        """Return where tokens lead from where a word begins: 2 ms; by the longest match."""
        return counting.follow_all(self.table, self.words.num_tokens)

    def prepare(self) -> None:
        """Make what many masks need: the row of what may follow a word, and where tokens lead."""
        with self._lock:
            self._gap_row(int(self.text.after_word[0]), NO_BUDGET)
        self.followed  # noqa: B018 - cached

    def view(self, n_words: int) -> "SegmentedStates":
        """Return the states for another N; the last ones are cached."""
        with self._views_lock:
            view = self._views.get(n_words)
            if view is None:
                view = self._views[n_words] = SegmentedStates(self.text, n_words)
            return view

    @property
    def num_mask_bytes(self) -> int:
        """Return the bytes of the rows and masks made so far."""
        return self._mask_bytes + len(self._rows) * self._no_row.nbytes

    @property
    def longest_end(self) -> int:
        """Return how many tokens a text has at most after a word, if it ends as soon as it may."""
        ends = self._gap_to_end[self.text.after_word]
        return int(ends[ends < NEVER_ENDS].max(initial=0))

    @override
    def fill(self, out: Int32Array, state: State, budget: int, stops: Int32Array = NO_TOKENS) -> None:
        if not self.is_bound_by(budget):
            budget = NO_BUDGET
        mask = self._masks.get((state[0], budget)) or self._make(state[0], budget)
        masks.fill_row(out, mask.row, mask.toggles, stops, mask.is_complete)
        if len(state) > 1:
            one = np.empty_like(out)
            for reading in state[1:]:
                other = self._masks.get((reading, budget)) or self._make(reading, budget)
                masks.fill_row(one, other.row, other.toggles, stops if other.is_complete else NO_TOKENS, True)
                out |= one

    @override
    def target(self, state: State, token: int, budget: int) -> State:
        if not 0 <= token < self.words.num_tokens:
            return ()
        found = np.empty(kernels.MAX_PLACES, dtype=np.int64)
        readings = np.asarray(state, dtype=np.int64)
        num = kernels.step(self.table, readings, token, budget if self.is_bound_by(budget) else NO_BUDGET, found)
        return (int(found[0]),) if num == 1 else tuple(sorted(found[:num].tolist()))

    @override
    def can_stop(self, state: State) -> bool:
        return any(self._is_complete(reading) for reading in state)

    @override
    def is_in_word(self, state: State) -> bool:
        return any(_part_of(reading) or _context_of(_place_of(reading)) >= 0 for reading in state)

    @override
    def continues_word(self, state: State, token: int, target: State) -> bool:
        # Known only where that word is not whole.
        return self.is_in_word(state) and all(self.gap_after(reading) is None for reading in state)

    @override
    def ends_word(self, state: State) -> bool:
        return any(self.gap_after(reading) is not None for reading in state)

    def is_bound_by(self, budget: int) -> bool:
        """Return whether a budget is so short that it may change a mask."""
        return budget != NO_BUDGET and budget < self._longest_distance

    @override
    def starts_sentence(self, state: State) -> bool:
        return any(self.text.starts_sentence[_node_of(_place_of(reading))] for reading in state)

    @override
    def tokens_to_end(self, state: State) -> int | None:
        places, part = np.asarray([_place_of(reading) for reading in state], dtype=np.int64), _part_of(state[0])
        fewest = (
            kernels.part_distance(self.table, places, len(places), part, -1)
            if part
            else kernels.distance_after(self.table, places, len(places))
        )
        return None if fewest >= NEVER_ENDS else fewest

    def gaps_within(self, budget: int) -> npt.NDArray[np.bool_]:
        """Return whether a budget of tokens completes a text, by gap state, bool."""
        return self._gap_to_end <= budget

    @override
    def begin(self, place: int | None) -> State:
        if place is None:
            return self.start
        if not 0 <= place < len(self.text.gaps.states):
            raise ValueError(f"no text of this list begins at place {place}")
        return (_reading_of(place, 0),)

    @override
    def check(self, state: State) -> None:
        for reading in state:
            place, part = _place_of(reading), _part_of(reading)
            context, node = _context_of(place), _node_of(place)
            num_nodes = len(self.text.gaps.states) if context < 0 else self.text.trie.num_nodes
            is_place = reading >= 0 and context < len(self.text.gaps.contexts) and node < num_nodes
            if not is_place or split_chars(bytes_of_part(part)) != ((), part):
                raise ValueError(f"there is no reading {reading} in this list")
        if len({_part_of(reading) for reading in state}) > 1 or len(state) > kernels.MAX_PLACES:
            raise ValueError("these readings are of no one text")

    def gap_after(self, reading: int) -> int | None:
        """Return the reading after the word of one: itself between words; None where the word is not whole."""
        state = -1 if _part_of(reading) else int(kernels.gap_state_of(self.table, _place_of(reading)))
        return None if state < 0 else _reading_of(state, 0)

    def _is_complete(self, reading: int) -> bool:
        gap = self.gap_after(reading)
        return gap is not None and bool(self.text.is_complete[_place_of(gap)])

    def _make(self, reading: int, budget: int) -> _Mask:
        """Make the mask of a reading for a budget, and cache it."""
        with self._lock:
            if self.num_mask_bytes > MAX_MASK_BYTES:
                self._drop()
            return self._cached(reading, budget)

    def _cached(self, reading: int, budget: int) -> _Mask:
        """Return the mask of a reading, made on first use; under the lock."""
        mask = self._masks.get((reading, budget))
        if mask is None:
            mask = self._masks[reading, budget] = self._mask(reading, budget)
            self._mask_bytes += _MASK_BYTES + mask.toggles.nbytes
        return mask

    def _drop(self) -> None:
        """Drop the masks made first until half of the bytes are left; of rows, those of budgets."""
        for key in [key for key in self._rows if key[1] != NO_BUDGET]:
            del self._rows[key]
        while self.num_mask_bytes > MAX_MASK_BYTES // 2 and len(self._masks) > 1:
            self._mask_bytes -= _MASK_BYTES + self._masks.popitem(last=False)[1].toggles.nbytes

    def _mask(self, reading: int, budget: int) -> _Mask:
        """Return the mask of a reading."""
        place, is_complete = _place_of(reading), self._is_complete(reading)
        if _part_of(reading):
            tokens = self.text.tokens.continuing
            num = masks.collect_tokens(self.table, self._no_row, reading, budget, tokens, self._toggles)
            return _Mask(self._no_row, self._toggles[:num].copy(), is_complete)
        if _context_of(place) < 0:
            return _Mask(self._gap_row(place, budget), NO_TOKENS, is_complete)
        node = _node_of(place)
        if not self.text.is_any and (link := int(self.text.trie.links[node])) > 0:
            if self.text.trie.cut_ranks[node] > self.table[fields.N_WORDS]:
                base = _Mask(self._no_row, NO_TOKENS, False)
            else:
                base = self._cached(_reading_of(_place_in_word(_context_of(place), link), 0), budget)
            row = self._base_row
            masks.fill_row(row, base.row, base.toggles, NO_TOKENS, False)
        else:
            gap_state = kernels.gap_state_of(self.table, place)
            row = self._no_row if gap_state < 0 else self._gap_row(gap_state, budget)
            base = _Mask(row, NO_TOKENS, False)
        num = masks.collect_in_word(self.table, row, place, budget, self._toggles, self._is_begun, self._scratch)
        return _Mask(base.row, np.concatenate((base.toggles, self._toggles[:num])), is_complete)

    def _gap_row(self, state: int, budget: int) -> Int32Array:
        """Return the row of a gap state, made on first use.

        That after a word looks at every token; the others differ from it in tokens with marks.
        """
        row = self._rows.get((state, budget))
        if row is None:
            # Only near the end of a budget it matters to a word what is open around it.
            context = 0 if budget == NO_BUDGET else self.text.contexts[state]
            first, tokens, base = int(self.text.after_word[context]), self.text.with_marks, self._no_row
            if state != first:
                base = self._gap_row(first, budget) if self.text.opens_words[state] else base
            elif budget != NO_BUDGET and self.text.opens_words[state] and not self.text.is_any:
                base = self._gap_row(int(self.text.after_word[0]), NO_BUDGET).copy()
                is_far = self._to_end[self.followed.nodes] + self._gap_to_end[first] > budget
                set_token_bits(base, self.followed.tokens[is_far], False)
            if base is self._no_row and self.text.opens_words[state]:
                num = masks.collect_all(self.table, base, state, budget, self._toggles, self._scratch)
            else:
                if budget != NO_BUDGET:
                    may_differ = base | self._gap_row(state, NO_BUDGET)
                    tokens = tokens[may_differ[tokens >> 5] >> (tokens & 31) & 1 != 0]
                num = masks.collect_tokens(self.table, base, _reading_of(state, 0), budget, tokens, self._toggles)
            row = np.empty_like(self._no_row)
            masks.fill_row(row, base, self._toggles[:num], NO_TOKENS, False)
            self._rows[state, budget] = row
        return row

    def _measure_nodes(self) -> Uint8Array:
        """Return how few tokens lead from each node to the end of a word, uint8."""
        trie = self.text.trie
        ranks = trie.ranks if self.text.is_any else trie.whole_ranks
        to_end = np.where(ranks <= self.table[fields.N_WORDS], 0, kernels.FAR).astype(np.uint8)
        to_end[0] = kernels.FAR
        self.table[fields.TO_END] = address_of(to_end)
        counting.measure_nodes(self.table, to_end, self.text.edge_tokens)
        return to_end

    def _measure_gaps(self) -> Int32Array:
        """Return how few tokens complete a text from each gap state, int32; also find the longest distance."""
        text, word = self.text, int(self._to_end[0])
        word = NEVER_ENDS if word == kernels.FAR else word
        to_end: Int32Array = text.costs_to(text.is_complete, NEVER_ENDS, text.mark_tokens, word).astype(np.int32)
        self.table[fields.GAP_TO_END] = address_of(to_end)
        reached, nodes = to_end[to_end < NEVER_ENDS], self._to_end[self._to_end != kernels.FAR]
        # Of a character that is not whole, at most its other bytes come first.
        self._longest_distance = int(reached.max(initial=0)) + int(nodes.max(initial=0)) + 4
        return to_end
