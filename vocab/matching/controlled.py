"""The states of a text that an author controls: which list holds for the next word, by what was written so far.

A state is one of ``vocab.matching.states`` after a few counts (``Progress``), in one tuple, so that it is followed,
cached and sent like any other. At each step the next word comes from all of the list, from more of it (new words), or
from less (required words, the end of a sentence). What an author asks never leaves a text without an end: where it
would empty a mask, it is loosened.
"""

from collections.abc import Iterator
from typing import Any, Final

import numpy as np

from vocab.arrays.byte_trie import Int32Array
from vocab.automaton.compiled_list import POSSESSIVE
from vocab.automaton.frame import SENTENCE
from vocab.matching.controls import Controls, Progress
from vocab.matching.courses import Course
from vocab.matching.mask_kernels import NO_BUDGET, set_token_bits
from vocab.matching.paths import ContextPaths, Paths
from vocab.matching.states import ANY_WORDS, CONTINUING, NO_TOKENS, NODE, STARTING, ListStates, State

NO_WORDS: Final = -(2**30)
"""An N that not even added words reach."""

PACE_TOKENS: Final = 32
"""A required word is due so many tokens after the last one, or earlier where the budget is short."""

REST_WORDS: Final = 30
"""A required word that came often enough rests for so many words: what makes it likely to come at all stays."""

_FEWER: Final = ((4, 400), (8, 100), (12, 25))
"""Where a word is due, the next ones come from ever fewer frequent words, so that the text leads up to it: for so many
tokens from so many words. After that it is forced."""

_SPARE_TOKENS: Final = 4
"""Reserved to end the open word when required words are forced."""


class ControlledStates:
    """``ListStates`` under the controls of one request; not thread-safe.

    Args:
        states: Those of the list.
        controls: What the author asks.
    """

    def __init__(self, states: ListStates, controls: Controls) -> None:
        self._set_up(states, controls)
        self.frame = states.frame
        self._wide = None
        if controls.new_words is not None and controls.new_words.n_words > states.n_words:
            self._wide = states.view(controls.new_words.n_words, ends=states)
        self._paths: dict[frozenset[int], Paths] = {}
        self._to_new_sentence: dict[int, frozenset[int]] = {}
        self._roots = frozenset((self.words if self.overlay is None else self.overlay).roots.values())
        self._blanks = frozenset(states.child(root, self.frame.blank) for root in self._roots)
        self._possessive = self._possessive_nodes()

    def _set_up(self, states: Any, controls: Controls) -> None:
        """Set what texts with and without spaces have in common, which asks of ``states`` what those of both have."""
        self._states: ListStates = states
        self._controls = controls
        self.words, self.overlay = states.words, states.overlay
        self._all_used = tuple(one.count for one in controls.must_use)
        num_wanted, spacing = len(controls.must_use), controls.new_words.spacing if controls.new_words else 0
        self._first = Progress(spacing, 0, 0, (0,) * num_wanted, (REST_WORDS,) * num_wanted)
        self._header = 4 + 2 * num_wanted
        self._num_tokens = controls.num_tokens
        self._scratch = np.zeros((states.words.num_tokens + 31) // 32, dtype=np.int32)

    @property
    def start(self) -> State:
        return self._first.pack(self._states.start)

    def begin(self, place: int | None) -> State:
        """Return the state after what a client wrote, as ``ListStates.begin``; a sentence begun there counts."""
        readings = self._states.begin(place)
        return self._first._replace(num_sentences=int(not self._starts_sentence(readings[0]))).pack(readings)

    def _starts_sentence(self, reading: int) -> bool:
        """Return whether a word would start a sentence after a reading between words."""
        return any(self.frame.modes[context] & SENTENCE for _, context in self._states.ways(reading))

    def begin_after(self, num_tokens: int) -> None:
        """Subtract tokens written before the text from the budget over which required words are spread."""
        self._num_tokens = max(self._controls.num_tokens - num_tokens, 1)

    def progress(self, state: State) -> Progress:
        """Return what the controls count of a text in this state, its last word as if it ended here."""
        progress, readings = Progress.unpack(state, len(self._all_used))
        return self._after_word(progress, readings)

    def num_missing(self, state: State) -> int:
        """Return how many uses of required words a text in this state lacks."""
        return sum(self._missing(self.progress(state)))

    def fill(self, out: Int32Array, state: State, budget: int, stops: Int32Array = NO_TOKENS) -> None:
        """Write the mask of a state under the controls, as ``ListStates.fill``."""
        progress, readings = Progress.unpack(state, len(self._all_used))
        after = self._after_word(progress, readings)
        may_stop = self._may_stop(after) and self._is_complete(progress, readings)
        for course in self._courses(progress, after, readings, budget):
            course.fill(out, readings, budget)
            self._clear_unwanted(out, course, progress, after, readings)
            if may_stop and not course.is_forced:
                set_token_bits(out, stops, True)
            if out.any():
                return
        set_token_bits(out, stops, self._is_complete(progress, readings))

    def target(self, state: State, token: int, budget: int) -> State:
        """Return the state that a token leads to under the controls, as ``ListStates.target``."""
        progress, readings = Progress.unpack(state, len(self._all_used))
        after = self._after_word(progress, readings)
        may_stop = self._may_stop(after) and self._is_complete(progress, readings)
        for course in self._courses(progress, after, readings, budget):
            found = course.target(readings, token, budget)
            if found and token in self._unwanted_tokens(course, progress, after, readings):
                course.fill(self._scratch, readings, budget)
                self._clear_unwanted(self._scratch, course, progress, after, readings)
                if not self._scratch[token >> 5] >> np.int32(token & 31) & 1:
                    return ()
            if found:
                return self._next(progress, after, readings, token, found).pack(found)
            course.fill(self._scratch, readings, budget)
            if self._scratch.any() or (may_stop and not course.is_forced):
                return ()
        return ()

    def can_stop(self, state: State) -> bool:
        """Return whether a text is complete, whatever the author still asks, as ``ListStates.can_stop``."""
        return self._is_complete(*Progress.unpack(state, len(self._all_used)))

    def readings(self, state: State) -> State:
        """Return the readings of a state, as ``ListStates`` has them."""
        return Progress.unpack(state, len(self._all_used))[1]

    def may_stop(self, state: State) -> bool:
        """Return whether a text is complete, and has what the author asks of it."""
        progress, readings = Progress.unpack(state, len(self._all_used))
        return self._may_stop(self._after_word(progress, readings)) and self._is_complete(progress, readings)

    def is_in_word(self, state: State) -> bool:
        """Return whether the text ends in a word, as ``ListStates.is_in_word``."""
        return self._states.is_in_word(self.readings(state))

    def continues_word(self, state: State, token: int, target: State) -> bool:
        """Return whether a token goes on with the open word, as ``ListStates.continues_word``."""
        return self._states.continues_word(self.readings(state), token, self.readings(target))

    def is_bound_by(self, budget: int) -> bool:
        """Return whether a budget may change a mask, as ``ListStates.is_bound_by``."""
        return self._states.is_bound_by(budget)

    def tokens_to_end(self, state: State) -> int | None:
        """Return how few tokens complete a text, whatever the author asks, as ``ListStates.tokens_to_end``."""
        return self._states.tokens_to_end(self.readings(state))

    def check(self, state: State) -> None:
        """Raise ``ValueError`` where a state cannot be one of these, as ``ListStates.check``."""
        if not state:
            return
        length = state[0]
        if not self._header <= length < len(state) or min(state[:length]) < 0:
            raise ValueError("this is no state of a text with these controls")
        self._states.check(state[length:])

    # What the author's wishes come to at a state.

    def _courses(self, progress: Progress, after: Progress, readings: State, budget: int) -> Iterator[Course]:
        """Yield the courses, as the author asks first; each of the others is for where the one before allows nothing.

        ``after`` is the progress if the last word ends here.
        """
        controls, states = self._controls, self._states
        inside = self._open_course(progress).inside
        wide = self._wide if self._may_be_new(after.since_new + 1, after) else None
        if wide is not None and self._is_after_blank(readings):
            inside = wide
        introduced = frozenset(after.introduced)
        opens = ANY_WORDS
        if after.num_words >= controls.max_sentence_words:
            opens &= ~CONTINUING
        if after.num_sentences >= controls.max_sentences:
            opens &= ~STARTING
        missing = self._missing(after)
        if any(missing) and opens:
            ranks = frozenset(
                rank for one, num in zip(controls.must_use, missing, strict=True) if num for rank in one.ranks
            )
            wanted = self._paths_of(ranks)
            num_words = self._n_words_when_due(missing, after, budget)
            if num_words is not None:
                if num_words == NO_WORDS:
                    yield Course(self._states, inside, states.view(states.n_words, opens), wanted, is_forced=True)
                    num_words = _FEWER[-1][1]
                fewer = states.view(min(num_words, states.n_words), opens)
                yield Course(self._states, inside, fewer, self._paths_of(ranks | introduced))
        known = self._paths_of(introduced) if introduced else None
        for open_now in dict.fromkeys((opens, ANY_WORDS)):
            if wide is not None:
                ends = states.view(states.n_words, open_now)
                begin = states.view(wide.n_words, open_now, ends)
            else:
                begin = states.view(states.n_words, open_now)
            yield Course(self._states, inside, begin, known)

    def _may_be_new(self, since_new: int, progress: Progress) -> bool:
        """Return whether a word may be a new one, by the spacing and number of new words."""
        new = self._controls.new_words
        return new is not None and since_new >= new.spacing and len(progress.introduced) < new.max_words

    def _missing(self, progress: Progress) -> list[int]:
        """Return, by required word, how often it must still come."""
        return [max(count - used, 0) for count, used in zip(self._all_used, progress.used, strict=True)]

    def _may_stop(self, progress: Progress) -> bool:
        """Return whether the controls let a text end: sentences enough, and no required word missing."""
        return progress.num_sentences >= self._controls.min_sentences and not any(self._missing(progress))

    def _n_words_when_due(self, missing: list[int], after: Progress, budget: int) -> int | None:
        """Return the N for the next word while a required word is due, ``NO_WORDS`` to force it; else None.

        One is due by pace, by budget, or as one of the last words of the text.
        """
        words_left = self._controls.max_sentence_words - after.num_words
        if after.num_sentences >= self._controls.max_sentences and words_left <= sum(missing):
            return NO_WORDS
        if budget == NO_BUDGET:
            return None
        uses = zip(missing, self._controls.must_use, strict=True)
        cost = self._states.longest_end + _SPARE_TOKENS
        cost += sum(num * self._cost_of(one.ranks) for num, one in uses if num)
        if budget <= cost:
            return NO_WORDS
        num_uses = sum(self._all_used)
        pace = min(max(self._num_tokens // (num_uses + 1), 1), PACE_TOKENS)
        late = self._num_tokens - 1 - budget - pace * (num_uses - sum(missing) + 1)
        if late < 0:
            return None
        return next((num_words for num_tokens, num_words in _FEWER if late < num_tokens), NO_WORDS)

    def _clear_unwanted(
        self, out: Int32Array, course: Course, progress: Progress, after: Progress, readings: State
    ) -> None:
        """Clear the unwanted tokens in a mask, unless nothing would be left."""
        tokens = self._unwanted_tokens(course, progress, after, readings)
        if not tokens:
            return
        before = out.copy()
        set_token_bits(out, np.asarray(sorted(tokens), dtype=np.int32), False)
        if not out.any():
            out[:] = before

    def _unwanted_tokens(self, course: Course, progress: Progress, after: Progress, readings: State) -> frozenset[int]:
        """Return the tokens that end a resting word, or the last sentence before every required word came.

        ``after`` holds for words that begin now.
        """
        if course.is_forced or not self._all_used:
            return frozenset()
        now, resting_after = self._resting(progress), self._resting(after)
        is_last = after.num_sentences >= self._controls.max_sentences and any(self._missing(after))
        nodes: list[tuple[Paths, int, int]] = []
        tokens: set[int] = set()
        for reading in readings:
            if reading >= 0 and now is not None:
                nodes.append((now, reading >> 32, reading & NODE))
            if (resting_after is not None or is_last) and (gap := course.gap_after(reading)) is not None:
                if resting_after is not None:
                    nodes += ((resting_after, context, node) for node, context in course.begin.ways(gap))
                if is_last:
                    tokens |= self._tokens_to_new_sentence(-1 - gap)
        tokens.update(
            token
            for paths, context, node in nodes
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
            children = self._states.children(node)
            if len(children) != 1:
                return False
            [node] = children
        return True

    def _resting(self, progress: Progress) -> Paths | None:
        """Return the paths to required words that rest, for they came often enough and lately; None for none."""
        ranks = [
            rank
            for one, used, rest in zip(self._controls.must_use, progress.used, progress.rests, strict=True)
            if used >= one.count and rest < REST_WORDS
            for rank in one.ranks
        ]
        return self._paths_of(frozenset(ranks)) if ranks else None

    def _is_complete(self, progress: Progress, readings: State) -> bool:
        """Return whether a text is complete, whatever is still asked of it; its last word may be a new one."""
        if self._wide is None:
            return self._states.can_stop(readings)
        course = self._open_course(progress)
        return any(
            (gap := course.gap_after(reading)) is not None and self.frame.is_complete[-1 - gap] for reading in readings
        )

    def _open_course(self, progress: Progress) -> Course:
        """Return the course of the open word, which may be a new one: one that came already, or by the spacing."""
        introduced = self._paths_of(frozenset(progress.introduced)) if progress.introduced else None
        wide = self._wide if self._may_be_new(progress.since_new, progress) else None
        return Course(self._states, wide or self._states, self._states, introduced)

    # Counting.

    def _after_word(self, progress: Progress, readings: State) -> Progress:
        """Return the progress if the open word ends here: the word of the best rank, if there are several."""
        if self._wide is None and not self._all_used:
            # Only sentences are counted.
            return progress
        course = self._open_course(progress)
        ranks = [
            course.inside.rank(reading >> 32, reading & NODE)
            for reading in readings
            if reading >= 0 and course.gap_after(reading) is not None
        ]
        if not ranks:
            return progress
        rank = min(ranks)
        used = tuple(num + (rank in one.ranks) for num, one in zip(progress.used, self._controls.must_use, strict=True))
        rests = tuple(
            0 if now > before else rest for now, before, rest in zip(used, progress.used, progress.rests, strict=True)
        )
        progress = progress._replace(used=used, rests=rests)
        if rank <= self._states.n_words or rank in progress.introduced:
            return progress
        return progress._replace(since_new=0, introduced=(*progress.introduced, rank))

    def _next(self, progress: Progress, after: Progress, before: State, token: int, found: State) -> Progress:
        """Return the progress after a token, which may go on with a word, begin one, or begin a sentence."""
        going_on = {self._states.child(node, token) for node in map(self._node, before) if node >= 0}
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

    # Words by rank.

    def _paths_of(self, ranks: frozenset[int]) -> Paths:
        """Return the paths to the words of these ranks, by context; cached."""
        if ranks not in self._paths:
            self._paths[ranks] = self._states.paths.of(ranks)
        return self._paths[ranks]

    def _cost_of(self, ranks: tuple[int, ...]) -> int:
        """Return how many tokens one of these words takes, from the costliest root."""
        found = self._paths_of(frozenset(ranks))
        return max((paths.to_end[root] for paths in found for root in self._roots if root in paths.to_end), default=0)

    def _possessive_nodes(self) -> frozenset[int]:
        """Return the trie's nodes that spell the English 's; none where the list has no such root."""
        root = (self.words if self.overlay is None else self.overlay).roots.get(POSSESSIVE)
        if root is None:
            return frozenset()
        found, start, tokens = [root], self.words.edge_start, self.words.children
        for node in found:
            if node < self.words.num_nodes:
                found += tokens[start[node] : start[node + 1]].tolist()
        return frozenset(found)
