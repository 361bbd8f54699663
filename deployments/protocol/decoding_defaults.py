"""What a request with a vocabulary is given where it does not say: the ways that read best in ``docs/quality.md``.

A model that is kept from most of its wishes reads worse at random than a free one: what is left after the mask is flat.
So constrained text is drawn colder than free text, which keeps the engine's own defaults.
"""

from collections.abc import Mapping
from typing import Any, Final

NO_REPEAT_NGRAM_SIZE: Final = 4

MAX_NGRAM_SIZE: Final = 64

SAMPLE: Final[Mapping[str, float]] = {"temperature": 0.3, "min_p": 0.1}
"""Of a single answer."""

DRAW: Final[Mapping[str, float]] = {"temperature": 0.5}
"""Of several to choose from: warmer, so that they differ, and whole, so that p / q is known."""

_SAMPLING: Final = frozenset({"min_p", "temperature", "top_k", "top_p"})


def sampling_defaults(checked: Mapping[str, Any], *, has_beams: bool, has_draws: bool) -> Mapping[str, float]:
    """The sampling of a constrained request that says nothing of it; nothing for one that says something.

    Args:
        checked: The request's fields.
        has_beams: Whether the text is found by beams, which are not drawn.
        has_draws: Whether several texts or sentences are drawn.
    """
    if has_beams or not _SAMPLING.isdisjoint(checked):
        return {}
    return DRAW if has_draws else SAMPLE
