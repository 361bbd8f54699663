"""How the tokens of a text are drawn from rows."""

import math
from dataclasses import dataclass

import torch


@dataclass(frozen=True, slots=True)
class Sampling:
    """How the tokens of a run are drawn.

    Attributes:
        temperature: 0 takes the likeliest token each time.
        top_k: Only the likeliest so many tokens are drawn; None for all.
        top_p: Only the likeliest tokens that have this mass together are drawn.
        min_p: Only tokens with at least this share of the likeliest one's probability are drawn.
        seed: With the same one, the same draws.

    Raises:
        ValueError: A number is out of its range.
    """

    temperature: float = 1.0
    top_k: int | None = None
    top_p: float = 1.0
    min_p: float = 0.0
    seed: int | None = None

    def __post_init__(self) -> None:
        if not (self.temperature >= 0 and math.isfinite(self.temperature)):
            raise ValueError(f"temperature must be a finite number of at least 0, not {self.temperature}")
        if self.top_k is not None and self.top_k < 1:
            raise ValueError(f"top_k must be at least 1, or None for all, not {self.top_k}")
        if not 0 < self.top_p <= 1 or not 0 <= self.min_p <= 1:
            raise ValueError(f"top_p must be in (0, 1] and min_p in [0, 1], not {self.top_p} and {self.min_p}")

    def draw(self, row: torch.Tensor, generator: torch.Generator) -> int:
        """Draw a token by its row, (V,) of log p or -inf."""
        if not self.temperature:
            return int(row.argmax())
        row = row.double() / self.temperature
        if self.top_k is not None and self.top_k < len(row):
            row = row.masked_fill(row < row.topk(self.top_k).values[-1], -torch.inf)
        if self.top_p < 1:
            probs, order = torch.softmax(row, -1).sort(descending=True)
            # The mass before a token counts, so that the likeliest always stays.
            row = row.index_fill(-1, order[probs.cumsum(-1) - probs >= self.top_p], -torch.inf)
        if self.min_p:
            row = row.masked_fill(row < row.max() + math.log(self.min_p), -torch.inf)
        # By one number and the cumulated masses, in float64: float32 would lose tokens of less than 1e-7.
        masses = torch.softmax(row, dim=-1).cumsum(-1)
        at = torch.rand((), generator=generator, dtype=torch.float64) * masses[-1]
        token = int(torch.searchsorted(masses, at, right=True))
        # Where rounding puts the number at the very end.
        return token if token < len(row) else int(row.argmax())

    def generator(self) -> torch.Generator:
        """Return the generator of the draws of one text."""
        generator = torch.Generator()
        if self.seed is None:
            generator.seed()
        else:
            generator.manual_seed(self.seed)
        return generator
