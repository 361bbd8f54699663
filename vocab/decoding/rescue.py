"""Go back out of corners: where the mask leaves little after a letter, write the word again with another beginning.

The best choice of one step may begin a word whose rest is not listed. The sign of it is a mask that leaves less than a
share of the model's probability inside a word. Then the text returns to the start of that word and goes on from the
distribution that was kept there, less the tokens that were tried: approximately aligned decoding (Melcer et al. 2024,
arXiv:2410.01103), by words. A token is taken back only where another could be likelier than all that was tried, and
where none is, the likeliest of what was tried stays.
"""

import math
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Final, Protocol

import numpy as np

from vocab.decoding.generator import Finish, Place

MAX_BARRED: Final = 4
"""Beginnings of a word that are taken back at one place."""


@dataclass(frozen=True, slots=True)
class Step:
    """One token of a text as it is written.

    Attributes:
        start: Where it was drawn.
        place: Where it leads to.
        log_p: log p of the token.
        log_mass: log of the sum of p over all tokens that were allowed in its place.
        likeliest: Of those, the likeliest, best first, with log p of each; where it begins a word.
        in_word: Whether the text now ends in a word, which may be whole.
        begins_word: Whether that word begins with this token.
        is_bound: Whether the budget, too, kept tokens from this place.
        finish: Why the text ends here; None where it goes on.
    """

    token: int
    start: Place
    place: Place
    log_p: float
    log_mass: float = 0.0
    likeliest: tuple[tuple[int, float], ...] = ()
    in_word: bool = False
    begins_word: bool = False
    is_bound: bool = False
    finish: Finish | None = None


class Writer(Protocol):
    """An engine bound to one request, which writes on from a place until it is stopped."""

    @property
    def start(self) -> Place:
        """Return the place before the first token, where a text begins."""

    def write(self, place: Place, budget: int, *, index: int = 0) -> AsyncGenerator[Step, None]:
        """Yield the steps of a text that is written on from a place; closing it stops the engine.

        Args:
            place: Where the text stands.
            budget: How many tokens may still come.
            index: Of the text among those of its request.
        """

    def instead(self, step: Step, token: int, log_p: float, budget: int) -> Step:
        """Return the step with another of its ``likeliest`` tokens; ``budget`` is what was left before it."""


@dataclass(frozen=True, slots=True)
class Sampling:
    """How tokens are drawn, as vLLM does: ``top_k`` 0 or -1 for all tokens."""

    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0

    def draw(self, tokens: Sequence[tuple[int, float]], random: np.random.Generator) -> tuple[int, float]:
        """Draw one of the tokens, which are given best first with log p of each."""
        if self.temperature < 1e-5:
            return tokens[0]
        scaled = np.asarray([log_p for _, log_p in tokens]) / self.temperature
        weights = np.exp(scaled - scaled[0])
        weights[weights < self.min_p] = 0.0
        if self.top_k > 0:
            weights[self.top_k :] = 0.0
        weights /= weights.sum()
        # A token stays where those before it have not reached top_p.
        weights[1:][np.cumsum(weights)[:-1] >= self.top_p] = 0.0
        return tokens[int(random.choice(len(tokens), p=weights / weights.sum()))]


@dataclass(frozen=True, slots=True)
class _Try:
    """A beginning of a word that led into a corner, and the log of what the mask left there."""

    steps: tuple[Step, ...]
    log_mass: float

    @property
    def log_value(self) -> float:
        """Return the log of the most of p that any text with this beginning can have."""
        return math.fsum(step.log_p for step in self.steps) + self.log_mass


class Rescue:
    """Follow one text step by step, and decide where to backtrack and write a word anew.

    Args:
        writer: Of the steps.
        budget: How many tokens the text may have. As many at most are written in vain.
        share: Of the model's probability; a mask that leaves less inside a word is a corner.
        sampling: How a word's other beginning is drawn.
        random: For that draw.
    """

    def __init__(
        self, writer: Writer, budget: int, share: float, sampling: Sampling, random: np.random.Generator
    ) -> None:
        self._writer = writer
        self._budget = budget
        self._log_share = math.log(share)
        self._sampling = sampling
        self._random = random
        self._open: list[Step] = []
        self._tried: list[_Try] = []
        self._is_accepted = False
        self._num_lost = 0
        self._settled: list[Step] = []
        self.is_finished = False

    def take(self, step: Step) -> Place | None:
        """Take the next step; return the place to write on from after backtracking, None where the text goes on."""
        if not self._is_corner(step):
            self._append(step)
            return None
        self._tried.append(_Try(tuple(self._open), step.log_mass))
        best = max(self._tried, key=lambda one: one.log_value)
        if other := self._other_beginning(best.log_value):
            self._num_lost += self._num_to_lose
            self._open = []
            self._begin(self._with_latest_source(other, step))
            return self._last
        self._is_accepted = True
        if best is self._tried[-1]:
            self._append(step)
            return None
        self._num_lost += self._num_to_lose
        self._open = [self._with_latest_source(one, step) for one in best.steps]
        return self._last

    def take_settled(self) -> list[Step]:
        """Return the steps that can no longer be taken back, each once."""
        settled, self._settled = self._settled, []
        return settled

    @property
    def _num_to_lose(self) -> int:
        """Return how many tokens backtracking would discard now."""
        # The open word, and the token that came with the mask after it.
        return len(self._open) + 1

    @property
    def _last(self) -> Place:
        """Return the place after the last step."""
        return (self._open or self._settled)[-1].place

    def _is_corner(self, step: Step) -> bool:
        """Return whether to backtrack at a step: the mask left less than the share inside a word, within the budget."""
        return (
            bool(self._open)
            and not self._is_accepted
            and not step.is_bound
            and step.log_mass < self._log_share
            and self._num_lost + self._num_to_lose <= self._budget
        )

    def _other_beginning(self, log_value: float) -> Step | None:
        """Draw an untried first token of the open word, if one is likelier than all that was tried; else None."""
        if len(self._tried) > MAX_BARRED:
            return None
        first = self._open[0]
        barred = {one.steps[0].token for one in self._tried}
        left = [one for one in first.likeliest if one[0] not in barred and one[1] > log_value]
        if not left:
            return None
        token, log_p = self._sampling.draw(left, self._random)
        return self._writer.instead(first, token, log_p, self._budget - len(first.start.tokens))

    def _with_latest_source(self, step: Step, latest: Step) -> Step:
        """Return the step with the engine's latest ``source``, the only one that the engine may still have."""
        return replace(step, place=replace(step.place, source=latest.place.source))

    def _begin(self, step: Step) -> None:
        """Begin the open word anew with another first step; what was tried there still counts."""
        if step.in_word and step.finish is None:
            # What was tried here still counts.
            self._open = [step]
        else:
            self._append(step)

    def _append(self, step: Step) -> None:
        """Add a token to the word that may still be taken back, or settle that word first."""
        if step.in_word and self._open and not step.begins_word:
            self._open.append(step)
        else:
            self._settle()
            (self._open if step.in_word else self._settled).append(step)
        if step.finish is not None:
            self._settle()
            self.is_finished = True

    def _settle(self) -> None:
        """Settle the open word: its steps can no longer be taken back."""
        self._settled += self._open
        self._open, self._tried, self._is_accepted = [], [], False


async def rescue_words(
    writer: Writer,
    budget: int,
    *,
    share: float,
    sampling: Sampling,
    random: np.random.Generator,
    index: int = 0,
) -> AsyncGenerator[list[Step], None]:
    """Yield the steps of one text, as soon as they can no longer be taken back.

    Arguments are those of ``Rescue`` and ``Writer.write``. Closing this generator, or cancelling its next step, stops
    the engine.

    Raises:
        Exception: What the writer raised.
    """
    rescue = Rescue(writer, budget, share, sampling, random)
    place: Place | None = writer.start
    while place is not None and not rescue.is_finished:
        async with aclosing(writer.write(place, budget - len(place.tokens), index=index)) as steps:
            place = None
            async for step in steps:
                place = rescue.take(step)
                if settled := rescue.take_settled():
                    yield settled
                if place is not None:
                    break
