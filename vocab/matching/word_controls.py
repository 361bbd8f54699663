"""What an author asks of texts with spaces: at each step the next word comes from one view of the list or another.

From all of the list, from more of it (new words), or from less (required words, the end of a sentence); and single
words come besides, or alone.
"""

from collections.abc import Iterator

import numpy as np
from typing_extensions import override

from vocab.arrays.kernels import Int32Array
from vocab.automaton.compiled_list import POSSESSIVE
from vocab.automaton.frame import SENTENCE
from vocab.matching.controlled import ControlledStates
from vocab.matching.controls import REST_WORDS, UNLIMITED, Controls, Progress
from vocab.matching.mask_kernels import set_token_bits
from vocab.matching.pace import FEWER_WORDS, NO_WORDS
from vocab.matching.paths import ContextPaths, Paths
from vocab.matching.states import (
    ANY_WORDS,
    CONTINUING,
    NODE,
    STARTING,
    ListStates,
)
from vocab.matching.text_states import NO_TOKENS, State
from vocab.matching.view import View


class WordControls(ControlledStates):
    """``ListStates`` under the controls of one request; not thread-safe."""

    def __init__(self, states: ListStates, controls: Controls) -> None:
        self._list, self.frame = states, states.frame
        self._roots = frozenset((states.words if states.overlay is None else states.overlay).roots.values())
        self._wanted = [states.paths.of(frozenset(one.ranks)) for one in controls.must_use]
        super().__init__(states, controls, [self._cost_of(paths) for paths in self._wanted])
        self._blanks = frozenset(states.child(root, self.frame.blank) for root in self._roots)
        self._possessive = self._possessive_nodes()
        self._to_new_sentence: dict[int, frozenset[int]] = {}
        self._prepare()

    def _prepare(self) -> None:
        """Make what fills of masks would have to wait for: the views of the list that may be asked for."""
        controls, states = self._controls, self._list
        new = controls.new_words
        self._with_new = None
        if new is not None:
            states.paths.of(frozenset())
            if new.n_words > states.n_words:
                self._with_new = states.view(new.n_words, ends=states)
        beginnings = {
            ANY_WORDS & ~continuing & ~starting
            for continuing in (0, CONTINUING if controls.max_sentence_words < UNLIMITED else 0)
            for starting in (0, STARTING if controls.max_sentences < UNLIMITED else 0)
        }
        sizes = {states.n_words, *(min(num, states.n_words) for _, num in FEWER_WORDS if controls.must_use)}
        self._next_word = {
            (size, may_begin): states.view(size, may_begin) for size in sizes for may_begin in beginnings
        }
        self._next_word_with_new: dict[int, ListStates] = {}
        if self._with_new is not None:
            for may_begin in beginnings:
                ends = self._next_word[states.n_words, may_begin]
                self._next_word_with_new[may_begin] = states.view(self._with_new.n_words, may_begin, ends)

    @override
    def fill(self, out: Int32Array, state: State, budget: int, stops: Int32Array = NO_TOKENS) -> None:
        progress, readings = self._unpack(state)
        after = self._after_word(progress, readings)
        may_stop = self._may_stop(after) and self._is_complete(progress, readings)
        for view in self._views(progress, after, readings, budget):
            view.fill(out, readings, budget)
            self._clear_unwanted(out, view, progress, after, readings)
            if may_stop and not view.is_forced:
                set_token_bits(out, stops, True)
            if out.any():
                return
        set_token_bits(out, stops, self._is_complete(progress, readings))

    @override
    def target(self, state: State, token: int, budget: int) -> State:
        progress, readings = self._unpack(state)
        after = self._after_word(progress, readings)
        may_stop = self._may_stop(after) and self._is_complete(progress, readings)
        for view in self._views(progress, after, readings, budget):
            found = view.target(readings, token, budget)
            if found and token in self._unwanted_tokens(view, progress, after, readings):
                view.fill(self._scratch, readings, budget)
                self._clear_unwanted(self._scratch, view, progress, after, readings)
                if not self._scratch[token >> 5] >> np.int32(token & 31) & 1:
                    return ()
            if found:
                return self._next(progress, after, readings, token, found).pack(found)
            view.fill(self._scratch, readings, budget)
            if self._scratch.any() or (may_stop and not view.is_forced):
                return ()
        return ()

    def _views(self, progress: Progress, after: Progress, readings: State, budget: int) -> Iterator[View]:
        """Yield the views, as the author asks first; each of the others is for where the one before allows nothing.

        ``after`` is the progress if the last word ends here.
        """
        controls, states = self._controls, self._list
        open_word = self._open_view(progress).open_word
        with_new = self._with_new if self._may_be_new(after.since_new + 1, after) else None
        if with_new is not None and self._is_after_blank(readings):
            open_word = with_new
        introduced = self._paths_to(after.introduced)
        may_begin = ANY_WORDS
        if after.num_words >= controls.max_sentence_words:
            may_begin &= ~CONTINUING
        if after.num_sentences >= controls.max_sentences:
            may_begin &= ~STARTING
        missing = self._missing(after)
        if any(missing) and may_begin:
            wanted = tuple(paths for paths, num in zip(self._wanted, missing, strict=True) if num)
            num_words = self._pace.n_words_when_due(missing, after, budget)
            if num_words is not None:
                if num_words == NO_WORDS:
                    next_word = self._next_word[states.n_words, may_begin]
                    yield View(states, open_word, next_word, wanted, is_forced=True)
                    num_words = FEWER_WORDS[-1][1]
                fewer = self._next_word[min(num_words, states.n_words), may_begin]
                yield View(states, open_word, fewer, wanted + introduced)
        for begin_now in dict.fromkeys((may_begin, ANY_WORDS)):
            next_word = (
                self._next_word[states.n_words, begin_now] if with_new is None else self._next_word_with_new[begin_now]
            )
            yield View(states, open_word, next_word, introduced)

    def _may_be_new(self, since_new: int, progress: Progress) -> bool:
        """Return whether a word may be a new one, by the spacing and number of new words."""
        new = self._controls.new_words
        return new is not None and since_new >= new.spacing and len(progress.introduced) < new.max_words

    def _clear_unwanted(
        self, out: Int32Array, view: View, progress: Progress, after: Progress, readings: State
    ) -> None:
        """Clear the unwanted tokens in a mask, unless nothing would be left."""
        tokens = self._unwanted_tokens(view, progress, after, readings)
        if not tokens:
            return
        before = out.copy()
        set_token_bits(out, np.asarray(sorted(tokens), dtype=np.int32), False)
        if not out.any():
            out[:] = before

    def _unwanted_tokens(self, view: View, progress: Progress, after: Progress, readings: State) -> frozenset[int]:
        """Return the tokens that end a resting word, or the last sentence before every required word came.

        ``after`` holds for words that begin now.
        """
        if view.is_forced or not self._all_used:
            return frozenset()
        now, resting_after = self._resting(progress), self._resting(after)
        is_last = after.num_sentences >= self._controls.max_sentences and any(self._missing(after))
        places: list[tuple[Paths, int, int]] = []
        tokens: set[int] = set()
        for reading in readings:
            if reading >= 0:
                places += ((paths, reading >> 32, reading & NODE) for paths in now)
            if (resting_after or is_last) and (gap := view.gap_after(reading)) is not None:
                for node, context in view.next_word.ways(gap):
                    places += ((paths, context, node) for paths in resting_after)
                if is_last:
                    tokens |= self._tokens_to_new_sentence(-1 - gap)
        tokens.update(
            token
            for paths, context, node in places
            for token, child in paths[context].children.get(node, ())
            if self._leads_only_to(paths[context], child)
        )
        return frozenset(tokens)

    def _tokens_to_new_sentence(self, frame_state: int) -> frozenset[int]:
        """Return the tokens between words after which every word starts a sentence."""
        if frame_state not in self._to_new_sentence:
            # While these are looked for, none is known: states may lead to one another.
            self._to_new_sentence[frame_state] = frozenset()
            found = (token for token, target in self._frame_edges(frame_state) if self._only_starts(target))
            self._to_new_sentence[frame_state] = frozenset(found)
        return self._to_new_sentence[frame_state]

    def _only_starts(self, frame_state: int) -> bool:
        """Return whether every word that may begin in a frame state, or after it, starts a sentence."""
        modes = [self.frame.modes[way.context] & SENTENCE for way in self.frame.ways[frame_state]]
        if modes:
            return all(modes)
        # No word begins inside a mark of several tokens, nor behind the last of many marks: what follows them counts.
        edges = self._frame_edges(frame_state)
        return bool(edges) and len(self._tokens_to_new_sentence(frame_state)) == len(edges)

    def _frame_edges(self, frame_state: int) -> list[tuple[int, int]]:
        """Return the tokens that may come in a frame state, each with the state after it."""
        edges = slice(self.frame.edge_start[frame_state], self.frame.edge_start[frame_state + 1])
        return list(zip(self.frame.tokens[edges].tolist(), self.frame.targets[edges].tolist(), strict=True))

    def _leads_only_to(self, paths: ContextPaths, node: int) -> bool:
        """Return whether every word through a node is one of these, or goes on after one of them."""
        while node not in paths.ends:
            children = self._list.children(node)
            if len(children) != 1:
                return False
            [node] = children
        return True

    def _resting(self, progress: Progress) -> list[Paths]:
        """Return the paths to required words that rest, for they came often enough and lately."""
        uses = zip(self._wanted, self._all_used, progress.used, progress.rests, strict=True)
        return [paths for paths, count, used, rest in uses if used >= count and rest < REST_WORDS]

    def _paths_to(self, ranks: tuple[int, ...]) -> tuple[Paths, ...]:
        return (self._list.paths.of(frozenset(ranks)),) if ranks else ()

    @override
    def _is_complete(self, progress: Progress, readings: State) -> bool:
        """Return whether a text is complete, whatever is still asked of it; its last word may be a new one."""
        if self._with_new is None:
            return self._list.can_stop(readings)
        view = self._open_view(progress)
        return any(
            (gap := view.gap_after(reading)) is not None and self.frame.is_complete[-1 - gap] for reading in readings
        )

    def _open_view(self, progress: Progress) -> View:
        """Return the view of the open word, which may be a new one: one that came already, or by the spacing."""
        with_new = self._with_new if self._may_be_new(progress.since_new, progress) else None
        return View(self._list, with_new or self._list, self._list, self._paths_to(progress.introduced))

    @override
    def _after_word(self, progress: Progress, readings: State) -> Progress:
        """Return the progress if the open word ends here: the word of the best rank, if there are several."""
        if self._with_new is None and not self._all_used:
            # Only sentences are counted.
            return progress
        view = self._open_view(progress)
        ranks = [
            view.open_word.rank(reading >> 32, reading & NODE)
            for reading in readings
            if reading >= 0 and view.gap_after(reading) is not None
        ]
        if not ranks:
            return progress
        rank = min(ranks)
        used = tuple(num + (rank in one.ranks) for num, one in zip(progress.used, self._controls.must_use, strict=True))
        rests = tuple(
            0 if now > before else rest for now, before, rest in zip(used, progress.used, progress.rests, strict=True)
        )
        progress = progress._replace(used=used, rests=rests)
        if rank <= self._list.n_words or rank in progress.introduced:
            return progress
        return progress._replace(since_new=0, introduced=(*progress.introduced, rank))

    def _next(self, progress: Progress, after: Progress, before: State, token: int, found: State) -> Progress:
        """Return the progress after a token, which may go on with a word, begin one, or begin a sentence."""
        going_on = {self._list.child(node, token) for node in map(self._node, before) if node >= 0}
        in_word = [reading for reading in found if self._node(reading) >= 0]
        if any(reading & NODE in going_on for reading in in_word):
            return progress
        begun = [reading for reading in in_word if reading & NODE not in self._possessive]
        if not begun:
            return after
        starts = bool(self.frame.modes[begun[0] >> 32] & SENTENCE)
        spacing = self._first.since_new
        return after._replace(
            since_new=min(after.since_new + 1, spacing),
            rests=tuple(min(rest + 1, REST_WORDS) for rest in after.rests),
            num_words=1 if starts else after.num_words + 1,
            num_sentences=after.num_sentences + starts,
        )

    def _node(self, reading: int) -> int:
        """Return the node of a reading within a word; -1 between words, and where only a blank of it was written."""
        node = reading & NODE
        return -1 if reading < 0 or node in self._blanks else node

    def _is_after_blank(self, readings: State) -> bool:
        """Return whether of the word that is open only a blank was written, so that it does not count yet."""
        nodes = [reading & NODE for reading in readings if reading >= 0]
        return bool(nodes) and self._blanks.issuperset(nodes)

    def _cost_of(self, words: Paths) -> int:
        """Return how many tokens one of these words takes, from the costliest root."""
        return max((paths.to_end[root] for paths in words for root in self._roots if root in paths.to_end), default=0)

    def _possessive_nodes(self) -> frozenset[int]:
        """Return the trie's nodes that spell the English 's; none where the list has no such root."""
        states = self._list
        root = (states.words if states.overlay is None else states.overlay).roots.get(POSSESSIVE)
        if root is None:
            return frozenset()
        found = [root]
        for node in found:
            if node < states.words.num_nodes:
                found += states.children(node)
        return frozenset(found)
