"""The states of a text without spaces that an author controls; its words are counted as longest match finds them.

Words end in the middle of tokens, several in one. So a mask is that of the list, of which ``limits.limit`` clears the
tokens beyond what the author asks. As in ``vocab.matching.controlled``, a limit that would empty a mask is loosened.
"""

from collections.abc import Iterable, Sequence
from functools import cache, partial
from itertools import chain
from typing import Final

import numpy as np
from typing_extensions import override

from vocab.arrays.kernels import Int32Array, address_of
from vocab.automaton.dictionary_trie import DictionaryTrie
from vocab.automaton.token_trie import bytes_of_part
from vocab.matching.controlled import ControlledStates
from vocab.matching.controls import UNLIMITED, Controls, Progress
from vocab.matching.mask_kernels import NO_BUDGET, set_token_bits
from vocab.matching.pace import NO_WORDS
from vocab.matching.segmented import counting, fields, kernels, limits
from vocab.matching.segmented.states import SegmentedStates
from vocab.matching.text_states import NO_TOKENS, State

_FAR: Final = UNLIMITED // 2


class SegmentedControls(ControlledStates):
    """``SegmentedStates`` of longest match under the controls of one request; not thread-safe."""

    def __init__(self, states: SegmentedStates, controls: Controls) -> None:
        self._wanted = [states.text.trie.paths_to(one.ranks) for one in controls.must_use]
        self._list, new = states, controls.new_words
        super().__init__(states, controls, [self._cost_of(words) for words in self._wanted])
        self._with_new = states if new is None or new.n_words <= states.n_words else states.view(new.n_words)
        self._nodes_to = cache(partial(_nodes_to, states.text.trie))
        found = self._with_new.followed
        self._needs_words, needs_sentences = _needs_of(states)
        self._needs_now = self._needs_words.copy()
        self._introduced: tuple[int, ...] = ()
        self._filled: tuple[State, int, int] | None = None
        # The table has only their addresses.
        self._arrays = states.words_to_end, self._needs_now, needs_sentences, *found
        addresses = [address_of(array) for array in self._arrays]
        self._table = np.zeros(fields.LIMITS_SIZE, dtype=np.int64)
        self._table[: fields.TABLE_SIZE] = self._with_new.table
        self._table[fields.WORDS_TO_END :] = (*addresses[:3], self.words.num_tokens, len(found.tokens), *addresses[3:])
        ends = states.words_to_end[states.words_to_end < kernels.FAR]
        # More words than a token ends, and an open one needs.
        self._room = states.text.tokens.max_chars + int(ends.max(initial=0))
        # Made here, so that no mask has to wait for what the rows of all texts need.
        for list_states in (states, self._with_new):
            list_states.prepare()

    @override
    def fill(self, out: Int32Array, state: State, budget: int, stops: Int32Array = NO_TOKENS) -> None:
        progress, readings = self._unpack(state)
        after = self._after_word(progress, readings)
        may_stop = self._may_stop(after) and self._is_complete(progress, readings)
        missing = self._missing(after)
        is_forced = any(missing) and self._is_due(missing, after, budget, readings)
        is_limited = self._set_limits(progress, after, budget)
        for states in self._tried(budget):
            states.fill(out, readings, budget)
            if is_limited:
                limits.limit(self._table, out, readings[0])
            if out.any():
                break
        if is_forced:
            self._force(out, readings[0], missing)
        if may_stop and not is_forced:
            set_token_bits(out, stops, True)
        if not out.any():
            for states in () if may_stop else (self._list, self._with_new):
                if not out.any():
                    states.fill(out, readings, budget)
            set_token_bits(out, stops, self._is_complete(progress, readings))
        # A token of it comes next.
        self._scratch[:] = out[: len(self._scratch)]
        self._filled = state, budget, self._pace.num_tokens

    @override
    def target(self, state: State, token: int, budget: int) -> State:
        progress, readings = self._unpack(state)
        found = self._with_new.target(readings, token, budget)
        if not found:
            return ()
        if self._filled != (state, budget, self._pace.num_tokens):
            self.fill(self._scratch, state, budget)
        if not self._scratch[token >> 5] >> np.int32(token & 31) & 1:
            return ()
        events = np.empty(counting.MAX_EVENTS, dtype=np.int64)
        num, _, _ = counting.follow(self._with_new.table, readings[0], token, events)
        return self._count(progress, events[:num].tolist()).pack(found)

    def _tried(self, budget: int) -> Sequence[SegmentedStates]:
        """Return the states whose masks are tried, each where the one before allows nothing within the limits.

        Near the end of a budget no other new word begins, for there may be no room to end it within the limits.
        """
        return (self._list, self._with_new) if self._is_short(budget) else (self._with_new,)

    def _is_short(self, budget: int) -> bool:
        return self._with_new is not self._list and self._list.is_bound_by(budget)

    def _set_limits(self, progress: Progress, after: Progress, budget: int) -> bool:
        """Write the author's limits into the table; return whether they may forbid a token."""
        controls, new, room = self._controls, self._controls.new_words, self._room
        sentences_left = min(controls.max_sentences - progress.num_sentences, room)
        words_left = controls.max_sentence_words - after.num_words
        if words_left > room and sentences_left >= room and self._with_new is self._list:
            return False
        self._table[fields.WORDS_LEFT : fields.INTRODUCED] = (
            min(controls.max_sentence_words - progress.num_words, room),
            min(controls.max_sentence_words, room),
            sentences_left,
            0 if new is None else progress.since_new,
            0 if new is None else new.spacing,
            0 if new is None else max(min(new.max_words - len(progress.introduced), room), 0),
            self._list.n_words,
            any(self._missing(after)),
        )
        self._needs_now[:] = self._needs_words
        if self._is_short(budget):
            self._needs_now[~self._list.gaps_within(budget)] = _FAR
        self._introduce(progress.introduced)
        return True

    def _introduce(self, ranks: tuple[int, ...]) -> None:
        """Write the new words that may come at any time into the table."""
        if ranks == self._introduced:
            return
        self._introduced = ranks
        nodes = np.asarray([*chain.from_iterable(map(self._nodes_to, ranks))], dtype=np.int64)
        self._ways = np.sort(np.asarray(ranks, dtype=np.int64)), np.unique(nodes)
        self._table[fields.INTRODUCED : fields.WORDS_TO_END] = [
            number for array in self._ways for number in (address_of(array), len(array))
        ]

    def _is_due(self, missing: list[int], after: Progress, budget: int, readings: State) -> bool:
        """Return whether a required word must come now."""
        if budget != NO_BUDGET:
            # The open word must end first.
            budget = max(budget - (self._with_new.tokens_to_end(readings) or 0), 0)
        return self._pace.n_words_when_due(missing, after, budget) == NO_WORDS

    def _force(self, out: Int32Array, reading: int, missing: Iterable[int]) -> None:
        """Leave only the tokens towards required words in a mask; where there are none, those that end the open run."""
        tokens: list[int] = []
        longest = max((len(word) for words in self._wanted for word in words), default=0)
        # One that was begun goes on.
        for num_begun in range(longest - 1, -1, -1):
            tokens = tokens or [
                token
                for words, num in zip(self._wanted, missing, strict=True)
                for word in words
                if num and num_begun < len(word)
                for token in self._tokens_after(reading, word, num_begun)
                if out[token >> 5] >> np.int32(token & 31) & 1 and self._leads_to(reading, token, word)
            ]
        before = out.copy()
        out[:] = 0
        if not tokens and kernels.context_of(kernels.place_of(reading)) >= 0:
            costs = np.full(self.words.num_tokens, _FAR, dtype=np.int32)
            counting.measure_ends(self._with_new.table, before, reading, costs)
            tokens = np.flatnonzero((costs == costs.min()) & (costs < _FAR)).tolist()
        if tokens:
            set_token_bits(out, np.asarray(tokens, dtype=np.int32), True)
        else:
            out[:] = before

    def _tokens_after(self, reading: int, word: tuple[int, ...], num_begun: int) -> list[int]:
        """Return the tokens that go on with a word, of which so many characters were written."""
        place, trie = kernels.place_of(reading), self._list.text.trie
        labels, node = trie.own_labels, kernels.node_of(place) if kernels.context_of(place) >= 0 else 0
        # The open rest may be such a beginning, or end with one.
        while num_begun and node > 0 and node != word[num_begun - 1]:
            node = int(trie.links[node])
        if num_begun and node <= 0:
            return []
        return self._list.text.tokens.beginning_of(
            (labels[node] for node in word[num_begun:]), kernels.part_of(reading)
        )

    def _leads_to(self, reading: int, token: int, word: tuple[int, ...]) -> bool:
        """Return whether a token leads to a node on the way to a word that begins where the open one may end."""
        [target] = self._with_new.target((reading,), token, NO_BUDGET) or (-1,)
        if target < 0:
            return False
        place, part = kernels.place_of(target), kernels.part_of(target)
        if not part:
            return kernels.context_of(place) >= 0 and kernels.node_of(place) in word
        # Another character may begin with the same bytes.
        labels = self._list.text.trie.own_labels
        read = bytes_of_part(part)
        return any(
            chr(labels[node]).encode().startswith(read)
            and (after := kernels.after_longest(self._with_new.table, place, int(labels[node]))[0]) >= 0
            and kernels.node_of(after) == node
            for node in word
        )

    @override
    def _may_stop(self, progress: Progress) -> bool:
        # A rest of several words may become one longer word.
        return super()._may_stop(progress) and progress.num_words <= self._controls.max_sentence_words

    @override
    def _is_complete(self, progress: Progress, readings: State) -> bool:
        """Return whether a text is complete, whatever is still asked of it; its last word may be a new one."""
        if not self._with_new.can_stop(readings):
            return False
        new, place = self._controls.new_words, kernels.place_of(readings[0])
        if new is None or kernels.context_of(place) < 0 or self._list.can_stop(readings):
            return True
        for rank in self._words_of(kernels.node_of(place)):
            before, progress = progress, self._count(progress, (rank,))
            is_new = len(progress.introduced) > len(before.introduced)
            if is_new and (before.since_new + 1 < new.spacing or len(progress.introduced) > new.max_words):
                return False
        return True

    @override
    def _after_word(self, progress: Progress, readings: State) -> Progress:
        """Return the progress if the open words end here; as it is where they are not whole."""
        place = kernels.place_of(readings[0])
        if kernels.context_of(place) < 0 or self._with_new.gap_after(readings[0]) is None:
            return progress
        return self._count(progress, self._words_of(kernels.node_of(place)))

    def _words_of(self, node: int) -> list[int]:
        """Return the ranks of the words of the rest that ends at a node."""
        events = np.empty(counting.MAX_EVENTS, dtype=np.int64)
        ranks: list[int] = events[: counting.words_of(self._with_new.table, node, 0, events, 0)].tolist()
        return ranks

    def _count(self, progress: Progress, events: Iterable[int]) -> Progress:
        """Return the progress after words that ended, by rank, and sentences that began."""
        spacing = self._first.since_new
        for rank in events:
            if rank == counting.SENTENCE_BEGINS:
                progress = progress._replace(num_sentences=progress.num_sentences + 1, num_words=0)
                continue
            uses = [rank in one.ranks for one in self._controls.must_use]
            is_new = rank > self._list.n_words and rank not in progress.introduced
            progress = progress._replace(
                since_new=0 if is_new else min(progress.since_new + 1, spacing),
                num_words=progress.num_words + 1,
                used=tuple(num + use for num, use in zip(progress.used, uses, strict=True)),
                introduced=(*progress.introduced, rank) if is_new else progress.introduced,
            )
        return progress

    def _cost_of(self, words: Iterable[tuple[int, ...]]) -> int:
        """Return how many tokens one of these words takes at most."""
        tokens, labels = self._list.text.tokens, self._list.text.trie.own_labels
        return max((sum(tokens.fewest_tokens(int(labels[n])) for n in word) for word in words), default=0)


def _nodes_to(trie: DictionaryTrie, rank: int) -> list[int]:
    """Return the nodes on the ways to the words of a rank."""
    return [node for end in np.flatnonzero(trie.ranks == rank).tolist() for node in trie.path_to(end)]


def _needs_of(states: SegmentedStates) -> kernels.Int64Array:
    """Return, by gap state, how few words must come before the sentence may end, and sentences before the text may.

    int64 (2, gap states).
    """
    text = states.text
    words = text.costs_to(text.is_complete | text.starts_sentence, _FAR, 0, 1)
    return np.stack([words, text.costs_to(text.is_complete, _FAR, 0, text.starts_sentence)])
