"""A search over an engine expands all places of a step at once, and leaves nothing running behind it."""

import asyncio
from typing import Any

import pytest

from vocab.decoding.beams import BeamRules, search_beams
from vocab.decoding.generator import Continuation, Expansion, Place

END = 9


class Counting:
    """Digits, of which 0 is the likeliest everywhere; each expansion waits until ``num_together`` of them run.

    Args:
        num_together: How many expansions each step has, from the second on.
        fails_at: The text at which the engine fails.
    """

    def num_missing(self, place: Place) -> int:
        return 0

    def __init__(self, num_together: int, fails_at: tuple[int, ...] | None = None) -> None:
        self.start, self.end_tokens = Place(), frozenset({END})
        self.num_running = 0
        self.num_cancelled = 0
        self.asked: list[tuple[Place, int, int]] = []
        self._num_together, self._fails_at = num_together, fails_at
        self._gate = asyncio.Event()
        self.are_four = asyncio.Event()

    async def expand(self, place: Place, num_tokens: int, budget: int) -> Expansion:
        self.asked.append((place, num_tokens, budget))
        if place.tokens == self._fails_at:
            raise RuntimeError("the engine failed")
        self.num_running += 1
        try:
            if place.tokens:
                await self._all_there()
        except asyncio.CancelledError:
            self.num_cancelled += 1
            raise
        finally:
            self.num_running -= 1
        tokens = tuple(range(10))
        return Expansion(tokens, tuple(-1.0 - token / 10 for token in tokens), f"after {place.tokens}")

    async def _all_there(self) -> None:
        gate = self._gate
        if self.num_running == 4:
            self.are_four.set()
        if self.num_running == self._num_together:
            self._gate = asyncio.Event()
            gate.set()
        await gate.wait()

    def follow(self, place: Place, token: int, budget: int, source: str | None) -> Place:
        return Place((*place.tokens, token), None, source)

    def text(self, tokens: tuple[int, ...]) -> str:
        return "".join(map(str, tokens))

    async def sample(self, place: Place, budget: int, *, to_sentence_end: bool = False, index: int = 0) -> Continuation:
        raise NotImplementedError


async def test_the_places_of_a_step_are_expanded_together() -> None:
    generator = Counting(num_together=3)
    found = await asyncio.wait_for(search_beams(generator, BeamRules(3), 4, num_texts=2), 60)
    assert [beam.continuation.text for beam in found] == ["0000", "0001"]
    assert [(len(place.tokens), number, budget) for place, number, budget in generator.asked] == [
        (0, 6, 4), *[(1, 6, 3)] * 3, *[(2, 6, 2)] * 3, *[(3, 6, 1)] * 3
    ]  # fmt: skip
    assert generator.asked[1][0].source == "after ()"


async def test_a_failing_expansion_ends_the_others_and_is_the_error() -> None:
    generator = Counting(num_together=99, fails_at=(2,))
    with pytest.raises(RuntimeError, match="the engine failed"):
        await search_beams(generator, BeamRules(3), 4)
    assert (generator.num_running, generator.num_cancelled) == (0, 2)


async def test_a_cancelled_search_cancels_its_expansions() -> None:
    generator = Counting(num_together=99)
    search: asyncio.Task[Any] = asyncio.create_task(search_beams(generator, BeamRules(4), 4))
    await asyncio.wait_for(generator.are_four.wait(), 60)
    search.cancel()
    with pytest.raises(asyncio.CancelledError):
        await search
    assert (generator.num_running, generator.num_cancelled) == (0, 4)
