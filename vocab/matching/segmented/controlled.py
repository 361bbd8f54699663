"""The states of a text without spaces that an author controls; its words are counted as longest match finds them.

Words end in the middle of tokens, several in one. So a mask is that of the list, of which ``counting.limit`` clears the
tokens beyond what the author asks. As in ``vocab.matching.controlled``, a limit that would empty a mask is loosened.
"""

from collections import OrderedDict
from collections.abc import Iterable
from itertools import chain
from typing import Final

import numpy as np
from typing_extensions import override

from vocab.arrays.byte_trie import Int32Array
from vocab.arrays.kernels import address_of
from vocab.automaton.token_trie import bytes_of_part
from vocab.matching.controlled import ControlledStates
from vocab.matching.controls import UNLIMITED, Controls, Progress
from vocab.matching.mask_kernels import NO_BUDGET, set_token_bits
from vocab.matching.pace import NO_WORDS
from vocab.matching.segmented import counting, kernels
from vocab.matching.segmented.states import SegmentedStates
from vocab.matching.text_states import NO_TOKENS, State

MAX_MASKS: Final = 256
"""Limited masks cached by one text: each takes some milliseconds and the bytes of a row."""

_FAR: Final = UNLIMITED // 2


class SegmentedControls(ControlledStates):
    """``SegmentedStates`` of longest match under the controls of one request; not thread-safe."""

    def __init__(self, states: SegmentedStates, controls: Controls) -> None:
        self._own = states
        self._wanted = [states.text.trie.paths_to(one.ranks) for one in controls.must_use]
        super().__init__(states, controls, [self._cost_of(words) for words in self._wanted])
        self._all = states
        if controls.new_words is not None and controls.new_words.n_words > states.n_words:
            self._all = SegmentedStates(states.text, controls.new_words.n_words)
        self._needs = _needs_of(states)
        self._words_to_end = states.words_to_end
        ends = self._words_to_end[self._words_to_end < kernels.FAR]
        # More words than a token ends, and an open one needs.
        self._room = states.text.tokens.max_chars + int(ends.max(initial=0))
        self._masks: OrderedDict[tuple[int, ...], Int32Array] = OrderedDict()

    @override
    def _starts_sentence(self, reading: int) -> bool:
        return bool(self._own.text.starts_sentence[kernels.node_of(kernels.place_of(reading))])

    @override
    def fill(self, out: Int32Array, state: State, budget: int, stops: Int32Array = NO_TOKENS) -> None:
        progress, readings = Progress.unpack(state, len(self._all_used))
        after = self._after_word(progress, readings)
        may_stop = self._may_stop(after) and self._is_complete(progress, readings)
        missing = self._missing(after)
        is_forced = any(missing) and self._is_due(missing, after, budget, readings)
        self._fill_limited(out, progress, after, readings[0], budget, any(missing))
        if is_forced:
            self._force(out, readings[0], missing)
        if may_stop and not is_forced:
            set_token_bits(out, stops, True)
        if not out.any():
            for states in () if may_stop else (self._own, self._all):
                if not out.any():
                    states.fill(out, readings, budget)
            set_token_bits(out, stops, self._is_complete(progress, readings))

    @override
    def target(self, state: State, token: int, budget: int) -> State:
        progress, readings = Progress.unpack(state, len(self._all_used))
        found = self._all.target(readings, token, budget)
        if not found:
            return ()
        self.fill(self._scratch, state, budget)
        if not self._scratch[token >> 5] >> np.int32(token & 31) & 1:
            return ()
        events = np.empty(counting.MAX_EVENTS, dtype=np.int64)
        num, _ = counting.follow(self._all.table, readings[0], token, events)
        return self._count(progress, events[:num].tolist()).pack(found)

    def _fill_limited(
        self, out: Int32Array, progress: Progress, after: Progress, reading: int, budget: int, needs_more: bool
    ) -> None:
        """Write the mask of the list, less the tokens beyond the author's limits."""
        controls, new, room = self._controls, self._controls.new_words, self._room
        sentences_left = min(controls.max_sentences - progress.num_sentences, room)
        is_near = (
            controls.max_sentence_words - after.num_words <= room or sentences_left < room or self._all is not self._own
        )
        if not is_near:
            self._own.fill(out, (reading,), budget)
            return
        # Near the end of a budget no other new word begins, for there may be no room to end it within the limits.
        is_short = self._all is not self._own and self._own.is_bound_by(budget)
        numbers = (
            min(controls.max_sentence_words - progress.num_words, room),
            min(controls.max_sentence_words, room),
            sentences_left,
            0 if new is None else progress.since_new,
            0 if new is None else new.spacing,
            0 if new is None else max(min(new.max_words - len(progress.introduced), room), 0),
            self._own.n_words,
            needs_more,
        )
        key = reading, budget if is_short or self._all.is_bound_by(budget) else -1, *numbers, *progress.introduced
        known = self._masks.get(key)
        if known is not None:
            out[: len(known)], out[len(known) :] = known, 0
            return
        needs = self._needs
        if is_short:
            needs = needs.copy()
            needs[0, ~self._own.gaps_within(budget)] = _FAR
        introduced = np.asarray(progress.introduced, dtype=np.int64)
        on_ways = np.asarray([*chain.from_iterable(self._own.text.trie.paths_to(progress.introduced))], dtype=np.int64)
        arrays = address_of(introduced), len(introduced), address_of(on_ways), len(on_ways)
        table = np.asarray(
            [*self._all.table, *numbers, *arrays, *map(address_of, (self._words_to_end, *needs))], dtype=np.int64
        )
        for states in (self._own, self._all) if is_short else (self._all,):
            states.fill(out, (reading,), budget)
            counting.limit(table, out, reading)
            if out.any():
                break
        self._masks[key] = out[: len(self._scratch)].copy()
        if len(self._masks) > MAX_MASKS:
            self._masks.popitem(last=False)

    def _is_due(self, missing: list[int], after: Progress, budget: int, readings: State) -> bool:
        """Return whether a required word must come now."""
        if budget != NO_BUDGET:
            # The open word must end first.
            budget = max(budget - (self._all.tokens_to_end(readings) or 0), 0)
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
            marks = self._own.text.with_marks
            out_tokens = marks[(before[marks >> 5] >> (marks & 31)) & 1 != 0]
            tokens = [token for token in out_tokens.tolist() if self._ends_run(reading, token)]
            tokens = tokens or self._towards_end(before, reading)
        if tokens:
            set_token_bits(out, np.asarray(tokens, dtype=np.int32), True)
        else:
            out[:] = before

    def _tokens_after(self, reading: int, word: tuple[int, ...], num_begun: int) -> list[int]:
        """Return the tokens that go on with a word, of which so many characters were written."""
        place, trie = kernels.place_of(reading), self._own.text.trie
        labels, node = trie.own_labels, kernels.node_of(place) if kernels.context_of(place) >= 0 else 0
        # The open rest may be such a beginning, or end with one.
        while num_begun and node > 0 and node != word[num_begun - 1]:
            node = int(trie.links[node])
        if num_begun and node <= 0:
            return []
        return self._own.text.tokens.beginning_of((labels[node] for node in word[num_begun:]), kernels.part_of(reading))

    def _leads_to(self, reading: int, token: int, word: tuple[int, ...]) -> bool:
        """Return whether a token leads to a node on the way to a word that begins where the open one may end."""
        place, part = self._after(reading, token)
        if place < 0:
            return False
        if not part:
            return kernels.context_of(place) >= 0 and kernels.node_of(place) in word
        # Another character may begin with the same bytes.
        labels, found = self._own.text.trie.own_labels, np.empty(kernels.MAX_PLACES, dtype=np.int64)
        read = bytes_of_part(part)
        return any(
            chr(labels[node]).encode().startswith(read)
            and kernels.after_char(self._all.table, place, labels[node], found, 0)
            and kernels.node_of(found[0]) == node
            for node in word
        )

    def _ends_run(self, reading: int, token: int) -> bool:
        """Return whether a token leads to a place between words."""
        place, part = self._after(reading, token)
        return place >= 0 and not part and kernels.context_of(place) < 0

    def _after(self, reading: int, token: int) -> tuple[int, int]:
        """Return the place after a token and the bytes of its last character; (-1, 0) where it cannot come."""
        [target] = self._all.target((reading,), token, NO_BUDGET) or (-1,)
        return (kernels.place_of(target), kernels.part_of(target)) if target >= 0 else (-1, 0)

    def _towards_end(self, mask: Int32Array, reading: int) -> list[int]:
        """Return the tokens of a mask from which the fewest others complete the text."""
        bits = np.unpackbits(mask.view(np.uint8), bitorder="little")
        distances: dict[int, int] = {}
        for token in np.flatnonzero(bits).tolist():
            if target := self._all.target((reading,), token, NO_BUDGET):
                distances[token] = self._all.tokens_to_end(target) or 0
        fewest = min(distances.values(), default=0)
        return [token for token, distance in distances.items() if distance == fewest]

    @override
    def _may_stop(self, progress: Progress) -> bool:
        # A rest of several words may become one longer word.
        return super()._may_stop(progress) and progress.num_words <= self._controls.max_sentence_words

    @override
    def _is_complete(self, progress: Progress, readings: State) -> bool:
        """Return whether a text is complete, whatever is still asked of it; its last word may be a new one."""
        if not self._all.can_stop(readings):
            return False
        new, place = self._controls.new_words, kernels.place_of(readings[0])
        if new is None or kernels.context_of(place) < 0 or self._own.can_stop(readings):
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
        if kernels.context_of(place) < 0 or self._all.gap_after(readings[0]) is None:
            return progress
        return self._count(progress, self._words_of(kernels.node_of(place)))

    def _words_of(self, node: int) -> list[int]:
        """Return the ranks of the words of the rest that ends at a node."""
        events = np.empty(counting.MAX_EVENTS, dtype=np.int64)
        length = int(self._own.text.trie.depths[node])
        ranks: list[int] = events[: counting.words_of(self._all.table, node, length, events, 0)].tolist()
        return ranks

    def _count(self, progress: Progress, events: Iterable[int]) -> Progress:
        """Return the progress after words that ended, by rank, and sentences that began."""
        spacing = self._first.since_new
        for rank in events:
            if rank == counting.SENTENCE_BEGINS:
                progress = progress._replace(num_sentences=progress.num_sentences + 1, num_words=0)
                continue
            uses = [rank in one.ranks for one in self._controls.must_use]
            is_new = rank > self._own.n_words and rank not in progress.introduced
            progress = progress._replace(
                since_new=0 if is_new else min(progress.since_new + 1, spacing),
                num_words=progress.num_words + 1,
                used=tuple(num + use for num, use in zip(progress.used, uses, strict=True)),
                introduced=(*progress.introduced, rank) if is_new else progress.introduced,
            )
        return progress

    def _cost_of(self, words: Iterable[tuple[int, ...]]) -> int:
        """Return how many tokens one of these words takes at most."""
        tokens, labels = self._own.text.tokens, self._own.text.trie.own_labels
        return max((sum(tokens.fewest_tokens(int(labels[n])) for n in word) for word in words), default=0)


def _needs_of(states: SegmentedStates) -> kernels.Int64Array:
    """Return, by gap state, how few words must come before the sentence may end, and sentences before the text may.

    int64 (2, gap states).
    """
    text = states.text
    words = text.costs_to(text.is_complete | text.starts_sentence, _FAR, 0, 1)
    return np.stack([words, text.costs_to(text.is_complete, _FAR, 0, text.starts_sentence)])
