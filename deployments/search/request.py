"""How the text of a request is to be chosen, and what choosing it cost; shared by the replica and the search client.

It travels beside its request through vLLM's server, within one process, and never reaches the engine.
"""

from dataclasses import dataclass
from typing import Any, Final

from deployments.contract import Decoding
from vocab.decoding.select import TextScore

SEARCH_ARGUMENT: Final = "wordbound_order"
"""The entry of a request's ``extra_args`` that holds its search."""

_DIGITS: Final = 4


@dataclass(frozen=True, eq=False)
class SearchRequest:
    """The search of one request. Compared by identity, so that a cost belongs to one search."""

    decoding: Decoding


@dataclass(frozen=True)
class AnswerCost:
    """The cost of one answer: the score of its first choice, and the tokens that the engine generated.

    The tokens include those of texts that were not chosen.
    """

    score: TextScore
    num_tokens: int

    def block(self, text: str, num_words: int) -> dict[str, Any]:
        """Return the members of the ``vocab`` block that report the cost, for the first choice as it is sent."""
        figures = {
            "log_mass_per_word": self.score.log_mass_per_word(num_words),
            "bits_per_char": self.score.bits_per_char(text),
        }
        rounded = {name: None if figure is None else round(figure, _DIGITS) for name, figure in figures.items()}
        return {**rounded, "generated_tokens": self.num_tokens}
