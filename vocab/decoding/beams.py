"""Beam search as in transformers, over the expansions of a generator.

The order of every decision is that of ``GenerationMixin._beam_search`` (transformers 5.23), so the texts and scores
are the same: candidates are ranked over all beams by the sum of log p; those that end a text and are among the first
``num_beams`` are finished; the best of the others go on. Three things differ, on purpose:

- Where fewer tokens are allowed than there are beams, there are fewer beams; transformers fills up with copies.
- Beams that spell the same text by different tokens can count once.
- ``no_repeat_ngram_size`` applies to what was generated, not to the prompt, and never removes a beam's last candidate.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Literal, Protocol

from vocab.decoding.generator import Continuation, Expansion, Generator, Place, run_together
from vocab.errors import DeadEndError
from vocab.matching.repeats import Repeats
from vocab.matching.text_states import State

_CUT_CHARACTER: Final = "\N{REPLACEMENT CHARACTER}"


class Walk(Protocol):
    """The methods of ``Generator`` that a search calls without waiting."""

    @property
    def start(self) -> Place: ...

    @property
    def end_tokens(self) -> frozenset[int]: ...

    def follow(self, place: Place, token: int, budget: int, source: str | None) -> Place: ...

    def text(self, tokens: tuple[int, ...]) -> str: ...


@dataclass(frozen=True, slots=True)
class BeamRules:
    """How beams are kept and ranked.

    Attributes:
        num_beams: How many beams go on, and how many finished texts are kept; at least 1.
        length_penalty: A finished text is ranked by its log p divided by its number of tokens to this power.
        early_stopping: When a search with ``num_beams`` finished texts ends: ``True`` at once, ``False`` when the best
            beam would not rank above the last of them at its present length, ``"never"`` when not even at the greatest
            length.
        no_repeat_ngram_size: How many tokens in a row may not come twice; 0 for any number.
        merge_equal_texts: Whether beams that spell the same text by different tokens count once, the likelier.
    """

    num_beams: int
    length_penalty: float = 1.0
    early_stopping: bool | Literal["never"] = False
    no_repeat_ngram_size: int = 0
    merge_equal_texts: bool = True

    def score(self, log_p: float, num_tokens: int) -> float:
        """Return the score that ranks a text: its log p divided by its length to ``length_penalty``."""
        return float(log_p / num_tokens**self.length_penalty)


@dataclass(frozen=True, slots=True)
class Wish:
    """A place to expand, and how many of its likeliest tokens are asked for."""

    place: Place
    num_tokens: int


@dataclass(frozen=True, slots=True)
class FinishedBeam:
    continuation: Continuation
    score: float


@dataclass(frozen=True, slots=True)
class _Beam:
    place: Place
    sum_log_p: float = 0.0
    log_p: tuple[float, ...] = ()
    log_mass: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class _Candidate:
    beam: _Beam
    token: int
    log_p: float
    expansion: Expansion

    @property
    def sum_log_p(self) -> float:
        return self.beam.sum_log_p + self.log_p

    @property
    def tokens(self) -> tuple[int, ...]:
        return (*self.beam.place.tokens, self.token)


class BeamSearch:
    """One search, step by step: expand ``wishes`` and ``take`` the expansions until ``is_over``.

    Args:
        walk: Where tokens lead, and how they read.
        budget: How many tokens a text has at most, its end token included; at least 1.
    """

    def __init__(self, walk: Walk, rules: BeamRules, budget: int) -> None:
        self._walk = walk
        self._rules = rules
        self._num_tokens = 0
        self._max_tokens = budget
        # Enough for every beam to end in all ways and num_beams others to go on.
        self._num_candidates = max(2, 1 + len(walk.end_tokens)) * rules.num_beams
        self._running = [_Beam(walk.start)]
        self._finished: list[FinishedBeam] = []
        self._is_over = False

    @property
    def is_over(self) -> bool:
        return self._is_over

    @property
    def budget(self) -> int:
        """Return how many tokens may still come."""
        return self._max_tokens - self._num_tokens

    @property
    def wishes(self) -> tuple[Wish, ...]:
        """Return the places to expand for the next step, none once the search is over."""
        if self._is_over:
            return ()
        return tuple(
            Wish(beam.place, self._num_candidates + len(self._repeating(beam.place))) for beam in self._running
        )

    def take(self, expansions: Sequence[Expansion]) -> None:
        """Advance all beams by one token, with an expansion for each wish, in their order.

        Raises:
            DeadEndError: No token is allowed anywhere, and no text is finished.
        """
        candidates = self._candidates(zip(self._running, expansions, strict=True))
        if not candidates and not self._finished:
            raise DeadEndError(f"no token may come after {self._num_tokens} tokens of any beam")
        budget = self.budget
        self._num_tokens += 1
        running: list[_Beam] = []
        for rank, candidate in enumerate(candidates):
            if not self._finishes(candidate):
                if len(running) < self._rules.num_beams:
                    running.append(self._go_on(candidate, budget))
            elif rank < self._rules.num_beams:
                self._finish(candidate)
        self._finished.sort(key=lambda finished: -finished.score)
        del self._finished[self._rules.num_beams :]
        self._running = running
        self._is_over = not running or not self._may_improve(running[0])

    def best(self, num_texts: int) -> tuple[FinishedBeam, ...]:
        """Return at most ``num_texts`` finished texts, best first."""
        return tuple(self._finished[:num_texts])

    def _candidates(self, expanded: Iterable[tuple[_Beam, Expansion]]) -> list[_Candidate]:
        """Return the likeliest candidates (a beam and its next token) over all beams, best first."""
        found = []
        for beam, expansion in expanded:
            repeating = self._repeating(beam.place)
            if repeating.issuperset(expansion.tokens):
                repeating = frozenset()
            found += [
                _Candidate(beam, token, log_p, expansion)
                for token, log_p in zip(expansion.tokens, expansion.log_p, strict=True)
                if token not in repeating
            ]
        found.sort(key=lambda candidate: -candidate.sum_log_p)
        if self._rules.merge_equal_texts:
            found = self._merge(found)
        return found[: self._num_candidates]

    def _merge(self, candidates: list[_Candidate]) -> list[_Candidate]:
        """Keep only the likeliest of candidates that spell the same text in the same state, as many as are needed."""
        kept: dict[tuple[bool, State | None, str | tuple[int, ...]], _Candidate] = {}
        budget = self.budget
        for candidate in candidates:
            if len(kept) == self._num_candidates:
                break
            ends = candidate.token in self._walk.end_tokens
            is_last = ends or budget == 1
            state = None if is_last else self._go_on(candidate, budget).place.state
            text = self._readable(candidate.beam.place.tokens if ends else candidate.tokens)
            kept.setdefault((is_last, state, text), candidate)
        return list(kept.values())

    def _readable(self, tokens: tuple[int, ...]) -> str | tuple[int, ...]:
        """Return the text of tokens; or the tokens where it ends inside a character, which the text does not show."""
        text = self._walk.text(tokens)
        return tokens if text.endswith(_CUT_CHARACTER) else text

    def _repeating(self, place: Place) -> frozenset[int]:
        """Return the next tokens that would repeat an n-gram; none without that rule."""
        size = self._rules.no_repeat_ngram_size
        return frozenset(Repeats(size, place.tokens).next_tokens()) if size else frozenset()

    def _finishes(self, candidate: _Candidate) -> bool:
        """Return whether a candidate ends its text, by an end token or the budget."""
        return candidate.token in self._walk.end_tokens or self._num_tokens == self._max_tokens

    def _go_on(self, candidate: _Candidate, budget: int) -> _Beam:
        """Return a candidate's beam, longer by its token."""
        beam, expansion = candidate.beam, candidate.expansion
        return _Beam(
            self._walk.follow(beam.place, candidate.token, budget, expansion.source),
            candidate.sum_log_p,
            (*beam.log_p, candidate.log_p),
            (*beam.log_mass, expansion.log_mass),
        )

    def _finish(self, candidate: _Candidate) -> None:
        """Add a candidate's text to the finished ones, unless an equal text has as good a score."""
        beam, tokens = candidate.beam, candidate.tokens
        ends = candidate.token in self._walk.end_tokens
        text = self._walk.text(beam.place.tokens if ends else tokens)
        score = self._rules.score(candidate.sum_log_p, len(tokens))
        if self._rules.merge_equal_texts:
            equal = [other for other in self._finished if other.continuation.text == text]
            if any(other.score >= score for other in equal):
                return
            for other in equal:
                self._finished.remove(other)
        continuation = Continuation(
            tokens=tokens,
            text=text,
            log_p=(*beam.log_p, candidate.log_p),
            log_mass=(*beam.log_mass, candidate.expansion.log_mass),
            log_weight=(0.0,) * len(tokens),
            finish="stop" if ends else "length",
            stop_reason=None,
            place=Place(tokens, beam.place.state, candidate.expansion.source),
        )
        self._finished.append(FinishedBeam(continuation, score))

    def _may_improve(self, best: _Beam) -> bool:
        """Return whether to go on: transformers' ``_check_early_stop_heuristic`` and the rule of early stopping."""
        rules = self._rules
        if len(self._finished) < rules.num_beams:
            return True
        if rules.early_stopping is True:
            return False
        reaches_far = rules.early_stopping == "never" and rules.length_penalty > 0
        length = self._max_tokens if reaches_far else self._num_tokens
        return rules.score(best.sum_log_p, length) > self._finished[-1].score


async def search_beams(
    generator: Generator, rules: BeamRules, budget: int, num_texts: int = 1
) -> tuple[FinishedBeam, ...]:
    """Return the best texts that beam search finds, best first; all places of a step are expanded at once.

    Args:
        generator: Expands them; cancelling this coroutine cancels all expansions.
        budget: How many tokens a text has at most, its end token included; at least 1.
        num_texts: How many at most; no more than ``rules.num_beams`` are found.

    Raises:
        DeadEndError: No token is allowed anywhere, and no text is finished.
        Exception: What the first failing expansion raised.
    """
    search = BeamSearch(generator, rules, budget)
    while not search.is_over:
        wishes = search.wishes
        search.take(await run_together(generator.expand(wish.place, wish.num_tokens, search.budget) for wish in wishes))
    return search.best(num_texts)
