"""Draws several continuations of one text at once: all of them or none.

It knows how tasks end, and nothing of what is done with the draws.
"""

import asyncio

from vocab.decoding.generator import Continuation, Generator, Place


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
