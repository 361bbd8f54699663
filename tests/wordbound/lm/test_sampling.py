"""Samples: seeds, temperatures, ends, and word lists."""

import math

import pytest
import torch

from tests.wordbound.lm.counting_lm import CountingLM
from wordbound.lm.programs import Sampling


async def test_a_seed_gives_the_same_ids_again_and_another_one_others() -> None:
    lm = CountingLM()
    first, again, other = [await lm.sample([1], 20, [], seed=seed) for seed in (7, 7, 8)]
    assert first == again
    assert first != other
    assert len(first) == 20
    assert await lm.sample([1], 20, []) != await lm.sample([1], 20, [])


async def test_without_a_temperature_the_likeliest_token_is_taken_up_to_an_end_that_is_no_part_of_the_text() -> None:
    lm = CountingLM()
    ids = await lm.sample([1], 3, [], temperature=0)
    assert ids == [int(lm.next_token_logprobs_sync([1, *ids[:i]]).argmax()) for i in range(3)]
    assert await lm.sample([1], 5, [ids[1]], temperature=0) == ids[:1]
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


async def test_bad_arguments_are_refused() -> None:
    for temperature in (-1.0, math.nan, math.inf):
        with pytest.raises(ValueError, match="temperature must be a finite number of at least 0"):
            await CountingLM().sample([1], 4, [0], temperature)
    with pytest.raises(ValueError, match="max_tokens must be at least 0, not -1"):
        await CountingLM().sample([1], -1, [0])
