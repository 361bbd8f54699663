"""What a search asks of an engine: the likeliest next tokens of a text, and continuations of it.

**p** is the model's own probability of a token, among all tokens; **q** is that of the draw: after the mask, at the
request's temperature. A search ranks by p; the mass that the mask leaves, the sum of p over the allowed tokens,
is the price of the constraint. Logarithms are natural.
"""

import asyncio
from collections.abc import Coroutine, Iterable
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeVar

from vocab.matching.text_states import State

T = TypeVar("T")

Finish = Literal["stop", "length", "sentence"]
"""Why a continuation ended: the end-of-text token or a stop string, the budget, or the end of a sentence."""


@dataclass(frozen=True, slots=True)
class Place:
    """A point in a text that is being generated: its tokens so far, and the automaton's state.

    Attributes:
        tokens: Generated so far, without the prompt.
        state: The automaton's state; None for free text.
        source: Names work of the engine that the next step can reuse; None for none.
    """

    tokens: tuple[int, ...] = ()
    state: State | None = None
    source: str | None = None


@dataclass(frozen=True, slots=True)
class Expansion:
    """The likeliest next tokens at a place.

    Attributes:
        tokens: Best first; only allowed ones, tokens that end the text included.
        log_p: log p of each.
        source: As in ``Place``, for the places that these tokens lead to.
        log_mass: log of the sum of p over all allowed tokens; 0 for free text.
    """

    tokens: tuple[int, ...]
    log_p: tuple[float, ...]
    source: str | None = None
    log_mass: float = 0.0


@dataclass(frozen=True, slots=True)
class Continuation:
    """A sampled continuation of a text.

    Attributes:
        tokens: The end-of-text token included if it came.
        text: What they add to the text, without what follows a stop string.
        log_p: log p of each token.
        log_mass: log of the sum of p over the allowed tokens, for each token; 0 for free text.
        log_weight: log of p / q for each token, both at the temperature of the draw; 0 for free text.
        stop_reason: The stop string that came, if one did.
        place: Where it leads to.
    """

    tokens: tuple[int, ...]
    text: str
    log_p: tuple[float, ...]
    log_mass: tuple[float, ...]
    log_weight: tuple[float, ...]
    finish: Finish
    stop_reason: str | None
    place: Place


class Generator(Protocol):
    """An engine bound to one request: its prompt, its constraint, its sampling parameters."""

    @property
    def start(self) -> Place:
        """Return the place before the first token, where a search begins."""

    @property
    def end_tokens(self) -> frozenset[int]:
        """Return the tokens that end a text."""

    async def expand(self, place: Place, num_tokens: int, budget: int) -> Expansion:
        """Return at most ``num_tokens`` of the likeliest allowed next tokens at a place, by p.

        ``budget`` is how many tokens may still come, these included.
        """

    def follow(self, place: Place, token: int, budget: int, source: str | None) -> Place:
        """Return the place after an allowed token; ``budget`` as in ``expand``, ``source`` from its expansion."""

    async def sample(self, place: Place, budget: int, *, to_sentence_end: bool = False, index: int = 0) -> Continuation:
        """Draw one continuation of the text at a place.

        Args:
            place: Where the text stands.
            budget: How many tokens may still come.
            to_sentence_end: Whether to stop after the first token in which a sentence ends.
            index: Differs between the draws of a request, so that a seed gives different ones.
        """

    def num_missing(self, place: Place) -> int:
        """Return how many of the words that have to occur the text at a place lacks; 0 where none have to."""

    def text(self, tokens: tuple[int, ...]) -> str:
        """Return the text of these tokens, as the client gets it."""


async def run_together(calls: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """Run calls side by side; cancel all when one fails or the caller is cancelled, and raise the first failure."""
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(call) for call in calls]
    except ExceptionGroup as failures:
        # One request, one error: that the others were cancelled says nothing more.
        raise failures.exceptions[0] from None
    return [task.result() for task in tasks]
