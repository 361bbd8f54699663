"""Draw several candidates side by side and choose among them: whole texts, or sentence by sentence."""

from collections.abc import AsyncGenerator
from dataclasses import replace

from vocab.decoding.generator import Continuation, Generator, Place, run_together
from vocab.decoding.select import ScoredText, Select, TextScore, choose_text, random_source


async def choose_candidates(
    generator: Generator,
    budget: int,
    *,
    num_candidates: int,
    num_chosen: int = 1,
    select: Select = "likelihood",
    seed: int | None = None,
) -> list[Continuation]:
    """Draw ``num_candidates`` texts and return ``num_chosen`` of them, best or drawn first.

    Args:
        generator: Draws them, with a seed of its own; cancelling this coroutine cancels its draws.
        budget: How many tokens each may have.
        num_candidates: At least ``num_chosen``.
        seed: Of the choice.

    Raises:
        Exception: What the first failing draw raised.
    """
    drawn = await draw_many(generator, generator.start, budget, num_candidates)
    texts = [replace(_whole([one]), num_missing=generator.num_missing(one.place)) for one in drawn]
    return [drawn[index] for index in choose_text(select, texts, num_chosen, random_source(seed))]


async def search_sentences(
    generator: Generator,
    budget: int,
    *,
    width: int,
    select: Select = "likelihood",
    seed: int | None = None,
) -> AsyncGenerator[Continuation, None]:
    """Write a text sentence by sentence: draw several continuations, keep one, and go on from there.

    Yields the parts of the text as they are chosen; only the last one ends by stop or length. By likelihood a
    continuation is judged together with the text before it. With ``posterior`` this is sequential Monte Carlo with the
    sentence as the unit and one particle: with more continuations, each sentence approaches a draw of p given that this
    sentence is allowed. It does not look ahead to how hard the next sentence becomes.

    Args:
        generator: Draws, with a seed of its own; closing this generator or cancelling its next step cancels the draws.
        budget: How many tokens the text may have, at least 1.
        width: How many continuations are drawn at each step.
        seed: Of the choices.

    Raises:
        Exception: What the first failing draw raised.
    """
    random = random_source(seed)
    place, num_draws = generator.start, 0
    parts: list[Continuation] = []
    while True:
        drawn = await draw_many(generator, place, budget, width, first_index=num_draws, to_sentence_end=True)
        num_draws += width
        chosen = drawn[choose_text(select, [_whole([*parts, part]) for part in drawn], 1, random)[0]]
        budget -= len(chosen.tokens)
        # Without tokens there is no way forward: the next draws would be from the same place.
        if chosen.finish == "sentence" and (budget <= 0 or not chosen.tokens):
            chosen = replace(chosen, finish="length")
        yield chosen
        if chosen.finish != "sentence":
            return
        parts.append(chosen)
        place = chosen.place


async def draw_many(
    generator: Generator,
    place: Place,
    budget: int,
    num_draws: int,
    *,
    first_index: int = 0,
    to_sentence_end: bool = False,
) -> list[Continuation]:
    """Return independent draws from one place, made side by side with ``Generator.sample``.

    Their indices count on from ``first_index``, so that they differ from other steps' of the request.

    Raises:
        Exception: What the first failing draw raised; the others are cancelled.
    """
    return await run_together(
        generator.sample(place, budget, to_sentence_end=to_sentence_end, index=index)
        for index in range(first_index, first_index + num_draws)
    )


def _whole(parts: list[Continuation]) -> ScoredText:
    """Join the parts of a text, and score it as a whole."""
    return ScoredText("".join(part.text for part in parts), TextScore.of(*parts))
