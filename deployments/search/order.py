"""How the text of a request is to be chosen, and what choosing it cost: what the replica and the search client share.

An order travels beside its request through vLLM's server, within one process, and never reaches the engine. The cost
comes back with the answer.
"""

from dataclasses import dataclass
from typing import Any, Final

from deployments.contract import Decoding
from vocab.decoding.scores import TextScore

ORDER_ARGUMENT: Final = "wordbound_order"
"""The entry of a request's ``extra_args`` that holds its order."""

_DIGITS: Final = 4


@dataclass(frozen=True, eq=False)
class SearchOrder:
    """One request's order; no two are equal, so that a cost belongs to one of them."""

    decoding: Decoding


@dataclass(frozen=True)
class AnswerCost:
    """What the texts of one answer cost.

    Attributes:
        score: Of the first choice.
        num_tokens: How many tokens the engine generated for the answer, those of texts that were not chosen among them.
    """

    score: TextScore
    num_tokens: int

    def block(self, text: str, num_words: int) -> dict[str, Any]:
        """Return the part of the ``vocab`` block that reports it.

        Args:
            text: The first choice, as it is sent.
            num_words: Of that text.
        """
        figures = {
            "log_mass_per_word": self.score.log_mass_per_word(num_words),
            "bits_per_char": self.score.bits_per_char(text),
        }
        rounded = {name: None if figure is None else round(figure, _DIGITS) for name, figure in figures.items()}
        return {**rounded, "generated_tokens": self.num_tokens}
