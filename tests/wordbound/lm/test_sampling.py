"""Samples: seeds, temperatures, ends, and word lists."""

import math
from typing import Final

import pytest
import torch

from tests.wordbound.lm.counting_lm import NUM_TOKENS, CountingLM
from wordbound.lm.sampling import Sampling


class Pairs:
    """Texts of pairs of an even token and the odd one after it; 0 ends them."""

    start: Final = ()
    eos_token_ids = frozenset([0])

    def mask(self, state: tuple[int, ...], tokens_left: int | None = None) -> torch.Tensor:
        mask = torch.zeros(NUM_TOKENS, dtype=torch.bool)
        if len(state) % 2:
            mask[state[-1] + 1] = True
        else:
            mask[2::2] = tokens_left is None or tokens_left > 1
            mask[0] = len(state) > 0
        return mask

    def next(self, state: tuple[int, ...], token: int) -> tuple[int, ...]:
        return (*state, token)

    def is_complete(self, state: tuple[int, ...]) -> bool:
        return len(state) > 0 and len(state) % 2 == 0


def assert_pairs(ids: list[int]) -> None:
    assert len(ids) % 2 == 0
    assert all(even % 2 == 0 and odd == even + 1 for even, odd in zip(ids[::2], ids[1::2], strict=True))


async def test_a_seed_gives_the_same_ids_again_and_another_one_others() -> None:
    lm = CountingLM()
    first, again, other = [await lm.sample([1], 20, [], seed=seed) for seed in (7, 7, 8)]
    assert first == again
    assert first != other
    assert len(first) == 20
    assert await lm.sample([1], 20, []) != await lm.sample([1], 20, [])


async def test_without_a_temperature_the_likeliest_token_is_taken() -> None:
    lm = CountingLM()
    ids = await lm.sample([1], 3, [], temperature=0)
    assert ids == [int(lm.next_token_logprobs_sync([1, *ids[:i]]).argmax()) for i in range(3)]


async def test_a_text_ends_with_an_end_that_is_no_part_of_it() -> None:
    lm = CountingLM()
    [first, second, *_] = await lm.sample([1], 5, [], temperature=0)
    assert await lm.sample([1], 5, [second], temperature=0) == [first]
    assert await lm.sample([1], 0, []) == []


async def test_prompts_are_sampled_together_each_with_a_seed_of_its_own() -> None:
    lm = CountingLM()
    texts = await lm.batch_sample([[1], [1], [2]], 6, [], seed=3)
    assert texts == [await lm.sample(prompt, 6, [], seed=seed) for prompt, seed in (([1], 3), ([1], 4), ([2], 5))]
    assert texts[0] != texts[1]
    # Two prompts are equal, so the first batch has two prefixes.
    assert [len(batch) for batch in lm.batches[:2]] == [2, 3]


async def test_a_failure_ends_all_samples_of_the_call() -> None:
    lm = CountingLM()
    lm.error = RuntimeError("out of memory")
    with pytest.raises(RuntimeError, match="out of memory"):
        await lm.batch_sample([[1], [2]], 6, [])


def test_tokens_are_drawn_as_often_as_they_are_likely() -> None:
    p = torch.tensor([0.5, 0.3, 0.0, 0.2])
    for temperature, want in ((1.0, p), (0.5, p**2 / (p**2).sum())):
        sampling = Sampling(temperature, seed=5)
        generator = sampling.generator()
        ids = [sampling.draw(p.log(), generator) for _ in range(4000)]
        found = torch.bincount(torch.tensor(ids), minlength=4) / 4000
        assert found[2] == 0
        assert torch.allclose(found, want, atol=0.03)


@pytest.mark.parametrize("max_tokens", [2, 3, 5, 8])
@pytest.mark.parametrize("temperature", [0.0, 1.0])
async def test_a_sample_over_a_list_is_a_whole_text_of_it(max_tokens: int, temperature: float) -> None:
    lm = CountingLM()
    for seed in range(10):
        ids = await lm.sample([1], max_tokens, [0], temperature, seed, vocab=Pairs())  # type: ignore[arg-type]
        assert 2 <= len(ids) <= max_tokens
        assert_pairs(ids)


async def test_a_list_for_another_model_is_refused() -> None:
    class Narrow(Pairs):
        def mask(self, state: tuple[int, ...], tokens_left: int | None = None) -> torch.Tensor:
            return super().mask(state, tokens_left)[:-1]

    with pytest.raises(ValueError, match="give it this model's"):
        await CountingLM().sample([1], 4, [0], vocab=Narrow())  # type: ignore[arg-type]


@pytest.mark.parametrize("temperature", [-1.0, math.nan, math.inf])
async def test_a_bad_temperature_is_refused(temperature: float) -> None:
    with pytest.raises(ValueError, match="temperature must be a finite number of at least 0"):
        await CountingLM().sample([1], 4, [0], temperature)


async def test_a_bad_number_of_tokens_is_refused() -> None:
    with pytest.raises(ValueError, match="max_tokens must be at least 0, not -1"):
        await CountingLM().sample([1], -1, [0])
