"""A generator whose draws are written down, and that says what was asked of it."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

from vocab.decoding.generator import Continuation, Expansion, Finish, Place


def draw(
    text: str,
    finish: Finish = "stop",
    *,
    num_tokens: int = 2,
    log_p: float = -1.0,
    log_weight: float = 0.0,
) -> Continuation:
    """A continuation of so many tokens, each with these logarithms; where it leads to is the generator's to say."""
    log_ps, log_masses, log_weights = ((value,) * num_tokens for value in (log_p, -0.5, log_weight))
    return Continuation(tuple(range(num_tokens)), text, log_ps, log_masses, log_weights, finish, None, Place())


@dataclass(frozen=True)
class Asked:
    """One call of ``sample``."""

    place: Place
    budget: int
    to_sentence_end: bool
    index: int


@dataclass
class ScriptedGenerator:
    """Gives the draws of one step after the other, each place with a source that names its text's tokens.

    Attributes:
        steps: The draws of each step; an error is raised, and None never comes.
        asked: Every call so far.
        num_open: How many calls are under way.
        lacking: Of each draw, how many words it lacks that have to occur; by its index.
    """

    steps: Sequence[Sequence[Continuation | Exception | None]]
    asked: list[Asked] = field(default_factory=list)
    num_open: int = 0
    lacking: Sequence[int] = ()

    @property
    def start(self) -> Place:
        return Place((), (0,))

    @property
    def end_tokens(self) -> frozenset[int]:
        return frozenset()

    async def expand(self, place: Place, num_tokens: int, budget: int) -> Expansion:
        raise NotImplementedError

    def follow(self, place: Place, token: int, budget: int, source: str | None) -> Place:
        raise NotImplementedError

    async def sample(self, place: Place, budget: int, *, to_sentence_end: bool = False, index: int = 0) -> Continuation:
        self.asked.append(Asked(place, budget, to_sentence_end, index))
        drawn = [each for step in self.steps for each in step][index]
        self.num_open += 1
        try:
            await asyncio.sleep(0)
            if drawn is None:
                await asyncio.Event().wait()
        finally:
            self.num_open -= 1
        if isinstance(drawn, Exception):
            raise drawn
        assert drawn is not None
        tokens = (*place.tokens, *(100 * index + token for token in drawn.tokens))
        return Continuation(
            drawn.tokens,
            drawn.text,
            drawn.log_p,
            drawn.log_mass,
            drawn.log_weight,
            drawn.finish,
            None,
            Place(tokens, (index,), f"draw {index}"),
        )

    def num_missing(self, place: Place) -> int:
        return self.lacking[place.tokens[0] // 100] if self.lacking else 0

    def text(self, tokens: tuple[int, ...]) -> str:
        raise NotImplementedError
