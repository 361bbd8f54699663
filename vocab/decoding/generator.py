"""What a search asks of an engine: the likeliest next tokens of a text, and continuations of it.

Two likelihoods are told apart. **p** is the model's own probability of a token, among all tokens. **q** is that with
which it was drawn: after the mask, at the request's temperature. A search ranks by p; the mass that the mask leaves,
the sum of p over the allowed tokens, is the price of the constraint. Nothing here knows of engines or of HTTP.
"""

from dataclasses import dataclass
from typing import Literal, Protocol

Finish = Literal["stop", "length", "sentence"]
"""Why a continuation ended: the end-of-text token or a stop string, the budget, or the end of a sentence."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a text stands.

    Attributes:
        tokens: What was generated so far, without the prompt.
        state: The automaton's state there; None for free text.
        source: Names the work of the engine that a next step can build on; None for none.
    """

    tokens: tuple[int, ...] = ()
    state: int | None = None
    source: str | None = None


@dataclass(frozen=True, slots=True)
class Expansion:
    """The likeliest next tokens at a place.

    Attributes:
        tokens: Best first; tokens that end the text among them, and none that may not come.
        log_p: log p of each, natural logarithm.
        source: As in ``Place``, for the places that these tokens lead to.
        log_mass: log of the sum of p over all tokens that may come; 0 for free text.
    """

    tokens: tuple[int, ...]
    log_p: tuple[float, ...]
    source: str | None = None
    log_mass: float = 0.0


@dataclass(frozen=True, slots=True)
class Continuation:
    """A sampled continuation of a text.

    Attributes:
        tokens: Its tokens, the end-of-text token included if it came.
        text: What they add to the text, without what follows a stop string.
        log_p: log p of each token.
        log_mass: log of the sum of p over the tokens that were allowed, for each token; 0 for free text.
        log_weight: log of p / q for each token, both at the temperature at which it was drawn, so 0 for free text.
        finish: Why it ended.
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
        """The empty text."""

    @property
    def end_tokens(self) -> frozenset[int]:
        """The tokens that end a text."""

    async def expand(self, place: Place, num_tokens: int, budget: int) -> Expansion:
        """The likeliest tokens that may come next, by p.

        Args:
            place: Where the text stands.
            num_tokens: How many of them at most; fewer where fewer may come.
            budget: How many tokens may still come, these included.
        """

    def follow(self, place: Place, token: int, budget: int, source: str | None) -> Place:
        """Where an allowed token leads to; ``budget`` as in ``expand``, ``source`` from its expansion."""

    async def sample(self, place: Place, budget: int, *, to_sentence_end: bool = False, index: int = 0) -> Continuation:
        """Draws one continuation.

        Args:
            place: Where the text stands.
            budget: How many tokens may still come.
            to_sentence_end: Stop after the first token in which a sentence ends.
            index: Tells draws of one request apart, where it has a seed.
        """

    def text(self, tokens: tuple[int, ...]) -> str:
        """The text of these tokens, as the client gets it."""
