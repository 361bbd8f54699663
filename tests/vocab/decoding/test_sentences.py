import asyncio
from contextlib import aclosing

import pytest

from tests.vocab.decoding.scripted import Asked, ScriptedGenerator, draw
from tests.vocab.decoding.toy_generator import ToyGenerator
from vocab.decoding.generator import Continuation, Place
from vocab.decoding.select import Select, search_sentences
from vocab.options import ListOptions

HEAVY, LIGHT = 0.0, -1000.0


async def parts_of(generator: ScriptedGenerator, budget: int = 20, select: Select = "posterior") -> list[Continuation]:
    width = len(generator.steps[0])
    return [part async for part in search_sentences(generator, budget, width=width, select=select, seed=0)]


async def test_each_step_goes_on_from_the_chosen_part_until_the_text_ends() -> None:
    generator = ScriptedGenerator(
        [
            [draw("No.", "sentence", log_weight=LIGHT), draw("Yes.", "sentence", num_tokens=3, log_weight=HEAVY)],
            [draw(" And so on.", "sentence", log_weight=HEAVY), draw("", "stop", num_tokens=1, log_weight=LIGHT)],
            [draw(" No", "length", log_weight=LIGHT), draw("", "stop", num_tokens=1, log_weight=HEAVY)],
        ]
    )
    parts = await parts_of(generator)
    assert [part.text for part in parts] == ["Yes.", " And so on.", ""]
    assert [part.finish for part in parts] == ["sentence", "sentence", "stop"]
    second, third = Place((100, 101, 102), (1,), "draw 1"), Place((100, 101, 102, 200, 201), (2,), "draw 2")
    assert generator.asked == [
        *(Asked(generator.start, 20, True, index) for index in (0, 1)),
        *(Asked(second, 17, True, index) for index in (2, 3)),
        *(Asked(third, 15, True, index) for index in (4, 5)),
    ]


async def test_a_text_ends_where_its_budget_does() -> None:
    generator = ScriptedGenerator([[draw("A.", "sentence")] * 2, [draw(" B", "length", num_tokens=18)] * 2])
    assert [part.finish for part in await parts_of(generator)] == ["sentence", "length"]


async def test_a_sentence_that_ends_with_the_budget_ends_the_text_by_length() -> None:
    generator = ScriptedGenerator([[draw("A.", "sentence", num_tokens=4)] * 2])
    [part] = await parts_of(generator, budget=4)
    assert (part.text, part.finish) == ("A.", "length")


async def test_a_part_without_tokens_ends_the_text() -> None:
    generator = ScriptedGenerator([[draw("A.", "sentence")] * 2, [draw("", "sentence", num_tokens=0)] * 2])
    assert [part.finish for part in await parts_of(generator)] == ["sentence", "length"]


async def test_by_likelihood_a_part_that_repeats_the_text_so_far_ranks_after_others() -> None:
    sentence = "the sun is here again."
    generator = ScriptedGenerator(
        [
            [draw(sentence, "sentence", log_p=-0.1), draw("A dog.", "sentence", log_p=-3.0)],
            [draw(" " + sentence, "sentence", log_p=-0.1), draw(" A dog.", "sentence", log_p=-3.0)],
            [draw("", "stop", num_tokens=1)] * 2,
        ]
    )
    parts = await parts_of(generator, select="likelihood")
    assert [part.text for part in parts] == [sentence, " A dog.", ""]


async def test_by_likelihood_parts_are_judged_with_the_text_that_they_go_on() -> None:
    # Ending here is likely for its one token, but leaves the text as unlikely as it was.
    generator = ScriptedGenerator(
        [
            [draw("A dog.", "sentence", num_tokens=6, log_p=-2.0)] * 2,
            [draw("", "stop", num_tokens=1, log_p=-0.9), draw(" It runs.", "stop", num_tokens=6, log_p=-1.0)],
        ]
    )
    assert [part.text for part in await parts_of(generator, select="likelihood")] == ["A dog.", " It runs."]


async def test_parts_come_as_soon_as_they_are_chosen() -> None:
    generator = ScriptedGenerator([[draw("A.", "sentence"), draw("A.", "sentence")], [None, None]])
    async with aclosing(search_sentences(generator, 20, width=2)) as parts:
        assert (await anext(parts)).text == "A."
        assert len(generator.asked) == 2


async def test_cancelling_the_request_cancels_the_draws_of_the_step() -> None:
    generator = ScriptedGenerator([[draw("A.", "sentence"), draw("A.", "sentence")], [None, None]])
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(parts_of(generator), 0.5)
    assert (len(generator.asked), generator.num_open) == (4, 0)


async def test_the_error_of_a_draw_ends_the_search() -> None:
    generator = ScriptedGenerator([[draw("A.", "sentence"), draw("A.", "sentence")], [None, OSError("gone")]])
    with pytest.raises(OSError, match="gone"):
        await parts_of(generator)
    assert generator.num_open == 0


@pytest.mark.parametrize("select", ["likelihood", "posterior"])
@pytest.mark.parametrize("budget", [1, 2, 3, 4, 5, 7, 12, 40])
async def test_texts_of_a_list_keep_to_it_and_to_their_budget(select: Select, budget: int) -> None:
    toy = ToyGenerator(
        ["sol", "mar"],
        ["sol", " mar", "mar", "so", "l", ".", ". ", "el"],
        options=ListOptions(case="listed", punctuation="full"),
    )
    for seed in range(20):
        toy.seed = seed
        parts = [part async for part in search_sentences(toy, budget, width=3, select=select, seed=seed)]
        tokens = tuple(token for part in parts for token in part.tokens)
        assert 0 < len(tokens) <= budget
        assert {part.finish for part in parts[:-1]} <= {"sentence"}
        assert parts[-1].finish == ("stop" if tokens[-1] in toy.end_tokens else "length")
        place = parts[-1].place
        assert (place.tokens, toy.text(tokens)) == (tokens, "".join(part.text for part in parts))
        assert place.state is not None
        assert toy.states.can_stop(place.state)
