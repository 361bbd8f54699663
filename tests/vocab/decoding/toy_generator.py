"""A tiny torch model that writes in a small list: every text that it may write can be counted out."""

import asyncio
import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch

from tests.vocab.decoding.tiny_models import ListTexts, spelling_of
from tests.vocab.toys import STOP, toy_speller, word_list
from vocab.automaton.tokenizer import TokenizerFacts
from vocab.decoding.generator import Continuation, Expansion, Finish, Place
from vocab.marks import SENTENCE_MARKS
from vocab.matching.states import ListStates
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


class Step(NamedTuple):
    """One token that may come, with what an engine says of it."""

    token: int
    log_p: float
    log_mass: float
    log_q: float
    log_weight: float


class ToyGenerator(ListTexts):
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
        options: ListOptions,
        model_seed: int = 0,
        temperature: float = 1.0,
        seed: int = 0,
    ) -> None:
        tokenizer = TokenizerFacts.from_token_bytes([b"<stop>", *(piece.encode() for piece in pieces)], [STOP])
        self.states = ListStates.of(word_list(words), options, toy_speller(tokenizer), len(words))
        self.model = ToyModel(len(tokenizer), model_seed)
        super().__init__(self.model.log_p, len(tokenizer), self.states, spelling_of(tokenizer))
        self.temperature = temperature
        self.seed = seed
        self._steps: dict[tuple[Place, int], list[Step]] = {}

    async def expand(self, place: Place, num_tokens: int, budget: int) -> Expansion:
        return self.expansion(place, num_tokens, budget)

    async def sample(self, place: Place, budget: int, *, to_sentence_end: bool = False, index: int = 0) -> Continuation:
        random, taken = np.random.default_rng((self.seed, index)), list[Step]()
        while (finish := self._finish(taken, budget, to_sentence_end)) is None:
            await asyncio.sleep(0)
            steps = self.steps(place, budget - len(taken))
            taken.append(steps[random.choice(len(steps), p=[math.exp(step.log_q) for step in steps])])
            place = self.follow(place, taken[-1].token, budget - len(taken) + 1, None)
        return self._continuation(taken, finish, place)

    def num_missing(self, place: Place) -> int:
        return 0

    def steps(self, place: Place, budget: int) -> list[Step]:
        """The tokens that may come next."""
        if (place, budget) not in self._steps:
            log_p, allowed = self.model.log_p(place.tokens), self.allowed(place.state, budget).tolist()
            heated = torch.log_softmax(log_p / self.temperature, dim=0)
            log_mass, log_heated_mass = (float(torch.logsumexp(logs[allowed], dim=0)) for logs in (log_p, heated))
            self._steps[place, budget] = [
                Step(token, float(log_p[token]), log_mass, float(heated[token]) - log_heated_mass, log_heated_mass)
                for token in allowed
            ]
        return self._steps[place, budget]

    def continuations(self, place: Place, budget: int) -> list[tuple[Continuation, float]]:
        """Everything that ``sample`` may draw, with the probability q with which it draws it."""
        found, todo = [], [(place, list[Step]())]
        while todo:
            here, taken = todo.pop()
            if (finish := self._finish(taken, budget, to_sentence_end=False)) is not None:
                q = math.exp(math.fsum(step.log_q for step in taken))
                found.append((self._continuation(taken, finish, here), q))
                continue
            left = budget - len(taken)
            todo += [(self.follow(here, step.token, left, None), [*taken, step]) for step in self.steps(here, left)]
        return found

    def _finish(self, taken: Sequence[Step], budget: int, to_sentence_end: bool) -> Finish | None:
        if taken and taken[-1].token == STOP:
            return "stop"
        text = self.text(tuple(step.token for step in taken))
        if to_sentence_end and text.endswith(tuple(SENTENCE_MARKS)):
            return "sentence"
        return "length" if len(taken) == budget else None

    def _continuation(self, taken: Sequence[Step], finish: Finish, place: Place) -> Continuation:
        tokens, log_p, log_mass, _, log_weight = map(tuple, zip(*taken, strict=True))
        return Continuation(tokens, self.text(tokens), log_p, log_mass, log_weight, finish, None, place)
