"""A text is written sentence by sentence: of several continuations up to a sentence end, one is taken and stays.

With ``posterior`` this is sequential Monte Carlo with the sentence as the unit, of which one particle is kept: each
sentence is drawn, the more nearly the more continuations there are, from p given that this sentence is allowed. It does
not look ahead: that a sentence makes the next one hard is seen when the next one is chosen, and not before.
"""

from collections.abc import AsyncGenerator
from dataclasses import replace

from vocab.decoding.candidates import draw_many
from vocab.decoding.generator import Continuation, Generator
from vocab.decoding.scores import ScoredText, TextScore
from vocab.decoding.select import Select, choose, random_source


async def search_sentences(
    generator: Generator,
    budget: int,
    *,
    width: int,
    select: Select = "likelihood",
    seed: int | None = None,
) -> AsyncGenerator[Continuation, None]:
    """Yields the parts of one text, each as soon as it is chosen; the last one, and no other, ends by stop or length.

    By likelihood the continuations are judged together with the text that they go on.

    Args:
        generator: Draws the continuations; whoever closes this generator or cancels its next step cancels its draws.
        budget: How many tokens the text may have, at least 1.
        width: How many continuations are drawn at each step.
        select: How one is chosen.
        seed: Of the choices; the draws have the generator's.

    Raises:
        Exception: What the first failing draw raised.
    """
    random = random_source(seed)
    place, num_draws = generator.start, 0
    parts: list[Continuation] = []
    while True:
        drawn = await draw_many(generator, place, budget, width, first_index=num_draws, to_sentence_end=True)
        num_draws += width
        chosen = drawn[choose(select, [_whole([*parts, part]) for part in drawn], 1, random)[0]]
        budget -= len(chosen.tokens)
        # No tokens are no way forward: the next draws would be from the same place.
        if chosen.finish == "sentence" and (budget <= 0 or not chosen.tokens):
            chosen = replace(chosen, finish="length")
        yield chosen
        if chosen.finish != "sentence":
            return
        parts.append(chosen)
        place = chosen.place


def _whole(parts: list[Continuation]) -> ScoredText:
    return ScoredText("".join(part.text for part in parts), TextScore.of(*parts))
