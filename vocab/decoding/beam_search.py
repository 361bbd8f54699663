"""Beam search over an engine: all places of a step are expanded at once, in one batch of the engine's.

It knows how tasks begin and end; which places are wanted, and what follows from their expansions, is
``vocab.decoding.beams``'s.
"""

import asyncio

from vocab.decoding.beams import BeamRules, BeamSearch, FinishedBeam
from vocab.decoding.generator import Expansion, Generator


async def search_beams(
    generator: Generator, rules: BeamRules, budget: int, num_texts: int = 1
) -> tuple[FinishedBeam, ...]:
    """The best texts that beam search finds, best first.

    Args:
        generator: Expands them; cancelling this coroutine cancels all expansions.
        rules: How beams are kept and ranked.
        budget: How many tokens a text has at most, its end token included; at least 1.
        num_texts: How many are wanted, at most ``rules.num_beams``; fewer come where there are fewer.

    Raises:
        DeadEndError: No token may come anywhere, and no text is finished.
        Exception: What the first failing expansion raised.
    """
    search = BeamSearch(generator, rules, budget)
    while not search.is_over:
        search.take(await _expand(generator, search))
    return search.best(num_texts)


async def _expand(generator: Generator, search: BeamSearch) -> list[Expansion]:
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [
                group.create_task(generator.expand(wish.place, wish.num_tokens, search.budget))
                for wish in search.wishes
            ]
    except ExceptionGroup as failures:
        # One request, one error: that the others were cancelled says nothing more.
        raise failures.exceptions[0] from None
    return [task.result() for task in tasks]
