"""Several whole texts are drawn side by side, and the best, or some of them, are the answer.

It knows draws and how one is chosen; what a text is made of it leaves to the generator.
"""

import asyncio

from vocab.decoding.generator import Continuation, Generator, Place
from vocab.decoding.scores import ScoredText, TextScore
from vocab.decoding.select import Select, choose, random_source


async def choose_candidates(
    generator: Generator,
    budget: int,
    *,
    num_candidates: int,
    num_chosen: int = 1,
    select: Select = "likelihood",
    seed: int | None = None,
) -> list[Continuation]:
    """Draws ``num_candidates`` texts and takes ``num_chosen`` of them, best or drawn first.

    Args:
        generator: Draws them; cancelling this coroutine cancels its draws.
        budget: How many tokens each may have.
        num_candidates: At least ``num_chosen``.
        num_chosen: How many.
        select: How they are chosen.
        seed: Of the choice; the draws have the generator's.

    Raises:
        Exception: What the first failing draw raised.
    """
    drawn = await draw_many(generator, generator.start, budget, num_candidates)
    texts = [ScoredText(candidate.text, TextScore.of(candidate)) for candidate in drawn]
    return [drawn[index] for index in choose(select, texts, num_chosen, random_source(seed))]


async def draw_many(
    generator: Generator,
    place: Place,
    budget: int,
    num_draws: int,
    *,
    first_index: int = 0,
    to_sentence_end: bool = False,
) -> list[Continuation]:
    """Independent draws from one place, side by side; where one fails or the caller is cancelled, all are cancelled.

    Args:
        generator: Draws them.
        place: Where the text stands.
        budget: How many tokens may still come.
        num_draws: How many.
        first_index: Tells these draws from those of other steps of the request: they count on from here.
        to_sentence_end: As in ``Generator.sample``.

    Raises:
        Exception: What the first failing draw raised.
    """
    try:
        async with asyncio.TaskGroup() as group:
            draws = [
                group.create_task(generator.sample(place, budget, to_sentence_end=to_sentence_end, index=index))
                for index in range(first_index, first_index + num_draws)
            ]
    except ExceptionGroup as failures:
        # One request, one error: that the others were cancelled says nothing more.
        raise failures.exceptions[0] from None
    return [draw.result() for draw in draws]
