import asyncio

import pytest

from tests.vocab.decoding.scripted import Asked, ScriptedGenerator, draw
from vocab.decoding.generator import Place
from vocab.decoding.select import draw_many


async def test_draws_come_in_their_order_with_an_index_each() -> None:
    generator, place = ScriptedGenerator([[draw("x"), draw("a"), draw("b")]]), Place((1,), (7,))
    drawn = await draw_many(generator, place, 5, 2, first_index=1, to_sentence_end=True)
    assert [each.text for each in drawn] == ["a", "b"]
    assert generator.asked == [Asked(place, 5, True, 1), Asked(place, 5, True, 2)]


async def test_the_error_of_one_draw_cancels_the_others_and_is_the_error_of_all() -> None:
    generator = ScriptedGenerator([[None, ConnectionError("the engine died"), None]])
    with pytest.raises(ConnectionError, match="the engine died"):
        await draw_many(generator, generator.start, 5, 3)
    assert generator.num_open == 0


async def test_whoever_cancels_cancels_all_draws() -> None:
    generator = ScriptedGenerator([[None, None]])
    task = asyncio.create_task(draw_many(generator, generator.start, 5, 2))
    await asyncio.sleep(0.01)
    assert generator.num_open == 2
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert generator.num_open == 0
