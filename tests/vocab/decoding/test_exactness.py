"""Posterior selection comes to be the true conditional: counted out, without a single random draw."""

import math
from collections import Counter
from collections.abc import Iterator
from itertools import combinations_with_replacement, pairwise

import pytest

from tests.vocab.decoding.toy_generator import ToyGenerator
from vocab.decoding.select import TextScore, choose_candidates, draw_probabilities
from vocab.options import ListOptions

BUDGET = 2
OPTIONS = ListOptions(case="listed", punctuation="none")
# "el" is unlisted, and so is "so" until "l" follows; "sol" is written in two ways.
PIECES = ["sol", " mar", "mar", "so", "l", "el"]


def generator(model_seed: int, *, temperature: float = 1.0, seed: int = 0) -> ToyGenerator:
    return ToyGenerator(
        ["sol", "mar"], PIECES, options=OPTIONS, model_seed=model_seed, temperature=temperature, seed=seed
    )


class Language:
    """All texts of a generator within the budget, with their true conditional and what one draw gives."""

    def __init__(self, toy: ToyGenerator) -> None:
        drawn = toy.continuations(toy.start, BUDGET)
        self.tokens = [continuation.tokens for continuation, _ in drawn]
        self.q = [q for _, q in drawn]
        self.log_weights = [TextScore.of(continuation).log_weight for continuation, _ in drawn]
        p = [math.prod(heated_p(toy, tokens)) for tokens in self.tokens]
        self.conditional = [each / math.fsum(p) for each in p]

    def selected(self, num_draws: int) -> list[float]:
        """The probability of each text to be the one chosen of so many independent draws."""
        share = [0.0] * len(self.q)
        for draws, probability in self._multisets(num_draws):
            chosen = draw_probabilities([self.log_weights[text] for text in draws])
            for text, part in zip(draws, chosen, strict=True):
                share[text] += probability * part
        return share

    def divergence(self, num_draws: int) -> float:
        """KL(true conditional || chosen), in nats."""
        selected = self.selected(num_draws)
        assert math.fsum(selected) == pytest.approx(1.0)
        return math.fsum(true * math.log(true / part) for true, part in zip(self.conditional, selected, strict=True))

    def _multisets(self, num_draws: int) -> Iterator[tuple[tuple[int, ...], float]]:
        """What so many draws may bring, in any order, each with its probability."""
        log_q = [math.log(q) for q in self.q]
        for draws in combinations_with_replacement(range(len(self.q)), num_draws):
            log_orders = math.lgamma(num_draws + 1) - sum(math.lgamma(n + 1) for n in Counter(draws).values())
            yield draws, math.exp(log_orders + sum(log_q[text] for text in draws))


def heated_p(toy: ToyGenerator, tokens: tuple[int, ...]) -> Iterator[float]:
    """p of each token at the generator's temperature, straight from the model: no mask, no weights."""
    for i, token in enumerate(tokens):
        logits = toy.model.log_p(tokens[:i]) / toy.temperature
        yield float(logits.softmax(dim=0)[token])


@pytest.mark.parametrize(("model_seed", "temperature"), [(1, 1.0), (2, 1.0), (7, 1.0), (8, 0.7)])
def test_the_divergence_from_the_true_conditional_falls_with_every_doubling_of_the_draws(
    model_seed: int, temperature: float
) -> None:
    language = Language(generator(model_seed, temperature=temperature))
    divergences = [language.divergence(num_draws) for num_draws in (1, 2, 4, 8, 16)]
    assert all(more < fewer for fewer, more in pairwise(divergences)), divergences
    assert divergences[3] * 3 <= divergences[0], divergences


def test_of_one_draw_the_choice_is_the_mask_alone() -> None:
    language = Language(generator(2))
    assert language.selected(1) == pytest.approx(language.q)
    assert language.divergence(1) > 0.5


def test_weights_are_what_the_true_conditional_lacks() -> None:
    language = Language(generator(3, temperature=0.8))
    weighted = [q * math.exp(log_weight) for q, log_weight in zip(language.q, language.log_weights, strict=True)]
    assert [each / math.fsum(weighted) for each in weighted] == pytest.approx(language.conditional)


async def test_the_driver_chooses_as_counted_out() -> None:
    toy, num_runs, num_draws = generator(2), 2000, 4
    language, counts = Language(toy), Counter[tuple[int, ...]]()
    for run in range(num_runs):
        toy.seed = run
        [chosen] = await choose_candidates(
            toy, BUDGET, num_candidates=num_draws, select="posterior", seed=num_runs + run
        )
        counts[chosen.tokens] += 1
    selected = language.selected(num_draws)
    for tokens, expected in zip(language.tokens, selected, strict=True):
        assert counts[tokens] / num_runs == pytest.approx(expected, abs=5 * math.sqrt(expected / num_runs))
    # What the mask alone gives is far outside these bounds.
    assert max(abs(q - each) / math.sqrt(each / num_runs) for q, each in zip(language.q, selected, strict=True)) > 15
