"""A task for both searches, what a search found, and how two finds compare. Knows neither engine."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from vocab.decoding.beams import BeamRules

NEAR_TIE: Final = 1e-3
"""Scores per token as close as this may be ordered either way by float32 arithmetic in another order."""


@dataclass(frozen=True)
class Task:
    """One text to search for: the prompt as tokens, and how."""

    prompt_tokens: tuple[int, ...]
    rules: BeamRules
    budget: int


@dataclass(frozen=True)
class Found:
    """The best text of a search.

    Attributes:
        tokens: Its tokens, the end token included if it came.
        score: By which the search ranked it.
        log_p: The sum of log p of its tokens.
        trail: The beams that went on, at all steps; empty where they were not noted.
    """

    tokens: tuple[int, ...]
    score: float
    log_p: float
    trail: frozenset[tuple[int, ...]] = frozenset()

    @property
    def per_token(self) -> float:
        return self.log_p / len(self.tokens)


@dataclass(frozen=True)
class Pair:
    """What both found for one task.

    Attributes:
        group: Which tasks it is counted with.
        prompt: The prompt's text.
        ours, theirs: The texts found.
        texts: Both, to read.
        ours_by_them: The sum of log p that transformers gives our text; None where the texts are equal.
        first_gap: Where the searches part: how much per token the beams that only one of them kept are apart, at the
            first such step, by what transformers gives them; None where they do not part.
    """

    group: str
    prompt: str
    ours: Found
    theirs: Found
    texts: tuple[str, str]
    ours_by_them: float | None = None
    first_gap: float | None = None

    @property
    def is_equal(self) -> bool:
        return self.texts[0] == self.texts[1]

    @property
    def is_near_tie(self) -> bool:
        return abs(self.ours.per_token - self.theirs.per_token) <= NEAR_TIE or (
            self.first_gap is not None and self.first_gap <= NEAR_TIE
        )

    @property
    def score_difference(self) -> float:
        """How far two scores of one text are apart: of the common one, or else of ours."""
        if self.ours.tokens == self.theirs.tokens:
            return abs(self.ours.score - self.theirs.score)
        return 0.0 if self.ours_by_them is None else abs(self.ours.log_p - self.ours_by_them) / len(self.ours.tokens)

    def as_dict(self) -> dict[str, Any]:
        judged = {name: getattr(self, name) for name in ("is_equal", "is_near_tie", "score_difference")}
        return {"prompt": self.prompt, "texts": self.texts, "first_gap": self.first_gap, **judged}


def parting(ours: Found, theirs: Found) -> frozenset[tuple[int, ...]]:
    """The beams that only one search kept, at the first step that has such; none where there is no such step."""
    apart = ours.trail ^ theirs.trail
    first = min(map(len, apart), default=0)
    return frozenset(beam for beam in apart if len(beam) == first)


def comparison(pairs: list[Pair]) -> Iterator[str]:
    """A line for each group, and a paragraph for each difference."""
    yield f"{'group':<36}{'texts':>6}{'equal':>8}{'near ties':>11}{'others':>8}{'largest score difference':>26}"
    for group in dict.fromkeys(pair.group for pair in pairs):
        members = [pair for pair in pairs if pair.group == group]
        differing = [pair for pair in members if not pair.is_equal]
        ties = sum(pair.is_near_tie for pair in differing)
        yield (
            f"{group:<36}{len(members):>6}{1 - len(differing) / len(members):>8.1%}{ties:>11}"
            f"{len(differing) - ties:>8}{max(pair.score_difference for pair in members):>26.1e}"
        )
    for pair in pairs:
        if not pair.is_equal:
            apart = "" if pair.first_gap is None else f"; {pair.first_gap:.2e} where the searches part"
            verdict = "a near tie" if pair.is_near_tie else "NOT a near tie"
            difference = pair.ours.per_token - pair.theirs.per_token
            yield f"\n{pair.group}: {pair.prompt}: {verdict}: {difference:+.2e} per token{apart}"
            yield from pair.texts
