"""What the replica asks of the client that searches, and what it hears back: how to choose a text, and what it cost.

It travels beside a request through vLLM's server, within one process. It knows nothing of vLLM.
"""

from dataclasses import dataclass, field
from typing import Any, Final

from deployments.contract import Decoding
from vocab.decoding.scores import TextScore

ORDER_ARGUMENT: Final = "wordbound_order"
"""The entry of a request's ``extra_args`` that holds its order. It never reaches the engine."""

_DIGITS: Final = 4


@dataclass
class AnswerCost:
    """What the texts of one answer cost, known once they are generated.

    Attributes:
        score: Of the first choice; None while it is not known.
        num_tokens: How many tokens the engine generated for the answer, those of texts that were not chosen among them.
    """

    score: TextScore | None = None
    num_tokens: int = 0

    def block(self, text: str, num_words: int) -> dict[str, Any]:
        """The part of the ``vocab`` block that says it.

        Args:
            text: The first choice, as it is sent.
            num_words: Of that text.
        """
        if self.score is None:
            return {}
        figures = {
            "log_mass_per_word": self.score.log_mass_per_word(num_words),
            "bits_per_char": self.score.bits_per_char(text),
        }
        rounded = {name: None if figure is None else round(figure, _DIGITS) for name, figure in figures.items()}
        return {**rounded, "generated_tokens": self.num_tokens}


@dataclass(frozen=True)
class SearchOrder:
    """One request's order.

    Attributes:
        decoding: How its text is chosen.
        cost: Filled in by whoever generates the text.
    """

    decoding: Decoding
    cost: AnswerCost = field(default_factory=AnswerCost)
