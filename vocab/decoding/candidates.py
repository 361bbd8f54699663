"""Several whole texts are drawn side by side, and the best, or some of them, are the answer.

It knows draws and how one is chosen; what a text is made of it leaves to the generator.
"""

from vocab.decoding.draws import draw_many
from vocab.decoding.generator import Continuation, Generator
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
