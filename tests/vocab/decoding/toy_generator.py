"""A tiny torch model that writes in a small list: every text that it may write can be counted out."""

import asyncio
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch

from tests.vocab.toys import STOP, tokens_of, toy_speller, word_list
from vocab.automaton.tokenizer import TokenizerFacts
from vocab.decoding.generator import Continuation, Expansion, Finish, Place
from vocab.marks import SENTENCE_MARKS
from vocab.matching.states import ListStates
from vocab.matching.text_states import State
from vocab.options import ListOptions


class ToyModel:
    """A recurrent network with random weights; it says log p of every token."""

    def __init__(self, num_tokens: int, seed: int) -> None:
        random = torch.Generator().manual_seed(seed)
        size = 8
        self._inputs = torch.randn((num_tokens, size), generator=random, dtype=torch.float64)
        self._states = torch.randn((size, size), generator=random, dtype=torch.float64)
        self._outputs = torch.randn((size, num_tokens), generator=random, dtype=torch.float64)
        self._known: dict[tuple[int, ...], torch.Tensor] = {}

    def log_p(self, tokens: tuple[int, ...]) -> torch.Tensor:
        """Of the token that comes after these, float64 (num_tokens,)."""
        if tokens not in self._known:
            state = torch.ones(self._states.shape[0], dtype=torch.float64) / 2
            for token in tokens:
                state = torch.tanh(self._inputs[token] + self._states @ state)
            self._known[tokens] = torch.log_softmax(state @ self._outputs, dim=0)
        return self._known[tokens]


@dataclass(frozen=True)
class Step:
    """One token that may come, with what an engine says of it."""

    token: int
    log_p: float
    log_mass: float
    log_q: float
    log_weight: float


class ToyGenerator:
    """The model bound to a list.

    Args:
        words: The list; all of it counts.
        pieces: The tokens besides the one that stops.
        model_seed: Of the model's weights.
        temperature: Of the draws.
        seed: Of the draws.
    """

    def __init__(
        self,
        words: Sequence[str],
        pieces: Sequence[str],
        *,
        options: ListOptions | None = None,
        model_seed: int = 0,
        temperature: float = 1.0,
        seed: int = 0,
    ) -> None:
        self.tokenizer = TokenizerFacts.from_token_bytes([b"<stop>", *(piece.encode() for piece in pieces)], [STOP])
        speller = toy_speller(self.tokenizer)
        self.states = ListStates.of(word_list(words), options or ListOptions(punctuation="full"), speller, len(words))
        self.model = ToyModel(len(self.tokenizer), model_seed)
        self.temperature = temperature
        self.seed = seed
        self._steps: dict[tuple[Place, int], list[Step]] = {}

    @cached_property
    def start(self) -> Place:
        return Place((), self.states.start)

    @property
    def end_tokens(self) -> frozenset[int]:
        return frozenset({STOP})

    async def expand(self, place: Place, num_tokens: int, budget: int) -> Expansion:
        steps = sorted(self.steps(place, budget), key=lambda step: -step.log_p)[:num_tokens]
        return Expansion(tuple(step.token for step in steps), tuple(step.log_p for step in steps))

    def follow(self, place: Place, token: int, budget: int, source: str | None) -> Place:
        return Place((*place.tokens, token), self._after(place, token, budget))

    async def sample(self, place: Place, budget: int, *, to_sentence_end: bool = False, index: int = 0) -> Continuation:
        random, drawn = np.random.default_rng((self.seed, index)), Drawn(self, place, budget, to_sentence_end)
        while drawn.finish is None:
            await asyncio.sleep(0)
            steps = drawn.steps()
            drawn = drawn.with_step(steps[random.choice(len(steps), p=[math.exp(step.log_q) for step in steps])])
        return drawn.continuation()

    def num_missing(self, place: Place) -> int:
        return 0

    def text(self, tokens: tuple[int, ...]) -> str:
        return b"".join(self.tokenizer.token_bytes[token] for token in tokens if token != STOP).decode()

    def steps(self, place: Place, budget: int) -> list[Step]:
        """The tokens that may come next."""
        if (place, budget) not in self._steps:
            self._steps[place, budget] = self._make_steps(place, budget)
        return self._steps[place, budget]

    def continuations(
        self, place: Place, budget: int, *, to_sentence_end: bool = False
    ) -> list[tuple[Continuation, float]]:
        """Everything that ``sample`` may draw, with the probability q with which it draws it."""
        return list(_all_of(Drawn(self, place, budget, to_sentence_end)))

    def _make_steps(self, place: Place, budget: int) -> list[Step]:
        row = np.zeros((len(self.tokenizer) + 31) // 32, dtype=np.int32)
        assert place.state is not None
        self.states.fill(row, place.state, budget - 1, np.asarray([STOP], dtype=np.int32))
        log_p, allowed = self.model.log_p(place.tokens), sorted(tokens_of(row))
        heated = torch.log_softmax(log_p / self.temperature, dim=0)
        log_mass, log_heated_mass = (float(torch.logsumexp(logs[allowed], dim=0)) for logs in (log_p, heated))
        return [
            Step(token, float(log_p[token]), log_mass, float(heated[token]) - log_heated_mass, log_heated_mass)
            for token in allowed
        ]

    def _after(self, place: Place, token: int, budget: int) -> State | None:
        assert place.state is not None
        return place.state if token == STOP else self.states.target(place.state, token, budget - 1)


@dataclass(frozen=True)
class Drawn:
    """A draw under way."""

    generator: ToyGenerator
    start: Place
    budget: int
    to_sentence_end: bool
    taken: tuple[Step, ...] = ()

    @property
    def tokens(self) -> tuple[int, ...]:
        return tuple(step.token for step in self.taken)

    @property
    def finish(self) -> Finish | None:
        if self.tokens[-1:] == (STOP,):
            return "stop"
        if self.to_sentence_end and self.generator.text(self.tokens).endswith(tuple(SENTENCE_MARKS)):
            return "sentence"
        return "length" if len(self.taken) == self.budget else None

    @property
    def place(self) -> Place:
        place = self.start
        for i, token in enumerate(self.tokens):
            place = self.generator.follow(place, token, self.budget - i, None)
        return place

    def steps(self) -> list[Step]:
        return self.generator.steps(self.place, self.budget - len(self.taken))

    def with_step(self, step: Step) -> "Drawn":
        return Drawn(self.generator, self.start, self.budget, self.to_sentence_end, (*self.taken, step))

    def continuation(self) -> Continuation:
        assert self.finish is not None
        return Continuation(
            self.tokens,
            self.generator.text(self.tokens),
            tuple(step.log_p for step in self.taken),
            tuple(step.log_mass for step in self.taken),
            tuple(step.log_weight for step in self.taken),
            self.finish,
            None,
            self.place,
        )


def _all_of(drawn: Drawn) -> Iterator[tuple[Continuation, float]]:
    if drawn.finish is not None:
        yield drawn.continuation(), math.exp(math.fsum(step.log_q for step in drawn.taken))
        return
    for step in drawn.steps():
        yield from _all_of(drawn.with_step(step))
