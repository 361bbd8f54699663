import asyncio

import pytest

from tests.vocab.decoding.scripted import Asked, ScriptedGenerator, draw
from vocab.decoding.select import choose_candidates

LOOP = "the sun is here and the sun is here and the sun is here"


async def test_the_likeliest_of_the_candidates_that_do_not_loop_are_taken_best_first() -> None:
    generator = ScriptedGenerator([[draw("a", log_p=-3.0), draw(LOOP, log_p=-0.1), draw("b"), draw("c", log_p=-2.0)]])
    chosen = await choose_candidates(generator, 9, num_candidates=4, num_chosen=2)
    assert [each.text for each in chosen] == ["b", "c"]
    assert generator.asked == [Asked(generator.start, 9, False, index) for index in range(4)]


async def test_a_text_with_all_words_that_have_to_occur_comes_before_a_likelier_one_without() -> None:
    drawn = [draw("a", log_p=-1.0), draw("b", log_p=-9.0), draw("c", log_p=-5.0)]
    generator = ScriptedGenerator([drawn], lacking=(2, 0, 1))
    chosen = await choose_candidates(generator, 9, num_candidates=3, num_chosen=3)
    assert [each.text for each in chosen] == ["b", "c", "a"]


async def test_by_posterior_candidates_are_drawn_by_weight_and_none_twice() -> None:
    drawn = [draw("a", log_weight=-500.0), draw("b"), draw("c", log_weight=-1000.0)]
    chosen = await choose_candidates(
        ScriptedGenerator([drawn]), 9, num_candidates=3, num_chosen=3, select="posterior", seed=0
    )
    assert [each.text for each in chosen] == ["b", "a", "c"]


async def test_a_seed_repeats_the_choice() -> None:
    drawn = [draw(str(i)) for i in range(16)]

    async def texts() -> list[str]:
        chosen = await choose_candidates(
            ScriptedGenerator([drawn]), 9, num_candidates=16, num_chosen=8, select="posterior", seed=11
        )
        return [each.text for each in chosen]

    assert await texts() == await texts()


async def test_cancelling_the_request_cancels_its_draws() -> None:
    generator = ScriptedGenerator([[draw("a"), None, None]])
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(choose_candidates(generator, 9, num_candidates=3), 0.5)
    assert generator.num_open == 0
    assert len(generator.asked) == 3
