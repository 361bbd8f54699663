"""The states of a text that an author controls: which list holds for the next word, by what was written so far.

A state is one of ``vocab.matching.states`` after a few counts (``Progress``), in one tuple, so that it is followed,
kept and sent like any other. At each step the next word comes from all of the list, from more of it (new words), or
from less (required words, the end of a sentence). What an author asks never leaves a text without an end: where it
would empty a mask, it is loosened.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final, NamedTuple, TypeAlias

import numpy as np

from vocab.arrays.byte_trie import Int32Array
from vocab.automaton.frame import SENTENCE
from vocab.automaton.words import POSSESSIVE
from vocab.matching.controls import Controls
from vocab.matching.masks import ANY_WORDS, CONTINUING, NO_BUDGET, NO_TOKENS, STARTING, set_token_bits
from vocab.matching.states import MAX_READINGS, ListStates, State
from vocab.matching.word_paths import ModePaths

_NODE: Final = 0xFFFFFFFF

_Paths: TypeAlias = tuple[ModePaths, ...]

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
"""Kept for the end of the word that is being written when required words are forced."""


class Progress(NamedTuple):
    """What the controls count of a text so far.

    Attributes:
        since_new: Words since the last new one, no more than the spacing.
        num_words: Of the open sentence.
        num_sentences: Begun.
        used: Of each required word, how often it came.
        rests: Of each, words since it came, no more than ``REST_WORDS``.
        introduced: Ranks of the new words.
    """

    since_new: int
    num_words: int
    num_sentences: int
    used: tuple[int, ...]
    rests: tuple[int, ...]
    introduced: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class _NextWords:
    """What may come next: how the open word goes on, what follows it, and single words besides."""

    inside: ListStates
    begin: ListStates
    besides: _Paths | None = None
    is_forced: bool = False


class ControlledStates:
    """``ListStates`` under the controls of one request; not thread-safe.

    Args:
        states: Those of the list.
        controls: What the author asks.
    """

    def __init__(self, states: ListStates, controls: Controls) -> None:
        self._states, self._controls = states, controls
        self.words, self.frame, self.overlay = states.words, states.frame, states.overlay
        self._all_used = tuple(one.count for one in controls.must_use)
        self._first = Progress(
            controls.new_words.spacing if controls.new_words else 0,
            0,
            0,
            (0,) * len(controls.must_use),
            (REST_WORDS,) * len(controls.must_use),
        )
        self._header = 4 + 2 * len(controls.must_use)
        self._num_tokens = controls.num_tokens
        self._wide = None
        if controls.new_words is not None and controls.new_words.n_words > states.n_words:
            self._wide = states.variant(controls.new_words.n_words, ends=states)
        self._paths: dict[frozenset[int], _Paths] = {}
        self._to_new_sentence: dict[int, frozenset[int]] = {}
        self._scratch = np.zeros((states.words.num_tokens + 31) // 32, dtype=np.int32)
        self._roots = frozenset((self.words if self.overlay is None else self.overlay).roots.values())
        self._blanks = frozenset(states.child(root, self.frame.blank) for root in self._roots)
        self._possessive = self._possessive_nodes()

    @property
    def start(self) -> State:
        return _pack_state(self._first, self._states.start)

    def begin(self, place: int | None) -> State:
        """Return the state after what a client wrote, as ``ListStates.begin``; a sentence begun there counts."""
        readings = self._states.begin(place)
        starts = any(self.frame.modes[context] & SENTENCE for _, context in self._states.ways(readings[0]))
        return _pack_state(self._first._replace(num_sentences=int(not starts)), readings)

    def begin_after(self, num_tokens: int) -> None:
        """Subtract tokens written before the text from the budget over which required words are spread."""
        self._num_tokens = max(self._controls.num_tokens - num_tokens, 1)

    def progress(self, state: State) -> Progress:
        """Return what the controls count of a text in this state, its last word as if it ended here."""
        progress, readings = self._unpack_state(state)
        return self._after_word(progress, readings)

    def num_missing(self, state: State) -> int:
        """Return how many uses of required words a text in this state lacks."""
        return sum(self._missing(self.progress(state)))

    def fill(self, out: Int32Array, state: State, budget: int, stops: Int32Array = NO_TOKENS) -> None:
        """Write the mask of a state under the controls, as ``ListStates.fill``."""
        progress, readings = self._unpack_state(state)
        after = self._after_word(progress, readings)
        may_stop = self._may_stop(after) and self._can_stop(progress, readings)
        for course in self._courses(progress, after, budget):
            self._fill(out, course, readings, budget)
            self._clear_unwanted(out, course, progress, after, readings)
            if may_stop and not course.is_forced:
                set_token_bits(out, stops, True)
            if out.any():
                return
        set_token_bits(out, stops, self._can_stop(progress, readings))

    def target(self, state: State, token: int, budget: int) -> State:
        """Return the state that a token leads to under the controls, as ``ListStates.target``."""
        progress, readings = self._unpack_state(state)
        after = self._after_word(progress, readings)
        may_stop = self._may_stop(after) and self._can_stop(progress, readings)
        for course in self._courses(progress, after, budget):
            found = self._target(course, readings, token, budget)
            if found and token in self._unwanted_tokens(course, progress, after, readings):
                self._fill(self._scratch, course, readings, budget)
                self._clear_unwanted(self._scratch, course, progress, after, readings)
                if not self._scratch[token >> 5] >> np.int32(token & 31) & 1:
                    return ()
            if found:
                return _pack_state(self._next(progress, after, readings, token, found), found)
            self._fill(self._scratch, course, readings, budget)
            if self._scratch.any() or (may_stop and not course.is_forced):
                return ()
        return ()

    def can_stop(self, state: State) -> bool:
        """Return whether a text is complete, whatever the author still asks, as ``ListStates.can_stop``."""
        return self._can_stop(*self._unpack_state(state))

    def is_in_word(self, state: State) -> bool:
        """Return whether the text ends in a word, as ``ListStates.is_in_word``."""
        return self._states.is_in_word(self._unpack_state(state)[1])

    def continues_word(self, state: State, token: int, target: State) -> bool:
        """Return whether a token goes on with the open word, as ``ListStates.continues_word``."""
        return self._states.continues_word(self._unpack_state(state)[1], token, self._unpack_state(target)[1])

    def is_bound_by(self, budget: int) -> bool:
        """Return whether a budget may change a mask, as ``ListStates.is_bound_by``."""
        return self._states.is_bound_by(budget)

    def tokens_to_end(self, state: State) -> int | None:
        """Return how few tokens complete a text, whatever the author asks, as ``ListStates.tokens_to_end``."""
        return self._states.tokens_to_end(self._unpack_state(state)[1])

    def check(self, state: State) -> None:
        """Raise ``ValueError`` where a state cannot be one of these, as ``ListStates.check``."""
        if not state:
            return
        length = state[0]
        if not self._header <= length < len(state) or min(state[:length]) < 0:
            raise ValueError("this is no state of a text with these controls")
        self._states.check(state[length:])

    def _unpack_state(self, state: State) -> tuple[Progress, State]:
        """Split a state into its progress and its readings."""
        length, end_of_header, num_used = state[0], self._header, len(self._all_used)
        since_new, num_words, num_sentences = state[1:4]
        used, rests = state[4 : 4 + num_used], state[4 + num_used : end_of_header]
        return Progress(since_new, num_words, num_sentences, used, rests, state[end_of_header:length]), state[length:]

    # What the author's wishes come to at a state.

    def _courses(self, progress: Progress, after: Progress, budget: int) -> Iterator[_NextWords]:
        """Yield the courses, as the author asks first; each of the others is for where the one before allows nothing.

        ``after`` is the progress if the last word ends here.
        """
        controls, states = self._controls, self._states
        inside = self._wide if self._wide is not None and self._may_be_new(progress.since_new, progress) else states
        next_is_new = self._wide is not None and self._may_be_new(after.since_new + 1, after)
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
            words_left = controls.max_sentence_words - after.num_words
            is_last_place = after.num_sentences >= controls.max_sentences and words_left <= sum(missing)
            num_words = NO_WORDS if is_last_place else self._n_words_when_due(missing, budget)
            if num_words is not None:
                if num_words == NO_WORDS:
                    yield _NextWords(inside, states.variant(states.n_words, opens), wanted, is_forced=True)
                    num_words = _FEWER[-1][1]
                fewer = states.variant(min(num_words, states.n_words), opens)
                yield _NextWords(inside, fewer, self._paths_of(ranks | introduced))
        besides = self._paths_of(introduced) if introduced else None
        for open_now in dict.fromkeys((opens, ANY_WORDS)):
            if next_is_new and self._wide is not None:
                ends = states.variant(states.n_words, open_now)
                begin = states.variant(self._wide.n_words, open_now, ends)
            else:
                begin = states.variant(states.n_words, open_now)
            yield _NextWords(inside, begin, besides)

    def _may_be_new(self, since_new: int, progress: Progress) -> bool:
        """Return whether a word may be a new one, by the spacing and number of new words."""
        new_words = self._controls.new_words
        return (
            new_words is not None and since_new >= new_words.spacing and len(progress.introduced) < new_words.max_words
        )

    def _missing(self, progress: Progress) -> list[int]:
        """Return, by required word, how often it must still come."""
        return [max(count - used, 0) for count, used in zip(self._all_used, progress.used, strict=True)]

    def _may_stop(self, progress: Progress) -> bool:
        """Return whether the controls let a text end: sentences enough, and no required word missing."""
        return progress.num_sentences >= self._controls.min_sentences and not any(self._missing(progress))

    def _n_words_when_due(self, missing: list[int], budget: int) -> int | None:
        """Return the N for the next word while a required word is due, ``NO_WORDS`` to force it; else None."""
        if budget == NO_BUDGET:
            return None
        cost = (
            self._states.longest_end
            + _SPARE_TOKENS
            + sum(
                num * self._cost_of(one.ranks) for num, one in zip(missing, self._controls.must_use, strict=True) if num
            )
        )
        if budget <= cost:
            return NO_WORDS
        num_uses = sum(self._all_used)
        pace = min(max(self._num_tokens // (num_uses + 1), 1), PACE_TOKENS)
        late = self._num_tokens - 1 - budget - pace * (num_uses - sum(missing) + 1)
        if late < 0:
            return None
        return next((num_words for num_tokens, num_words in _FEWER if late < num_tokens), NO_WORDS)

    # Masks and steps.

    def _fill(self, out: Int32Array, course: _NextWords, readings: State, budget: int) -> None:
        """Write the mask of a course: only words asked for where it is forced, else its lists and single words."""
        if course.is_forced:
            out[:] = 0
            for reading in readings:
                self._force(out, course, reading, budget)
            return
        course.begin.fill(out, readings, budget, NO_TOKENS, course.inside)
        if course.besides is not None:
            for reading in readings:
                self._allow_single_words(out, course, reading, budget)

    def _force(self, out: Int32Array, course: _NextWords, reading: int, budget: int) -> None:
        """Allow only the words asked for in a mask, after or within a word; any other word ends as it may."""
        context, node = reading >> 32, reading & _NODE
        gap = self._gap_after(course, reading)
        tokens = list(self._besides_in(course, context, node, budget)) if reading >= 0 else []
        if gap is not None:
            tokens += self._besides_begun(course, gap, budget)
        if tokens:
            set_token_bits(out, np.asarray([token for token, _ in tokens], dtype=np.int32), True)
        elif reading >= 0 and gap is None:
            one = np.zeros_like(out)
            course.inside.fill(one, (reading,), budget)
            out |= one

    def _allow_single_words(self, out: Int32Array, course: _NextWords, reading: int, budget: int) -> None:
        """Allow a course's single words in a mask, and what may follow them, from one reading."""
        gap = self._gap_after(course, reading)
        tokens: list[tuple[int, int]] = []
        if reading >= 0:
            tokens += self._besides_in(course, reading >> 32, reading & _NODE, budget)
            if gap is not None and not course.inside.ends_word(reading):
                one = np.zeros_like(out)
                course.begin.fill(one, (gap,), budget)
                out |= one
        if gap is not None:
            tokens += self._besides_begun(course, gap, budget)
        if tokens:
            set_token_bits(out, np.asarray([token for token, _ in tokens], dtype=np.int32), True)

    def _clear_unwanted(
        self, out: Int32Array, course: _NextWords, progress: Progress, after: Progress, readings: State
    ) -> None:
        """Clear the unwanted tokens in a mask, unless nothing would be left."""
        tokens = self._unwanted_tokens(course, progress, after, readings)
        if not tokens:
            return
        before = out.copy()
        set_token_bits(out, np.asarray(sorted(tokens), dtype=np.int32), False)
        if not out.any():
            out[:] = before

    def _unwanted_tokens(
        self, course: _NextWords, progress: Progress, after: Progress, readings: State
    ) -> frozenset[int]:
        """Return the tokens that end a resting word, or the last sentence before every required word came.

        ``after`` holds for words that begin now.
        """
        if course.is_forced or not self._all_used:
            return frozenset()
        now, resting_after = self._resting(progress), self._resting(after)
        is_last = after.num_sentences >= self._controls.max_sentences and any(self._missing(after))
        nodes: list[tuple[_Paths, int, int]] = []
        tokens: set[int] = set()
        for reading in readings:
            if reading >= 0 and now is not None:
                nodes.append((now, reading >> 32, reading & _NODE))
            if (resting_after is not None or is_last) and (gap := self._gap_after(course, reading)) is not None:
                if resting_after is not None:
                    nodes += ((resting_after, context, node) for node, context in course.begin.ways(gap))
                if is_last:
                    tokens |= self._tokens_to_new_sentence(-1 - gap)
        tokens.update(
            token
            for paths, context, node in nodes
            for token, child in paths[self.frame.modes[context]].children.get(node, ())
            if self._leads_only_to(paths[self.frame.modes[context]], child)
        )
        return frozenset(tokens)

    def _tokens_to_new_sentence(self, frame_state: int) -> frozenset[int]:
        """Return the tokens between words after which every word starts a sentence."""
        known = self._to_new_sentence.get(frame_state)
        if known is None:
            edges = slice(self.frame.edge_start[frame_state], self.frame.edge_start[frame_state + 1])
            tokens, targets = self.frame.tokens[edges].tolist(), self.frame.targets[edges].tolist()
            known = frozenset(token for token, target in zip(tokens, targets, strict=True) if self._only_starts(target))
            self._to_new_sentence[frame_state] = known
        return known

    def _only_starts(self, frame_state: int) -> bool:
        """Return whether every word that may begin in a frame state starts a sentence."""
        modes = [self.frame.modes[way.context] & SENTENCE for way in self.frame.ways[frame_state]]
        return bool(modes) and all(modes)

    def _leads_only_to(self, paths: ModePaths, node: int) -> bool:
        """Return whether every word through a node is one of these, or goes on after one of them."""
        while node not in paths.ends:
            children = self._states.children(node)
            if len(children) != 1:
                return False
            [node] = children
        return True

    def _resting(self, progress: Progress) -> _Paths | None:
        """Return the paths to required words that rest, for they came often enough and lately; None for none."""
        ranks = [
            rank
            for one, used, rest in zip(self._controls.must_use, progress.used, progress.rests, strict=True)
            if used >= one.count and rest < REST_WORDS
            for rank in one.ranks
        ]
        return self._paths_of(frozenset(ranks)) if ranks else None

    def _target(self, course: _NextWords, readings: State, token: int, budget: int) -> State:
        """Return the readings that a token leads to on a course; empty where it is not allowed."""
        found: set[int] = set()
        if not course.is_forced:
            # A new word only where no listed one can be read.
            if course.inside is self._wide:
                found.update(self._target(replace(course, inside=self._states), readings, token, budget))
            found.update(found or course.begin.target(readings, token, budget, course.inside))
        for reading in readings if course.besides is not None else ():
            gap = self._gap_after(course, reading)
            nodes: list[tuple[int, int]] = []
            if reading >= 0:
                nodes += self._besides_in(course, reading >> 32, reading & _NODE, budget)
                if gap is not None and not course.is_forced and not course.inside.ends_word(reading):
                    found.update(course.begin.target((gap,), token, budget))
            if gap is not None:
                nodes += self._besides_begun(course, gap, budget)
            if course.is_forced and not nodes and reading >= 0 and gap is None:
                found.update(course.inside.target((reading,), token, budget))
            found.update(one for by, one in nodes if by == token)
        return tuple(sorted(found)[:MAX_READINGS])

    def _gap_after(self, course: _NextWords, reading: int) -> int | None:
        """Return the reading between words: itself, or the one after its word where that may end; else None."""
        if reading < 0:
            return reading
        context, node = reading >> 32, reading & _NODE
        is_end = course.inside.ends_word(reading)
        if not is_end and course.besides is not None:
            is_end = node in course.besides[self.frame.modes[context]].ends
        return -1 - int(self.frame.after[context, self._kind(node)]) if is_end else None

    def _kind(self, node: int) -> int:
        """Return the kind of the word that ends at a node of the trie or the overlay."""
        num_base = self.words.num_nodes
        if node < num_base:
            return int(self.words.kinds[node])
        return int(self.overlay.kinds[node - num_base]) if self.overlay is not None else 0

    def _besides_in(self, course: _NextWords, context: int, node: int, budget: int) -> Iterator[tuple[int, int]]:
        """Yield the tokens that go on with one of a course's single words, each with the reading after it."""
        if course.besides is None:
            return
        paths = course.besides[self.frame.modes[context]]
        for token, child in paths.children.get(node, ()):
            if self._is_within(paths.to_end[child], budget):
                yield token, context << 32 | child

    def _besides_begun(self, course: _NextWords, gap: int, budget: int) -> Iterator[tuple[int, int]]:
        """Yield the tokens that begin one of a course's single words, each with the reading after it."""
        if course.besides is None:
            return
        for node, context in course.begin.ways(gap):
            yield from self._besides_in(course, context, node, budget)

    def _is_within(self, num_tokens: int, budget: int) -> bool:
        """Return whether so many tokens and the longest end of a text fit into a budget."""
        return budget == NO_BUDGET or num_tokens + self._states.longest_end <= budget

    def _can_stop(self, progress: Progress, readings: State) -> bool:
        """Return whether a text with these readings is complete, new words included."""
        course = _NextWords(self._open_word_states(progress), self._states, self._known_besides(progress))
        return any(
            (gap := self._gap_after(course, reading)) is not None and self.frame.is_complete[-1 - gap]
            for reading in readings
        )

    def _open_word_states(self, progress: Progress) -> ListStates:
        """Return the states by which the open word goes on: the wider ones where it may be a new word."""
        if self._wide is not None and self._may_be_new(progress.since_new, progress):
            return self._wide
        return self._states

    def _known_besides(self, progress: Progress) -> _Paths | None:
        """Return the paths to new words that came already; None for none."""
        return self._paths_of(frozenset(progress.introduced)) if progress.introduced else None

    # Counting.

    def _after_word(self, progress: Progress, readings: State) -> Progress:
        """Return the progress if the open word ends here: the word of the best rank, if there are several."""
        inside, besides = self._open_word_states(progress), self._known_besides(progress)
        course = _NextWords(inside, self._states, besides)
        ranks = [
            inside.rank(reading >> 32, reading & _NODE)
            for reading in readings
            if reading >= 0 and self._gap_after(course, reading) is not None
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
        if any(reading & _NODE in going_on for reading in in_word):
            return progress
        begun = [reading for reading in in_word if reading & _NODE not in self._possessive]
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
        node = reading & _NODE
        return -1 if reading < 0 or node in self._blanks else node

    # Words by rank.

    def _paths_of(self, ranks: frozenset[int]) -> _Paths:
        """Return the paths to the words of these ranks, by mode; cached."""
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


def _pack_state(progress: Progress, readings: State) -> State:
    """Join progress and readings into one state."""
    counts = progress.since_new, progress.num_words, progress.num_sentences
    header = (*counts, *progress.used, *progress.rests, *progress.introduced)
    return (len(header) + 1, *header, *readings)
